"""Segments of a memory index: which passages hold each term, for passages of one owner.

A segment never changes: passages that come later have one of their own, and small segments are
merged into larger ones. It has a head; blocks of terms in their order, each with the number of
passages that hold it; pages of these passages, term after term; and a block of facts on each
passage, so that a search weighs passages without reading them. The numbers of passages count from
the first passage of the segment, and are stored as steps from one to the next.
"""

from __future__ import annotations

import math
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from functools import cached_property
from heapq import nlargest
from itertools import accumulate, chain, groupby, pairwise
from operator import sub
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import msgspec

from holdfast.core.limits import RECALL_POSTINGS_MAX
from holdfast.core.text.typed import convert_typed
from holdfast.ports.side_stores import Role
from holdfast.stores.payloads import load_zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from holdfast.ports.side_stores import IndexPassage

PASSAGES_MAX: Final = 16_384
"""Passages of a segment: their numbers fit into two bytes, and an erasure writes no more again."""
_TERMS_OF_CHUNK: Final = 64
"""A term is looked for in as many."""
_CHUNKS_OF_BLOCK: Final = 8
_PLACES_OF_PAGE: Final = 2_048
"""A block is unpacked for one term of it: larger ones pack better and cost a search more."""
_PLACE_BYTES: Final = 3
"""Two for a step, and one for how often the term is there."""
_TIMES_MAX: Final = 255
"""A byte. A term that is there more often says no more."""
_LENGTH_MAX: Final = 0xFFFF
_ROLES: Final[tuple[Role, ...]] = get_args(Role)
_LEVEL: Final = 3
"""Of compression: levels above it take twice the time for a few percent."""

Lists = dict[str, tuple["array[int]", bytearray]]
"""The steps to the numbers of the passages that hold a term, and how often each of them does."""


class PassageFacts(NamedTuple):
    """The facts of a passage that decide its rank, beside its terms."""

    length: int
    """The number of its terms."""
    role: Role
    ts: float | None


class SegmentHead(msgspec.Struct, array_like=True, frozen=True):
    """The places of passages and terms in a segment."""

    runs: list[tuple[int, int]]
    """The passages: the first id of each run of ids that follow each other, and its length."""
    words: list[str]
    """The first term of each chunk of terms."""
    starts: list[int]
    """The places before each chunk of terms, and all of them at the end."""


class Built(NamedTuple):
    """A segment to be stored."""

    passages: int
    head: bytes
    blocks: list[bytes]


def _compress(data: bytes) -> bytes:
    packed: bytes = load_zstd().compress(data, _LEVEL)
    return packed


def _decompress(data: bytes) -> bytes:
    raw: bytes = load_zstd().decompress(data)
    return raw


def pack(value: object) -> bytes:
    """Return a value as it is stored."""
    return _compress(msgspec.msgpack.encode(value))


def unpack(data: bytes) -> Any:
    """Return a stored value."""
    return msgspec.msgpack.decode(_decompress(data))


def lists_of(passages: Iterable[IndexPassage]) -> Lists:
    """Return the lists of terms of passages, which come in the order of their ids."""
    found: dict[str, tuple[list[int], list[int]]] = {}
    for number, passage in enumerate(passages):
        for term, times in Counter(passage.terms).items():
            known = found.get(term)
            if known is None:  # most terms are in one passage: nothing larger is made for them
                found[term] = ([number], [times])
            else:
                known[0].append(number)
                known[1].append(times)
    return {
        term: (_steps(numbers), bytearray(min(times, _TIMES_MAX) for times in often))
        for term, (numbers, often) in found.items()
    }


def facts_of(passages: Iterable[IndexPassage]) -> list[PassageFacts]:
    """Return the facts of passages."""
    return [PassageFacts(len(each.terms), each.role, each.ts) for each in passages]


