"""A session's messages as labelled text, one after the other, for whoever reads them as text.

Words stay as they were said. Tool calls and results take one bounded line each, pictures a note;
thinking is left out. Secrets are masked first, before anything is shortened. A line that begins
like one of our labels gets a backslash in front, so that no content can speak for somebody else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import RESEED_BOTH_ENDS_CHARS, RESEED_CALL_CHARS, RESEED_RESULT_CHARS
from holdfast.core.log.records import User
from holdfast.core.models.messages import (
    Image,
    Other,
    Text,
    Thinking,
    ToolAnswer,
    ToolCall,
    arguments_json,
)
from holdfast.core.projection.steps import Thread, turns_of
from holdfast.core.text.cut import cut, ellipsis, scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.messages import Block
    from holdfast.core.projection.steps import Part, Unit
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.core.text.cut import Keep, Marker

SUMMARY: Final = "Compaction summary: "
TAGS: Final = ("conversation_history", "next_user_message")
EARLIER: Final = "[Earlier history"
"""What the marker of a retelling begins with."""

_SEPARATOR: Final = "\n\n"
_NAME_CHARS: Final = 80
_LABELLED_CHARS: Final = 60
"""A shorter rest of a message stands without its label."""
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


class Line(msgspec.Struct, frozen=True):
    """One thing that was said or done."""

    record: str
    label: str
    body: str

    @property
    def text(self) -> str:
        return f"{self.label}{self.body}"

    def within(self, room: int) -> str:
        """Both its ends where there is room for them, else its end; bare where there is little."""
        if room >= RESEED_BOTH_ENDS_CHARS:
            return cut(self.text, room, marker=left_out(self.record)).text
        if len(self.text) <= room:
            return self.text
        rest = room - len(self.label) - 2
        if room >= _LABELLED_CHARS and rest > room // 2:
            return f"{self.label}… {_ending(self.body, rest)}"
        bare = _ending(self.body, room)
        said = bare[match.end() :] if (match := _BARE_LABEL.match(bare)) else bare
        return said or bare.rstrip(":： ")


class Told(msgspec.Struct, frozen=True):
    """A message: what a user said, or a step of the assistant with its calls and their results."""

    place: int
    """Its number among all messages."""
    turn: int
    is_said: bool
    """Whether it is what a user said."""
    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        return _SEPARATOR.join(line.text for line in self.lines)

    @property
    def newest(self) -> Line:
        return self.lines[-1]

    def within(self, room: int) -> str:
        """As much of it as fits: its newest lines, or what fits of the newest."""
        kept: list[str] = []
        left = room
        for line in reversed(self.lines):
            if len(line.text) > left:
                break
            kept.append(line.text)
            left -= len(line.text) + len(_SEPARATOR)
        return _SEPARATOR.join(reversed(kept)) or self.newest.within(room)


def retold(
    records: Iterable[Record],
    *,
    summary: str = "",
    messages_max: int | None = None,
    redactor: Redactor | None = None,
) -> tuple[str, list[Told], int]:
    """The summary, the newest messages, and how many more there are."""
    thread = Thread()
    notes: set[str] = set()
    for record in records:
        thread.feed(record)
        if isinstance(record, User) and record.extra.get("meta") is True:
            notes.add(record.id)
    messages = list(_messages(thread.units(), notes))
    chosen = _newest(messages, messages_max)
    drafts = [list(_drafts(one.unit, notes, redactor)) for one in chosen]
    raw = [summary, *(draft.body for lines in drafts for draft in lines)]
    clean = iter(raw if redactor is None else redactor.texts(raw))
    said = escaped(next(clean).strip())
    told = [
        Told(one.place, one.turn, one.is_said, tuple(_finished(d, next(clean)) for d in lines))
        for one, lines in zip(chosen, drafts, strict=True)
    ]
    return said, told, len(messages) - len(told)


def escaped(text: str) -> str:
    """Text that speaks for nobody else: none of its lines begins like a label of ours."""
    return _FORGED.sub(r"\\", untagged(scrub(text)))


def untagged(text: str) -> str:
    """Text that opens and closes none of our tags."""
    return _TAG.sub("&lt;", text)


def left_out(record: str) -> Marker:
    """The marker that says where all of a text is."""
    has_it = f"; record {record} has it all" if record else ""
    return lambda omitted, _total, unit: f" [… {omitted:,} {unit} left out{has_it} …] "


class _Draft(msgspec.Struct, frozen=True):
    """A line before its secrets are masked. One that is bounded becomes a single line."""

    record: str
    label: str
    body: str
    chars: int | None = None
    keep: Keep = "both"
    closing: str = ""


class _Message(msgspec.Struct, frozen=True):
    """A unit before it is told."""

    place: int
    turn: int
    is_said: bool
    """Whether it is what a user said."""
    unit: Unit


def _messages(units: Sequence[Unit], notes: set[str]) -> Iterator[_Message]:
    """Every unit that has more than thinking in it, with the place where its turn began."""
    starts = frozenset(turns_of(units))
    place = turn = 0
    for at, unit in enumerate(units):
        turn = at if at in starts else turn
        if any(not isinstance(block, Thinking) for part in unit.parts for block in part.blocks):
            yield _Message(place, turn, unit.is_user and unit.first not in notes, unit)
            place += 1


def _newest(messages: Sequence[_Message], count: int | None) -> Sequence[_Message]:
    """The newest ones; what the user said last is among them, however long ago that was."""
    if count is None or len(messages) <= count:
        return messages
    newest = messages[-count:]
    if count == 1 or any(one.is_said for one in newest):
        return newest
    said = next((one for one in reversed(messages) if one.is_said), None)
    return newest if said is None else [said, *newest[1:]]


def _drafts(unit: Unit, notes: set[str], redactor: Redactor | None) -> Iterator[_Draft]:
    names: dict[str, str] = {}
    for part in unit.parts:
        words = [said for block in part.blocks if (said := _words(block))]
        if words:
            yield _Draft(part.record, _speaker(part, notes), "\n".join(words))
        for block in part.blocks:
            if isinstance(block, ToolCall):
                names[block.id] = block.name
                yield _call(part.record, block, redactor)
            elif isinstance(block, ToolAnswer):
                name = block.name or names.get(block.call_id, "")
                yield _result(part.record, block, _name(name, redactor))


def _speaker(part: Part, notes: set[str]) -> str:
    if part.role == "assistant":
        return "Assistant: "
    is_said = part.source == "user" and part.record not in notes
    return "User: " if is_said else "System note: "


def _words(block: Block) -> str:
    """What a block says in the flow of a message; empty for calls, results and thinking."""
    match block:
        case Text(text):
            return text.strip()
        case Image():
            kind = block.media_type or "a picture"
            return f"[Image, not shown: {_one_line(kind, _NAME_CHARS)}]"
        case Other(kind=kind):
            return f"[Not shown: a block of kind {_name(kind)}]"
        case _:
            return ""


def _call(record: str, call: ToolCall, redactor: Redactor | None) -> _Draft:
    arguments = call.arguments if redactor is None else redactor.value(call.arguments)
    label = f"Tool call: {_name(call.name, redactor)}("
    return _Draft(record, label, arguments_json(arguments), RESEED_CALL_CHARS, closing=")")


def _result(record: str, answer: ToolAnswer, name: str) -> _Draft:
    body = "\n".join(filter(None, map(_words, answer.content)))
    label = f"Tool result ({name}, failed): " if answer.is_error else f"Tool result ({name}): "
    return _Draft(record, label, body, RESEED_RESULT_CHARS, "tail" if answer.is_error else "both")


def _finished(draft: _Draft, body: str) -> Line:
    if draft.chars is None:
        return Line(draft.record, draft.label, escaped(body))
    single = untagged(scrub(" ".join(body.split())))
    short = cut(single, draft.chars, keep=draft.keep, marker=left_out(draft.record)).text
    return Line(draft.record, draft.label, f"{short.strip()}{draft.closing}")


def _name(name: str, redactor: Redactor | None = None) -> str:
    """A tool's name, or a block's kind, as a word that cannot be taken for more."""
    name = name if redactor is None else redactor.text(name)
    return cut(re.sub(r"[^\w./-]+", "_", name), _NAME_CHARS, marker=ellipsis).text or "unknown"


def _one_line(text: str, chars: int) -> str:
    return cut(" ".join(text.split()), chars, marker=ellipsis).text


def _ending(text: str, room: int) -> str:
    """The end of a text, from the beginning of a word where one is near."""
    kept = cut(text, room, keep="tail", marker=_nothing).text
    if len(kept) == len(text):
        return kept
    before = text[-len(kept) - 1]
    for start in _WORD_START.finditer(kept, 0, len(kept) // 2 + 1):
        if start.start() or not before.isalnum():
            return kept[start.start() :]
    return kept


def _nothing(_omitted: int, _total: int, _unit: str) -> str:
    return ""
