"""Segments of a memory index: which passages hold each term, for passages of one owner.

A segment never changes: passages that come later have one of their own, and small segments are
merged into larger ones. It has a head, blocks of terms in their order, and blocks with the list of
passages of each term. A term is found by reading one block of each kind, packed to a kilobyte or
two. The numbers of passages in a list count from the first passage of the segment.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import MutableSequence
from functools import cached_property
from heapq import nlargest
from itertools import accumulate, chain, groupby
from operator import sub
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.core.limits import RECALL_POSTINGS_MAX
from holdfast.core.text.typed import convert_typed
from holdfast.stores.payloads import load_zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from holdfast.ports.side_stores import IndexPassage

PASSAGES_MAX: Final = 16_384
"""Passages of a segment: their numbers fit into two bytes, and an erasure writes no more again."""
_TERMS_OF_BLOCK: Final = 256
_LISTS_OF_BLOCK_BYTES: Final = 4_096
"""A block is unpacked for one term of it: larger ones pack better and cost a search more."""
_TIMES_MAX: Final = 255
"""A byte. A term that is there more often says no more."""
_LEVEL: Final = 3
"""Of compression: levels above it take twice the time for a few percent."""

Lists = dict[str, tuple[MutableSequence[int], MutableSequence[int]]]
"""The ids of the passages that hold a term, and how often each of them does."""


class SegmentHead(msgspec.Struct, array_like=True, frozen=True):
    """The places of passages and terms in a segment."""

    runs: list[tuple[int, int]]
    """The passages: the first id of each run of ids that follow each other, and its length."""
    words: list[str]
    """The first term of each block of terms."""
    lists: list[int]
    """The number of the first term of each block of lists."""


class Built(NamedTuple):
    """A segment to be stored."""

    passages: int
    head: bytes
    blocks: list[bytes]


def pack(value: object) -> bytes:
    """Return a value as it is stored."""
    packed: bytes = load_zstd().compress(msgspec.msgpack.encode(value), _LEVEL)
    return packed


def unpack(data: bytes) -> Any:
    """Return a stored value."""
    return msgspec.msgpack.decode(load_zstd().decompress(data))


def lists_of(passages: Iterable[tuple[int, IndexPassage]]) -> Lists:
    """Return the lists of terms of passages, which come in the order of their ids."""
    lists: Lists = {}
    for id_, passage in passages:
        for term, times in Counter(passage.terms).items():
            known = lists.get(term)
            if known is None:  # most terms are in one passage: nothing larger is made for them
                lists[term] = ([id_], [times])
            else:
                known[0].append(id_)
                known[1].append(times)
    return lists


def build(ids: Sequence[int], lists: Lists) -> Built:
    """Return a segment of passages, whose ids rise, and of their lists."""
    assert len(ids) <= PASSAGES_MAX, len(ids)
    number_of = {id_: number for number, id_ in enumerate(ids)}
    terms = sorted(lists)
    blocks, words = [], []
    for start in range(0, len(terms), _TERMS_OF_BLOCK):
        some = terms[start : start + _TERMS_OF_BLOCK]
        words.append(some[0])
        blocks.append(pack((some, [len(lists[term][0]) for term in some])))
    firsts: list[int] = []
    waiting: tuple[list[bytes], list[bytes]] = ([], [])
    size = 0
    for place, term in enumerate(terms):
        if not waiting[0]:
            firsts.append(place)
        found, often = lists[term]
        if len(found) == 1:
            numbers = number_of[found[0]].to_bytes(2, "little")
        else:
            numbers = _encode([number_of[id_] for id_ in found])
        waiting[0].append(numbers)
        is_once = often[0] == 1 if len(found) == 1 else max(often) == 1
        waiting[1].append(b"" if is_once else bytes(min(times, _TIMES_MAX) for times in often))
        size += len(numbers)
        if size >= _LISTS_OF_BLOCK_BYTES:
            blocks.append(pack(waiting))
            waiting, size = ([], []), 0
    if waiting[0]:
        blocks.append(pack(waiting))
    return Built(len(ids), pack(SegmentHead(list(_runs(ids)), words, firsts)), blocks)


def _runs(ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    for _start, pairs in groupby(enumerate(ids), lambda pair: pair[1] - pair[0]):
        found = [id_ for _place, id_ in pairs]
        yield found[0], len(found)


def _encode(numbers: Sequence[int]) -> bytes:
    steps = array("H", map(sub, numbers, chain((0,), numbers)))
    if sys.byteorder == "big":
        steps.byteswap()
    return steps.tobytes()


def _decode(data: bytes) -> Iterator[int]:
    steps = array("H", data)
    if sys.byteorder == "big":
        steps.byteswap()
    return accumulate(steps)


class Segment:
    """A segment as its readers see it."""

    def __init__(self, id_: int, head: bytes) -> None:
        self.id = id_
        self.head = convert_typed(unpack(head), SegmentHead)

    @cached_property
    def ids(self) -> array[int]:
        """The ids of its passages, by number."""
        return array("q", chain.from_iterable(range(at, at + n) for at, n in self.head.runs))

    @property
    def last(self) -> int:
        """The newest passage."""
        at, length = self.head.runs[-1]
        return at + length - 1

    @property
    def blocks(self) -> int:
        """The number of its blocks."""
        return len(self.head.words) + len(self.head.lists)

    def block_of_term(self, term: str) -> int:
        """Return the block that a term is in if it is in the segment; -1 for none."""
        return bisect_right(self.head.words, term) - 1

    def block_of_list(self, place: int) -> tuple[int, int]:
        """Return the block with the list of a term, and the place in it."""
        number = bisect_right(self.head.lists, place) - 1
        return len(self.head.words) + number, place - self.head.lists[number]

    def decode(self, numbers: bytes, often: bytes) -> tuple[list[int], bytes]:
        """Return the passages in a list, and how often each holds the term."""
        ids = self.ids
        found = [ids[number] for number in _decode(numbers)]
        return found, often or b"\1" * len(found)


Block = tuple[int, int]
"""The id of a segment, and the number of a block in it."""


class _Found(NamedTuple):
    """The list of a term in one segment."""

    segment: Segment
    place: int
    holding: int


class SegmentPlaces:
    """The terms in some segments together."""

    def __init__(
        self,
        segments: Sequence[Segment],
        read: Callable[[Sequence[Block]], Mapping[Block, Any]],
        read_terms: Callable[[Sequence[int]], Mapping[int, Sequence[str]]],
    ) -> None:
        """`read` returns blocks as they were packed, `read_terms` the terms of passages in their
        order. A block that is gone, because segments were merged meanwhile, is a `KeyError`."""
        self._segments = segments
        self._read = read
        self._read_terms = read_terms
        self._known: dict[str, list[_Found]] = {}

    def total(self) -> int:
        """Return the number of passages."""
        return sum(length for segment in self._segments for _at, length in segment.head.runs)

    def counts(self, terms: Iterable[str]) -> dict[str, int]:
        """Return the number of passages that hold each of the terms."""
        wanted = list(terms)
        self._find(wanted)
        return {term: sum(held.holding for held in self._known[term]) for term in wanted}

    def lists(self, terms: Iterable[str]) -> dict[str, dict[int, int]]:
        """Return the passages that hold each of the terms, and how often they do."""
        wanted = list(terms)
        self._find(wanted)
        return self._read_lists({term: self._known[term] for term in wanted})

    def newest(self, term: str, limit: int) -> dict[int, int]:
        """Return the newest passages that hold a term, and how often they do."""
        self._find([term])
        found: dict[int, int] = {}
        for held in sorted(self._known[term], key=lambda held: -held.segment.last):
            if len(found) >= limit and held.segment.last < min(found):
                break
            found |= self._read_lists({term: [held]})[term]
            found = {id_: found[id_] for id_ in nlargest(limit, found)}
        return found

    def exact(self, phrase: Sequence[str], limit: int) -> list[int]:
        """Return the newest passages that hold these terms next to each other."""
        counts = self.counts(phrase)
        rarest, *others = sorted(counts, key=lambda term: (counts[term], term))
        found = set(self.newest(rarest, RECALL_POSTINGS_MAX)) if counts[rarest] else set()
        for term in others:
            if not found or counts[term] > RECALL_POSTINGS_MAX:
                break
            found &= self.lists([term])[term].keys()
        words, exact = f" {' '.join(phrase)} ", []
        newest = sorted(found, reverse=True)
        for start in range(0, len(newest), limit):
            some = newest[start : start + limit]
            held = self._read_terms(some)
            exact += [id_ for id_ in some if words in f" {' '.join(held.get(id_, ()))} "]
            if len(exact) >= limit:
                break
        return exact[:limit]

    def _find(self, terms: Iterable[str]) -> None:
        new = [term for term in dict.fromkeys(terms) if term not in self._known]
        places = {
            (segment.id, term): (segment.id, number)
            for segment in self._segments
            for term in new
            if (number := segment.block_of_term(term)) >= 0
        }
        blocks = self._read(sorted(set(places.values())))
        for term in new:
            self._known[term] = list(self._locate(term, places, blocks))

    def _locate(
        self,
        term: str,
        places: Mapping[tuple[int, str], Block],
        blocks: Mapping[Block, Any],
    ) -> Iterator[_Found]:
        for segment in self._segments:
            block = places.get((segment.id, term))
            if block is None:
                continue
            terms, counts = blocks[block]
            at = bisect_right(terms, term) - 1
            if terms[at] == term:
                yield _Found(segment, block[1] * _TERMS_OF_BLOCK + at, counts[at])

    def _read_lists(self, wanted: Mapping[str, Sequence[_Found]]) -> dict[str, dict[int, int]]:
        places = {
            (held.segment.id, held.place): held.segment.block_of_list(held.place)
            for found in wanted.values()
            for held in found
        }
        blocks = self._read(
            sorted({(segment, block) for (segment, _), (block, _at) in places.items()})
        )
        lists: dict[str, dict[int, int]] = {}
        for term, found in wanted.items():
            lists[term] = {}
            for held in found:
                number, at = places[held.segment.id, held.place]
                numbers, often = blocks[held.segment.id, number]
                ids, times = held.segment.decode(numbers[at], often[at])
                lists[term].update(zip(ids, times, strict=True))
        return lists


def merge(
    segments: Iterable[tuple[Segment, Sequence[Any]]], is_wanted: Callable[[int], bool]
) -> tuple[list[int], Lists]:
    """Return the passages of segments that are wanted, and their lists. Each segment comes with its
    blocks as they were packed."""
    lists: Lists = {}
    kept: set[int] = set()
    for segment, blocks in segments:
        own = {id_ for id_ in segment.ids if is_wanted(id_)}
        is_whole = len(own) == len(segment.ids)
        kept |= own
        words = len(segment.head.words)
        terms = [term for found, _counts in blocks[:words] for term in found]
        packed = (
            pair for numbers, often in blocks[words:] for pair in zip(numbers, often, strict=True)
        )
        for term, (numbers, often) in zip(terms, packed, strict=True):
            ids, times = segment.decode(numbers, often)
            if not is_whole:
                pairs = [pair for pair in zip(ids, times, strict=True) if pair[0] in own]
                if not pairs:
                    continue
                ids, times = [id_ for id_, _times in pairs], bytes(n for _id, n in pairs)
            known = lists.setdefault(term, (array("q"), bytearray()))
            known[0].extend(ids)
            known[1].extend(times)
    return sorted(kept), {term: _in_order(*pair) for term, pair in lists.items()}


def _in_order(
    ids: MutableSequence[int], times: MutableSequence[int]
) -> tuple[MutableSequence[int], MutableSequence[int]]:
    if all(map(int.__lt__, ids, ids[1:])):
        return ids, times
    pairs = sorted(zip(ids, times, strict=True))
    return array("q", (id_ for id_, _times in pairs)), bytearray(n for _id, n in pairs)
