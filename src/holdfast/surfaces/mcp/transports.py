"""Serving: over stdin and stdout, or as an ASGI application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server.lowlevel.server import Server
    from mcp.shared._stream_protocols import ReadStream, WriteStream
    from starlette.applications import Starlette

BODY_BYTES_MAX: Final = 1024 * 1024
"""The largest request; the largest argument of a tool is a few thousand characters."""
_DRAIN_SECONDS: Final = 60.0
"""The longest wait for answers after the end of the input."""
_HOSTS: Final = ("127.0.0.1:*", "localhost:*", "[::1]:*")
_ORIGINS: Final = tuple(f"http://{host}" for host in _HOSTS)


def serve_stdio(server: Server[Any], mask: Callable[[Any], Any] = lambda value: value) -> None:
    """Serve one client over stdin and stdout until it closes stdin.

    The SDK's own errors repeat what they were given: `mask` takes the secrets out of that.

    The SDK drops what is running at that moment. Requests that came before are answered here, so
    that a pipe works as well: `printf … | holdfast mcp`.
    """

    async def serve() -> None:
        pending = _PendingRequests(mask)
        async with stdio_server() as (reading, writing), anyio.create_task_group() as group:
            to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception]()
            to_client, from_server = anyio.create_memory_object_stream[SessionMessage]()
            group.start_soon(pending.pass_requests, reading, to_server)
            group.start_soon(pending.pass_answers, from_server, writing)
            async with from_client, to_client:
                await server.run(from_client, to_client, server.create_initialization_options())

    anyio.run(serve)


class _PendingRequests:
    """The requests without an answer; at the end of the input they are waited for."""

    def __init__(self, mask: Callable[[Any], Any]) -> None:
        self._mask = mask
        self._ids: set[types.RequestId] = set()
        self._is_empty = anyio.Event()

    async def pass_requests(
        self,
        reading: ReadStream[SessionMessage | Exception],
        to_server: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        async with reading, to_server:
            async for item in reading:
                match getattr(item, "message", None):
                    case types.JSONRPCRequest(id=number):
                        self._ids.add(number)
                    case types.JSONRPCNotification(method="notifications/cancelled", params=given):
                        self._forget((given or {}).get("requestId"))
                    case _:
                        pass  # an answer to the server, or a line that is not a message
                await to_server.send(item)
            with anyio.move_on_after(_DRAIN_SECONDS):
                while self._ids:
                    self._is_empty = anyio.Event()
                    await self._is_empty.wait()

    async def pass_answers(
        self,
        from_server: MemoryObjectReceiveStream[SessionMessage],
        writing: WriteStream[SessionMessage],
    ) -> None:
        async with writing, from_server:
            async for item in from_server:
                match item.message:
                    case types.JSONRPCError(id=number, error=error):
                        error.data, error.message = (
                            self._mask(error.data),
                            self._mask(error.message),
                        )
                        await writing.send(item)
                        self._forget(number)
                    case types.JSONRPCResponse(id=number):
                        await writing.send(item)
                        self._forget(number)
                    case _:  # a notification
                        await writing.send(item)

    def _forget(self, number: types.RequestId | None) -> None:
        if number is not None:
            self._ids.discard(number)
        if not self._ids:
            self._is_empty.set()


def http_app(
    server: Server[Any],
    *,
    path: str = "/mcp",
    hosts: Sequence[str] = _HOSTS,
    origins: Sequence[str] = _ORIGINS,
) -> Starlette:
    """The server over streamable HTTP, for both revisions of the protocol.

    Nothing is kept between requests, so any process can answer any of them, and who asks is
    decided for each. Requests for other `hosts` and from other `origins` are refused (DNS
    rebinding). An application that mounts this enters its lifespan:
    `async with app.router.lifespan_context(app)`.
    """
    security = TransportSecuritySettings(allowed_hosts=list(hosts), allowed_origins=list(origins))
    return server.streamable_http_app(
        streamable_http_path=path,
        stateless_http=True,
        json_response=True,
        transport_security=security,
        max_request_body_size=BODY_BYTES_MAX,
    )
