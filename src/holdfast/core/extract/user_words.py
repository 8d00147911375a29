"""The user's messages in a carry-over, and the instructions in those that are not quoted whole.

Messages stay whole where they fit. Otherwise the longest are shortened first, then the oldest are
left out; the instructions in such messages are listed by themselves. Both parts can be read back.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.extract.condense import hide_gap_markers, is_left_of, shorten
from holdfast.core.extract.digest import Instructions
from holdfast.core.extract.fair_share import cuttings, fair_share, first_and_newest
from holdfast.core.extract.statements import same_words
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.extract.digest import Digest
    from holdfast.core.tokens.counting import Counter

INSTRUCTIONS: Final = "## What the user laid down"
MESSAGES: Final = "## What the user said"
_MESSAGE_TOKENS_MIN: Final = 24
"""Less of a message says nothing."""
_OLDEST_SHARE: Final = 1 / 3
"""Of the room for instructions, where not all fit: for the oldest. The newest get the rest."""
_OTHERS: Final = lazy_pattern(r"\(([\d,]+) others? not listed\)")


class CarriedMessage(msgspec.Struct, frozen=True):
    """A message of the user, and the number of its characters that are carried over."""

    record: str
    kept: int
    total: int


def select_words(
    digests: Sequence[Digest], room: int, instructions_room: int, counter: Counter
) -> tuple[Instructions, list[tuple[CarriedMessage, str]]]:
    """The instructions to list, and the messages to quote, each with its quotation."""
    said = _messages(digests)
    sizes = [counter.count(quote(message.said)) + 1 for message in said]
    room -= counter.count(f"{MESSAGES}\n")
    everything = _all_instructions(digests)
    is_all = sum(sizes) <= room and _not_in(said, everything) == Instructions()
    listed = _fit(everything, min(room, instructions_room) if not is_all else 0, counter)
    count = _count_that_fits(sizes, room - _size(listed, counter))
    said, sizes = first_and_newest(said, count), first_and_newest(sizes, count)
    share = fair_share(sizes, room - _size(listed, counter))
    whole = [message for message, size in zip(said, sizes, strict=True) if size <= share]
    instructions = _fit(_not_in(whole, everything), min(room, instructions_room), counter)
    # For the same messages, room that the list does not need can only make more of them whole.
    share = max(share, fair_share(sizes, room - _size(instructions, counter)))
    whole = [message for message, size in zip(said, sizes, strict=True) if size <= share]
    instructions = _fit(_not_in(whole, everything), min(room, instructions_room), counter)
    listed_words = {same_words(sentence) for sentence in instructions.sentences}
    words = []
    for message, size in zip(said, sizes, strict=True):
        text = message.said
        if size > share:
            text = shorten(text, share, counter, quote, told=listed_words)
        total = cuttings(message.said).total
        kept = min(cuttings(text).length, total)
        words.append((CarriedMessage(message.record, kept, total), quote(text)))
    return instructions, words


def quote(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


def read_quotes(lines: Sequence[str]) -> list[str]:
    """The messages that `quote` made, with an empty line between any two."""
    found: list[list[str]] = [[]]
    for line in lines:
        if not line.startswith(">"):
            found.append([])
        else:
            found[-1].append(line[2:])
    return ["\n".join(message) for message in found if message]


def instruction_lines(instructions: Instructions) -> list[str]:
    if not instructions.sentences:
        return []
    count = instructions.omitted
    others = f"({count:,} {'other' if count == 1 else 'others'} not listed)"
    return [
        *([others] if count else []),
        *(f"- {sentence}" for sentence in instructions.sentences),
    ]


def read_instructions(lines: Sequence[str]) -> Instructions:
    """The list that `instruction_lines` made; other lines are ignored."""
    notes = [match for line in lines if (match := _OTHERS.fullmatch(line))]
    omitted = sum(int(match[1].replace(",", "") or 0) for match in notes)
    return Instructions(tuple(line[2:] for line in lines if line.startswith("- ")), omitted)


def _messages(digests: Sequence[Digest]) -> list[Digest]:
    """Each message once, at its last place: an earlier carry-over may quote, whole or in part, a
    message that is also among the records."""
    said = list({digest.said: digest for digest in reversed(digests) if digest.said}.values())[::-1]
    by_length: dict[int, list[str]] = {}
    for message in said:
        by_length.setdefault(len(message.said), []).append(hide_gap_markers(message.said))

    def is_repeated(text: str) -> bool:
        found = cuttings(text)
        return len(found.pieces) > 1 and any(
            is_left_of(found, whole) for whole in by_length.get(found.total, ())
        )

    return [message for message in said if not is_repeated(message.said)]


def _count_that_fits(sizes: list[int], room: int) -> int:
    """The number of messages of which each still gets enough room to say something."""

    def are_too_many(count: int) -> bool:
        kept = first_and_newest(sizes, count)
        return sum(kept) > room and fair_share(kept, room) < _MESSAGE_TOKENS_MIN

    return bisect.bisect_left(range(1, len(sizes) + 1), True, key=are_too_many)


def _all_instructions(digests: Sequence[Digest]) -> Instructions:
    """Every instruction once, at its last place."""
    found: dict[str, str] = {}
    here: set[str] = set()
    for digest in digests:
        for sentence in (*digest.instructions.sentences, *digest.rules):
            key = same_words(sentence)
            found.pop(key, None)
            found[key] = sentence
        here.update(map(same_words, digest.rules))
    omitted = sum(
        digest.instructions.omitted
        for digest in digests
        # Where the records behind an earlier list are here, nothing of that list is missing.
        if not here.issuperset(map(same_words, digest.instructions.sentences))
    )
    return Instructions(tuple(found.values()), omitted)


def _not_in(whole: Iterable[Digest], instructions: Instructions) -> Instructions:
    """The instructions that are in none of the messages quoted whole."""
    shown = {same_words(sentence) for message in whole for sentence in message.rules}
    kept = (text for text in instructions.sentences if same_words(text) not in shown)
    return msgspec.structs.replace(instructions, sentences=tuple(kept))


def _fit(instructions: Instructions, room: int, counter: Counter) -> Instructions:
    """As many of the oldest and the newest as there is room for."""
    if _size(instructions, counter) <= room:
        return instructions
    sentences = instructions.sentences
    room -= _size(Instructions(("",), instructions.omitted + len(sentences)), counter)
    sizes = [counter.count(f"- {sentence}\n") for sentence in sentences]
    kept: set[int] = set()
    old_room = int(room * _OLDEST_SHARE)
    for place, size in enumerate(sizes):
        old_room -= size
        if old_room < 0:
            break
        kept.add(place)
        room -= size
    for place in reversed(range(len(sizes))):
        if place not in kept and sizes[place] <= room:
            kept.add(place)
            room -= sizes[place]
    listed = tuple(sentences[place] for place in sorted(kept))
    return Instructions(listed, instructions.omitted + len(sentences) - len(listed))


def _size(instructions: Instructions, counter: Counter) -> int:
    lines = instruction_lines(instructions)
    return counter.count("\n".join((INSTRUCTIONS, *lines, "", ""))) if lines else 0
