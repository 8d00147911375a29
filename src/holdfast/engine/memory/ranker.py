"""Ranking for one query: candidates from an index, weighed by words and by meaning."""

from __future__ import annotations

from heapq import nlargest
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import (
    RECALL_TURN_CHARS_MAX,
    RECALL_TURNS_MAX,
    STANDING_CHARS_MAX,
    STANDING_EXCHANGES_MAX,
)
from holdfast.core.memory.hits import STANDING_HEAD, Hit, NeighbourTurn, cite_record
from holdfast.core.memory.ranking import (
    NOTE_WEIGHTS,
    Alike,
    Candidate,
    Ranked,
    Weights,
    essential,
    is_rare_identifier,
    leaders,
    often_said,
    query_terms,
    rank,
    rarity,
    telling,
    weight,
    words_of_sources,
)
from holdfast.core.memory.search_terms import MARK, is_common, terms
from holdfast.core.memory.standing import Uptake, find_standing
from holdfast.core.memory.superseded import DatedStatement, find_superseded, is_about, words_to_find
from holdfast.core.text.cut import cut
from holdfast.engine.memory.question_dates import (
    find_days,
    find_event,
    find_times,
    is_within,
    span_of,
)
from holdfast.ports.side_stores import places_of, source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from holdfast.core.secrets.redaction import Redactor
    from holdfast.core.text.cut import Keep
    from holdfast.engine.memory.question_dates import Span
    from holdfast.engine.memory.vectors import IndexVectors
    from holdfast.ports.side_stores import (
        FoundPassage,
        IndexSource,
        MatchedPassage,
        Matches,
        SearchIndex,
    )


_NOTES_EVERY: Final = 3
"""In a search of everything, at least every third hit is a note, as long as there are any."""
COMPARED: Final = 40
"""Best hits among which statements of the same fact are looked for, whatever the limit."""


def merge_kinds(lists: Sequence[Sequence[Ranked]]) -> Iterator[Ranked]:
    """Notes and sessions in one list, by score, with a note at least at every third place."""
    notes, sessions = (list(reversed(ranks)) for ranks in lists)
    since_note = 0
    while notes or sessions:
        is_due = since_note >= _NOTES_EVERY - 1
        is_note = bool(notes) and (not sessions or is_due or notes[-1].score >= sessions[-1].score)
        since_note = 0 if is_note else since_note + 1
        yield (notes if is_note else sessions).pop()


def read_texts(
    index: SearchIndex, ranked: Iterable[Ranked], first: int
) -> Iterator[tuple[Ranked, FoundPassage]]:
    """The passages with their texts, read some at a time; those that are gone are left out."""
    left = iter(ranked)
    while some := list(islice(left, first)):
        rows = {row.id: row for row in index.passages([each.id for each in some])}
        yield from ((each, rows[each.id]) for each in some if each.id in rows)


def find_replaced(
    query: str, rows: Iterable[FoundPassage], speaker_of: Callable[[FoundPassage], str]
) -> dict[int, int]:
    """The passages that no longer hold, each with the latest one that states the fact again.

    Only where there may be any, the speakers are looked up: what one person said of their own is
    not replaced by what another did.
    """
    asked = words_to_find(query)
    said = [
        (row, row.ts)
        for row in rows
        if row.role != "assistant" and row.ts is not None and is_about(row.terms, asked)
    ]
    if not find_superseded([DatedStatement(row.id, row.text, ts) for row, ts in said], query):
        return {}
    statements = [DatedStatement(row.id, row.text, ts, speaker_of(row)) for row, ts in said]
    return find_superseded(statements, query)


def newest_first(
    ranked: Sequence[tuple[Ranked, FoundPassage]], replaced: Mapping[int, int]
) -> Iterator[tuple[Ranked, FoundPassage]]:
    """The same passages; one that replaced another right before it, if it was further down."""
    places = {row.id: place for place, (_rank, row) in enumerate(ranked)}
    shown: set[int] = set()
    for place, (ranked_hit, row) in enumerate(ranked):
        newer = replaced.get(row.id)
        if newer is not None and places[newer] > place and newer not in shown:
            shown.add(newer)
            yield msgspec.structs.replace(ranked_hit, id=newer), ranked[places[newer]][1]
        if row.id not in shown:
            shown.add(row.id)
            yield ranked_hit, row


