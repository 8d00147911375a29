"""Live pieces of running turns, for those who watch a session. Records come from the log."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.ids import SessionKey

_PIECES_MAX: Final = 1_000
"""Pieces kept for a watcher that reads slowly; older ones are left out: the log has the words."""


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
        self._watchers: dict[SessionKey | int | None, set[Watcher]] = {}
        self.is_closed = False
        """Nothing more comes: those who watch should go."""

    @contextmanager
    def watch(self, key: SessionKey | int | None) -> Iterator[Watcher]:
        """Watch a session, the states of a message by its id, or with None those of all."""
        watcher = Watcher()
        self._watchers.setdefault(key, set()).add(watcher)
        try:
            yield watcher
        finally:
            watchers = self._watchers[key]
            watchers.discard(watcher)
            if not watchers:
                del self._watchers[key]

    def publish(self, key: SessionKey | int | None, piece: Any) -> None:
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
