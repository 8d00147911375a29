"""A session's messages as labelled text.

Words stay as they were said. Tool calls and results take one bounded line each, pictures a note;
thinking is left out. Secrets are masked first, before anything is shortened. A line that begins
like one of our labels gets a backslash in front, so that no content can pass for a message of
another speaker.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, assert_never

import msgspec

from holdfast.core.compaction.summary_check import piece_text, plain_name, read_entries, read_units
from holdfast.core.limits import (
    RESEED_BOTH_ENDS_CHARS,
    RESEED_CALL_CHARS,
    RESEED_LEAST_CHARS,
    RESEED_RESULT_CHARS,
)
from holdfast.core.models.messages import Thinking, ToolAnswer, ToolCall, arguments_json
from holdfast.core.projection.view import turns_of
from holdfast.core.text.cut import cut, scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.compaction.summary_check import MessageEntry, Speaker
    from holdfast.core.log.records import Record
    from holdfast.core.projection.units import ContextUnit
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.core.text.cut import Keep, Marker

SUMMARY: Final = "Compaction summary: "
TAGS: Final = ("conversation_history", "next_user_message")
EARLIER: Final = "[Earlier history"
"""The beginning of the marker for what is missing."""

_SEPARATOR: Final = "\n\n"
_LABELLED_CHARS: Final = 60
"""A shorter end of a message is shown without its label."""
_LABEL: Final = (
    r"(?:(?:User|Assistant|System\ note|Compaction\ summary)\s{0,9}"
    r"|Tool\ (?:call|result)\b[^\n:：]{0,100})[:：]"
)
_DECORATION: Final = r"(?:[^\S\n]|[\\>*_#-]|[\u200b-\u200f\u2060\ufeff]){0,64}"
_FORGED: Final = lazy_pattern(
    rf"(?:^|(?<=[\r\v\f\x1c-\x1e\x85\u2028\u2029]))"
    rf"(?={_DECORATION}(?:{_LABEL}|{re.escape(EARLIER)}))",
    re.MULTILINE | re.IGNORECASE,
)
_BARE_LABEL: Final = lazy_pattern(rf"{_DECORATION}{_LABEL}\s*", re.IGNORECASE)
_TAG: Final = lazy_pattern(rf"<(?=\s{{0,9}}/?\s{{0,9}}(?:{'|'.join(TAGS)})\b)", re.IGNORECASE)
_WORD_START: Final = lazy_pattern(r"\b\w")


_LABELS: Final[dict[Speaker, str]] = {
    "user": "User: ",
    "assistant": "Assistant: ",
    "note": "System note: ",
}


class TextLine(msgspec.Struct, frozen=True):
    """The words of one record, or one call or result, under a label."""

    record: str
    label: str
    body: str

    @property
    def text(self) -> str:
        return f"{self.label}{self.body}"

    def within(self, room: int) -> str:
        """Both ends of it, or only its end where room is short, without its label at the least."""
        if room >= RESEED_BOTH_ENDS_CHARS:
            return cut(self.text, room, marker=omission_marker(self.record)).text
        if len(self.text) <= room:
            return self.text
        rest = room - len(self.label) - 2
        if room >= _LABELLED_CHARS and rest > room // 2:
            return f"{self.label}… {_ending(self.body, rest)}"
        bare = _ending(self.body, room)
        words = bare[match.end() :] if (match := _BARE_LABEL.match(bare)) else bare
        return words or bare.rstrip(":： ")


class TextMessage(msgspec.Struct, frozen=True):
    """A user's message, or a step of the assistant with its calls and their results."""

    place: int
    """Its number among all messages."""
    turn: int
    is_user: bool
    lines: tuple[TextLine, ...]

    @property
    def text(self) -> str:
        return _SEPARATOR.join(line.text for line in self.lines)

    @property
    def newest(self) -> TextLine:
        return self.lines[-1]

    def within(self, room: int) -> str:
        """As much of it as fits: its newest lines, and a part of the one before them."""
        kept: list[str] = []
        left = room
        for line in reversed(self.lines):
            if len(line.text) > left:
                if left >= RESEED_LEAST_CHARS or not kept:
                    kept.append(line.within(left))
                break
            kept.append(line.text)
            left -= len(line.text) + len(_SEPARATOR)
        return _SEPARATOR.join(reversed(kept))


def messages_as_text(
    records: Iterable[Record],
    *,
    summary: str = "",
    messages_max: int | None = None,
    redactor: Redactor | None = None,
) -> tuple[str, list[TextMessage], int]:
    """The summary, the newest messages, and the number of messages left out."""
    units = read_units(records)
    messages = list(_messages(units))
    chosen = _newest(messages, messages_max)
    drafts = [list(_drafts(message.unit, redactor)) for message in chosen]
    raw = [summary, *(draft.body for lines in drafts for draft in lines)]
    clean = iter(raw if redactor is None else redactor.texts(raw))
    safe_summary = _escape_labels(next(clean).strip())
    texts = [
        TextMessage(
            message.place,
            message.turn,
            message.is_user,
            tuple(_finish(draft, next(clean)) for draft in lines),
        )
        for message, lines in zip(chosen, drafts, strict=True)
    ]
    return safe_summary, texts, len(messages) - len(texts)


