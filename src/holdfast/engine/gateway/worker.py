"""Works on the inbox: claims messages, and runs their turns side by side."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from holdfast.engine.gateway.turns import MessageTurns, session_key
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.ports import QueuedMessage

INBOX: Final = "inbox"
"""The queue of messages that wait for a turn."""

log = logging.getLogger(__name__)


class Worker:
    """Claims messages and runs their turns, as many at a time as the options allow."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._options = gateway.options
        self._message_turns = MessageTurns(gateway)
        self._wake = asyncio.Event()
        self._turns: dict[asyncio.Task[None], SessionKey] = {}
        self._is_stopping = False

    @property
    def running(self) -> int:
        return len(self._turns)

    def is_running(self, key: SessionKey) -> bool:
        return key in self._turns.values()

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Work until it is stopped."""
        while not self._is_stopping:
            self._wake.clear()
            free = self._options.turns_max - len(self._turns)
            claimed = await self._claim(free) if free > 0 else []
            for message in claimed:
                key = session_key(message)
                task = asyncio.create_task(
                    self._message_turns.run(message, key), name=f"turn of {key}"
                )
                self._turns[task] = key
                task.add_done_callback(self._end)
            if len(claimed) < max(free, 1):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._options.poll_seconds):
                        await self._wake.wait()

    async def stop(self, seconds: float) -> None:
        """Claim nothing more, wait for running turns, and give back what is left."""
        self._is_stopping = True
        self._wake.set()
        if self._turns:
            await asyncio.wait(self._turns, timeout=seconds)
        for task in list(self._turns):
            task.cancel()
        if self._turns:
            await asyncio.wait(self._turns)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._turns.pop(task, None)
        self._wake.set()
        if not task.cancelled() and task.exception() is not None:
            log.error("a message was left to its claim", exc_info=task.exception())

    async def _claim(self, limit: int) -> list[QueuedMessage]:
        queues, options = self._gateway.store.queues, self._options
        try:
            return await run_in_thread(
                lambda: queues.claim(
                    INBOX, self._gateway.holder, options.claim_seconds, limit=limit
                )
            )
        except HoldfastError as error:
            log.warning("cannot claim messages: %s", error)
            await asyncio.sleep(options.poll_seconds)
            return []
