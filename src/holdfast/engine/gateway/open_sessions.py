"""The sessions that a gateway holds open: a bounded number, closed when they are not used.

Live pieces of their running turns are for those who watch; records come from the store.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.log.ids import SessionKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from holdfast.engine.session.async_session import AsyncSession

    OpenSession = Callable[[SessionKey], Awaitable[AsyncSession]]


_PIECES_MAX: Final = 1_000
"""Pieces kept for a watcher that reads slowly; older ones are left out: the log has the words."""


TOKENS: Final = "tokens"
"""The name under which changes of access tokens are published."""
_Watched = SessionKey | int | str | None


class Watcher:
    """Receives what happens in one session of this process."""

    def __init__(self) -> None:
        self._pieces: list[Any] = []
        self._event = asyncio.Event()
        self.left_out = 0
        """Pieces that came faster than they were read."""

    def put(self, piece: Any) -> None:
        if len(self._pieces) >= _PIECES_MAX:
            del self._pieces[0]
            self.left_out += 1
        self._pieces.append(piece)
        self._event.set()

    def wake(self) -> None:
        self._event.set()

    async def pieces(self, seconds: float) -> list[Any]:
        """Return what came, after at most so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return []
        self._event.clear()
        pieces, self._pieces = self._pieces, []
        return pieces


class LiveFeed:
    """The watchers of all sessions of a process. To be used on its event loop."""

    def __init__(self) -> None:
        self._watchers: dict[_Watched, set[Watcher]] = {}
        self.is_closed = False
        """Nothing more comes: those who watch should go."""

    @contextmanager
    def watch(self, key: _Watched) -> Iterator[Watcher]:
        """Watch a session, the states of a message by its id, or with None those of all; or
        `TOKENS`."""
        watcher = Watcher()
        self._watchers.setdefault(key, set()).add(watcher)
        try:
            yield watcher
        finally:
            watchers = self._watchers[key]
            watchers.discard(watcher)
            if not watchers:
                del self._watchers[key]

    def publish(self, key: _Watched, piece: Any) -> None:
        for watcher in self._watchers.get(key, ()):
            watcher.put(piece)

    def close(self) -> None:
        """Wake those who watch, so that they end: a server that stops waits for them."""
        self.is_closed = True
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.wake()

    def count(self) -> int:
        return sum(map(len, self._watchers.values()))


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

    async def forget_all(self) -> None:
        """Close every session; one that is in use is closed behind its user."""
        for key in list(self._held):
            await self.forget(key)