def build(ids: Sequence[int], lists: Lists, facts: Sequence[PassageFacts]) -> Built:
    """Return a segment of passages, whose ids rise, of their lists and their facts."""
    assert len(ids) == len(facts) <= PASSAGES_MAX, (len(ids), len(facts))
    terms = sorted(lists)
    words, starts, chunks = terms[::_TERMS_OF_CHUNK], [0], []
    steps, often = array("H"), bytearray()
    for start in range(0, len(terms), _TERMS_OF_CHUNK):
        some = terms[start : start + _TERMS_OF_CHUNK]
        chunks.append(_encode_terms(some, [len(lists[term][0]) for term in some]))
        for term in some:
            steps += lists[term][0]
            often += lists[term][1]
        starts.append(len(steps))
    blocks = [
        pack(chunks[start : start + _CHUNKS_OF_BLOCK])
        for start in range(0, len(chunks), _CHUNKS_OF_BLOCK)
    ]
    for start in range(0, len(steps), _PLACES_OF_PAGE):
        end = start + _PLACES_OF_PAGE
        blocks.append(_compress(_to_bytes(steps[start:end]) + often[start:end]))
    blocks.append(_compress(_encode_facts(facts)))
    return Built(len(ids), pack(SegmentHead(list(_runs(ids)), words, starts)), blocks)


