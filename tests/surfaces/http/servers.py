"""A server for tests, without a socket: requests go straight to the application."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio._backends._asyncio  # noqa: F401 - pytest rewrites it, which no other thread bears
import httpx2
import msgspec

from holdfast.engine.access_tokens import AccessToken, new_token
from holdfast.engine.gateway.gateway import GatewayOptions
from holdfast.surfaces.cli.serve.serve import build_server
from holdfast.surfaces.serve_settings import ServeSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.ports import SessionStore

BASE = "http://127.0.0.1:8484"
OPTIONS = GatewayOptions(poll_seconds=0.05, drain_seconds=0.2)


def token_for(owner: str, scope: str = "admin") -> tuple[str, AccessToken]:
    token, digest = new_token()
    settings = {"name": f"{owner}-{scope}", "sha256": digest, "owner": owner, "scope": scope}
    return token, msgspec.convert(settings, AccessToken)


@asynccontextmanager
async def serving(
    store: SessionStore,
    *tokens: AccessToken,
    secrets: dict[str, str] | None = None,
    **settings: Any,
) -> AsyncIterator[httpx2.AsyncClient]:
    """Serve a store, with the offline model, and give a client."""
    given = {"gateway": OPTIONS, **settings}
    server = build_server(ServeSettings(tokens=tokens, **given), store, "offline", secrets)
    app = server.app()
    inner = app.inner
    async with inner.router.lifespan_context(inner):
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url=BASE, timeout=60) as client:
            yield client
