"""A message made shorter by whole sentences: those that tell something stay, wherever they are.

Names, numbers and what somebody lays down go before the rest, the beginning and the end before the
middle; courtesies go. One marker says how much is left out; shortened again, a message keeps
to what it was shortened to, and its marker still counts from the whole.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.extract.fair_share import GAP, as_it_is, cuttings, within_tokens
from holdfast.core.extract.instructions import fit_instructions
from holdfast.core.extract.statements import find_statements, lays_down, same_words
from holdfast.core.sentences.phrases import TELLING, says_nothing, sentence_spans
from holdfast.core.text.cut import cut, default_marker
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from holdfast.core.extract.fair_share import Cuttings
    from holdfast.core.text.cut import Cut, Marker
    from holdfast.core.tokens.counting import Counter

_UNIT_CHARS: Final = 200
"""A longer sentence is taken in pieces."""
_EDGE_CHARS: Final = 2_000
_EDGE_CHARS_PER_TOKEN: Final = 6
"""Of a very long message only its beginning and its end are looked at: the rest was pasted."""
_LISTED: Final = "[What is left out lays down:]"
_LISTED_PART: Final = 4
"""Instructions take at most this part of a message that is cut."""
_GAP_TOKENS: Final = 3
"""The mark that stands for what is left out between two sentences."""
_LEAST_CHARS: Final = 32
"""Sentences that are shorter in all tell less than a message's first and last words."""
_CHUNK: Final = lazy_pattern(
    rf"\S(?:.{{0,{_UNIT_CHARS - 2}}}\S)?(?=\s|\Z)|\S{{1,{_UNIT_CHARS}}}", re.S
)
_TELLING_MAX: Final = 3
"""A sentence full of numbers counts no more than three of them."""


class _Unit(msgspec.Struct, frozen=True):
    """A sentence or a piece of one, by its place."""

    piece: int
    start: int
    end: int


def is_left_of(found: Cuttings, whole: str) -> bool:
    """Return whether the pieces of a shortened text are, in order, parts of `whole`."""
    if len(found.pieces) == 1 or found.total != len(whole):
        return False
    place = 0
    for piece in found.pieces:
        place = whole.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    return True


def shorten(
    text: str,
    tokens: int,
    counter: Counter,
    shown: Callable[[str], str] = as_it_is,
    *,
    told: Collection[str] = (),
) -> str:
    """Shorten a message to its most valuable parts within `tokens`, in the form it is shown.

    `told` are sentences that stand elsewhere, by `same_words`; they are left out.
    """
    found = cuttings(text)
    pieces = found.pieces if len(found.pieces) > 1 else (hide_gap_markers(text),)
    total = found.total
    units = list(_units(pieces, max(_EDGE_CHARS, _EDGE_CHARS_PER_TOKEN * tokens)))
    order = _rank_units(pieces, units, told)
    costs = [counter.count(f" {pieces[unit.piece][unit.start : unit.end]}") for unit in units]
    chosen: list[int] = []
    short = default_marker(total, total, "characters")
    for _once_more in range(2):  # what stands side by side needs no gap between
        room = tokens - counter.count(shown(short))
        before = len(chosen)
        for at in order:
            if at not in chosen and costs[at] + _GAP_TOKENS <= room:
                chosen.append(at)
                room -= costs[at] + _GAP_TOKENS
        if len(chosen) == before:
            break
        short = _write_units(pieces, [units[at] for at in sorted(chosen)], total)
        while chosen and counter.count(shown(short)) > tokens:
            chosen.pop()
            short = _write_units(pieces, [units[at] for at in sorted(chosen)], total)
    kept = cuttings(short).length if chosen else 0
    if kept >= _LEAST_CHARS:
        return short
    # No sentence fits, or hardly a word: then the beginning and the end say more.
    plain = within_tokens(text if len(pieces) > 1 else pieces[0], tokens, counter, shown)
    return plain if not chosen or cuttings(plain).length > kept else short


