"""The input of a summariser: labelled entries, shortened fairly, and fenced as data.

`parts` divides a history of any length into a few pieces that each fit. Whole steps stay together.
Where room is short, every kind of text gets its share of it, the user's words the largest, and
within a kind the long texts are shortened before the short ones. Gaps are marked in place, and
each piece begins with a count of the entries that are not whole.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final, Literal, assert_never

import msgspec

from holdfast.core.compaction.entries import piece_text, plain_name, read_entries, read_units
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
from holdfast.core.text.cut import cut
from holdfast.core.text.fences import escape, tag_text
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.compaction.entries import MessageEntry
    from holdfast.core.log.records import Record
    from holdfast.core.text.cut import Keep
    from holdfast.core.tokens.counting import Counter

RESULT_CHARS: Final = 2_000
_CALL_CHARS: Final = 2_000
"""More of a result, or of a call's arguments, says little more to a summariser."""
_REPEAT_CHARS_MIN: Final = 24
_REPEAT_SECONDS: Final = 60.0
"""A message that is at least this long and repeats another within this time was sent twice."""

Kind = Literal["user", "assistant", "call", "result"]
_WEIGHTS: Final[dict[Kind, float]] = {"user": 0.4, "assistant": 0.25, "call": 0.15, "result": 0.2}
"""Shares of the room where it is short; the part that a kind does not need goes to the others."""
_ENTRY_TOKENS_MIN: Final = 16
"""Less of an entry, its label included, says nothing."""
_CHARS_PER_TOKEN_MAX: Final = 16
_ENDING_CHARS: Final = 300
"""A result ended in an error if one is mentioned within this distance of its end."""
_ROUNDS: Final = 24
"""A bound for the loop below: each round at least halves what is too much."""
_ERROR_ENDING: Final = lazy_pattern(
    r"traceback|error|exception|fatal|failed|panic|denied|not found|exit (?:code|status)",
    re.IGNORECASE,
)


class InputEntry(msgspec.Struct, frozen=True):
    """A message, call or result, as the log has it."""

    kind: Kind
    label: str
    whole: str
    chars: int
    """The most characters of it that are shown."""
    keep: Keep = "both"

    @property
    def text(self) -> str:
        return cut(self.whole, self.chars, keep=self.keep).text

    @property
    def is_shortened(self) -> bool:
        return len(self.whole) > self.chars

    def render(self, text: str) -> str:
        """`text`, which is all or a part of it, under its label."""
        # Escaping comes last: a cut may lay bare a tag.
        return f"[{self.label}]\n{escape(text)}"


def transcript(records: Iterable[Record]) -> str:
    """Everything in one text of any length, between its tags."""
    rendered = (entry.render(entry.text) for unit in input_entries(records) for entry in unit)
    return tag_text("transcript", "\n\n".join(rendered))


def parts(
    records: Iterable[Record], room_tokens: int, calls_max: int, counter: Counter
) -> tuple[str, ...]:
    """At most `calls_max` pieces of the transcript, each within `room_tokens`, oldest first.

    No pieces at all where there is nothing to summarise, or no room for it.
    """
    units = input_entries(records, chars_max=max(1, room_tokens) * _CHARS_PER_TOKEN_MAX)
    inner = room_tokens - counter.count(_piece(["x"], 10**6, 10**6, 10**6)) - 8
    if calls_max < 1 or inner < _ENTRY_TOKENS_MIN or not units:
        return ()
    packing = _Packing(units, inner, counter)
    share = 1.0
    pieces: list[str] = []
    for _ in range(_ROUNDS):
        pieces = packing.pack(share * calls_max * inner)
        if len(pieces) <= calls_max and all(
            counter.count(piece) <= room_tokens for piece in pieces
        ):
            return tuple(pieces)
        share *= 0.88
        packing.tighten()
    # Only odd counters come here. A cut by bytes is certain to fit.
    kept = first_and_newest(pieces, calls_max)
    return tuple(cut(piece, room_tokens, unit="bytes").text for piece in kept)


def input_entries(
    records: Iterable[Record], chars_max: int | None = None
) -> list[tuple[InputEntry, ...]]:
    """The entries of each step, of at most `chars_max` characters each."""
    units = read_units(without_repeats(list(records)))
    found = (
        tuple(_entry(entry, chars_max) for part in read_entries(unit) for entry in part)
        for unit in units
    )
    return [entries for entries in found if entries]


def without_repeats(records: Sequence[Record]) -> list[Record]:
    """The records without user messages that repeat another within moments."""
    seen: dict[str, float] = {}
    kept = []
    for record in records:
        if isinstance(record, User) and record.ts and _is_text(record):
            words = " ".join(unicodedata.normalize("NFC", text_of(record.content)).lower().split())
            if len(words) >= _REPEAT_CHARS_MIN:
                before = seen.get(words)
                seen[words] = record.ts
                if before is not None and 0 <= record.ts - before <= _REPEAT_SECONDS:
                    continue
        kept.append(record)
    return kept


def _is_text(record: User) -> bool:
    return all(isinstance(block, Text) for block in read_blocks(record.content))