def _runs(ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    for _start, pairs in groupby(enumerate(ids), lambda pair: pair[1] - pair[0]):
        found = [id_ for _place, id_ in pairs]
        yield found[0], len(found)


def _steps(numbers: Sequence[int]) -> array[int]:
    if len(numbers) == 1:
        return array("H", numbers)
    return array("H", map(sub, numbers, chain((0,), numbers)))


def _to_bytes(values: array[Any]) -> bytes:
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()


def _from_bytes(kind: Any, data: bytes) -> array[Any]:
    values = array(kind, data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _encode_facts(facts: Sequence[PassageFacts]) -> bytes:
    lengths = array("H", (min(each.length, _LENGTH_MAX) for each in facts))
    times = array("d", (math.nan if each.ts is None else each.ts for each in facts))
    roles = bytes(_ROLES.index(each.role) for each in facts)
    return _to_bytes(times) + _to_bytes(lengths) + roles


class _FactsBlock:
    """The facts of the passages of a segment, by number."""

    def __init__(self, data: bytes) -> None:
        count = len(data) // 11
        self._times = _from_bytes("d", data[: 8 * count])
        self._lengths = _from_bytes("H", data[8 * count : 10 * count])
        self._roles = data[10 * count :]
        self.bytes = len(data)

    def __getitem__(self, number: int) -> PassageFacts:
        ts = self._times[number]
        role = _ROLES[self._roles[number]]
        return PassageFacts(self._lengths[number], role, None if math.isnan(ts) else ts)


def _encode_terms(terms: Sequence[str], counts: Sequence[int]) -> tuple[bytes, bytes]:
    return f"\n{chr(10).join(terms)}\n".encode(), _to_bytes(array("H", counts))


class _TermBlock:
    """Terms in their order, and the number of passages that hold each.

    They stay in one string: a search looks for a few of them, and unpacks none.
    """

    def __init__(self, data: bytes) -> None:
        self._chunks = [
            (words, _from_bytes("H", counts)) for words, counts in msgspec.msgpack.decode(data)
        ]
        self.bytes = len(data)

    def find(self, chunk: int, term: str) -> tuple[int, int] | None:
        """Return how many places stand in a chunk before those of a term, and the number of its
        own."""
        words, counts = self._chunks[chunk % _CHUNKS_OF_BLOCK]
        at = words.find(f"\n{term}\n".encode())
        if at < 0:
            return None
        number = words.count(b"\n", 0, at)
        return sum(counts[:number]), counts[number]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        for words, counts in self._chunks:
            yield from zip(words.decode().split("\n")[1:-1], counts, strict=True)


class _Page:
    """Places of terms: steps, and how often the term is there."""

    def __init__(self, data: bytes) -> None:
        count = len(data) // _PLACE_BYTES
        self.steps = data[: 2 * count]
        self.often = data[2 * count :]
        self.bytes = len(data)


class Segment:
    """A segment as its readers see it."""

    def __init__(self, id_: int, head: bytes) -> None:
        self.id = id_
        self.head = convert_typed(unpack(head), SegmentHead)
        self.bytes = 8 * self.passages + 64 * len(self.head.words)

    @cached_property
    def ids(self) -> array[int]:
        """The ids of its passages, by number."""
        return array("q", chain.from_iterable(range(at, at + n) for at, n in self.head.runs))

    @property
    def passages(self) -> int:
        """The number of its passages."""
        return sum(length for _at, length in self.head.runs)

    @property
    def first(self) -> int:
        """The oldest passage."""
        return self.head.runs[0][0]

    @property
    def last(self) -> int:
        """The newest passage."""
        at, length = self.head.runs[-1]
        return at + length - 1

    @property
    def facts_block(self) -> int:
        """The block with the facts of its passages, which is the last."""
        return self.first_page + -(-self.head.starts[-1] // _PLACES_OF_PAGE)

    @property
    def first_page(self) -> int:
        """The block with its first places: those before it have terms."""
        return -(-len(self.head.words) // _CHUNKS_OF_BLOCK)

    def chunk_of(self, term: str) -> int:
        """Return the chunk that a term is in if it is in the segment; -1 for none."""
        return bisect_right(self.head.words, term) - 1

    def blocks_of(self, start: int, count: int) -> range:
        """Return the pages that hold some places."""
        pages = self.first_page
        last = (start + count - 1) // _PLACES_OF_PAGE
        return range(pages + start // _PLACES_OF_PAGE, pages + last + 1)

    def open(self, number: int, data: bytes) -> SegmentBlock:
        """Return a block of it as it is used."""
        raw = _decompress(data)
        if number < self.first_page:
            return _TermBlock(raw)
        return _FactsBlock(raw) if number == self.facts_block else _Page(raw)

    def places(self, start: int, pages: Sequence[_Page], count: int) -> tuple[array[int], bytes]:
        """Return some places, whose steps and times begin in the first of these pages."""
        at = start % _PLACES_OF_PAGE
        steps = b"".join(page.steps for page in pages)[2 * at : 2 * (at + count)]
        often = b"".join(page.often for page in pages)[at : at + count]
        return _from_bytes("H", steps), often


SegmentBlock = _TermBlock | _Page | _FactsBlock
Block = tuple[int, int]
"""The id of a segment, and the number of a block in it."""


class _Found(NamedTuple):
    """The list of a term in one segment."""

    segment: Segment
    start: int
    holding: int

    @property
    def blocks(self) -> list[Block]:
        return [(self.segment.id, n) for n in self.segment.blocks_of(self.start, self.holding)]


class SegmentPlaces:
    """The terms in some segments together."""

    def __init__(
        self,
        segments: Sequence[Segment],
        read: Callable[[Sequence[tuple[Segment, int]]], Mapping[Block, Any]],
        read_terms: Callable[[Sequence[int]], Mapping[int, str]],
    ) -> None:
        """`read` returns blocks of segments, `read_terms` the terms of passages in their order. A
        block that is gone, because segments were merged meanwhile, is a `KeyError`."""
        self._segments = segments
        self._read = read
        self._read_terms = read_terms
        self._known: dict[str, list[_Found]] = {}

    def total(self) -> int:
        """Return the number of passages."""
        return sum(segment.passages for segment in self._segments)

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
            exact += [id_ for id_ in some if words in f" {held.get(id_, '')} "]
            if len(exact) >= limit:
                break
        return exact[:limit]

    def facts(self, ids: Iterable[int]) -> dict[int, PassageFacts]:
        """Return the facts of passages; those that are in no segment have none."""
        left = sorted(ids)
        spans = [
            (each, bisect_left(left, each.first), bisect_right(left, each.last))
            for each in self._segments
        ]
        wanted = [(segment, segment.facts_block) for segment, at, end in spans if at < end]
        blocks = self._read(wanted)
        found: dict[int, PassageFacts] = {}
        for segment, at, end in spans:
            own = segment.ids
            for id_ in left[at:end]:
                number = bisect_left(own, id_)
                if own[number] == id_:
                    found[id_] = blocks[segment.id, segment.facts_block][number]
        return found

    def _find(self, terms: Iterable[str]) -> None:
        new = [term for term in dict.fromkeys(terms) if term not in self._known]
        places = [
            (segment, chunk, term)
            for segment in self._segments
            for term in new
            if (chunk := segment.chunk_of(term)) >= 0
        ]
        wanted = {
            (each.id, chunk // _CHUNKS_OF_BLOCK): (each, chunk // _CHUNKS_OF_BLOCK)
            for each, chunk, _term in places
        }
        blocks = self._read(list(wanted.values()))
        self._known |= {term: [] for term in new}
        for segment, chunk, term in places:
            found = blocks[segment.id, chunk // _CHUNKS_OF_BLOCK].find(chunk, term)
            if found is not None:
                before, count = found
                start = segment.head.starts[chunk] + before
                self._known[term].append(_Found(segment, start, count))

    def _read_lists(self, wanted: Mapping[str, Sequence[_Found]]) -> dict[str, dict[int, int]]:
        needed = {
            (held.segment.id, number): (held.segment, number)
            for found in wanted.values()
            for held in found
            for number in held.segment.blocks_of(held.start, held.holding)
        }
        pages = self._read(list(needed.values()))
        lists: dict[str, dict[int, int]] = {}
        for term, found in wanted.items():
            lists[term] = {}
            for held in found:
                some = [pages[block] for block in held.blocks]
                steps, often = held.segment.places(held.start, some, held.holding)
                ids = map(held.segment.ids.__getitem__, accumulate(steps))
                lists[term].update(zip(ids, often, strict=True))
        return lists


class Merged(NamedTuple):
    """The passages of several segments."""

    ids: list[int]
    lists: Lists
    facts: list[PassageFacts]


def merge(
    segments: Iterable[tuple[Segment, Sequence[Any]]], is_wanted: Callable[[int], bool]
) -> Merged:
    """Return the passages of segments that are wanted, and their lists. Each segment comes with its
    blocks."""
    parts = sorted(segments, key=lambda part: part[0].first)
    kept: dict[int, PassageFacts] = {}
    for segment, blocks in parts:
        facts = blocks[segment.facts_block]
        kept |= {id_: facts[n] for n, id_ in enumerate(segment.ids) if is_wanted(id_)}
    ids = sorted(kept)
    is_in_order = sum(segment.passages for segment, _ in parts) == len(ids) and all(
        before.last < after.first for (before, _), (after, _) in pairwise(parts)
    )
    lists = _append(parts) if is_in_order else _interleave(parts, ids)
    return Merged(ids, lists, [kept[id_] for id_ in ids])


def _append(parts: Iterable[tuple[Segment, Sequence[Any]]]) -> Lists:
    """Return the lists of segments one after the other: only the first step of each changes."""
    lists: Lists = {}
    offset = 0
    for segment, blocks in parts:
        for term, steps, often in _lists_in(segment, blocks):
            known = lists.get(term)
            if known is None:
                steps[0] += offset
                lists[term] = (steps, bytearray(often))
            else:
                steps[0] += offset - sum(known[0])
                known[0].extend(steps)
                known[1].extend(often)
        offset += segment.passages
    return lists


def _interleave(parts: Iterable[tuple[Segment, Sequence[Any]]], ids: Sequence[int]) -> Lists:
    """Return the lists of segments with the numbers that these passages have together."""
    number_of = {id_: number for number, id_ in enumerate(ids)}
    pairs: dict[str, list[tuple[int, int]]] = {}
    for segment, blocks in parts:
        numbers = [number_of.get(id_, -1) for id_ in segment.ids]
        for term, steps, often in _lists_in(segment, blocks):
            held = zip(map(numbers.__getitem__, accumulate(steps)), often, strict=True)
            found = [pair for pair in held if pair[0] >= 0]
            if found:
                pairs.setdefault(term, []).extend(found)
    lists: Lists = {}
    for term, found in pairs.items():
        found.sort()
        lists[term] = (_steps([n for n, _often in found]), bytearray(n for _, n in found))
    return lists


def _lists_in(segment: Segment, blocks: Sequence[Any]) -> Iterator[tuple[str, array[int], bytes]]:
    """Yield the terms of a segment with their steps, and how often each passage holds them."""
    pages = blocks[segment.first_page : segment.facts_block]
    steps = _from_bytes("H", b"".join(page.steps for page in pages))
    often = b"".join(page.often for page in pages)
    at = 0
    for term, count in chain.from_iterable(blocks[: segment.first_page]):
        yield term, steps[at : at + count], often[at : at + count]
        at += count