def cut_message(text: str, cap: int, *, marker: Marker) -> Cut:
    """The beginning and the end of a message, and between them what the rest of it lays down."""
    listed_chars = cap // _LISTED_PART
    if len(text) <= cap or listed_chars < _UNIT_CHARS:
        return cut(text, cap, marker=marker)
    rules = _rules_of(text)
    ends = " ".join(cut(text, cap - listed_chars, marker=marker).text.split())
    hidden = [rule for rule in rules if rule not in ends]
    listed = fit_instructions(hidden, {}, listed_chars - len(_LISTED), _Characters())
    if not listed:
        return cut(text, cap, marker=marker)
    lines = "\n".join((_LISTED, *(f"- {rule}" for rule in listed)))
    return cut(
        text,
        cap - listed_chars + len(lines) + 1,
        marker=lambda omitted, total, unit: f"{marker(omitted, total, unit)}{lines}\n",
    )


class _Characters:
    """Counts a text by its length."""

    name = "characters"
    is_exact = True

    def count(self, text: str) -> int:
        return len(text)


# A message is shortened to many lengths before one fits.
_rules_of: Final = lru_cache(maxsize=4)(find_statements)


def hide_gap_markers(text: str) -> str:
    """The text with no gap in it that is not ours: as long as it was, so that counts are right."""
    return text.replace("[…", "(…")


def _units(pieces: Sequence[str], edge_chars: int) -> Iterator[_Unit]:
    for number, piece in enumerate(pieces):
        for first, last in _edges(piece, edge_chars):
            edge = piece[first:last]
            for start, end in sentence_spans(edge):
                for chunk in _CHUNK.finditer(edge, start, end):
                    yield _Unit(number, first + chunk.start(), first + chunk.end())


def _edges(text: str, chars: int) -> list[tuple[int, int]]:
    """The beginning and the end of a text, up to a space; a short text is one edge."""
    if len(text) <= 2 * chars:
        return [(0, len(text))]
    end, start = text.rfind(" ", 0, chars), text.find(" ", len(text) - chars)
    return [(0, chars if end < 0 else end), (len(text) - chars if start < 0 else start, len(text))]


def _rank_units(pieces: Sequence[str], units: Sequence[_Unit], told: Collection[str]) -> list[int]:
    """The units that are worth being kept, the best first."""
    texts = [pieces[unit.piece][unit.start : unit.end] for unit in units]
    telling = [
        at
        for at, text in enumerate(texts)
        if not says_nothing(text) and not (told and same_words(text) in told)
    ]
    last = len(units) - 1

    def rank(at: int) -> tuple[int, int, int]:
        edge = min(at, last - at)
        return -_worth(texts[at]) - (edge == 0), edge, at

    return sorted(telling or range(len(units)), key=rank)


@lru_cache(maxsize=4_096)  # a cut is sized several times before it is made
def _worth(sentence: str) -> int:
    telling = len({match[0] for match in TELLING.finditer(sentence)})
    return min(telling, _TELLING_MAX) + 2 * lays_down(sentence)


def _write_units(pieces: Sequence[str], units: Sequence[_Unit], total: int) -> str:
    """The units in their order, those that stand side by side as they stood."""
    runs: list[list[_Unit]] = []
    for unit in units:
        last = runs[-1][-1] if runs else None
        is_next = (
            last is not None
            and last.piece == unit.piece
            and not pieces[unit.piece][last.end : unit.start].strip()
        )
        if is_next:
            runs[-1].append(unit)
        else:
            runs.append([unit])
    kept = [pieces[run[0].piece][run[0].start : run[-1].end] for run in runs]
    if not kept or units[0].piece > 0 or pieces[0][: units[0].start].strip():
        kept = ["", *kept]
    end = units[-1] if units else None
    if end is None or end.piece < len(pieces) - 1 or pieces[-1][end.end :].strip():
        kept.append("")
    return _join_pieces(kept, total)


def _join_pieces(kept: Sequence[str], total: int) -> str:
    """Pieces with gaps between them, the last of which says how much is left out."""
    if len(kept) == 1:
        return kept[0]
    omitted = total - sum(map(len, kept))
    marker = default_marker(omitted, total, "characters")
    start = f" {GAP} ".join(kept[:-1])
    return f"{start} {marker} {kept[-1]}".strip()
