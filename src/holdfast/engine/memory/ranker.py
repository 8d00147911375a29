"""Ranking for one query: candidates from an index, weighed by words and by meaning."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from holdfast.core.memory.leading_terms import often_said, telling
from holdfast.core.memory.query_terms import essential, query_terms
from holdfast.core.memory.ranking import (
    NOTE_WEIGHTS,
    Alike,
    Candidate,
    Ranked,
    Weights,
    is_rare_identifier,
    leaders,
    rank,
    rarity,
    weight,
    words_of_sources,
)
from holdfast.core.memory.search_terms import is_common, terms
from holdfast.engine.memory.question_dates import find_event, find_times, is_within, span_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.engine.memory.question_dates import Span
    from holdfast.engine.memory.vectors import IndexVectors
    from holdfast.ports.side_stores import FoundPassage, IndexSource, Matches, SearchIndex

_SIMILARITY_MIN: Final = 0.3
"""A passage without any word of the query must be at least this similar in meaning."""
_TELLING_MAX: Final = 1_000
"""Passages, or one in a hundred of all: a term that more of them hold sets no source apart."""


class Ranker:
    """Orders the passages of an index for queries."""

    def __init__(self, index: SearchIndex, vectors: IndexVectors, weights: Weights | None) -> None:
        self._index = index
        self._vectors = vectors
        self._weights = weights

    def rank(
        self,
        query: str,
        vector: bytes | None,
        part: Mapping[int, IndexSource],
        before: float | None,
        now: float,
    ) -> list[tuple[Ranked, FoundPassage]]:
        """The passages that answer among sources of one kind, best first.

        Times that the query names are counted from `now`.
        """
        wanted = query_terms(query)
        total = max(1, sum(source.passages for source in part.values()))
        matches = self._index.matches(wanted, terms(query), part)
        near = self._vectors.nearest(vector, part)
        rows = [
            row
            for row in self._index.passages(list(dict.fromkeys([*matches.best, *near])))
            if before is None or row.ts is None or row.ts < before
        ]
        similar = self._vectors.similarity(vector, [row.id for row in rows])
        average = sum(source.terms for source in part.values()) / total
        times = find_times(query, now) or _event_times(query, rows, now)
        weigh = _Weighing(query, wanted, matches, total, average, times)
        candidates = [
            weigh.candidate(row, similar.get(row.id))
            for row in rows
            if similar.get(row.id, 0.0) >= _SIMILARITY_MIN or weigh.is_match(row)
        ]
        sizes = {source.id: source.terms for source in part.values()}
        words = words_of_sources(matches.sources, wanted, sizes)
        newest = max((source.newest or 0.0 for source in part.values()), default=0.0)
        newest = newest if before is None else min(newest, before)
        is_notes = all(source.kind == "note" for source in part.values())
        weights = self._weights or (NOTE_WEIGHTS if is_notes else Weights())
        means = self._vectors.source_similarity(vector, part)
        coverage = self._vectors.coverage(vector, part)
        alike = None
        if not is_notes:
            best = leaders(
                candidates,
                words,
                means=means,
                newest=newest,
                coverage=coverage,
                weights=weights,
            )
            alike = self._alike(best, vector, part, before)
        order = rank(
            candidates,
            words,
            means=means,
            alike=alike,
            newest=newest,
            coverage=coverage,
            weights=weights,
        )
        by_id = {row.id: row for row in rows}
        return [(candidate, by_id[candidate.id]) for candidate in order]

    def _alike(
        self,
        best: Sequence[tuple[Candidate, float]],
        vector: bytes | None,
        part: Mapping[int, IndexSource],
        before: float | None,
    ) -> Alike:
        """The likeness of sources to those that answer best."""
        spoken = [
            (share, often_said(self._terms_around(leader.id, before))) for leader, share in best
        ]
        total = sum(source.passages for source in part.values())
        most = max(_TELLING_MAX, total // 100)
        holding = self._index.holding({term for _share, counts in spoken for term in counts}, most)
        spoken = [
            (share, {term: count for term, count in counts.items() if holding[term] < most})
            for share, counts in spoken
        ]
        wanted = telling(spoken, holding, total)
        counts = self._index.count_by_source({term: holding[term] for term in wanted}, part)
        sizes = {source.id: source.terms for source in part.values()}
        words = words_of_sources(counts, wanted, sizes)
        if vector is None:
            return Alike(words)
        shares = {leader.source: share for leader, share in best}
        return Alike(words, self._vectors.source_likeness(shares, part))

    def _terms_around(self, passage: int, before: float | None) -> Iterator[str]:
        for row in self._index.around(passage):
            if before is None or row.ts is None or row.ts < before:
                yield from row.terms


def _event_times(query: str, rows: Iterable[FoundPassage], now: float) -> list[Span]:
    """The time before, after or around an event that the query names, by when it was told of.

    Where it was told of several times, or planned, the widest: it is a preference and no filter.
    """
    event = find_event(query, now)
    telling = {term for term in terms(event.words) if not is_common(term)} if event else set()
    if event is None or not telling:
        return []
    told = [row for row in rows if row.role != "assistant" and row.ts is not None]
    mentions = [row.ts for row in told if row.ts is not None and telling.issubset(row.terms)]
    return [span_of(event, mentions)] if mentions else []


class _Weighing:
    """The weights of a query's terms, and the candidates they make of passages."""

    def __init__(
        self,
        query: str,
        wanted: Mapping[str, float],
        matches: Matches,
        total: int,
        average: float,
        times: Sequence[Span],
    ) -> None:
        held = {term: count for term, count in matches.holding.items() if count}
        self._worth = {term: wanted[term] * rarity(count, total) for term, count in held.items()}
        self._average = average
        self._times = times
        self._telling = frozenset(term for term in wanted if not is_common(term))
        self._rare = [
            term for term, count in held.items() if is_rare_identifier(term, count, total)
        ]
        self._phrase = f" {' '.join(essential(query))} " if essential(query) else ""

    def is_match(self, row: FoundPassage) -> bool:
        """A passage matches if it holds a distinctive word of the query, if there are any."""
        return not self._telling or not self._telling.isdisjoint(row.terms)

    def candidate(self, row: FoundPassage, similarity: float | None) -> Candidate:
        counts = Counter(row.terms)
        length = len(row.terms)
        words = sum(
            worth * weight(counts[term], length, self._average)
            for term, worth in self._worth.items()
            if term in counts
        )
        rare = sum(term in counts for term in self._rare) / max(1, len(self._rare))
        flat = f" {' '.join(term for term in row.terms if not is_common(term))} "
        return Candidate(
            id=row.id,
            source=row.source,
            place=row.place,
            words=words,
            similarity=similarity,
            is_user=row.role == "user",
            ts=row.ts,
            is_at_named_time=is_within(row.ts, self._times),
            is_exact=bool(self._phrase) and self._phrase in flat,
            identifiers=rare,
        )
