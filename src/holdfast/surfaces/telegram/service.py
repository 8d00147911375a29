"""A Telegram bot as a service of a gateway: it starts and stops with it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.engine.gateway.gateway import ServiceStatus
    from holdfast.surfaces.telegram.channel import TelegramChannel

RETRY_SECONDS: Final = 300.0
"""Between two tries of a bot that cannot go on. Each try ends the poll of another program."""
_CLOSE_SECONDS: Final = 5.0
"""For answers that are stored and not sent when the bot is stopped."""

log = logging.getLogger(__name__)


class TelegramService:
    """Runs a bot beside a gateway, whose other ways in go on when the bot fails."""

    def __init__(
        self, channel: TelegramChannel, *, retry_seconds: float | None = RETRY_SECONDS
    ) -> None:
        """Without `retry_seconds`, a failure ends the bot, and `wait` raises it."""
        self._channel = channel
        self._retry_seconds = retry_seconds
        self._failure: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def status(self) -> ServiceStatus:
        """The state of the bot."""
        status = self._channel.status
        if self._failure is not None:
            detail = self._describe(self._failure)
            return msgspec.structs.replace(status, state="failed", detail=detail)
        if self._task is None or self._task.done():
            return msgspec.structs.replace(status, state="stopped", detail="")
        return status

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="holdfast-telegram")

    async def wait(self) -> None:
        """Wait until the bot has ended. Raises `TelegramError` where it could not go on."""
        assert self._task is not None
        await asyncio.shield(self._task)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def close(self) -> None:
        await self._channel.close(0.0 if self._failure is not None else _CLOSE_SECONDS)

    async def _run(self) -> None:
        while True:
            try:
                await self._channel.run()
            except Exception as error:  # also a bug: it must not take the other ways in along
                self._failure = error
                if self._retry_seconds is None:
                    raise
                is_known = isinstance(error, HoldfastError)
                log.error("the bot does not run: %s", self._describe(error), exc_info=not is_known)
                await asyncio.sleep(self._retry_seconds)
                self._failure = None

    def _describe(self, error: Exception) -> str:
        if not isinstance(error, HoldfastError):
            return f"a mistake in the program ({type(error).__name__}); its log has the details"
        return f"{error} ({error.hint or 'it is tried again'})"
