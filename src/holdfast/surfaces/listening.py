"""An HTTP server that says when it listens, and answers whatever it cannot read in problem details.

uvicorn refuses what is not a request in plain text, and waits for the rest of a request's head for
as long as its client likes. Here both are bounded, and the answer says what to do.
"""

from __future__ import annotations

import os
import signal
import socket
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.errors import BadSetting
from holdfast.surfaces.http.admission import ResponseEnded
from holdfast.surfaces.http.guard import HEAD_SECONDS
from holdfast.surfaces.http.problems import MEDIA_TYPE, Problem

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator


_FRAMING: Final = (b"connection", b"content-length", b"transfer-encoding")


class _Connection(h11.Connection):
    """Keeps the error that ended it, whose reason uvicorn drops, and bounds every head.

    h11 itself bounds only a head that arrives in pieces.
    """

    refusal: h11.RemoteProtocolError | None = None

    def __init__(self, head_bytes: int) -> None:
        super().__init__(h11.SERVER, head_bytes)
        self._head_bytes = head_bytes

    def next_event(self) -> Any:
        try:
            event = super().next_event()
            if isinstance(event, h11.Request) and _head_size(event) > self._head_bytes:
                raise h11.RemoteProtocolError("the head is too large", error_status_hint=431)
        except h11.RemoteProtocolError as error:
            self.refusal = error
            raise
        return event

    def _clean_up_response_headers_for_sending(self, response: h11.Response) -> h11.Response:
        """Set the headers of the connection.

        h11 checks all headers of an answer again for each one that it sets. It gets those that it
        may set alone; the others, which were checked once, come before them.
        """
        every: list[tuple[bytes, bytes, bytes]] = response.headers._full_items
        own = [(name, value) for name, low, value in every if low in _FRAMING]
        cleaned = super()._clean_up_response_headers_for_sending(
            h11.Response(
                headers=own,
                status_code=response.status_code,
                http_version=response.http_version,
                reason=response.reason,
            )
        )
        cleaned.headers._full_items[:0] = [each for each in every if each[1] not in _FRAMING]
        return cleaned


def _head_size(request: h11.Request) -> int:
    return len(request.target) + sum(len(name) + len(value) for name, value in request.headers)


class BoundedProtocol(H11Protocol):
    """A connection whose requests must arrive in time. Use `make_protocol`."""

    head_seconds: float = HEAD_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = _Connection(self._head_bytes)
        self._head_timer: asyncio.TimerHandle | None = None
        self._has_begun = False
        self._connections_max, self.limit_concurrency = self.limit_concurrency, None
        self._inner, self.app = self.app, self._run

    @property
    def _head_bytes(self) -> int:
        size = self.config.h11_max_incomplete_event_size
        assert size is not None, "the server bounds the size of a head"
        return size

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        self._has_begun = True
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._await_head()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        """Each head has its time from its first byte on, the first one from the connection on."""
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if not self._has_begun:
            self.transport.close()  # a browser opens connections before it needs them
        elif self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            detail = f"the address and the headers did not arrive within {self.head_seconds:g} s"
            self._refuse(Problem(408, detail, hint="nothing was stored; send it again"))

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - it does not say why
        """Answer bytes that are no request."""
        refusal = getattr(self.conn, "refusal", None)
        if refusal is not None and refusal.error_status_hint == 431:
            detail = f"the address and the headers are larger than {self._head_bytes:,} bytes"
            self._refuse(Problem(431, detail, hint="send less; nothing was stored"))
            return
        said = f": {refusal}" if refusal is not None else ""
        detail = f"this is not an HTTP/1.1 request{said}"
        self._refuse(Problem(400, detail, hint="nothing was stored; check what sends it"))

    def _refuse(self, problem: Problem) -> None:
        """Send an answer and end the connection; only end it where an answer is under way."""
        self._stop_waiting()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = problem.body()
            headers = [
                ("content-type", MEDIA_TYPE),
                ("content-length", str(len(body))),
                ("cache-control", "no-store"),
                ("x-content-type-options", "nosniff"),
                ("connection", "close"),
            ]
            answer = h11.Response(status_code=problem.status, headers=headers)
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _should_upgrade(self) -> bool:
        """A request for another protocol is answered as HTTP; the log needs no line for each."""
        return False

    async def _run(self, scope: Any, receive: Any, send: Any) -> None:
        """Let a request in, unless there are too many."""
        most = self._connections_max
        if most is None or max(len(self.connections), len(self.tasks)) <= most:
            try:
                await self._inner(scope, receive, send)
            except ResponseEnded:
                self.cycle.disconnected = True  # nothing more is sent, and no line of the log
                self.transport.close()
            return
        problem = Problem(503, f"more than {most:,} requests are under way", hint="wait a second")
        body = problem.body()
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"retry-after", b"1"),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def make_protocol(seconds: float = HEAD_SECONDS) -> type[BoundedProtocol]:
    """Return the protocol of a server (`http=` of its settings) that waits so long for a head."""
    return type("BoundedProtocol", (BoundedProtocol,), {"head_seconds": seconds})


class AnnouncingServer(uvicorn.Server):
    """Calls back with its address once it listens, and before it waits for open requests."""

    def __init__(
        self,
        config: uvicorn.Config,
        announce: Callable[[str], None],
        on_shutdown: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._announce = announce
        self._on_shutdown = on_shutdown

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let SIGTERM end the server, and not the process: uvicorn would raise it again after an
        orderly end, and a supervisor would take that for a failure."""
        with super().capture_signals():
            try:
                yield
            finally:
                self._captured_signals = [
                    number for number in self._captured_signals if number != signal.SIGTERM
                ]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce(self._address())

    def _address(self) -> str:
        listening = self.servers[0].sockets[0]
        if listening.family == socket.AF_UNIX:
            return f"unix:{listening.getsockname()}"
        host, scheme = self.config.host, "https" if self.config.ssl is not None else "http"
        port = listening.getsockname()[1]
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_shutdown()
        await super().shutdown(sockets)


@contextmanager
def unix_socket(path: str, mode: int) -> Iterator[socket.socket]:
    """Listen at a path. What a killed server left there is replaced, and nothing else."""
    if os.path.lexists(path):
        _remove_left_socket(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    umask = os.umask(0o777 & ~mode)  # no one else connects before its mode is set
    try:
        listening.bind(path)
    except OSError as error:
        listening.close()
        reason = error.strerror or error
        raise BadSetting(
            f"cannot listen at `{path}`: {reason}", hint="name a path in a folder of its own"
        ) from error
    finally:
        os.umask(umask)
    inode = os.stat(path).st_ino
    try:
        yield listening
    finally:
        listening.close()
        with suppress(OSError):
            if os.stat(path).st_ino == inode:
                os.unlink(path)


def _remove_left_socket(path: str) -> None:
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise BadSetting(
            f"cannot listen at `{path}`: there is a file", hint="name another path, or remove it"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        try:
            asked.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError:  # not ours to reach
            pass
    raise BadSetting(f"another program listens at `{path}`", hint="stop it, or name another path")
