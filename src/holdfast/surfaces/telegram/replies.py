"""Replies to Telegram chats, stored in the outbox of their bot.

This is all that a gateway needs which answers messages of a bot that another process runs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.core.owners import owner_of, owner_text
from holdfast.engine.gateway.gateway import session_key
from holdfast.engine.operations.approvals import show_waiting
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.engine.session.opening import follow_continuation
from holdfast.errors import KeyReused
from holdfast.ports import NewMessage
from holdfast.surfaces.telegram.questions import decision_buttons, question_of
from holdfast.surfaces.telegram.splitting import split_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.replies import Reply
    from holdfast.core.owners import Owner
    from holdfast.core.queues import ResetReason
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.ports import QueuedMessage, SessionStore


_WAITS: Final = "This waits for the approval of a person. The answer comes when there is one."
_FIRST: Final = ("reply_to", "edits")
"""Of a message in several parts, the first has these."""
WITH_APPROVERS: Final = "with_approvers"
"""In the address of an answer: the bot knows people who may decide about calls."""
CHANNEL: Final = "telegram"
"""The name of the channel in the messages of a gateway."""


def outbox_name(bot: int) -> str:
    """Return the name of a bot's outbox."""
    return f"outbox:telegram:{bot}"


class TelegramReplies:
    """The channel `telegram` of a gateway: stores the outcome of every message for its chat."""

    def __init__(self, store: SessionStore, masks: Redactor) -> None:
        """`masks` hides secrets in what is stored to be sent."""
        self._store = store
        self._masks = masks

    async def on_answer(self, message: QueuedMessage, reply: Reply) -> None:
        """Store the answer for its chat."""
        to, owner = message.body.get("about") or {}, owner_of(message.owner)
        if reply.stop == "approval":
            text = f"{reply.text}\n{_WAITS}".strip()
            await self.reply(to, f"waits:{reply.record}", text, owner)
            if to.get(WITH_APPROVERS):
                await run_in_thread(self._ask, to, message)
                self.wake()
            return
        text = reply.text if reply.text.strip() else "(The model answered without words.)"
        await self.reply(to, f"answer:{message.id}", text, owner)

    def _ask(self, to: Json, message: QueuedMessage) -> None:
        """Store a message with buttons for each call of a session that waits."""
        key = follow_continuation(self._store, session_key(message))
        for call in reversed(show_waiting(self._store, key)):
            text, buttons = question_of(call), decision_buttons(call)
            self.put(to, f"approval:{call.key}", text, owner_of(message.owner), buttons)

    async def on_failure(self, message: QueuedMessage, reason: str) -> None:
        """Store the reason for its chat."""
        text = f"This message could not be answered: {reason}\n/continue tries it again."
        to = message.body.get("about") or {}
        await self.reply(
            to, f"failure:{message.id}:{message.claims}", text, owner_of(message.owner)
        )

    async def on_reset(self, message: QueuedMessage, reason: ResetReason) -> None:
        """Store for its chat that the message begins a fresh session."""
        why = "nothing was said for a while" if reason == "idle" else "a new day began"
        text = f"This begins a fresh session, because {why}. It knows the checkpoint of the last."
        to = message.body.get("about") or {}
        await self.reply(to, f"reset:{message.id}", text, owner_of(message.owner))

    async def reply(
        self, to: Json, key: str, text: str, owner: Owner, buttons: Sequence[Sequence[Json]] = ()
    ) -> None:
        """Store a text for a chat, and have it sent soon."""
        await run_in_thread(self.put, to, key, text, owner, buttons)
        self.wake()

    def put(
        self, to: Json, key: str, text: str, owner: Owner, buttons: Sequence[Sequence[Json]] = ()
    ) -> None:
        """Store a text for a chat, in as many messages as it needs; once for each key.

        `to` has the bot, the chat, and maybe the thread, the message that is replied to, and the
        one of the bot that is edited.
        `buttons` are rows, below the last message.
        """
        place = {name: to[name] for name in ("chat", "thread") if to.get(name) is not None}
        parts = list(split_text(self._masks.text(text)))
        for number, part in enumerate(parts):
            body: Json = {**place, "text": part.text}
            if part.entities:
                body["entities"] = part.entities
            body |= {name: to[name] for name in _FIRST if number == 0 and to.get(name)}
            if buttons and number == len(parts) - 1:
                body["buttons"] = list(buttons)
            message = NewMessage(
                queue=outbox_name(to["bot"]),
                lane=str(to["chat"]),
                key=f"{key}:{number}",
                body=body,
                owner=owner_text(owner),
                session=to.get("session", ""),
            )
            with suppress(KeyReused):  # stored already, in other words
                self._store.queues.put(message)

    def wake(self) -> None:
        """Tell anyone who sends, where that is this process."""
