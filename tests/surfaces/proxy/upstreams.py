"""An upstream that keeps the raw bytes of each request, and answers with raw bytes."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self


class RawRequest(NamedTuple):
    head: bytes
    body: bytes

    @property
    def line(self) -> bytes:
        return self.head.split(b"\r\n")[0]

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        pairs = (line.split(b": ", 1) for line in self.head.split(b"\r\n")[1:] if line)
        return [(name.lower(), value) for name, value in pairs]


class RawUpstream:
    """Answers every connection with the same packets, then closes or resets it."""

    def __init__(
        self,
        packets: Sequence[bytes],
        *,
        resets: bool = False,
        pause: float = 0.0,
        is_eager: bool = False,
    ) -> None:
        self.packets = list(packets)
        self.resets = resets
        self.pause = pause
        self.is_eager = is_eager
        """Answers without reading the request."""
        self.requests: list[RawRequest] = []
        self.hung_up = threading.Event()
        """Set once a client went away while it was answered."""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # A thread that is about to accept would use the number of the closed file, which may be
        # another server's by then.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._socket.close()

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not self.is_eager:
                request = read_request(connection)
                if request is None:
                    return
                self.requests.append(request)
            try:
                for packet in self.packets:
                    connection.sendall(packet)
                    if self.pause:
                        time.sleep(self.pause)
            except OSError:
                self.hung_up.set()
            if self.resets:
                linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def read_request(connection: socket.socket) -> RawRequest | None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65_536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    headers = dict(RawRequest(head, b"").headers)
    if headers.get(b"transfer-encoding") == b"chunked":
        while not body.endswith(b"0\r\n\r\n"):
            body += connection.recv(65_536)
        return RawRequest(head, body)
    length = int(headers.get(b"content-length", b"0"))
    while len(body) < length:
        body += connection.recv(65_536)
    return RawRequest(head, body)


def exchange(port: int, data: bytes, *, stop_after: int | None = None) -> bytes:
    """Send raw bytes to a port and return all that comes back, or its first bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(data)
        got = b""
        while stop_after is None or len(got) < stop_after:
            try:
                piece = connection.recv(65_536)
            except ConnectionResetError:
                break
            if not piece:
                break
            got += piece
        return got


def post(path: str, body: bytes, *headers: str, port: int = 1) -> bytes:
    """The bytes of a POST request."""
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(body: bytes) -> bytes:
    """The body of a chunked answer without the frames."""
    out = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size or b"0", 16)
        if not length:
            break
        out, body = out + body[:length], body[length + 2 :]
    return out