def distinct_texts(
    found: Iterable[tuple[Ranked, FoundPassage]],
) -> Iterator[tuple[Ranked, FoundPassage]]:
    """Each text once: a fork has the words of its parent."""
    seen: set[str] = set()
    for ranked_hit, row in found:
        if row.text not in seen:
            seen.add(row.text)
            yield ranked_hit, row


def standing_hits(
    index: SearchIndex,
    query: str,
    allowed: Mapping[int, IndexSource],
    before: float | None,
    redactor: Redactor,
) -> list[Hit]:
    """The standing instructions of some sessions, as hits: they need not answer the query."""
    replies = index.matches({MARK: 1.0}, [], allowed).best if allowed else []
    newest = sorted(replies, key=lambda each: (each.ts or 0.0, each.id))[-STANDING_EXCHANGES_MAX:]
    marked = [each.id for each in newest]
    ids = {id_ - step for id_ in marked for step in range(_SAID_PASSAGES + 1)}
    rows = {row.id: row for row in index.passages(sorted(ids))} if ids else {}
    uptakes = []
    for id_ in marked:
        reply, parts = rows.get(id_), _message_before(rows, id_)
        if reply is not None and parts and (before is None or (reply.ts or 0.0) < before):
            whole = "".join(part.text for part in parts)
            uptakes.append(Uptake(parts[-1].id, redactor.text(whole), reply.text))
    uptakes.sort(key=lambda uptake: (rows[uptake.id].ts or 0.0, uptake.id))
    hits = []
    for words in find_standing(
        uptakes, query_terms(query), STANDING_CHARS_MAX - len(STANDING_HEAD)
    ):
        said = rows[words.exchange]
        session = redactor.text(allowed[said.source].name)
        place = cite_record(session, said.record)
        hits.append(
            Hit(
                0.0,
                place,
                words.text,
                said.role,
                session,
                said.record,
                ts=said.ts,
                is_standing=True,
            )
        )
    return hits


_SAID_PASSAGES: Final = 2
"""Passages read of what was said before a reply: the last of a message."""


def _message_before(rows: Mapping[int, FoundPassage], reply: int) -> list[FoundPassage]:
    """The passages of the message of a person that a reply answers."""
    found: list[FoundPassage] = []
    for id_ in range(reply - 1, reply - 1 - _SAID_PASSAGES, -1):
        row = rows.get(id_)
        is_of = row is not None and row.role == "user" and row.source == source_of(reply)
        if row is None or not is_of or (found and found[0].record != row.record):
            break
        found.insert(0, row)
    return found


_NEAR: Final = 4
"""Passages read on either side at first: most messages have one or two."""
_REACH: Final = 12
"""Passages read at most. In the middle of a longer message a hit has no turn beside it."""


class Neighbours:
    """The passages around the hits of one search."""

    def __init__(
        self,
        index: SearchIndex,
        rows: Sequence[FoundPassage],
        before: float | None,
        redactor: Redactor,
    ) -> None:
        """`rows` are the hits; turns that are not older than `before` are left out."""
        self._before = before
        self._rows: dict[int, FoundPassage] = {}
        self._read(
            index, {id_ for row in rows for step in (1, -1) for id_ in _ids(row, step, _NEAR)}
        )
        lacking = [
            (row, step) for row in rows for step in (1, -1) if not self._has_turns(row, step)
        ]
        self._read(index, {id_ for row, step in lacking for id_ in _ids(row, step, _REACH)})
        self._mask = redactor.text

    def before(self, row: FoundPassage, session: str) -> tuple[NeighbourTurn, ...]:
        """The end of each turn before a hit, the nearest last."""
        turns = [self._show(session, said[::-1], "tail") for said in self._turns(row, -1)]
        return tuple(reversed(turns))

    def after(self, row: FoundPassage, session: str) -> tuple[NeighbourTurn, ...]:
        """The beginning of each turn after a hit, the nearest first."""
        return tuple(self._show(session, said, "head") for said in self._turns(row, 1))

    def _read(self, index: SearchIndex, ids: set[int]) -> None:
        ids -= self._rows.keys()
        for row in index.passages(sorted(ids)) if ids else ():
            if self._before is None or row.ts is None or row.ts < self._before:
                self._rows[row.id] = row

    def _has_turns(self, row: FoundPassage, step: int) -> bool:
        """Return whether what was read has all that is shown in a direction: more turns than
        that, or the end of the source."""
        near = list(_ids(row, step, _NEAR))
        found = list(self._walk(near))
        records = {passage.record for passage in found} - {row.record}
        return len(found) < len(near) or len(near) < _NEAR or len(records) > RECALL_TURNS_MAX

    def _turns(self, row: FoundPassage, step: int) -> list[list[FoundPassage]]:
        """The passages of the next other records in a direction, nearest first."""
        walked = self._walk(_ids(row, step, _REACH))
        beside = (passage for passage in walked if passage.record != row.record)
        turns = groupby(beside, key=lambda passage: passage.record)
        return [list(said) for _record, said in islice(turns, RECALL_TURNS_MAX)]

    def _walk(self, ids: Iterable[int]) -> Iterator[FoundPassage]:
        """The passages that were read, up to one that is missing."""
        for id_ in ids:
            if id_ not in self._rows:
                return
            yield self._rows[id_]

    def _show(self, session: str, said: Sequence[FoundPassage], keep: Keep) -> NeighbourTurn:
        text = self._mask("".join(passage.text for passage in said))
        shown = cut(text, RECALL_TURN_CHARS_MAX, keep=keep).text
        return NeighbourTurn(said[0].role, cite_record(session, said[0].record), shown)


