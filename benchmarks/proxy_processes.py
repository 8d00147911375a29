"""The proxies that are measured, each a process of its own, and an upstream behind them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.engine.access_tokens import new_token

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = "claude-sonnet-4-5"
TOKENS = 40
GAP_SECONDS = 0.010
WINDOW = 10_000_000
"""Tokens: everything fits, so that times are those of passing and logging."""
_START_SECONDS = 120.0
_LITELLM_KEY = "sk-" + hashlib.sha256(b"benchmark").hexdigest()
"""LiteLLM does not start without a key of its own."""
HEADERS = {
    "content-type": "application/json",
    "x-api-key": "sk-ant-test",
    "anthropic-version": "2023-06-01",
}


@dataclass(slots=True)
class ProxyUnderTest:
    """An address that answers like the provider."""

    name: str
    url: str
    process: subprocess.Popen[bytes] | None = None
    headers: dict[str, str] = field(default_factory=lambda: dict(HEADERS))

    @property
    def cpu_seconds(self) -> float:
        """What the process has spent."""
        if self.process is None:
            return 0.0
        found = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(found[11]) + int(found[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory_mb(self) -> float:
        """Resident memory of the process and of its children."""
        if self.process is None:
            return 0.0
        pages = 0
        for pid in (self.process.pid, *_children(self.process.pid)):
            try:
                pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            except OSError:
                continue
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            found += [child, *_children(child)]
    return found


class RecordingUpstream:
    """A provider on a port of its own: streams tokens at a pace, or answers with `reply`."""

    def __init__(self) -> None:
        self.reply = b""
        self.bodies: list[bytes] = []
        self._loop = asyncio.new_event_loop()
        self._is_ready = threading.Event()
        self.url = ""
        threading.Thread(target=self._run, daemon=True).start()
        self._is_ready.wait()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**26, backlog=500)
        )
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._is_ready.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
        }
        if headers.get(b"transfer-encoding") == b"chunked":
            body = await _read_chunks(reader)
        else:
            body = await reader.readexactly(int(headers.get(b"content-length", b"0")))
        if b"/messages" not in head.split(b"\r\n")[0]:
            body = b"{}"
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}")
        elif self.reply:
            self.bodies.append(body)
            told = (
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            )
            writer.write(told % len(self.reply) + self.reply)
        else:
            await self._stream(writer)
        await writer.drain()
        return headers.get(b"connection") != b"close"

    async def _stream(self, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        for number, event in enumerate(EVENTS):
            if number:
                await asyncio.sleep(GAP_SECONDS)
            writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await writer.drain()
        writer.write(b"0\r\n\r\n")


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(parts)


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


REPLY = "".join(f"w{number} " for number in range(TOKENS))
_MESSAGE: dict[str, object] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": MODEL,
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "output_tokens": 1},
}
EVENTS = [
    _event("message_start", message=_MESSAGE)
    + _event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    *(
        _event("content_block_delta", index=0, delta={"type": "text_delta", "text": f"w{number} "})
        for number in range(TOKENS)
    ),
    _event("content_block_stop", index=0)
    + _event(
        "message_delta",
        delta={"stop_reason": "end_turn", "stop_sequence": None},
        usage={"output_tokens": TOKENS},
    )
    + _event("message_stop"),
]
"""The opening, the tokens, and the end."""


_SERVE = """
[server]
requests_burst = 1000000
requests_per_second = 100000.0
[[tokens]]
name = "bench"
sha256 = "{digest}"
owner = "bench"
scope = "write"
[proxy]
mode = "{mode}"
[upstreams.anthropic]
url = "{url}"
key = "BENCH_KEY"
"""


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise RuntimeError(f"{process.args!r} does not answer at {url}")


@contextmanager
def _running(
    name: str, command: list[str], url: str, ready: str, environment: dict[str, str], log: Path
) -> Iterator[ProxyUnderTest]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=out, stderr=out, cwd=log.parent
        )
    try:
        _wait_for(url + ready, process)
        yield ProxyUnderTest(name, url, process)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def running(name: str, upstream: str, peers: Path) -> Iterator[ProxyUnderTest]:
    """Run one of the proxies: `direct`, `litellm`, `headroom`, or ours with a mode.

    `holdfast MODE` is `holdfast proxy` with a window that everything fits in, `proxy MODE` has the
    windows that it knows of models, and `serve MODE` is `holdfast serve` in front of the provider,
    with a token and the server's key.

    The others run in their documented settings, as a gateway to one model (LiteLLM) and with all
    defaults (headroom), whose limits of requests and tokens a minute are lifted."""
    if name == "direct":
        yield ProxyUnderTest(name, upstream)
        return
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    kind, _, mode = name.partition(" ")
    if kind in ("holdfast", "proxy"):
        command = [sys.executable, "-m", "holdfast", "proxy", "--port", str(port)]
        command += ["--mode", mode, "--root", str(folder / "root"), "--json"]
        command += [f"--upstream=anthropic={upstream}", "--window", str(WINDOW)]
        command = command if kind == "holdfast" else command[:-2]
        with _running(name, command, url, "/", {}, folder / "log") as proxy:
            yield proxy
    elif kind == "serve":
        command = [sys.executable, "-m", "holdfast", "--root", str(folder / "root"), "serve"]
        command += ["--port", str(port), "--config", str(folder / "serve.toml"), "--json"]
        token, digest = new_token()
        (folder / "serve.toml").write_text(_SERVE.format(digest=digest, mode=mode, url=upstream))
        settings = {"BENCH_KEY": "sk-ant-test"}
        with _running(name, command, url, "/readyz", settings, folder / "log") as proxy:
            proxy.headers["x-api-key"] = token
            yield proxy
    elif kind == "litellm":
        model = {"model": f"anthropic/{MODEL}", "api_base": upstream, "api_key": "sk-ant-test"}
        config = {"model_list": [{"model_name": MODEL, "litellm_params": model}]}
        (folder / "config.yaml").write_text(json.dumps(config))
        command = [str(peers / "litellm"), "--config", str(folder / "config.yaml")]
        command += ["--port", str(port), "--host", "127.0.0.1"]
        settings = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": _LITELLM_KEY}
        ready = "/health/liveliness"
        with _running(name, command, url, ready, settings, folder / "log") as proxy:
            proxy.headers["authorization"] = f"Bearer {_LITELLM_KEY}"
            yield proxy
    else:
        command = [str(peers / "headroom"), "proxy", "--port", str(port)]
        command += ["--rpm", "1000000", "--tpm", "1000000000"]
        settings = {
            "ANTHROPIC_TARGET_API_URL": upstream,
            "HEADROOM_OFFLINE": "1",
            "HF_HUB_OFFLINE": "1",
            "HOME": str(folder),
        }
        with _running(name, command, url, "/livez", settings, folder / "log") as proxy:
            yield proxy
