"""An application that is made when someone asks for it: a server starts without what it needs."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import Route

from holdfast.engine.session.drivers.awaiting import run_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import Receive, Scope, Send


def late_app(path: str, make: Callable[[], Starlette]) -> Starlette:
    """Return an application for an address; the first request there makes the one that answers."""
    late = _LateApp(make)
    return Starlette(routes=[Route(path, endpoint=late)], lifespan=late.lifespan)


class _LateApp:
    def __init__(self, make: Callable[[], Starlette]) -> None:
        self._make = make
        self._stop = asyncio.Event()
        self._starting: asyncio.Task[Starlette] | None = None
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        starting = self._starting
        try:
            app = await asyncio.shield(starting)  # others may wait for it, too
        except Exception:
            if self._starting is starting:
                self._starting = None  # the next request tries again
            raise
        await app.router(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """End the application at the end, if it was made."""
        try:
            yield
        finally:
            self._stop.set()
            if self._starting is not None:
                await asyncio.wait([self._starting])
            if self._running is not None:
                await self._running

    async def _start(self) -> Starlette:
        app = await run_in_thread(self._make)
        started = asyncio.Event()
        running = asyncio.create_task(self._run(app, started))
        entered = asyncio.create_task(started.wait())
        await asyncio.wait([running, entered], return_when=asyncio.FIRST_COMPLETED)
        entered.cancel()
        if running.done():
            running.result()
        self._running = running
        return app

    async def _run(self, app: Starlette, started: asyncio.Event) -> None:
        """Hold the lifespan: the task that enters it has to leave it, and a request ends before."""
        async with app.router.lifespan_context(app):
            started.set()
            await self._stop.wait()
