"""Places in texts, and putting something else there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Span(NamedTuple):
    """A place in a text, with its name if known, and the kind of thing that it looks like."""

    start: int
    end: int
    name: str = ""
    kind: str = ""


class Replacement(NamedTuple):
    """A place, and the words that are put there."""

    start: int
    end: int
    words: str


def places(text: str, form: str, name: str) -> Iterator[Span]:
    """Yield the places of a form in a text; two that overlap are one place."""
    place = text.find(form)
    while place >= 0:
        end = place + len(form)
        again = text.find(form, place + 1)
        while 0 <= again < end:  # `abab` twice in `ababab`
            end = again + len(form)
            again = text.find(form, again + 1)
        yield Span(place, end, name)
        place = again


def replace(
    pieces: Sequence[str], found: Sequence[Replacement], *, keeps_lines: bool = True
) -> list[str]:
    """The pieces of a text with words in place of what was found, by its place in all of them.

    The words stand where a place begins. `keeps_lines` leaves every line break in its piece, so
    that what follows has the line number it had. The replacements are in order and do not overlap.
    """
    made: list[str] = []
    base = 0
    waiting = list(reversed(found))
    for piece in pieces:
        kept: list[str] = []
        place, stop = base, base + len(piece)
        while waiting and waiting[-1].start < stop:
            start, end, words = waiting[-1]
            kept.append(piece[place - base : max(start, place) - base])
            if start >= base:
                kept.append(words)
            place = min(end, stop)
            if keeps_lines:
                kept.append("\n" * piece.count("\n", max(start, base) - base, place - base))
            if end > stop:
                break
            waiting.pop()
        made.append("".join((*kept, piece[place - base :])) if kept else piece)
        base = stop
    return made
