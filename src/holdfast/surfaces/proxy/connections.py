"""Connections to upstreams: HTTP/1.1 with few steps between a socket and a chunk.

A general client looks at its whole pool for every request and sets up a scope of cancellation for
every chunk. With a hundred streams at once that was more than half of what the proxy did.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

import h11
import httpx2

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Iterable, Sequence

_HEAD_BYTES_MAX: Final = 256 * 1024
"""Of the status line and the headers of an answer."""
_UNREAD_BYTES_MAX: Final = 256 * 1024
"""Of an answer that waits for its client; the upstream has to wait beyond it."""
_IDLE_SECONDS: Final = 5.0
"""The time that a connection stays open for the next request."""
_NEXT_ADDRESS_SECONDS: Final = 0.25
"""The time after which the next address of a server is tried, as the standard advises."""
_IDLE_MAX: Final = 100
"""Connections to one server that stay open."""


class Origin(NamedTuple):
    """A server: the part of an address that a connection belongs to."""

    scheme: str
    host: str
    port: int


class _Wire(asyncio.Protocol):
    """A socket: hands what comes to a parser, and wakes the one that waits for it."""

    def __init__(self, parser: h11.Connection, silent_seconds: float) -> None:
        self.is_lost = self.is_resting = False
        self.has_answer = False
        """True once a byte of the answer came."""
        self.is_writable = True
        self.transport: asyncio.Transport | None = None
        self._parser = parser
        self._silent_seconds = silent_seconds
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._unread = 0
        self._is_reading = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        if self.is_resting:  # an answer to nothing
            self.close()
            return
        self.has_answer = True
        self._parser.receive_data(data)
        self._unread += len(data)
        if self._unread > _UNREAD_BYTES_MAX and self._is_reading and self.transport is not None:
            self._is_reading = False
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self.is_lost = True
        self._parser.receive_data(b"")
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if exc is not None:
            self._failure = httpx2.ReadError(str(exc))
            self._failure.__cause__ = exc
        self._wake()

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def read_on(self) -> None:
        """Take more from the server: what came was read."""
        self._unread = 0
        if not self._is_reading and self.transport is not None and not self.is_lost:
            self._is_reading = True
            self.transport.resume_reading()

    async def wait(self) -> None:
        """Wait until something happens. Raises where the server is silent or gone."""
        if self._failure is not None:
            raise self._failure
        self.read_on()
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(self._silent_seconds, self._end_silence)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _end_silence(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(httpx2.ReadTimeout("silent"))

    def close(self) -> None:
        self.is_lost = True
        if self.transport is not None:
            self.transport.abort()


class UpstreamConnection:
    """One connection, with one request at a time. Raises the errors of httpx2."""

    def __init__(self, silent_seconds: float) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._parser = h11.Connection(h11.CLIENT, _HEAD_BYTES_MAX)
        self.wire = _Wire(self._parser, silent_seconds)
        self._is_over = False
        """True once the answer was read to its end."""
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def is_lost(self) -> bool:
        return self.wire.is_lost

    async def ask(
        self,
        method: str,
        target: bytes,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes | AsyncIterator[bytes],
    ) -> None:
        """Send a request, and read the answer as far as its headers."""
        self.wire.has_answer = self._is_over = False
        try:
            self._send(h11.Request(method=method, target=target, headers=list(headers)))
            if isinstance(body, bytes):
                if body:
                    self._send(h11.Data(data=body))
                self._send(h11.EndOfMessage())
            else:
                await self._send_pieces(body)
        except h11.LocalProtocolError as error:
            raise httpx2.LocalProtocolError(str(error)) from error
        while True:
            event = await self._next_event()
            if isinstance(event, h11.Response):
                self.status, self.headers = event.status_code, event.headers.raw_items()
                return
            if not isinstance(event, h11.InformationalResponse):
                raise httpx2.RemoteProtocolError("it ended without an answer")

    async def _send_pieces(self, pieces: AsyncIterator[bytes]) -> None:
        """Send a body as it comes. One that is answered before its end is not sent on."""
        wire = self.wire
        async for piece in pieces:
            while not (wire.is_writable or wire.has_answer or wire.is_lost):
                await wire.wait()
            if wire.has_answer or wire.is_lost:
                return
            if piece:
                self._send(h11.Data(data=piece))
        self._send(h11.EndOfMessage())

    def _send(self, event: h11.Event) -> None:
        assert self.wire.transport is not None
        for part in self._parser.send_with_data_passthrough(event) or ():
            if not self.wire.is_lost:  # its answer may have come before
                self.wire.transport.write(part)

    async def next_piece(self) -> bytes | None:
        """Return all of the body that has come, and wait for some; None at its end."""
        pieces: list[bytes] = []
        while not self._is_over:
            try:
                event = self._parser.next_event()
            except h11.RemoteProtocolError as error:
                if pieces:
                    break  # the parser says it again
                raise httpx2.RemoteProtocolError(str(error)) from error
            if isinstance(event, h11.Data):
                pieces.append(event.data)
            elif event is not h11.NEED_DATA:
                self._is_over = True
            elif pieces:
                break
            else:
                await self.wire.wait()
        self.wire.read_on()
        return b"".join(pieces) if pieces else None

    async def _next_event(self) -> object:
        while True:
            try:
                event = self._parser.next_event()
            except h11.RemoteProtocolError as error:
                said = str(error) if self.wire.has_answer else "it ended without an answer"
                raise httpx2.RemoteProtocolError(said) from error
            if event is not h11.NEED_DATA:
                return event
            await self.wire.wait()

    def close(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self.wire.close()

    def rest(self) -> bool:
        """Wait for the next request, for some seconds; False where there can be none."""
        parser, transport = self._parser, self.wire.transport
        is_done = parser.our_state is h11.DONE and parser.their_state is h11.DONE
        if not is_done or self.is_lost or transport is None or transport.get_write_buffer_size():
            self.close()
            return False
        parser.start_next_cycle()
        self.wire.read_on()
        self.wire.is_resting = True
        self._expiry = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self.close)
        return True

    def wake_up(self) -> bool:
        """Take a resting connection into use; False where it is closed."""
        self.wire.is_resting = False
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        return not self.is_lost


class ConnectionPool:
    """The connections to the upstreams. A request waits for none of the others."""

    def __init__(self, *, connect_seconds: float, silent_seconds: float) -> None:
        self._connect_seconds = connect_seconds
        self._silent_seconds = silent_seconds
        self._idle: dict[Origin, list[UpstreamConnection]] = {}
        self._context: ssl.SSLContext | None = None

    async def ask(
        self,
        method: str,
        address: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes | AsyncIterator[bytes],
    ) -> tuple[Origin, UpstreamConnection]:
        """Send a request, and return the connection on which the answer comes."""
        origin, host, target = _split_address(address)
        framed = [(b"host", host), *headers, *_frame(method, headers, body)]
        connection = await self._connect(origin)
        try:
            await connection.ask(method, target, framed, body)
        except BaseException:
            connection.close()
            raise
        return origin, connection

    async def _connect(self, origin: Origin) -> UpstreamConnection:
        idle = self._idle.get(origin, [])
        while idle:
            if (connection := idle.pop()).wake_up():
                return connection
        made = UpstreamConnection(self._silent_seconds)
        loop = asyncio.get_running_loop()
        # Addresses are tried beside each other; uvloop cannot do that.
        hurry: dict[str, Any] = {}
        if isinstance(loop, asyncio.BaseEventLoop):
            hurry = {"happy_eyeballs_delay": _NEXT_ADDRESS_SECONDS}
        try:
            async with asyncio.timeout(self._connect_seconds):
                await loop.create_connection(
                    lambda: made.wire,
                    origin.host,
                    origin.port,
                    ssl=self._tls() if origin.scheme == "https" else None,
                    **hurry,
                )
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("no connection") from error
        except (OSError, UnicodeError) as error:
            raise httpx2.ConnectError(str(error) or type(error).__name__) from error
        return made

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = httpx2.create_ssl_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context

    def give_back(self, origin: Origin, connection: UpstreamConnection) -> None:
        """Keep a connection whose answer was read to its end; close any other."""
        if not connection.rest():
            return
        idle = self._idle[origin] = [
            kept for kept in self._idle.get(origin, ()) if not kept.is_lost
        ]
        idle.append(connection)
        if len(idle) > _IDLE_MAX:
            idle.pop(0).close()

    def close(self) -> None:
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()


def _split_address(address: str) -> tuple[Origin, bytes, bytes]:
    """The server of an address, the `Host` that names it, and the target of the request."""
    try:
        parts = urlsplit(address)
        usual = 443 if parts.scheme == "https" else 80
        port = parts.port or usual
        origin = Origin(parts.scheme, parts.hostname or "", port)
        host = parts.netloc.removesuffix(f":{port}") if port == usual else parts.netloc
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        return origin, host.encode("ascii"), target.encode("latin-1")
    except ValueError as error:
        raise httpx2.InvalidURL(str(error)) from error


def _frame(
    method: str, headers: Iterable[tuple[bytes, bytes]], body: bytes | AsyncIterator[bytes]
) -> list[tuple[bytes, bytes]]:
    """The headers that say where the body ends."""
    if any(name.lower() == b"content-length" for name, _value in headers):
        return []
    if not isinstance(body, bytes):
        return [(b"transfer-encoding", b"chunked")]
    if not body and method in ("GET", "HEAD"):
        return []
    return [(b"content-length", str(len(body)).encode())]
