"""Records as text for a summariser: labelled, shortened fairly, and set apart as data.

`parts` cuts a history of any length into few pieces that each fit. Whole steps stay together.
Where there is too little room, every kind of text gets its share of it, the user's words the
largest, and within a kind the long give way to the short. What was shortened or left out is said
where it stood, and counted at the top of each piece.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.extract.fair_share import fair_share, first_and_newest, within_tokens
from holdfast.core.log.records import User, text_of
from holdfast.core.models.messages import (
    INTERRUPTED,
    Image,
    Other,
    Text,
    ToolAnswer,
    ToolCall,
    arguments_json,
    read_blocks,
)
from holdfast.core.projection.fences import LABELS, escaped, tagged
from holdfast.core.projection.steps import Thread
from holdfast.core.text.cut import cut
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.messages import Block
    from holdfast.core.projection.steps import Unit
    from holdfast.core.text.cut import Keep
    from holdfast.core.tokens.counting import Counter

RESULT_CHARS: Final = 2_000
CALL_CHARS: Final = 2_000
"""More of a result, or of a call's arguments, says little more to a summariser."""
REPEAT_CHARS_MIN: Final = 24
REPEAT_SECONDS: Final = 60.0
"""A message of the user that is as long and comes so soon after its like was sent twice."""

Kind = Literal["user", "assistant", "call", "result"]
_WEIGHTS: Final[dict[Kind, float]] = {"user": 0.4, "assistant": 0.25, "call": 0.15, "result": 0.2}
"""How the room is shared where there is too little; what a kind does not need goes to the rest."""
_SPEAKERS: Final[dict[str, Kind]] = {"User": "user", "Assistant": "assistant"}
_ENTRY_TOKENS_MIN: Final = 16
"""Less of an entry, its label included, says nothing."""
_CHARS_PER_TOKEN_MAX: Final = 16
_ENDING_CHARS: Final = 300
"""Where an error has to be for a result to have ended in it."""
_LABELLED: Final = lazy_pattern(
    rf"^\[((?:{'|'.join(LABELS)})\b[^\]\n]*)\](.*?)(?=^\[(?:{'|'.join(LABELS)})\b|\Z)",
    re.MULTILINE | re.DOTALL,
)
_ROUNDS: Final = 24
_ERROR_ENDING: Final = lazy_pattern(
    r"traceback|error|exception|fatal|failed|panic|denied|not found|exit (?:code|status)",
    re.IGNORECASE,
)


class Entry(msgspec.Struct, frozen=True):
    """One thing that was said or done, as the log has it."""

    kind: Kind
    label: str
    whole: str
    chars: int
    """How much of it is told, at most."""
    keep: Keep = "both"

    @property
    def text(self) -> str:
        return cut(self.whole, self.chars, keep=self.keep).text

    @property
    def is_shortened(self) -> bool:
        return len(self.whole) > self.chars

    def shown(self, text: str) -> str:
        """As much of it as `text` is, labelled. Escaping comes last: a cut may lay bare a tag."""
        return f"[{self.label}]\n{escaped(text)}"


def transcript(records: Iterable[Record]) -> str:
    """Everything in one text, however long, between its tags."""
    shown = (entry.shown(entry.text) for unit in entries(records) for entry in unit)
    return tagged("transcript", "\n\n".join(shown))


def parts(
    records: Iterable[Record], room_tokens: int, calls_max: int, counter: Counter
) -> tuple[str, ...]:
    """At most `calls_max` pieces of the transcript, each within `room_tokens`, oldest first.

    None at all where there is nothing to tell, or no room to tell it in.
    """
    units = entries(records, chars_max=max(1, room_tokens) * _CHARS_PER_TOKEN_MAX)
    inner = room_tokens - counter.count(_piece(["x"], 10**6, 10**6, 10**6)) - 8
    if calls_max < 1 or inner < _ENTRY_TOKENS_MIN or not units:
        return ()
    packing = _Packing(units, inner, counter)
    share = 1.0
    pieces: list[str] = []
    for _ in range(_ROUNDS):
        pieces = packing.packed(share * calls_max * inner)
        if len(pieces) <= calls_max and all(counter.count(one) <= room_tokens for one in pieces):
            return tuple(pieces)
        share *= 0.88
        packing.tighten()
    # Only odd counters come here: what does not fit whole is cut by bytes, which is certain to.
    kept = first_and_newest(pieces, calls_max)
    return tuple(cut(one, room_tokens, unit="bytes").text for one in kept)


