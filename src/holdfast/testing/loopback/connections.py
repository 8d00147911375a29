"""The HTTP side of the loopback: connections, and nothing about models."""

from __future__ import annotations

import socket
import struct
import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Event, Lock, Thread, current_thread
from typing import TYPE_CHECKING, Any, Final

from holdfast.testing.loopback.outgoing import Wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.loopback.outgoing import Outgoing

    Answering = Callable[[str, str, dict[str, str], bytes], Outgoing]
    """Method, path, headers with small names, body → reply."""

JOIN_SECONDS: Final = 5.0
"""A thread that serves a connection ends with it; no one waits longer for one that hangs."""
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Server(ThreadingHTTPServer):
    """A server on this machine whose connections can all be ended at once."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, answering: Answering) -> None:
        self.answering = answering
        self.closing = Event()
        self._open: dict[socket.socket, Thread] = {}
        self._doomed: set[socket.socket] = set()
        self._lock = Lock()
        super().__init__(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self.serve_forever, args=(0.02,), name="loopback", daemon=True)

    def server_bind(self) -> None:
        # Without the look-up of the host's name, which can take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End everything, whatever it is waiting for."""
        self.closing.set()
        self.shutdown()
        self.server_close()
        with self._lock:
            waiting = dict(self._open)
        for connection in waiting:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in (*waiting.values(), self._thread):
            thread.join(JOIN_SECONDS)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = current_thread()
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open.pop(request, None)

    def doom(self, request: socket.socket) -> None:
        """Let a connection end with a reset instead of an orderly goodbye."""
        request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._doomed.add(request)

    def shutdown_request(self, request: Any) -> None:
        if request in self._doomed:
            self._doomed.discard(request)
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)
        # A client that goes away is not an error of ours.


class Handler(BaseHTTPRequestHandler):
    """Reads requests, writes replies, keeps connections alive in between."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_POST(self) -> None:
        self._answer(self._body())

    def do_GET(self) -> None:
        self._answer(b"")

    def log_message(self, *_said: Any) -> None:
        """Nothing is logged: `Loopback.requests` has it all."""

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return b"".join(self._chunks())
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def _chunks(self) -> list[bytes]:
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return chunks

    def _answer(self, body: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = self.path.partition("?")[0]
        self._send(self.server.answering(self.command, path, headers, body))

    def _send(self, reply: Outgoing) -> None:
        self._wait(reply.wait)
        is_stream = reply.size is None
        if reply.status:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if is_stream:
                self.send_header("transfer-encoding", "chunked")
            else:
                self.send_header("content-length", str(reply.size))
            self.end_headers()
            for part in reply.parts:
                self._send_part(part, is_stream=is_stream)
            if is_stream and reply.ending == "end":
                self.wfile.write(b"0\r\n\r\n")
        if reply.ending == "reset":
            self.server.doom(self.connection)
        if reply.ending != "end":
            self.close_connection = True

    def _send_part(self, part: bytes | Wait, *, is_stream: bool) -> None:
        if isinstance(part, Wait):
            self._wait(part.seconds)
        elif part:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part) if is_stream else part)

    def _wait(self, seconds: float) -> None:
        if seconds > 0 and self.server.closing.wait(seconds):
            raise ConnectionAbortedError("the loopback is closing")
