"""A server of OpenAI's embeddings, on this machine, whose answers follow a script."""

from __future__ import annotations

import base64
import json
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def vector_of(text: str) -> list[float]:
    return [float(text.count(letter)) + 0.01 for letter in "abcdefgh"]


class EmbeddingServer:
    """Answers `POST /v1/embeddings` as its script says, and keeps what it was sent."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.paths: list[str] = []
        self.script: Callable[[dict[str, Any]], tuple[int, Any]] = self.answer
        self.headers: dict[str, str] = {}
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                request = json.loads(data)
                served.paths.append(self.path)
                served.requests.append(request)
                served.keys.append(self.headers["Authorization"])
                status, body = served.script(request)
                reply = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in served.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, request: dict[str, Any], *, as_base64: bool = False) -> tuple[int, Any]:
        rows = []
        for index, text in enumerate(request["input"]):
            numbers: Any = vector_of(text)[: request.get("dimensions")]
            if as_base64:
                numbers = base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
            rows.append({"object": "embedding", "index": index, "embedding": numbers})
        usage = {"prompt_tokens": 8, "total_tokens": 8}
        reply = {"object": "list", "data": rows[::-1], "model": request["model"], "usage": usage}
        return 200, reply

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
