"""Messages on their way to Telegram: stored first, sent in order, tried again, or set aside.

Telegram has no key for a message that is sent twice. A process that ends between the server's
answer and its note of it sends the message again: it arrives at least once, and a count says how
often one was sent whose first try may have worked.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.owners import ANY_OWNER
from holdfast.core.queues import (
    RETRY_SECONDS,
    TRIES_MAX,
    NextTry,
    reason_to_set_aside,
)
from holdfast.engine.gateway.worker import QueueWorker
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.surfaces.telegram.api import UNREACHED, TelegramError
from holdfast.surfaces.telegram.replies import TelegramReplies, outbox_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.ports import QueuedMessage, SessionStore
    from holdfast.surfaces.telegram.api import BotApi

_SENDERS_MAX: Final = 8
"""Messages of different chats that are sent at the same time."""
_CLAIM_SECONDS: Final = 120.0
"""Longer than any request takes."""
_POLL_SECONDS: Final = 1.0
"""Between two looks for messages that are due again."""
_STOP_SECONDS: Final = 5.0
"""For a message on its way when the bot stops: one whose arrival is not noted is sent again."""
_UNREACHED_SECONDS: Final = 15.0
"""Between two tries while the server cannot be reached: those say nothing about the message."""
_REFUSED: Final = range(400, 500)
_BAD_REQUEST, _RATE_LIMIT, _BAD_TOKEN = 400, 429, (401, 404)

log = logging.getLogger(__name__)


def next_send(error: TelegramError, tries: int) -> NextTry | None:
    """Return when a message is sent again that was not taken; None: never."""
    status = error.status
    if status == _RATE_LIMIT:
        return NextTry(max(float(error.retry_after or RETRY_SECONDS[0]), 1.0), is_counted=False)
    if status in _BAD_TOKEN or (status == UNREACHED and not error.may_have_worked):
        return NextTry(_UNREACHED_SECONDS, is_counted=False)
    if status in _REFUSED or tries >= TRIES_MAX:
        return None
    return NextTry(RETRY_SECONDS[min(max(tries, 1), len(RETRY_SECONDS)) - 1])


class TelegramOutbox(TelegramReplies):
    """The outgoing messages of a bot, in the order of each chat."""

    def __init__(
        self, store: SessionStore, api: BotApi, bot: int, holder: str, masks: Redactor
    ) -> None:
        super().__init__(store, masks)
        self._api = api
        self._holder = holder
        self.queue = outbox_name(bot)
        self.sent = 0
        self.sent_again = 0
        """Messages whose earlier try may have worked: the person may have them twice."""
        self._worker = self._new_worker()

    def _new_worker(self) -> QueueWorker:
        return QueueWorker(
            self._store,
            self.queue,
            self._holder,
            self.send,
            limit=_SENDERS_MAX,
            claim_seconds=_CLAIM_SECONDS,
            poll_seconds=_POLL_SECONDS,
        )

    def wake(self) -> None:
        self._worker.wake()

    async def run(self) -> None:
        """Send what is stored, until it is cancelled."""
        self._worker = self._new_worker()
        try:
            await self._worker.run()
        finally:
            await self._worker.stop(_STOP_SECONDS)

    async def send_rest(self, seconds: float) -> None:
        """Send what is stored and due, for at most so long."""
        sending = asyncio.create_task(self.run())
        until = asyncio.get_running_loop().time() + seconds
        try:
            while asyncio.get_running_loop().time() < until and not sending.done():
                counts = await run_in_thread(self._store.queues.counts, self.queue, owner=ANY_OWNER)
                if not counts.get("waiting") and not counts.get("running"):
                    break
                await asyncio.sleep(0.05)
        finally:
            sending.cancel()
            await asyncio.wait([sending])

    async def send(self, message: QueuedMessage) -> None:
        """Send a claimed message, and store how that ended."""
        queues = self._store.queues
        if reason := reason_to_set_aside(message):
            await run_in_thread(lambda: queues.finish(message, "failed", reason=reason))
            return
        if message.lost_claims and not message.reason:
            self.sent_again += 1  # the process that had it ended, before or after it was sent
        try:
            number = await self._deliver(message.body)
        except TelegramError as error:
            await self._try_again(message, error)
            return
        self.sent += 1
        result = {"message_id": number}
        await run_in_thread(lambda: queues.finish(message, "delivered", result=result))

    async def acknowledge(self, press: str, text: str = "") -> None:
        """Tell Telegram that the press of a button arrived. Nothing depends on it."""
        with suppress(TelegramError):
            await self._api.acknowledge(press, text)

    async def _deliver(self, body: Json) -> int:
        text, entities = body["text"], body.get("entities", ())
        if body.get("edits"):
            await self._edit(body["chat"], body["edits"], text, entities)
            return int(body["edits"])
        about: dict[str, Any] = {name: body.get(name) for name in ("thread", "reply_to")}
        about["buttons"] = body.get("buttons") or ()
        try:
            return await self._api.send(body["chat"], text, entities, **about)
        except TelegramError as error:
            if error.migrated_to is None:
                raise
            moved = error.migrated_to
        return await self._api.send(moved, text, entities, **about)

    async def _edit(self, chat: int, message: int, text: str, entities: Sequence[Json]) -> None:
        """Edit a message. One that has the text already, or is gone, is left as it is."""
        try:
            await self._api.edit(chat, message, text, entities)
        except TelegramError as error:
            if error.status != _BAD_REQUEST:
                raise

    async def _try_again(self, message: QueuedMessage, error: TelegramError) -> None:
        queues, reason = self._store.queues, str(error)
        again = next_send(error, message.tries)
        if again is None:
            log.warning("message %d is set aside: %s", message.id, reason)
            await run_in_thread(lambda: queues.finish(message, "failed", reason=reason))
            return
        if error.may_have_worked:
            self.sent_again += 1
        await run_in_thread(
            lambda: queues.postpone(
                message, again.seconds, reason=reason, is_counted=again.is_counted
            )
        )
        asyncio.get_running_loop().call_later(again.seconds, self.wake)
