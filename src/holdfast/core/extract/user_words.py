"""The user's messages in a carry-over, and the instructions in those that are not quoted whole.

Messages stay whole where they fit. Otherwise the longest are shortened first, then the oldest are
left out; the instructions in such messages are listed by themselves. Both parts can be read back.
"""

from __future__ import annotations

import bisect
import functools
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.extract.condense import hide_gap_markers, is_left_of, shorten
from holdfast.core.extract.digest import Instructions
from holdfast.core.extract.fair_share import GAP, cuttings, fair_share, first_and_newest
from holdfast.core.extract.instructions import (
    fit_instructions,
    instruction_key,
    merge_instructions,
)
from holdfast.core.extract.statements import same_words
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from holdfast.core.extract.digest import Digest
    from holdfast.core.tokens.counting import Counter

INSTRUCTIONS: Final = "## What the user laid down"
MESSAGES: Final = "## What the user said"
_MESSAGE_TOKENS_MIN: Final = 24
"""Less of a message says nothing."""
_OTHERS: Final = lazy_pattern(r"\(([\d,]+) others? not listed(?:: search [\w ']+)?\)")


class CarriedMessage(msgspec.Struct, frozen=True):
    """A message of the user, and the number of its characters that are carried over."""

    record: str
    kept: int
    total: int


class InstructionRoom(msgspec.Struct, frozen=True):
    """The tokens that the list of instructions may take."""

    most: int
    shared: int
    """The part of it that is taken from the messages; the rest is its own."""


def select_words(
    digests: Sequence[Digest], room: int, lists: InstructionRoom, counter: Counter
) -> tuple[Instructions, list[tuple[CarriedMessage, str]]]:
    """The instructions to list, and the messages to quote, each with its quotation."""
    said = _messages(digests)
    room -= counter.count(f"{MESSAGES}\n")
    everything = _all_instructions(digests)
    sources = {rule: digest.record for digest in digests if digest.record for rule in digest.rules}

    def fit(instructions: Instructions) -> tuple[Instructions, int]:
        """Those that there is room for, and the room that is left for messages."""
        most = min(lists.most, max(room, 0) + lists.most - lists.shared)
        fitted = _fit(instructions, sources, most, counter)
        return fitted, room - min(tokens_of_instructions(fitted, counter), lists.shared)

    @functools.cache
    def tokens_of(text: str) -> int:
        return counter.count(quote(text)) + 1

    is_all = _do_fit(said, tokens_of, room) and _not_in(said, everything) == Instructions()
    left = room if is_all else fit(everything)[1]
    said = first_and_newest(said, _count_that_fits(said, tokens_of, left))
    sizes = [tokens_of(message.said) for message in said]
    share = fair_share(sizes, left)
    whole = [message for message, size in zip(said, sizes, strict=True) if size <= share]
    instructions, left = fit(_not_in(whole, everything))
    # For the same messages, room that the list does not need can only make more of them whole.
    share = max(share, fair_share(sizes, left))
    whole = [message for message, size in zip(said, sizes, strict=True) if size <= share]
    instructions, _left = fit(_not_in(whole, everything))
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
    return "\n".join([f"> {line}" for line in text.splitlines()])


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
    count = instructions.omitted
    others = (
        f"({count:,} {'other' if count == 1 else 'others'} not listed: search this session's "
        "history for them)"
    )
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
    if not any(GAP[:2] in message.said for message in said):
        return said
    by_length: dict[int, list[str]] = {}
    for message in said:
        by_length.setdefault(len(message.said), []).append(hide_gap_markers(message.said))

    def is_repeated(text: str) -> bool:
        found = cuttings(text)
        return len(found.pieces) > 1 and any(
            is_left_of(found, whole) for whole in by_length.get(found.total, ())
        )

    return [message for message in said if not is_repeated(message.said)]


def _do_fit(said: Sequence[Digest], size: Callable[[str], int], room: int) -> bool:
    """Return whether all messages fit, counted from the newest until they do not."""
    for message in reversed(said):
        room -= size(message.said)
        if room < 0:
            return False
    return room >= 0


def _count_that_fits(said: list[Digest], size: Callable[[str], int], room: int) -> int:
    """The number of messages of which each still gets enough room to say something.

    Of a long log few do, and only those are counted: more and more, until they are too many.
    """

    def are_too_many(count: int) -> bool:
        kept = [size(message.said) for message in first_and_newest(said, count)]
        return sum(kept) > room and fair_share(kept, room) < _MESSAGE_TOKENS_MIN

    most = 1
    while most < len(said) and not are_too_many(most):
        most *= 2
    return bisect.bisect_left(range(1, min(most, len(said)) + 1), True, key=are_too_many)


def _all_instructions(digests: Sequence[Digest]) -> Instructions:
    """Every instruction that holds, once, at its last place."""
    stated = [digest for digest in digests if digest.rules or not digest.record]
    said = [text for digest in stated for text in (*digest.instructions.sentences, *digest.rules)]
    here = {instruction_key(rule) for digest in stated for rule in digest.rules}
    omitted = sum(
        digest.instructions.omitted
        for digest in stated
        # Where the records behind an earlier list are here, nothing of that list is missing.
        if digest.instructions.omitted
        and not here.issuperset(map(instruction_key, digest.instructions.sentences))
    )
    return Instructions(tuple(merge_instructions(said)), omitted)


def _not_in(whole: Iterable[Digest], instructions: Instructions) -> Instructions:
    """The instructions that are in none of the messages quoted whole."""
    shown = {instruction_key(sentence) for message in whole for sentence in message.rules}
    # What is left of a message that was shortened before is quoted as it is.
    parts = [" ".join(msg.said.split()) for msg in whole if GAP[:2] in msg.said]
    kept = (
        sentence
        for sentence in instructions.sentences
        if instruction_key(sentence) not in shown and not any(sentence in part for part in parts)
    )
    return msgspec.structs.replace(instructions, sentences=tuple(kept))


def _fit(
    instructions: Instructions, sources: Mapping[str, str], room: int, counter: Counter
) -> Instructions:
    """As many as there is room for, and the number of the others."""
    if tokens_of_instructions(instructions, counter) <= room:
        return instructions
    sentences = instructions.sentences
    room -= tokens_of_instructions(Instructions((), instructions.omitted + len(sentences)), counter)
    listed = tuple(fit_instructions(sentences, sources, room, counter))
    if room < 0:
        return Instructions()
    return Instructions(listed, instructions.omitted + len(sentences) - len(listed))


def tokens_of_instructions(instructions: Instructions, counter: Counter) -> int:
    """The tokens of the section that lists them."""
    lines = instruction_lines(instructions)
    return counter.count("\n".join((INSTRUCTIONS, *lines, "", ""))) if lines else 0
