"""Works on a queue: claims messages, and deals with those of different lanes side by side."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from holdfast.core.queues import SUSPECT_SECONDS, choose_suspect, is_suspect
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.ports import QueuedMessage, SessionStore

log = logging.getLogger(__name__)


class QueueWorker:
    """Claims the messages of a queue and works on them, so many at a time."""

    def __init__(
        self,
        store: SessionStore,
        queue: str,
        holder: str,
        work: Callable[[QueuedMessage], Awaitable[None]],
        *,
        limit: int,
        claim_seconds: float,
        poll_seconds: float,
    ) -> None:
        """`work` stores how a message ended; one that it leaves is claimed again later."""
        self._store = store
        self._queue = queue
        self._holder = holder
        self._work = work
        self._limit = limit
        self._claim_seconds = claim_seconds
        self._poll_seconds = poll_seconds
        self._wake = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], QueuedMessage] = {}
        self._is_stopping = False
        self.claim_failure: Exception | None = None
        """The reason why the newest claim failed; None where it did not."""

    @property
    def running(self) -> int:
        return len(self._tasks)

    def is_running(self, lane: str) -> bool:
        """Return whether a message of this lane is worked on here."""
        return any(message.lane == lane for message in self._tasks.values())

    def wake(self) -> None:
        """Look for messages now."""
        self._wake.set()

    async def run(self) -> None:
        """Work until it is stopped."""
        while not self._is_stopping:
            self._wake.clear()
            free = self._limit - len(self._tasks)
            claimed = await self._claim(free) if free > 0 else []
            for message in await self._hold_back_suspects(claimed):
                task = asyncio.create_task(
                    self._work_on(message), name=f"{self._queue}: {message.lane}"
                )
                self._tasks[task] = message
                task.add_done_callback(self._end)
            if len(claimed) < max(free, 1):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._poll_seconds):
                        await self._wake.wait()

    async def stop(self, seconds: float) -> None:
        """Claim nothing more, wait for what runs, and cancel what is left."""
        self._is_stopping = True
        self._wake.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _hold_back_suspects(self, claimed: list[QueuedMessage]) -> list[QueuedMessage]:
        """Give back what must not run beside what runs, before anything is begun."""
        has_suspect = any(map(is_suspect, self._tasks.values()))
        begun, held_back = choose_suspect(claimed, has_suspect=has_suspect)
        postpone = self._store.queues.postpone
        for message in held_back:
            with contextlib.suppress(HoldfastError):  # its claim runs out
                await run_in_thread(
                    postpone, message, SUSPECT_SECONDS, reason=message.reason, is_counted=False
                )
        return begun

    async def _work_on(self, message: QueuedMessage) -> None:
        await self._work(message)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._wake.set()
        if not task.cancelled() and task.exception() is not None:
            log.error("a message was left to its claim", exc_info=task.exception())

    async def _claim(self, limit: int) -> list[QueuedMessage]:
        queues = self._store.queues
        try:
            found = await run_in_thread(
                lambda: queues.claim(self._queue, self._holder, self._claim_seconds, limit=limit)
            )
            self.claim_failure = None
            return found
        except Exception as error:  # also a bug of a driver: no one else answers messages here
            self.claim_failure = error
            is_known = isinstance(error, HoldfastError)
            log.warning(
                "cannot claim messages of `%s`: %s", self._queue, error, exc_info=not is_known
            )
            await asyncio.sleep(self._poll_seconds)
            return []