def entries(records: Iterable[Record], chars_max: int | None = None) -> list[tuple[Entry, ...]]:
    """What was said and done, the entries of a step together. Thinking is left out."""
    thread = Thread()
    metas: set[str] = set()
    for record in without_repeats(list(records)):
        thread.feed(record)
        if isinstance(record, User) and record.extra.get("meta") is True:
            metas.add(record.id)
    found = (_entries_of(unit, metas) for unit in thread.units())
    return [tuple(_capped(one, chars_max) for one in unit) for unit in found if unit]


def without_repeats(records: Sequence[Record]) -> list[Record]:
    """The records without user messages that were sent twice in a row of moments."""
    seen: dict[str, float] = {}
    kept = []
    for record in records:
        if isinstance(record, User) and record.ts and not _has_picture(record):
            said = " ".join(unicodedata.normalize("NFC", text_of(record.content)).lower().split())
            if len(said) >= REPEAT_CHARS_MIN:
                before = seen.get(said)
                seen[said] = record.ts
                if before is not None and 0 <= record.ts - before <= REPEAT_SECONDS:
                    continue
        kept.append(record)
    return kept


def _has_picture(record: User) -> bool:
    return any(not isinstance(block, Text) for block in read_blocks(record.content))


def _entries_of(unit: Unit, metas: set[str]) -> list[Entry]:
    names = {
        block.id: block.name
        for part in unit.parts
        for block in part.blocks
        if isinstance(block, ToolCall)
    }
    found: list[Entry] = []
    for part in unit.parts:
        is_said = part.source == "user" and part.record not in metas
        speaker = "Assistant" if part.role == "assistant" else "User" if is_said else "Note"
        for block in part.blocks:
            entry = _entry(block, speaker, names)
            if entry is not None:
                found.append(entry)
    return found


def _entry(block: Block, speaker: str, names: dict[str, str]) -> Entry | None:
    match block:
        case Text(text):
            return _made(_SPEAKERS.get(speaker, "result"), speaker, text)
        case ToolCall():
            label = f"Assistant called {_name(block.name)}"
            return _made("call", label, arguments_json(block.arguments), chars=CALL_CHARS)
        case ToolAnswer():
            return _answer(block, names)
        case Image():
            return _made("result", speaker, "(a picture, not shown here)")
        case Other(kind=kind_of):
            return _made("result", speaker, f"(a block of kind {kind_of}, not shown here)")
        case _:
            return None


def _answer(block: ToolAnswer, names: dict[str, str]) -> Entry:
    pieces = [_piece_text(piece) for piece in block.content]
    text = "\n".join(pieces)
    has_failed = block.is_error or bool(_ERROR_ENDING.search(text[-_ENDING_CHARS:]))
    name = _name(block.name or names.get(block.call_id, ""))
    label = f"Result of {name}, failed" if block.is_error else f"Result of {name}"
    if text == INTERRUPTED:
        label = f"Result of {name}, never arrived"
    keep: Keep = "tail" if has_failed and len(text) > RESULT_CHARS else "both"
    return _made("result", label, text, keep=keep, chars=RESULT_CHARS)


def _piece_text(piece: Text | Image | Other) -> str:
    match piece:
        case Text(text):
            return text
        case Image():
            return "(a picture, not shown here)"
        case Other(kind=kind):
            return f"(a block of kind {kind}, not shown here)"


def _name(name: str) -> str:
    return cut(re.sub(r"[^\w.:/-]+", "_", name), 80).text or "a tool"


def _made(
    kind: Kind, label: str, text: str, *, keep: Keep = "both", chars: int | None = None
) -> Entry:
    text = text.strip()
    return Entry(kind, label, text, len(text) if chars is None else min(len(text), chars), keep)


def _capped(entry: Entry, chars: int | None) -> Entry:
    if chars is None or entry.chars <= chars:
        return entry
    return msgspec.structs.replace(entry, chars=chars)


class _Shown(msgspec.Struct, frozen=True):
    """A unit as it goes into a piece."""

    text: str
    tokens: int
    shortened: int
    left_out: int
    entries: int


