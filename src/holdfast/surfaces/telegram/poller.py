"""The right to receive a bot's messages: one process has it among those that share a store.

Telegram ends the poll of a program when another polls, so that two of them would take turns at
being refused. The right is a claim on a message of a queue. It runs out with its process, and the
next process takes it over.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import HoldfastError
from holdfast.ports import FINISHED, NewMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.ports import QueuedMessage, SessionStore

_RENEWALS: Final = 6
"""Renewals in the time of one claim."""
_LOOK_SECONDS_MAX: Final = 5.0
"""Between two looks of a process that waits to take over."""
_LANE: Final = "poll"

log = logging.getLogger(__name__)


class PollingRight:
    """The right of one process to receive the messages of a bot."""

    def __init__(self, store: SessionStore, bot: int, holder: str, seconds: float) -> None:
        """`seconds` is how long it outlives the process."""
        self.queue = f"poller:telegram:{bot}"
        self._store = store
        self._holder = holder
        self._seconds = seconds
        self._held: QueuedMessage | None = None

    async def acquire(self, on_wait: Callable[[str], None]) -> None:
        """Wait until it is free, and take it. `on_wait` gets the name of another holder, once."""
        told = ""
        while True:
            try:
                self._held, other = await run_in_thread(self._claim)
            except HoldfastError as error:
                log.warning("cannot ask who receives the bot's messages: %s", error)
                other = ""
            if self._held is not None:
                return
            if other and other != told:
                on_wait(other)
                told = other
            await asyncio.sleep(min(self._seconds / _RENEWALS, _LOOK_SECONDS_MAX))

    async def keep(self) -> None:
        """Keep it, and return when it is lost."""
        clock = asyncio.get_running_loop().time
        renewed = clock()
        while self._held is not None:
            await asyncio.sleep(self._seconds / _RENEWALS)
            began = clock()
            try:
                if not await self.is_held():
                    return
                renewed = began
            except HoldfastError as error:
                log.warning("cannot keep the right to receive the bot's messages: %s", error)
                if clock() - renewed >= self._seconds:
                    self._held = None

    async def is_held(self) -> bool:
        """Renew it; False where this process does not have it, or has lost it."""
        held = self._held
        if held is None:
            return False
        if not await run_in_thread(self._store.queues.renew, held, self._seconds):
            self._held = None
        return self._held is not None

    async def release(self) -> None:
        """Let another process have it."""
        held, self._held = self._held, None
        if held is None:
            return
        try:
            queues = self._store.queues
            await run_in_thread(lambda: queues.postpone(held, 0.0, is_counted=False))
        except HoldfastError as error:
            log.warning("another process has to wait for this bot: %s", error)

    async def take_over(self) -> None:
        """Free it from a process that ended: for the only one that uses the store."""
        await run_in_thread(self._store.queues.release_all, self.queue)

    def _claim(self) -> tuple[QueuedMessage | None, str]:
        """Try to take it; returns it, or the name of its holder."""
        queues = self._store.queues
        found = queues.put(NewMessage(queue=self.queue, lane=_LANE, key=_LANE, body={}))
        if found.state in FINISHED:
            queues.retry(found.id)  # set aside by a person
        claimed = queues.claim(self.queue, self._holder, self._seconds)
        return (claimed[0], "") if claimed else (None, found.holder)
