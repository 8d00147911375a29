"""Serving: over stdin and stdout, or as an ASGI application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp.server.lowlevel.server import Server
    from starlette.applications import Starlette

BODY_BYTES_MAX: Final = 1024 * 1024
"""The largest request; the largest argument of a tool is a few thousand characters."""
_HOSTS: Final = ("127.0.0.1:*", "localhost:*", "[::1]:*")
_ORIGINS: Final = tuple(f"http://{host}" for host in _HOSTS)


def serve_stdio(server: Server[Any]) -> None:
    """Serve one client over stdin and stdout until it closes them."""

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(serve)


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