def _ids(row: FoundPassage, step: int, reach: int) -> Iterator[int]:
    """The ids beside a passage in a direction, nearest first, within its source."""
    for distance in range(1, reach + 1):
        id_ = row.id + step * distance
        if id_ < 0 or source_of(id_) != row.source:
            return
        yield id_


_EXACT_READ: Final = 100
"""Passages with all words of the query that are read: the best of them."""
_SIMILARITY_MIN: Final = 0.3
"""A passage without any word of the query must be at least this similar in meaning."""
_OPENINGS: Final = 30
"""Sources that answer best whose beginnings are ranked too."""
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
    ) -> list[Ranked]:
        """The passages that answer among sources of one kind, best first.

        Times that the query names are counted from `now`.
        """
        wanted = query_terms(query)
        total = max(1, sum(source.passages for source in part.values()))
        near = self._vectors.nearest(vector, part)
        matches = self._index.matches(wanted, terms(query), part, near)
        rows = [row for row in matches.best if before is None or row.ts is None or row.ts < before]
        days = find_days(query, now)
        of_days = self._matches_on_days(days, wanted, part, before) if days else []
        known = {row.id for row in rows}
        rows += [row for row in of_days if row.id not in known]
        similar = self._vectors.similarity(vector, [row.id for row in rows])
        average = sum(source.terms for source in part.values()) / total
        times = find_times(query, now) or _event_times(query, rows, now)
        phrase = essential(query)
        exact = self._find_exact(phrase, rows)
        weigh = _Weighing(wanted, matches, total, average, times, exact, days)
        candidates = [
            weigh.candidate(row, similar.get(row.id))
            for row in rows
            if similar.get(row.id, 0.0) >= _SIMILARITY_MIN
            or weigh.is_match(row)
            or (row.place == 0 and is_within(row.ts, days))
        ]
        sizes = {source.id: source.terms for source in part.values()}
        words = words_of_sources(matches.sources, wanted, sizes)
        told = weigh.largest_share(rows)
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
                told=told,
                weights=weights,
            )
            alike = self._alike(best, vector, part, before)
            if not phrase:  # a question, and no look-up of a few words
                openings = self._openings(rows, words, matches, part, before)
                similar = self._vectors.similarity(vector, [row.id for row in openings])
                candidates += [weigh.candidate(row, similar.get(row.id)) for row in openings]
        return rank(
            candidates,
            words,
            means=means,
            alike=alike,
            newest=newest,
            coverage=coverage,
            told=told,
            weights=weights,
        )

    def _matches_on_days(
        self,
        days: Sequence[Span],
        wanted: Mapping[str, float],
        part: Mapping[int, IndexSource],
        before: float | None,
    ) -> list[MatchedPassage]:
        """Return what was said on some days: what holds words of the query, and what sessions began
        with, which may hold none."""
        spoken = {
            source.id: source
            for source in part.values()
            if any(
                source.oldest is not None
                and source.newest is not None
                and source.oldest < end
                and source.newest >= start
                for start, end in days
            )
        }
        if not spoken:
            return []
        latest = nlargest(_OPENINGS, spoken.values(), key=lambda one: (one.newest or 0.0, one.id))
        firsts = {places_of(source.id)[0] for source in latest}
        found = self._index.matches(wanted, (), spoken, firsts).best
        return [
            row
            for row in found
            if is_within(row.ts, days) and (before is None or (row.ts or 0.0) < before)
        ]

    def _openings(
        self,
        rows: Iterable[MatchedPassage],
        words: Mapping[int, float],
        matches: Matches,
        part: Mapping[int, IndexSource],
        before: float | None,
    ) -> list[MatchedPassage]:
        """Return the beginnings of the sources that answer best: they say what a source is about,
        often in other words than the query."""
        telling = (held for term, held in matches.sources.items() if not is_common(term))
        answering = nlargest(_OPENINGS, set().union(*telling), key=lambda one: (words[one], one))
        firsts = {places_of(source)[0] for source in answering} - {row.id for row in rows}
        if not firsts:
            return []
        found = self._index.matches({}, (), part, firsts).best
        return [row for row in found if before is None or row.ts is None or row.ts < before]

    def _find_exact(self, phrase: Sequence[str], rows: Sequence[MatchedPassage]) -> set[int]:
        """The passages in which the words of the query stand next to each other."""
        if not phrase:
            return set()
        looked_up = {term for row in rows for term in row.terms}.intersection(phrase)
        holding = [row.id for row in rows if looked_up and looked_up <= row.terms.keys()]
        if len(phrase) == 1:
            return set(holding)
        words = f" {' '.join(phrase)} "
        return {
            row.id
            for row in self._index.passages(holding[:_EXACT_READ])
            if words in f" {' '.join(term for term in row.terms if not is_common(term))} "
        }

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
        holding = self._index.holding({term for _share, counts in spoken for term in counts}, part)
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


