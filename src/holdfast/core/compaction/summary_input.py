"""The input of a summariser: the narrative of a history, fenced as data.

A model that is asked for a summary reads what code tells of the same records, and not the records:
what was said, and each call as one line. `parts` tells a history of any length in a few pieces that
each fit, divided between its lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.extract.fair_share import first_and_newest, within_tokens
from holdfast.core.narrative.carryover import story_lines
from holdfast.core.text.cut import cut
from holdfast.core.text.fences import escape, tag_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.narrative.digest import Digest
    from holdfast.core.tokens.counting import Counter

_ROOM_MIN: Final = 16
"""Tokens; less than that tells nothing."""
_ROUNDS: Final = 24
"""A bound for the loop below; one or two rounds are enough for any real counter."""
_SHRINK: Final = 0.88
"""Of the room, what the next round has; packing whole lines leaves some of each piece empty."""


def parts(
    digests: Sequence[Digest], room_tokens: int, calls_max: int, counter: Counter
) -> tuple[str, ...]:
    """Return the narrative in at most `calls_max` pieces, each within `room_tokens`, oldest first.

    No pieces at all where there is nothing to tell, or no room for it.
    """
    inner = room_tokens - counter.count(_piece(["x"])) - 8
    if calls_max < 1 or inner < _ROOM_MIN:
        return ()
    room = float(calls_max * inner)
    pieces: list[str] = []
    for _ in range(_ROUNDS):
        lines = [escape(line) for line in story_lines(digests, int(room), counter)]
        pieces = _pack(lines, inner, counter)
        if len(pieces) <= calls_max and all(
            counter.count(piece) <= room_tokens for piece in pieces
        ):
            return tuple(pieces)
        room *= _SHRINK
        inner = inner * 49 // 50  # counts of lines do not quite add up to the count of the whole
    # Only odd counters come here. A cut by bytes is certain to fit.
    kept = first_and_newest(pieces, calls_max)
    return tuple(cut(piece, room_tokens, unit="bytes").text for piece in kept)


def _pack(lines: Sequence[str], inner: int, counter: Counter) -> list[str]:
    """The lines in pieces of at most `inner` tokens; a longer line keeps its ends."""
    bins: list[list[str]] = []
    used = 0
    for line in lines:
        text, tokens = line, counter.count(line) + 1
        if tokens > inner:
            text = within_tokens(line, inner - 1, counter, known=tokens - 1)
            tokens = inner
        if not bins or used + tokens > inner:
            bins.append([])
            used = 0
        bins[-1].append(text)
        used += tokens
    return [_piece(texts) for texts in bins if any(texts)]


def _piece(lines: Sequence[str]) -> str:
    return tag_text("narrative", "\n".join(filter(None, lines)))
