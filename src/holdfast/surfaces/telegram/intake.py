"""Updates of a Telegram bot: stored, then made messages of the inbox, or run as commands.

An update is stored under its number, so that it counts once however often it comes. Those of a
session are dealt with in order. A command that waits for the end of a turn does so beside the
others, so that `/cancel` and `/reset` reach the turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.owners import owner_of, owner_text
from holdfast.core.queues import next_try, reason_of, reason_to_set_aside
from holdfast.core.text.typed import convert_typed
from holdfast.engine.gateway.worker import QueueWorker
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.engine.session.opening import find_session
from holdfast.errors import KeyReused, TooManyWaiting
from holdfast.ports import NewMessage
from holdfast.surfaces.telegram.commands import answer_interrupted, buttons_of, find_command
from holdfast.surfaces.telegram.replies import CHANNEL, WITH_APPROVERS, read_decision
from holdfast.surfaces.telegram.settings import owner_of_user, session_name, session_owner
from holdfast.surfaces.telegram.updates import IncomingUpdate

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.ports import QueuedMessage
    from holdfast.surfaces.telegram.commands import ChatCommands
    from holdfast.surfaces.telegram.decisions import PressedDecisions
    from holdfast.surfaces.telegram.outbox import TelegramOutbox
    from holdfast.surfaces.telegram.settings import TelegramSettings

_WORKERS_MAX: Final = 32
"""Updates of different sessions that are dealt with at the same time."""
_CLAIM_SECONDS: Final = 3_600.0
"""For a command; a compaction may take long. A restart takes updates over at once."""
_POLL_SECONDS: Final = 1.0
"""Between two looks for updates that no one told of."""
_STOP_SECONDS: Final = 5.0
"""For a command that runs when the bot stops."""
_REFUSALS_MAX: Final = 5
"""Answers within a minute to messages of one chat that were not taken."""
_NOTICE_SECONDS: Final = {"stranger": 86_400}
"""Within which a chat gets one notice of a kind; a minute for the others."""

log = logging.getLogger(__name__)


class UpdateIntake:
    """Stores the updates of a bot, and deals with each once, in the order of its session."""

    def __init__(
        self,
        gateway: Gateway,
        settings: TelegramSettings,
        agent: str,
        commands: ChatCommands,
        decisions: PressedDecisions,
        outbox: TelegramOutbox,
    ) -> None:
        self._gateway = gateway
        self._scope = settings.dm_scope
        self._with_approvers = bool(settings.approvers)
        self._agent = agent
        self._commands = commands
        self._decisions = decisions
        self._outbox = outbox
        self.queue = f"updates:telegram:{settings.bot}"
        self.has_message = asyncio.Event()
        """Set where a message has gone to the inbox."""
        self._refusals_of = 0
        self._refusals: Counter[int] = Counter()
        """Messages that were not taken within a minute, by chat."""
        self._worker = self._new_worker()

    def _new_worker(self) -> QueueWorker:
        return QueueWorker(
            self._gateway.store,
            self.queue,
            self._gateway.holder,
            self._deal_with,
            limit=_WORKERS_MAX,
            claim_seconds=_CLAIM_SECONDS,
            poll_seconds=_POLL_SECONDS,
        )

    async def run(self) -> None:
        """Deal with what is stored, until it is cancelled."""
        self._worker = self._new_worker()
        try:
            await self._worker.run()
        finally:
            await self._worker.stop(_STOP_SECONDS)

    async def store(self, updates: list[IncomingUpdate]) -> None:
        """Store updates; they are durable when this returns."""
        await run_in_thread(self._put_all, updates)
        self._worker.wake()
        self._outbox.wake()

    def _put_all(self, updates: list[IncomingUpdate]) -> None:
        for update in updates:
            if update.kind == "notice":
                self._put_notice(update, update.notice, update.text)
            elif update.kind == "decision":
                self._put(
                    update,
                    lane=f"call {read_decision(update.text)[1]}",
                    key=f"press:{update.press}",
                )
            else:
                self._put(update, lane=self._name_of(update), key=_number(update))

    def _put(self, update: IncomingUpdate, *, lane: str, key: str) -> None:
        message = NewMessage(
            queue=self.queue,
            lane=lane,
            key=key,
            body=msgspec.to_builtins(update),
            owner=owner_text(session_owner(update.place, self._scope)),
        )
        with suppress(KeyReused):  # the same update, read with other settings
            self._gateway.store.queues.put(message)

    def _refuse(self, update: IncomingUpdate, reason: str) -> None:
        """Answer a message that was not taken, so that its sender knows which one it was. In a
        flood the last answer speaks for all that follow, or replies would wait behind refusals."""
        chat, minute = update.place.chat, update.date // 60
        if minute != self._refusals_of:
            self._refusals_of, self._refusals = minute, Counter()
        self._refusals[chat] += 1
        count = self._refusals[chat]
        if count > _REFUSALS_MAX:
            return
        text = f"This message was not taken: {reason}. Send it again later."
        if count == _REFUSALS_MAX:
            text += " Nor are those that you send after it within this minute."
        to = _address(update) | {"reply_to": update.message}
        key = f"full:{chat}:{_number(update)}"
        self._outbox.put(to, key, text, owner_of_user(update.place))

    def _put_notice(self, update: IncomingUpdate, kind: str, text: str) -> None:
        """Tell a chat something, once in a while: a hundred stickers get one answer."""
        key = f"{kind}:{update.place.chat}:{update.date // _NOTICE_SECONDS.get(kind, 60)}"
        to = _address(update) | {"reply_to": None}
        self._outbox.put(to, key, text, owner_of_user(update.place))

    def _name_of(self, update: IncomingUpdate) -> str:
        return session_name(update.place, self._scope)

    async def _deal_with(self, message: QueuedMessage) -> None:
        update = convert_typed(message.body, IncomingUpdate)
        queues = self._gateway.store.queues
        if reason := reason_to_set_aside(message):
            await run_in_thread(queues.finish, message, "failed", reason=reason)
            return
        try:
            if update.kind == "command":
                await self._run_command(message, update)
            elif update.kind == "decision":
                await self._decide(message, update)
            else:
                await self._submit(message, update)
        except Exception as error:  # a store, or a bug: the lane must go on
            reason = reason_of(error)
            log.warning("update %d: %s", update.update, reason)
            again = next_try(error, message.tries) if update.kind != "command" else None
            if again is not None:
                await run_in_thread(queues.postpone, message, again.seconds, reason=reason)
                return
            text = f"This did not work: {reason}"
            await self._outbox.reply(
                _address(update), f"error:{_number(update)}", text, owner_of(message.owner)
            )
            await run_in_thread(queues.finish, message, "failed", reason=reason)
        else:
            await run_in_thread(queues.finish, message, "delivered")

    async def _submit(self, message: QueuedMessage, update: IncomingUpdate) -> None:
        """Make an update a message of the inbox; the same one, where it is done again."""
        place, key = update.place, await self._session_of(message, update)
        extra = {"chat": place.chat, "user": place.user, "message": update.message}
        try:
            await self._gateway.submit(
                key,
                update.text,
                message_key=f"telegram:{place.bot}:{_number(update)}",
                owner=message.owner,
                channel=CHANNEL,
                extra={CHANNEL: extra},
                about={**self._answer_address(update), "session": str(key)},
            )
        except KeyReused:
            return  # taken before a restart with other settings
        except TooManyWaiting as error:
            await run_in_thread(self._refuse, update, str(error))
            self._outbox.wake()
            return
        self.has_message.set()
        if update.unread:
            text = f"The {update.unread.replace('_', ' ')} was not read, only its text."
            await run_in_thread(self._put_notice, update, "unread", text)
            self._outbox.wake()

    def _answer_address(self, update: IncomingUpdate) -> Json:
        asked = {WITH_APPROVERS: True} if self._with_approvers else {}
        return {**_address(update), **asked}

    async def _session_of(self, message: QueuedMessage, update: IncomingUpdate) -> SessionKey:
        store, agent, name = self._gateway.store, self._agent, self._name_of(update)
        return await run_in_thread(
            lambda: find_session(store, name, agent, create=True, owner=owner_of(message.owner))
        )

    async def _decide(self, message: QueuedMessage, update: IncomingUpdate) -> None:
        """Decide about a call. The same press again finds what it did."""
        outcome = await self._decisions.decide(update)
        if outcome.text:
            to = _address(update) | {"reply_to": None, "edits": update.message}
            key = f"decided:{update.text}:{update.message}"
            await self._outbox.reply(to, key, outcome.text, owner_of(message.owner))
        await self._outbox.acknowledge(update.press, outcome.answer)

    async def _run_command(self, message: QueuedMessage, update: IncomingUpdate) -> None:
        command, lane = find_command(update.text), self._name_of(update)
        if update.press:
            await self._outbox.acknowledge(update.press)
            update = msgspec.structs.replace(update, press="")
        if command is not None and command.during_turn == "queued" and message.lane == lane:
            key = f"{_number(update)}:queued"
            await run_in_thread(lambda: self._put(update, lane=f"{lane} queued", key=key))
            self._worker.wake()
            return
        if message.lost_claims:  # a process ended while it ran, and may have done it
            text = answer_interrupted(update.text)
        else:
            session = await self._session_of(message, update)
            text = await self._commands.run(update.text, session, owner_of(message.owner))
        key = f"command:{_number(update)}"
        buttons = buttons_of(update.text)
        await self._outbox.reply(_address(update), key, text, owner_of(message.owner), buttons)


def _number(update: IncomingUpdate) -> str:
    """Return what an update is known by. Telegram may use its numbers again after a quiet week."""
    return f"{update.update}-{update.date}"


def _address(update: IncomingUpdate) -> Json:
    """Return where an answer is sent to. In a group it replies to the question."""
    place = update.place
    return {
        "bot": place.bot,
        "chat": place.chat,
        "thread": update.thread,
        "reply_to": None if place.is_private else update.message,
    }