def _event_times(query: str, rows: Iterable[MatchedPassage], now: float) -> list[Span]:
    """The time before, after or around an event that the query names, by when it was told of.

    Where it was told of several times, or planned, the widest: it is a preference and no filter.
    """
    event = find_event(query, now)
    telling = {term for term in terms(event.words) if not is_common(term)} if event else set()
    if event is None or not telling:
        return []
    told = [row for row in rows if row.role != "assistant" and row.ts is not None]
    mentions = [row.ts for row in told if row.ts is not None and telling <= row.terms.keys()]
    return [span_of(event, mentions)] if mentions else []


class _Weighing:
    """The weights of a query's terms, and the candidates they make of passages."""

    def __init__(
        self,
        wanted: Mapping[str, float],
        matches: Matches,
        total: int,
        average: float,
        times: Sequence[Span],
        exact: Collection[int],
        days: Sequence[Span],
    ) -> None:
        held = {term: count for term, count in matches.holding.items() if count}
        self._worth = {term: wanted[term] * rarity(count, total) for term, count in held.items()}
        self._average = average
        self._times = times
        self._days = days
        self._telling = frozenset(term for term in wanted if not is_common(term))
        self._rare = [
            term for term, count in held.items() if is_rare_identifier(term, count, total)
        ]
        self._exact = exact

    def is_match(self, row: MatchedPassage) -> bool:
        """A passage matches if it holds a distinctive word of the query, if there are any."""
        return not self._telling or not self._telling.isdisjoint(row.terms)

    def largest_share(self, rows: Iterable[MatchedPassage]) -> float | None:
        """The share of the query that the passage says which says most of it."""
        total = sum(self._worth.values())
        most = max((sum(map(self._worth.__getitem__, row.terms)) for row in rows), default=0.0)
        return min(1.0, most / total) if most > 0 else None

    def candidate(self, row: MatchedPassage, similarity: float | None) -> Candidate:
        words = sum(
            self._worth[term] * weight(times, row.length, self._average)
            for term, times in row.terms.items()
        )
        rare = sum(term in row.terms for term in self._rare) / max(1, len(self._rare))
        return Candidate(
            id=row.id,
            source=row.source,
            place=row.place,
            words=words,
            similarity=similarity,
            is_user=row.role == "user",
            ts=row.ts,
            is_on_asked_day=is_within(row.ts, self._days),
            is_at_named_time=is_within(row.ts, self._times),
            is_exact=row.id in self._exact,
            identifiers=rare,
        )