def turns_newest_first(messages: Sequence[TextMessage]) -> Iterator[list[int]]:
    """The places of the messages of each turn, the newest turn first."""
    end = len(messages)
    while end:
        start = end - 1
        while start and messages[start - 1].turn == messages[end - 1].turn:
            start -= 1
        yield list(range(start, end))
        end = start


def question_before(messages: Sequence[TextMessage]) -> int | None:
    """The place of the user's newest message, if it is not the newest of all."""
    if messages[-1].is_user:
        return None
    return next((at for at in range(len(messages) - 2, -1, -1) if messages[at].is_user), None)


def escape_tags(text: str) -> str:
    """Text that opens and closes none of our tags."""
    return _TAG.sub("&lt;", text)


def omission_marker(record: str) -> Marker:
    """A marker that names the record with the whole text."""
    has_it = f"; record {record} has it all" if record else ""
    return lambda omitted, _total, unit: f" [… {omitted:,} {unit} left out{has_it} …] "


class _Draft(msgspec.Struct, frozen=True):
    """A line before its secrets are masked. One with a bound becomes a single line."""

    record: str
    label: str
    body: str
    chars: int | None = None
    keep: Keep = "both"
    closing: str = ""


class _Message(msgspec.Struct, frozen=True):
    """A unit that becomes a `TextMessage`."""

    place: int
    turn: int
    is_user: bool
    unit: ContextUnit


def _messages(units: Sequence[ContextUnit]) -> Iterator[_Message]:
    """Every unit with more than thinking in it, and the place where its turn began."""
    starts = frozenset(turns_of(units))
    place = turn = 0
    for at, unit in enumerate(units):
        turn = at if at in starts else turn
        if any(not isinstance(block, Thinking) for part in unit.parts for block in part.blocks):
            yield _Message(place, turn, unit.is_said, unit)
            place += 1


def _newest(messages: Sequence[_Message], count: int | None) -> Sequence[_Message]:
    """The newest messages, always with the user's last one, however old that is."""
    if count is None or len(messages) <= count:
        return messages
    newest = messages[-count:]
    if count == 1 or any(message.is_user for message in newest):
        return newest
    last = next((message for message in reversed(messages) if message.is_user), None)
    return newest if last is None else [last, *newest[1:]]


def _drafts(unit: ContextUnit, redactor: Redactor | None) -> Iterator[_Draft]:
    for entries in read_entries(unit):
        words = [
            words
            for entry in entries
            if not isinstance(entry.block, ToolCall | ToolAnswer)
            and (words := piece_text(entry.block).strip())
        ]
        if words:
            yield _Draft(entries[0].record, _LABELS[entries[0].speaker], "\n".join(words))
        for entry in entries:
            if isinstance(entry.block, ToolCall | ToolAnswer):
                yield _tool_draft(entry, entry.block, redactor)


def _tool_draft(
    entry: MessageEntry, block: ToolCall | ToolAnswer, redactor: Redactor | None
) -> _Draft:
    name = entry.tool if redactor is None else redactor.text(entry.tool)
    name = plain_name(name) or "unknown"
    match block:
        case ToolCall(arguments=arguments):
            arguments = arguments if redactor is None else redactor.value(arguments)
            body = arguments_json(arguments)
            label = f"Tool call: {name}("
            return _Draft(entry.record, label, body, RESEED_CALL_CHARS, closing=")")
        case ToolAnswer(content=content, is_error=is_error):
            body = "\n".join(map(piece_text, content))
            label = f"Tool result ({name}, failed): " if is_error else f"Tool result ({name}): "
            keep: Keep = "tail" if is_error else "both"
            return _Draft(entry.record, label, body, RESEED_RESULT_CHARS, keep)
        case _:
            assert_never(block)


def _finish(draft: _Draft, body: str) -> TextLine:
    if draft.chars is None:
        return TextLine(draft.record, draft.label, _escape_labels(body))
    single = escape_tags(scrub(" ".join(body.split())))
    marker = omission_marker(draft.record)
    short = cut(single, draft.chars, keep=draft.keep, marker=marker).text
    return TextLine(draft.record, draft.label, f"{short.strip()}{draft.closing}")


def _escape_labels(text: str) -> str:
    """Text without tags of ours, and without a line that begins like one of our labels."""
    return _FORGED.sub(r"\\", escape_tags(scrub(text)))


def _ending(text: str, room: int) -> str:
    """The end of a text, from the beginning of a word where one is near."""
    kept = cut(text, room, keep="tail", marker=lambda _omitted, _total, _unit: "").text
    if len(kept) == len(text):
        return kept
    before = text[-len(kept) - 1]
    for start in _WORD_START.finditer(kept, 0, len(kept) // 2 + 1):
        if start.start() or not before.isalnum():
            return kept[start.start() :]
    return kept
