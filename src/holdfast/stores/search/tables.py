"""The index of memory: passages of notes and sessions, by terms and by vectors, over some tables.

What belongs together (the sessions of one owner, or one scope of notes) is a group of its own: its
terms are in segments of their own, and no search looks up or counts what other groups hold. The
text of passages is stored apart from their terms, so that merging segments does not write it again.
A search is bounded, the rarest terms first, and all vectors are made by one embedding model.
"""

from __future__ import annotations

import hashlib
import math
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from holdfast.core.limits import RECALL_CANDIDATES_MAX, RECALL_POSTINGS_MAX
from holdfast.core.memory.ranking import rarity
from holdfast.core.memory.search_terms import is_common
from holdfast.core.text.cut import scrub
from holdfast.errors import StoreUnavailable
from holdfast.ports.side_stores import (
    PLACE_BITS,
    FoundPassage,
    IndexSource,
    MatchedPassage,
    Matches,
    places_of,
    source_of,
)
from holdfast.stores.search.segments import (
    PASSAGES_MAX,
    Segment,
    SegmentPlaces,
    build,
    facts_of,
    lists_of,
    merge,
    pack,
    unpack,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from holdfast.ports.side_stores import IndexPassage, NewSource, SourceKind
    from holdfast.stores.search.segments import Block, Built, PassageFacts

T = TypeVar("T")

_EXACT_MAX: Final = 50
"""Passages with the words of the query next to each other; more of them say nothing new."""
_SHARED_POSTINGS_MAX: Final = 3_000
"""Places looked up for terms that sources have in common. Bounds the time of a query."""


class Places(Protocol):
    """The passages of each term."""

    def total(self) -> int:
        """Return the number of passages."""

    def counts(self, terms: Iterable[str]) -> Mapping[str, int]:
        """Return the number of passages that hold each of the terms."""

    def lists(self, terms: Iterable[str]) -> Mapping[str, Mapping[int, int]]:
        """Return the passages that hold each of the terms, and how often they do."""

    def newest(self, term: str, limit: int) -> Mapping[int, int]:
        """Return the newest passages that hold a term, and how often they do."""

    def exact(self, phrase: Sequence[str], limit: int) -> list[int]:
        """Return the newest passages that hold these terms next to each other."""

    def facts(self, ids: Iterable[int]) -> Mapping[int, PassageFacts]:
        """Return the facts of those of the passages that are there."""


def match(
    places: Places,
    query: Mapping[str, float],
    phrase: Sequence[str],
    allowed: Mapping[int, IndexSource],
    also: Iterable[int] = (),
) -> Matches:
    """Return the passages of the allowed sources that hold terms of the query, and `also` some.

    The rarest terms are looked up first, and all of their places; of terms that are everywhere, as
    many of the newest as there is room for. Common words are looked up only where there is nothing
    else.
    """
    inside_total = sum(source.passages for source in allowed.values())
    weights: defaultdict[int, float] = defaultdict(float)
    sources: dict[str, dict[int, int]] = {}
    held: dict[str, Mapping[int, int]] = {}
    total = max(1, places.total())
    everywhere = places.counts(query)
    is_all = total == inside_total
    # A term counts by its share until the number of its places inside is known.
    holding = {term: math.ceil(count * inside_total / total) for term, count in everywhere.items()}
    room, full = RECALL_POSTINGS_MAX, 0.0
    whole = places.lists(_choose_whole(everywhere))
    for term in _rarest_first(everywhere):
        if room <= 0 or (weights and is_common(term)):
            break
        is_whole = everywhere[term] <= room
        if not is_whole:
            found = places.newest(term, room)
        else:
            found = whole[term] if term in whole else places.lists([term])[term]
        inside = found if is_all else _keep(found, allowed)
        held[term] = inside
        room -= len(found)
        if is_whole:
            holding[term] = len(inside)
        worth = query[term] * rarity(holding[term], inside_total)
        full += worth * (is_whole and term in phrase)
        for id_ in inside:
            weights[id_] += worth
        if inside:
            sources[term] = _by_source(inside)
    # Of equals the newer: a sort in reverse keeps the order of equals.
    best = sorted(sorted(weights, reverse=True), key=weights.__getitem__, reverse=True)
    # A passage with the whole phrase weighs at least `full`: often all of those are among the best.
    is_sure = full > 0 and all(weights[id_] < full for id_ in best[RECALL_CANDIDATES_MAX:][:1])
    exact = places.exact(phrase, _EXACT_MAX) if len(phrase) > 1 and not is_sure else []
    best = best[:RECALL_CANDIDATES_MAX]
    more = [id_ for id_ in (*exact, *also) if source_of(id_) in allowed]
    chosen = list(dict.fromkeys([*more[: len(exact)], *best, *more]))
    facts = places.facts(chosen)
    passages = [
        MatchedPassage(
            id_, {term: found[id_] for term, found in held.items() if id_ in found}, *facts[id_]
        )
        for id_ in chosen
        if id_ in facts
    ]
    return Matches(holding, sources, passages)


def _choose_whole(everywhere: Mapping[str, int]) -> list[str]:
    """Return the terms whose passages are all looked up, as long as none of them is common."""
    room, whole = RECALL_POSTINGS_MAX, []
    for term in _rarest_first(everywhere):
        if is_common(term) or everywhere[term] > room:
            break
        room -= everywhere[term]
        whole.append(term)
    return whole


def count_by_source(
    places: Places, holding: Mapping[str, int], allowed: Mapping[int, IndexSource]
) -> dict[str, dict[int, int]]:
    """Return how often each term occurs in each of the allowed sources, the rarest first."""
    room, wanted = _SHARED_POSTINGS_MAX, []
    for term in _rarest_first(holding):
        if holding[term] > room:
            break
        room -= holding[term]
        wanted.append(term)
    found: dict[str, dict[int, int]] = {}
    for term, held in places.lists(wanted).items():
        often = _by_source(_keep(held, allowed))
        if often:
            found[term] = often
    return found


def _keep(held: Mapping[int, int], allowed: Mapping[int, IndexSource]) -> Mapping[int, int]:
    """Return the places that are in allowed sources."""
    return {id_: times for id_, times in held.items() if id_ >> PLACE_BITS in allowed}


def _by_source(held: Mapping[int, int]) -> dict[int, int]:
    """Return how often a term occurs in each source."""
    often: defaultdict[int, int] = defaultdict(int)
    for id_, times in held.items():
        often[id_ >> PLACE_BITS] += times
    return dict(often)


def _rarest_first(holding: Mapping[str, int]) -> list[str]:
    """Return the terms that occur at all; common words last, however rare they are here."""
    return sorted(
        filter(holding.get, holding), key=lambda term: (is_common(term), holding[term], term)
    )


AROUND_PLACES: Final = 32
"""Passages read on either side of one: more than an answer shows."""
TEXT_BITS: Final = 2
"""Texts are stored four passages at a time: alone, they would pack less well."""
_TIER_SEGMENTS: Final = 8
_TIER_BITS: Final = 3
"""As many segments of about the same size become one; eight times is about the same."""
_CACHED_BYTES: Final = 16_000_000
"""Blocks and heads of segments that are kept as they were unpacked. They never change."""
_ASKED_MAX: Final = 8
"""Lists of sources that are kept: those of the callers who searched last."""
_ATTEMPTS: Final = 4
"""Of a search: the segments that it reads can be merged by others at any time."""


class StoredPassage(msgspec.Struct, array_like=True, frozen=True):
    """A passage as it is stored with its text."""

    id: int
    text: str
    terms: str
    role: str
    record: str
    first_line: int
    last_line: int
    ts: float | None


class SourceFacts(msgspec.Struct, array_like=True, frozen=True):
    """The part of a source that has words in it."""

    name: str
    stamp: str
    head: str


class SourceSize(NamedTuple):
    """The part of a source that has none."""

    passages: int = 0
    terms: int = 0
    oldest: float | None = None
    newest: float | None = None


class SourceRows(ABC):
    """The sources of an index. Groups and places are digests of names."""

    @abstractmethod
    def lock(self, groups: Collection[bytes], places: Collection[bytes]) -> None:
        """Let no one else change these groups, nor sources of these names, until the end."""

    @abstractmethod
    def state(self) -> object:
        """Return what changes with any change of the tables; None where that cannot be told."""

    @abstractmethod
    def all(self) -> list[IndexSource]:
        """Return every source."""

    @abstractmethod
    def find(
        self,
        *,
        ids: Collection[int] = (),
        groups: Collection[bytes] = (),
        sessions: Collection[bytes] = (),
        notes: Collection[bytes] = (),
    ) -> list[IndexSource]:
        """Return the sources that are any of these."""

    @abstractmethod
    def erasable(self, sessions: Collection[bytes], groups: Collection[bytes]) -> dict[int, bytes]:
        """Return the groups of the sources of these sessions, also of notes from them, and of
        these groups, by id; also of those that have ended."""

    @abstractmethod
    def find_ended(self, group: bytes) -> dict[int, int]:
        """Return the sources of a group that have ended and may still be in its segments, by id,
        with the number of their passages."""

    @abstractmethod
    def add(self, kind: SourceKind, place: bytes, group: bytes, facts: SourceFacts) -> int:
        """Add a source without passages; returns its id, larger than all before it."""

    @abstractmethod
    def change(self, id_: int, facts: SourceFacts, size: SourceSize) -> None:
        """Store what is known of a source now."""

    @abstractmethod
    def add_origins(self, source: int, sessions: Collection[bytes]) -> None:
        """Store that passages of a source are from these sessions."""

    @abstractmethod
    def end(self, ids: Collection[int]) -> None:
        """Delete the texts and vectors of sources, which are no longer found."""

    @abstractmethod
    def drop(self, ids: Collection[int]) -> None:
        """Delete sources that have ended and are in no segment."""


class PassageRows(ABC):
    """The texts of passages, by the id of the first of a block without its last bits; vectors."""

    @abstractmethod
    def texts(self, blocks: Collection[int]) -> dict[int, bytes]:
        """Return those of the blocks of texts that are there."""

    @abstractmethod
    def put_texts(self, source: int, /, blocks: Mapping[int, bytes]) -> None:
        """Store blocks of texts of a source, in place of what is there."""

    @abstractmethod
    def count_vectors(self, sources: Collection[int]) -> dict[int, int]:
        """Return the number of vectors of each of the sources."""

    @abstractmethod
    def vectors_of(self, source: int) -> set[int]:
        """Return the passages of a source that have a vector."""


class SegmentRows(ABC):
    """The segments of the groups of an index."""

    @abstractmethod
    def of(self, groups: Collection[bytes]) -> list[tuple[int, int]]:
        """Return the segments of groups, the oldest first: id, and number of passages."""

    @abstractmethod
    def heads(self, ids: Collection[int]) -> dict[int, bytes]:
        """Return the heads of those of the segments that are there."""

    @abstractmethod
    def blocks(self, blocks: Collection[Block]) -> dict[Block, bytes]:
        """Return those of the blocks of segments that are there."""

    @abstractmethod
    def add(self, group: bytes, built: Built) -> None:
        """Store a segment."""

    @abstractmethod
    def drop(self, ids: Collection[int]) -> None:
        """Delete segments."""


class SearchTables(NamedTuple):
    """The rows of an index, within one transaction."""

    sources: SourceRows
    """Files of notes, and sessions."""
    passages: PassageRows
    """Their passages."""
    segments: SegmentRows
    """The terms of the passages."""


class _Cache:
    """Heads and blocks of segments as they were unpacked. They never change."""

    def __init__(self) -> None:
        self._held: OrderedDict[object, Any] = OrderedDict()
        self._bytes = 0
        self._place: object = None
        self._mutex = threading.Lock()

    def get_all(
        self,
        wanted: Collection[Any],
        read: Callable[[Collection[Any]], Mapping[Any, Any]],
    ) -> dict[Any, Any]:
        """Return what is kept, and read the rest. A `KeyError` is one that is gone."""
        with self._mutex:
            found = {item: self._held[item] for item in wanted if item in self._held}
            for item in found:
                self._held.move_to_end(item)
        missing = [item for item in wanted if item not in found]
        if missing:
            made = read(missing)
            found |= {item: made[item] for item in missing}
            with self._mutex:
                for item in missing:
                    if item not in self._held:
                        self._held[item] = made[item]
                        self._bytes += made[item].bytes
                while self._bytes > _CACHED_BYTES:
                    self._bytes -= self._held.popitem(last=False)[1].bytes
        return found

    def keep_of(self, place: object) -> None:
        """Forget what is of another file: its segments have the same numbers."""
        with self._mutex:
            if self._place is not place:
                self._held.clear()
                self._bytes = 0
                self._place = place


class TablesIndex(ABC):
    """The part of a `SearchIndex` that is the same for all tables. Safe for threads."""

    def __init__(self) -> None:
        self._cache = _Cache()
        self._sources: OrderedDict[object, tuple[object, list[IndexSource]]] = OrderedDict()

    @abstractmethod
    def _read(self, work: Callable[[SearchTables], T]) -> T:
        """Use the tables as they are; after a lost connection, once more."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[SearchTables]:
        """Use the tables for a change that counts as a whole or not at all."""

    @abstractmethod
    def _erasing(self, delete: Callable[[SearchTables], None]) -> None:
        """Change the tables so that nothing is left of what is deleted."""

    # Keeping up

    def sources(
        self, sessions: Collection[str] | None = None, notes: str | None = None
    ) -> list[IndexSource]:
        """Return everything that is in the index; with `sessions` or `notes`, only the sessions of
        these names and the notes of that scope."""
        asked = None if sessions is None and notes is None else (frozenset(sessions or ()), notes)
        state, found = self._read(lambda tables: self._find_sources(tables, asked))
        if state is not None:
            self._sources[asked] = (state, found)
            while len(self._sources) > _ASKED_MAX:
                self._sources.popitem(last=False)
        return list(found)

    def _find_sources(
        self, tables: SearchTables, asked: tuple[frozenset[str], str | None] | None
    ) -> tuple[object, list[IndexSource]]:
        """The sources that were asked for, and the state of the tables if it can be told. They are
        read again where it has changed."""
        state = tables.sources.state()
        known, found = self._sources.pop(asked, (None, []))
        if state is not None and known == state:
            return state, found
        if asked is None:
            return state, tables.sources.all()
        places = [_digest("session", name) for name in asked[0]]
        groups = [] if asked[1] is None else [_digest("note", asked[1])]
        return state, tables.sources.find(groups=groups, sessions=places)

    def replace(self, sources: Sequence[NewSource]) -> None:
        """Put sources into the index, each in place of its earlier state, in one transaction."""
        new = {(source.kind, _digest(source.kind, source.name)): source for source in sources}
        groups = {_digest(source.kind, source.group) for source in new.values()}
        sessions = [place for kind, place in new if kind == "session"]
        notes = [place for kind, place in new if kind == "note"]
        with self._writing() as tables:
            tables.sources.lock(groups, [place for _kind, place in new])
            known = tables.sources.find(sessions=sessions, notes=notes)
            tables.sources.end([earlier.id for earlier in known])
            added: defaultdict[bytes, list[tuple[int, IndexPassage]]] = defaultdict(list)
            for (kind, place), source in new.items():
                group, facts = (
                    _digest(kind, source.group),
                    _facts(source.name, source.stamp, source.head),
                )
                id_ = tables.sources.add(kind, place, group, facts)
                _put(tables, id_, 0, source.passages)
                tables.sources.change(id_, facts, _add_sizes(SourceSize(), source.passages))
                if kind == "note":
                    tables.sources.add_origins(id_, _origins(source.passages))
                added[group] += enumerate(source.passages, places_of(id_)[0])
            for group, passages in added.items():
                _add(tables, group, passages)
            for group in {*groups, *(earlier.group for earlier in known)}:
                _tidy(self._cache, tables, group)

    def extend(
        self, known: IndexSource, *, stamp: str, head: str, passages: Sequence[IndexPassage]
    ) -> None:
        """Add what was written to a source since. Does nothing where another process did."""
        with self._writing() as tables:
            tables.sources.lock([known.group], [_digest(known.kind, known.name)])
            now = next(iter(tables.sources.find(ids=[known.id])), None)
            if now is None or (now.head, now.passages) != (known.head, known.passages):
                return
            _put(tables, known.id, known.passages, passages)
            size = SourceSize(now.passages, now.terms, now.oldest, now.newest)
            facts = _facts(now.name, stamp, head)
            tables.sources.change(known.id, facts, _add_sizes(size, passages))
            first = places_of(known.id, known.passages)[0]
            _add(tables, now.group, list(enumerate(passages, first)))
            _tidy(self._cache, tables, now.group)

    def forget(self, sources: Iterable[int]) -> None:
        """Remove sources that no longer exist."""
        wanted = list(sources)
        with self._writing() as tables:
            known = tables.sources.find(ids=wanted)
            groups = {source.group for source in known}
            tables.sources.lock(groups, [])
            tables.sources.end([source.id for source in known])
            for group in groups:
                _tidy(self._cache, tables, group)

    def erase(self, sessions: Sequence[str], scopes: Sequence[str] = ()) -> None:
        """Delete sessions (`agent/id`), the files with notes from them, and scopes of notes.

        Their words are nowhere afterwards. The other notes of these files are indexed again by the
        next search.
        """
        places = [_digest("session", name) for name in sessions]
        whole = [_digest("note", f"{scope}//") for scope in scopes]

        def delete(tables: SearchTables) -> None:
            gone = tables.sources.erasable(places, whole)
            tables.sources.lock(set(gone.values()), [])
            tables.sources.end(list(gone))
            for group in sorted(set(gone.values())):
                _tidy(self._cache, tables, group, must_go=gone.keys())

        self._cache.keep_of(None)
        self._erasing(delete)

    # Looking up

    def matches(
        self,
        query: Mapping[str, float],
        phrase: Sequence[str],
        allowed: Mapping[int, IndexSource],
        also: Collection[int] = (),
    ) -> Matches:
        """Return the passages of the allowed sources that hold terms of the query, and `also`
        some."""
        return self._look_up(allowed, lambda places: match(places, query, phrase, allowed, also))

    def passages(self, ids: Collection[int]) -> list[FoundPassage]:
        """Return those of the passages that are still there."""
        return self._read(lambda tables: _read_texts(tables, ids))

    def around(self, passage: int) -> list[FoundPassage]:
        """Return a passage and its neighbours in the same source, in order."""
        first, end = places_of(source_of(passage))
        ids = range(max(first, passage - AROUND_PLACES), min(end, passage + AROUND_PLACES + 1))
        return self.passages(ids)

    def holding(
        self, wanted: Iterable[str], allowed: Mapping[int, IndexSource]
    ) -> Mapping[str, int]:
        """Return the number of passages that hold each of the terms, among those that the owners
        of the allowed sources have."""
        return self._look_up(allowed, lambda places: places.counts(wanted))

    def count_by_source(
        self, holding: Mapping[str, int], allowed: Mapping[int, IndexSource]
    ) -> dict[str, dict[int, int]]:
        """Return how often each term occurs in each of the allowed sources, the rarest first.

        `holding` is the number of passages that hold a term; terms with too many are left out.
        """
        return self._look_up(allowed, lambda places: count_by_source(places, holding, allowed))

    def _look_up(self, allowed: Mapping[int, IndexSource], ask: Callable[[SegmentPlaces], T]) -> T:
        groups = {source.group for source in allowed.values()}
        for _attempt in range(_ATTEMPTS):
            try:
                return self._read(lambda tables: ask(_places(self._cache, tables, groups)))
            except KeyError:  # others merged segments meanwhile
                continue
        raise StoreUnavailable(
            "cannot search the index of memory: others change it all the time",
            hint="repeat the search",
        )


def _add(tables: SearchTables, group: bytes, passages: Sequence[tuple[int, IndexPassage]]) -> None:
    for start in range(0, len(passages), PASSAGES_MAX):
        some = passages[start : start + PASSAGES_MAX]
        found = [passage for _id, passage in some]
        built = build([id_ for id_, _passage in some], lists_of(found), facts_of(found))
        tables.segments.add(group, built)


def _tidy(
    cache: _Cache, tables: SearchTables, group: bytes, must_go: Collection[int] = frozenset()
) -> None:
    """Merge segments of a group, and drop from them what has ended, once that is worth it."""
    sizes = dict(tables.segments.of([group]))
    ended = tables.sources.find_ended(group)
    if not ended:
        for some in _mergeable(sizes):
            _merge(cache, tables, group, some, ended)
        return
    is_due = 2 * sum(ended.values()) > sum(sizes.values())
    unwanted = ended.keys() if is_due else ended.keys() & must_go
    segments = _open_segments(cache, tables, sizes)
    for segment in segments:
        if not unwanted.isdisjoint(_sources_in(segment)):
            _merge(cache, tables, group, [segment.id], ended)
    sizes = dict(tables.segments.of([group]))
    for some in _mergeable(sizes):
        _merge(cache, tables, group, some, ended)
    left = _open_segments(cache, tables, dict(tables.segments.of([group])))
    held = {source for segment in left for source in _sources_in(segment)}
    tables.sources.drop(ended.keys() - held)


def _merge(
    cache: _Cache, tables: SearchTables, group: bytes, ids: Sequence[int], ended: Collection[int]
) -> None:
    segments = _open_segments(cache, tables, ids)
    parts = []
    for segment in segments:
        wanted = [(segment.id, number) for number in range(segment.facts_block + 1)]
        found = tables.segments.blocks(wanted)
        parts.append((segment, [segment.open(block[1], found[block]) for block in wanted]))
    merged = merge(parts, lambda id_: source_of(id_) not in ended)
    tables.segments.drop(ids)
    if merged.ids:
        tables.segments.add(group, build(*merged))


def _places(cache: _Cache, tables: SearchTables, groups: Collection[bytes]) -> SegmentPlaces:
    segments = _open_segments(cache, tables, dict(tables.segments.of(groups)))

    def read(wanted: Sequence[tuple[Segment, int]]) -> Mapping[Block, Any]:
        owners = {(segment.id, number): segment for segment, number in wanted}

        def unpack(blocks: Collection[Block]) -> dict[Block, Any]:
            stored = tables.segments.blocks(blocks)
            return {block: owners[block].open(block[1], stored[block]) for block in blocks}

        return cache.get_all(owners, unpack)

    def read_terms(ids: Sequence[int]) -> Mapping[int, str]:
        return {row.id: row.words for row in _read_texts(tables, ids)}

    return SegmentPlaces(segments, read, read_terms)


def _open_segments(cache: _Cache, tables: SearchTables, ids: Collection[int]) -> list[Segment]:
    def read(wanted: Collection[int]) -> dict[int, Segment]:
        return {id_: Segment(id_, head) for id_, head in tables.segments.heads(wanted).items()}

    found = cache.get_all(ids, read)
    return [found[id_] for id_ in ids]


def missing_vectors(
    tables: SearchTables, limit: int, sources: Collection[int] | None
) -> list[tuple[int, str]]:
    """Return passages without a vector, by id and text, the newest first: of some sources, or of
    all."""
    known = tables.sources.all() if sources is None else tables.sources.find(ids=sources)
    counts = tables.passages.count_vectors([source.id for source in known])
    wanted: list[int] = []
    for source in sorted(known, key=lambda source: -source.id):
        if counts.get(source.id, 0) < source.passages and len(wanted) < limit:
            first = places_of(source.id)[0]
            held = tables.passages.vectors_of(source.id)
            ids = range(first + source.passages - 1, first - 1, -1)
            wanted += [id_ for id_ in ids if id_ not in held][: limit - len(wanted)]
    texts = {row.id: row.text for row in _read_texts(tables, wanted)}
    return [(id_, texts[id_]) for id_ in wanted if id_ in texts]


def _digest(kind: str, name: str) -> bytes:
    """Return what stands for a name in rows: it has no words."""
    return hashlib.blake2b(scrub(f"{kind}\n{name}").encode(), digest_size=16).digest()


def _facts(name: str, stamp: str, head: str) -> SourceFacts:
    return SourceFacts(scrub(name), scrub(stamp), scrub(head))


def _origins(passages: Sequence[IndexPassage]) -> set[bytes]:
    """Return the sessions that passages of notes came from."""
    origins = (passage.record.partition(" ")[0] for passage in passages)
    return {_digest("session", origin) for origin in origins if origin}


def _add_sizes(size: SourceSize, passages: Sequence[IndexPassage]) -> SourceSize:
    times = [passage.ts for passage in passages if passage.ts is not None]
    known = [time for time in (size.oldest, size.newest) if time is not None]
    return SourceSize(
        size.passages + len(passages),
        size.terms + sum(len(passage.terms) for passage in passages),
        min((*known, *times), default=None),
        max((*known, *times), default=None),
    )


def _sources_in(segment: Segment) -> set[int]:
    return {source_of(at) for at, _length in segment.head.runs}


def _mergeable(sizes: Mapping[int, int]) -> list[list[int]]:
    """Return the segments that are to become one, each list for itself: enough of about the same
    size, or as many as fill one."""
    tiers: defaultdict[int, list[int]] = defaultdict(list)
    for id_, passages in sizes.items():
        if 2 * passages <= PASSAGES_MAX:
            tiers[passages.bit_length() // _TIER_BITS].append(id_)
    found = []
    for some in tiers.values():
        room, together = PASSAGES_MAX, []
        for id_ in some:
            if sizes[id_] > room:
                break
            room -= sizes[id_]
            together.append(id_)
        if len(together) > 1 and (len(some) >= _TIER_SEGMENTS or len(together) < len(some)):
            found.append(together)
    return found


def _put(tables: SearchTables, source: int, start: int, passages: Sequence[IndexPassage]) -> None:
    """Store the texts of passages behind those that a source has."""
    blocks: defaultdict[int, list[StoredPassage]] = defaultdict(list)
    for id_, passage in enumerate(passages, places_of(source, start)[0]):
        blocks[id_ >> TEXT_BITS].append(
            StoredPassage(
                id_,
                scrub(passage.text),
                scrub(" ".join(passage.terms)),
                passage.role,
                scrub(passage.record),
                passage.first_line,
                passage.last_line,
                passage.ts,
            )
        )
    first = places_of(source, start)[0] >> TEXT_BITS
    if first in blocks:
        known = tables.passages.texts([first]).get(first)
        blocks[first][:0] = [StoredPassage(*row) for row in unpack(known)] if known else []
    tables.passages.put_texts(source, {number: pack(texts) for number, texts in blocks.items()})


def _read_texts(tables: SearchTables, ids: Collection[int]) -> list[FoundPassage]:
    wanted = set(ids)
    blocks = tables.passages.texts({id_ >> TEXT_BITS for id_ in wanted})
    return [
        FoundPassage(id_, text, terms, *rest)
        for _number, block in sorted(blocks.items())
        for id_, text, terms, *rest in unpack(block)
        if id_ in wanted
    ]
