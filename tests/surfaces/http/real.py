"""A real `holdfast serve`: a process of its own, reached over sockets."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.support.processes import WITHOUT_EXTRAS

if TYPE_CHECKING:
    from collections.abc import Mapping

_REPOSITORY = Path(__file__).parents[3]
_PLACES = (*filter(None, [WITHOUT_EXTRAS]), str(_REPOSITORY / "src"), str(_REPOSITORY))


class ServeProcess:
    """Runs `holdfast serve` on a free port."""

    def __init__(
        self, root: str, settings: str, folder: Path, *, environ: Mapping[str, str] | None = None
    ) -> None:
        """`settings` is TOML. The log of the process is kept in the folder."""
        self._config = folder / f"serve-{id(self)}.toml"
        self._config.write_text(settings, "utf-8")
        self._log = folder / f"serve-{id(self)}.log"
        self._root = root
        self._environ = dict(environ or {})
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def start(self) -> None:
        """Start it, and wait until it listens."""
        command = [sys.executable, "-m", "holdfast", "--root", self._root, "serve", "--port", "0"]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(_PLACES), **self._environ}
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--config", str(self._config), "--json"],
                stdout=subprocess.PIPE,
                stderr=log,
                env=environ,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log()
        self.port = int(json.loads(line)["listening"].rsplit(":", 1)[1])

    def kill(self) -> None:
        """End it as a power cut does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def stop(self) -> int:
        """End it as an operator does."""
        assert self.process is not None
        self.process.terminate()
        return self.close()

    def close(self) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        status = self.process.wait(60)
        self.process.stdout.close()
        return status

    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()

    def send(self, data: bytes, *, ends: bool = False) -> tuple[int, bytes]:
        """Send bytes as they are. Returns the status and the body of the answer; 0 without one."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(data)
                if ends:
                    connection.shutdown(socket.SHUT_WR)
            return read_answer(connection)


def read_answer(connection: socket.socket) -> tuple[int, bytes]:
    """Return the status and the body of an answer; 0 without one."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            answer += piece
            head, end, body = answer.partition(b"\r\n\r\n")
            if end and len(body) >= _length(head):
                break
    head, _, body = answer.partition(b"\r\n\r\n")
    return (int(head.split(b" ", 2)[1]) if head else 0), body


def _length(head: bytes) -> float:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return float("inf")


def request(
    method: str, path: str, body: bytes | None = None, *, host: str = "localhost", **headers: Any
) -> bytes:
    """Return a request as bytes; underscores in the names of headers stand for dashes."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
    if body is not None:
        headers = {"Content_Type": "application/json", "Content_Length": len(body), **headers}
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")