def _entry(entry: MessageEntry, chars_max: int | None) -> InputEntry:
    label, tool = entry.speaker.capitalize(), plain_name(entry.tool) or "a tool"
    match entry.block:
        case Text(text):
            kind: Kind = "result" if entry.speaker == "note" else entry.speaker
            return _cap_entry(kind, label, text, chars_max)
        case Image() | Other():
            return _cap_entry("result", label, piece_text(entry.block), chars_max)
        case ToolCall(arguments=arguments):
            label = f"Assistant called {tool}"
            return _cap_entry("call", label, arguments_json(arguments), chars_max, _CALL_CHARS)
        case ToolAnswer(content=content, is_error=is_error):
            text = "\n".join(map(piece_text, content))
            outcome = ", failed" if is_error else ""
            if text == INTERRUPTED:
                outcome = ", never arrived"
            has_failed = is_error or _ERROR_ENDING.search(text[-_ENDING_CHARS:])
            keep: Keep = "tail" if has_failed and len(text) > RESULT_CHARS else "both"
            label = f"Result of {tool}{outcome}"
            return _cap_entry("result", label, text, chars_max, RESULT_CHARS, keep=keep)
        case _:
            assert_never(entry.block)


def _cap_entry(
    kind: Kind, label: str, text: str, *caps: int | None, keep: Keep = "both"
) -> InputEntry:
    text = text.strip()
    chars = min([len(text), *filter(None, caps)])
    return InputEntry(kind, label, text, chars, keep)


class _RenderedUnit(msgspec.Struct, frozen=True):
    """A unit as it goes into a piece."""

    text: str
    tokens: int
    shortened: int
    left_out: int
    entries: int


class _Packing:
    """Packs units into pieces. Each count and each cut is made once."""

    def __init__(
        self, units: Sequence[tuple[InputEntry, ...]], inner: int, counter: Counter
    ) -> None:
        self._units = units
        self._inner = inner
        self._counter = counter
        self._sizes = [
            [counter.count(entry.render(entry.text)) + 2 for entry in unit] for unit in units
        ]
        self._cuts: dict[tuple[int, int, int], str] = {}
        self._rendered: dict[tuple[int, tuple[int, ...]], _RenderedUnit] = {}

    def tighten(self) -> None:
        """Reserve more room: counts of pieces do not quite add up to the count of the whole."""
        self._inner = max(1, self._inner * 49 // 50)

    def pack(self, room: float) -> list[str]:
        """The pieces, where all entries together may take `room`."""
        caps = self._caps(int(room))
        bins: list[list[_RenderedUnit]] = [[]]
        used = 0
        for number in range(len(self._units)):
            key = (number, tuple(caps[number]))
            if key not in self._rendered:
                self._rendered[key] = self._render(number, caps[number])
            unit = self._rendered[key]
            if bins[-1] and used + unit.tokens > self._inner and unit.text:
                bins.append([])
                used = 0
            bins[-1].append(unit)
            used += unit.tokens
        return [
            _piece(
                [unit.text for unit in units if unit.text],
                sum(unit.entries for unit in units),
                sum(unit.shortened for unit in units),
                sum(unit.left_out for unit in units),
            )
            for units in bins
            if any(unit.text for unit in units)
        ]

    def _caps(self, room: int) -> list[list[int]]:
        """The tokens that each entry may take; 0 for one that is left out."""
        caps = [list(sizes) for sizes in self._sizes]
        for kind, kind_room in _share_room(self._totals(), room).items():
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

    def _totals(self) -> dict[Kind, int]:
        totals: dict[Kind, int] = dict.fromkeys(_WEIGHTS, 0)
        for unit, sizes in zip(self._units, self._sizes, strict=True):
            for entry, size in zip(unit, sizes, strict=True):
                totals[entry.kind] += size
        return totals

    def _render(self, number: int, caps: Sequence[int]) -> _RenderedUnit:
        texts: list[str] = []
        shortened = left_out = 0
        for place, entry in enumerate(self._units[number]):
            cap, size = caps[place], self._sizes[number][place]
            text = entry.text if cap >= size else self._cut(number, place, cap)
            if cap < size and not text:
                left_out += 1
                continue
            shortened += cap < size or entry.is_shortened
            texts.append(entry.render(text))
        text = "\n\n".join(texts)
        tokens = self._counter.count(f"{text}\n\n") if text else 0
        return _RenderedUnit(text, tokens, shortened, left_out, len(self._units[number]))

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
                entry.render,
                keep=entry.keep,
                chars_max=entry.chars,
                known=self._sizes[number][place] - 2,
            )
        return self._cuts[key]


def _share_room(totals: dict[Kind, int], room: int) -> dict[Kind, int]:
    """The room of each kind: all it needs, or its weighted share of the room that is left."""
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


def _piece(texts: Sequence[str], count: int, shortened: int, left_out: int) -> str:
    """A piece between its tags, with a first line that counts the entries that are not whole."""
    counts = [f"{shortened:,} shortened"] * bool(shortened)
    counts += [f"{left_out:,} left out"] * bool(left_out)
    notes = [f"[Note] Of {count:,} entries: {', '.join(counts)}."] if counts else []
    return tag_text("transcript", "\n\n".join([*notes, *texts]))
