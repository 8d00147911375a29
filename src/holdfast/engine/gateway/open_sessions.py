"""The sessions that a gateway holds open: a bounded number, closed when they are not used."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from holdfast.core.log.ids import SessionKey
    from holdfast.engine.session.async_session import AsyncSession

    OpenSession = Callable[[SessionKey], Awaitable[AsyncSession]]


class _Held:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.session: AsyncSession | None = None
        self.users = 0
        self.used = 0.0


class OpenSessions:
    """Opens sessions on demand, each once, and keeps them for the next message."""

    def __init__(self, open_session: OpenSession, *, limit: int, idle_seconds: float) -> None:
        self._open = open_session
        self._limit = limit
        self._idle_seconds = idle_seconds
        self._held: OrderedDict[SessionKey, _Held] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def find(self, key: SessionKey) -> AsyncSession | None:
        """Return a session that is open."""
        held = self._held.get(key)
        return held.session if held is not None else None

    @asynccontextmanager
    async def use(self, key: SessionKey) -> AsyncIterator[AsyncSession]:
        """Hold a session open for as long as the block runs."""
        held = self._held.setdefault(key, _Held())
        self._held.move_to_end(key)
        held.users += 1
        try:
            async with held.lock:
                if held.session is None:
                    held.session = await self._open(key)
            yield held.session
        finally:
            held.users -= 1
            held.used = asyncio.get_running_loop().time()
            if held.session is None and not held.users:
                self._held.pop(key, None)
            elif held.session is not None and not held.users and self._held.get(key) is not held:
                await held.session.close()  # it was forgotten meanwhile
            await self.evict()

    async def forget(self, key: SessionKey) -> None:
        """Close a session, so that it is read again when it is next used."""
        held = self._held.pop(key, None)
        if held is not None and held.session is not None and not held.users:
            await held.session.close()

    async def evict(self) -> None:
        """Close what was not used for long, and the oldest where there are too many."""
        now = asyncio.get_running_loop().time()
        for key, held in list(self._held.items()):
            is_idle = now - held.used >= self._idle_seconds
            if not held.users and (is_idle or len(self._held) > self._limit):
                await self.forget(key)
            elif len(self._held) <= self._limit and not is_idle:
                break

    async def close(self) -> None:
        for key in list(self._held):
            await self.forget(key)
