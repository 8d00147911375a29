"""Replies to Telegram chats, and questions with buttons: cut into parts, and stored in the outbox.

This is all that a gateway needs which answers messages of a bot that another process runs.
"""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.owners import owner_of, owner_text
from holdfast.core.text.cut import cut, scrub
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.engine.gateway.gateway import session_key
from holdfast.engine.operations.approvals import ApproveCall, DenyCall, show_waiting
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.engine.session.opening import follow_continuation
from holdfast.errors import KeyReused
from holdfast.ports import NewMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.replies import Reply
    from holdfast.core.owners import Owner
    from holdfast.core.queues import ResetReason
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.engine.operations.approvals import WaitingCall
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


TEXT_UNITS_MAX: Final = 4_096
"""The longest message that Telegram takes, in UTF-16 units."""
_FENCE: Final = lazy_pattern(r" {0,3}(?P<marks>`{3,}|~{3,})(?P<info>[^`\n]*)\n?")
_LANGUAGE: Final = lazy_pattern(r"\s*(?P<name>[\w+#.-]{1,40})")
_JOINED: Final = lazy_pattern(
    "[\u0300-\u036f\u200d\ufe00-\ufe0f\u20d0-\u20ff\U0001f3fb-\U0001f3ff]"
)
"""Characters that change the one before them; no text is cut in front of one."""
_JOINED_MAX: Final = 16
"""The longest run of them that is kept together: it may be a whole text."""


class TelegramPart(NamedTuple):
    """A text for one message, without the fences of its code blocks, and their entities."""

    text: str
    entities: list[Json]


class _Block(NamedTuple):
    """A code block."""

    number: int
    """Which one of the text: two that follow each other stay two."""
    marks: str
    language: str


class _Line(NamedTuple):
    """A line, or a piece of a long one, and the code block that it is in."""

    text: str
    block: _Block | None


def utf16_units(text: str) -> int:
    """Return the length of a text as Telegram counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def split_text(text: str, limit: int = TEXT_UNITS_MAX) -> list[TelegramPart]:
    """Split a text into parts of at most `limit` UTF-16 units, none of them blank.

    A part ends between paragraphs or beside a code block where that fills half of it, else between
    lines, else between words.
    """
    clean = scrub(text)
    lines = list(_read_lines(clean, limit))
    parts: list[TelegramPart] = []
    start = 0
    while start < len(lines):
        end = _part_end(lines, start, limit)
        part = _join(lines[start:end])
        if part.text.strip():
            parts.append(part)
        start = end
    if not parts and clean.strip():  # code blocks without code
        return [TelegramPart(next(_cut_line(clean.strip(), limit)), [])]
    return parts


def _read_lines(text: str, limit: int) -> Iterator[_Line]:
    """Yield lines with their code blocks, without fences. Those too long for a part are cut."""
    block: _Block | None = None
    number = 0
    for line in text.splitlines(keepends=True):
        fence = _FENCE.fullmatch(line)
        if fence is not None and block is None:
            language = _LANGUAGE.match(fence["info"])
            number += 1
            block = _Block(number, fence["marks"], language["name"] if language else "")
        elif fence is not None and block is not None and _closes(block, *fence.groups()):
            block = None
        else:
            yield from (_Line(piece, block) for piece in _cut_line(line, limit))


def _closes(block: _Block, marks: str, info: str) -> bool:
    return marks.startswith(block.marks) and not info.strip()


def _cut_line(line: str, room: int) -> Iterator[str]:
    while utf16_units(line) > room:
        head = line.encode("utf-16-le")[: room * 2].decode("utf-16-le", "ignore")
        space = head.rfind(" ") + 1
        end = space if space >= len(head) // 2 else len(head)
        earliest = max(end - _JOINED_MAX, 1)
        while end > earliest and (_JOINED.match(line, end) or line[end - 1] == "\u200d"):
            end -= 1
        yield line[:end]
        line = line[end:]
    yield line


def _part_end(lines: list[_Line], start: int, limit: int) -> int:
    """Return the line before which a part ends that begins at `start`."""
    size, good = 0, start
    for end in range(start, len(lines)):
        size += utf16_units(lines[end].text)
        if size > limit:
            return good if good > start else end
        if size >= limit // 2 and _is_good_end(lines, end + 1):
            good = end + 1
    return len(lines)


def _is_good_end(lines: list[_Line], end: int) -> bool:
    """Return True between two paragraphs, and beside a code block."""
    if end == len(lines):
        return False
    last, following = lines[end - 1], lines[end]
    is_paragraph = following.block is None and not last.text.strip()
    return is_paragraph or last.block != following.block


def _join(lines: list[_Line]) -> TelegramPart:
    text = ""
    entities: list[Json] = []
    for block, group in groupby(lines, key=lambda line: line.block):
        words = "".join(line.text for line in group)
        if not text:
            words = words.lstrip("\n")
        code = words.rstrip("\n")
        if block is not None and code.strip():
            entity = {"type": "pre", "offset": utf16_units(text), "length": utf16_units(code)}
            entities.append({**entity, "language": block.language} if block.language else entity)
        text += words
    return TelegramPart(text.rstrip("\n"), entities)


_ARGUMENTS_MAX: Final = 1_500
_REASON_MAX: Final = 300
"""Characters, of up to two UTF-16 units: a question and its outcome are one message."""
_DIGEST_CHARS: Final = 32
"""Of a key, in hexadecimal: 128 bits, which no one finds by trying."""
_DECISION: Final = lazy_pattern(rf"(?P<word>approve|deny):(?P<digest>[0-9a-f]{{{_DIGEST_CHARS}}})")
_TOO_LONG: Final = (
    "It cannot be approved here: its arguments are longer than a message. The console and "
    "`holdfast approvals list` show them in full."
)


def call_digest(key: str) -> str:
    """Return what a button has of the key of a call: Telegram takes 64 bytes, and a key may be
    longer."""
    return sha256(key.encode()).hexdigest()[:_DIGEST_CHARS]


def is_decision(data: str) -> bool:
    """Return whether the data of a button are those of a decision."""
    return _DECISION.fullmatch(data) is not None


def read_decision(data: str) -> tuple[type[ApproveCall | DenyCall], str]:
    """Return the operation that a button stands for, and the digest of its call."""
    word, _, digest = data.partition(":")
    return (ApproveCall if word == "approve" else DenyCall), digest


def decision_buttons(call: WaitingCall) -> list[list[Json]]:
    """Return the row of buttons below a question. What is not seen in full is not approved."""
    digest = call_digest(call.key)
    deny = {"text": "Deny", "callback_data": f"deny:{digest}"}
    approve = {"text": "Approve", "callback_data": f"approve:{digest}"}
    return [[deny] if _arguments_of(call)[1] else [approve, deny]]


def question_of(call: WaitingCall) -> str:
    """Return the words of a call that waits, with its arguments."""
    arguments, is_cut = _arguments_of(call)
    reason = cut(" ".join(call.reason.split()), _REASON_MAX).text
    tail = f"\n{_TOO_LONG}" if is_cut else ""
    return f"Approve {call.tool}? {reason}\n```json\n{arguments}\n```{tail}"


def _arguments_of(call: WaitingCall) -> tuple[str, bool]:
    text = json.dumps(call.arguments, ensure_ascii=False, indent=2)
    return cut(text, _ARGUMENTS_MAX).text, len(text) > _ARGUMENTS_MAX