class _Packing:
    """Units that are brought into pieces; what was counted or cut once is not done again."""

    def __init__(self, units: Sequence[tuple[Entry, ...]], inner: int, counter: Counter) -> None:
        self._units = units
        self._inner = inner
        self._counter = counter
        self._sizes = [[counter.count(one.shown(one.text)) + 2 for one in unit] for unit in units]
        self._cuts: dict[tuple[int, int, int], str] = {}

    def tighten(self) -> None:
        """Counts of pieces do not quite add up to the count of the whole: keep more in hand."""
        self._inner = max(1, self._inner * 49 // 50)

    def packed(self, room: float) -> list[str]:
        """The pieces, if all entries together may take `room`."""
        caps = self._caps(int(room))
        shown = [self._shown(place, caps) for place in range(len(self._units))]
        bins: list[list[_Shown]] = [[]]
        used = 0
        for one in shown:
            if bins[-1] and used + one.tokens > self._inner and one.text:
                bins.append([])
                used = 0
            bins[-1].append(one)
            used += one.tokens
        return [
            _piece(
                [one.text for one in each if one.text],
                sum(one.entries for one in each),
                sum(one.shortened for one in each),
                sum(one.left_out for one in each),
            )
            for each in bins
            if any(one.text for one in each)
        ]

    def _caps(self, room: int) -> list[list[int]]:
        """What each entry may take: 0 for one that is left out."""
        rooms = _rooms(self._kinds(), room)
        caps = [list(sizes) for sizes in self._sizes]
        for kind, kind_room in rooms.items():
            places = [
                (number, place)
                for number, unit in enumerate(self._units)
                for place, entry in enumerate(unit)
                if entry.kind == kind
            ]
            sizes = [self._sizes[number][place] for number, place in places]
            if sum(sizes) <= kind_room:
                continue
            count = min(len(places), max(1, kind_room // _ENTRY_TOKENS_MIN))
            kept = first_and_newest(list(range(len(places))), count)
            share = fair_share([sizes[index] for index in kept], kind_room)
            allowed = dict.fromkeys(kept, max(share, _ENTRY_TOKENS_MIN))
            for index, (number, place) in enumerate(places):
                caps[number][place] = min(sizes[index], allowed.get(index, 0))
        for number, row in enumerate(caps):
            if sum(row) > self._inner:  # a unit does not span two pieces
                share = fair_share(row, self._inner)
                caps[number] = [min(cap, share) for cap in row]
        return caps

    def _kinds(self) -> dict[Kind, int]:
        totals: dict[Kind, int] = dict.fromkeys(_WEIGHTS, 0)
        for unit, sizes in zip(self._units, self._sizes, strict=True):
            for entry, size in zip(unit, sizes, strict=True):
                totals[entry.kind] += size
        return totals

    def _shown(self, number: int, caps: list[list[int]]) -> _Shown:
        texts: list[str] = []
        shortened = left_out = 0
        for place, entry in enumerate(self._units[number]):
            cap, size = caps[number][place], self._sizes[number][place]
            text = entry.text if cap >= size else self._cut(number, place, cap)
            if cap < size and not text:
                left_out += 1
                continue
            shortened += cap < size or entry.is_shortened
            texts.append(entry.shown(text))
        text = "\n\n".join(texts)
        tokens = self._counter.count(f"{text}\n\n") if text else 0
        return _Shown(text, tokens, shortened, left_out, len(self._units[number]))

    def _cut(self, number: int, place: int, cap: int) -> str:
        """An entry's text within `cap`; empty where that would say nothing."""
        if cap < min(_ENTRY_TOKENS_MIN, self._inner):
            return ""
        key = (number, place, cap)
        if key not in self._cuts:
            entry = self._units[number][place]
            self._cuts[key] = within_tokens(
                entry.whole,
                cap - 2,
                self._counter,
                entry.shown,
                keep=entry.keep,
                chars_max=entry.chars,
            )
        return self._cuts[key]


def _rooms(totals: dict[Kind, int], room: int) -> dict[Kind, int]:
    """The room of each kind: what it needs, or its weighted share of what the others leave."""
    rooms = dict(totals)
    open_kinds = [kind for kind, total in totals.items() if total]
    while open_kinds:
        weight = sum(_WEIGHTS[kind] for kind in open_kinds)
        content = [kind for kind in open_kinds if totals[kind] * weight <= room * _WEIGHTS[kind]]
        if not content:
            for kind in open_kinds:
                rooms[kind] = int(room * _WEIGHTS[kind] / weight)
            break
        room -= sum(totals[kind] for kind in content)
        open_kinds = [kind for kind in open_kinds if kind not in content]
    return rooms


def read_transcript(text: str) -> list[tuple[str, str]]:
    """The entries of a piece as (label, text); a label is `User`, `Result of NAME` and so on."""
    return [(match[1], match[2].strip()) for match in _LABELLED.finditer(text)]


def _piece(texts: Sequence[str], count: int, shortened: int, left_out: int) -> str:
    """A piece between its tags, beginning with what is not whole in it."""
    said = [f"{shortened:,} shortened"] * bool(shortened)
    said += [f"{left_out:,} left out"] * bool(left_out)
    notes = [f"[Note] Of {count:,} entries: {', '.join(said)}."] if said else []
    return tagged("transcript", "\n\n".join([*notes, *texts]))
