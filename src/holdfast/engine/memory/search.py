"""Memory that answers: notes and past sessions, searched by words and by meaning, with citations.

Before each search the index is compared with the files, so that a note written a moment ago is
found. Only what people and models said is in it: no summary, checkpoint, tool result or injected
text. What another owner or agent said is neither read nor found, and secrets are masked on the way
in and on the way out. Where vectors are missing, or too many are still to be made, words alone
answer, and `Memory.notice` says so.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

from holdfast.config import AGENT_DEFAULT
from holdfast.core.history.access import Caller, decide, subject_of
from holdfast.core.limits import (
    EXCERPT_CHARS,
    INJECTION_CHARS,
    RECALL_CANDIDATES_MAX,
    RECALL_EMBED_MAX,
    RECALL_LIMIT,
    RECALL_LIMIT_MAX,
    RECALL_QUERY_CHARS_MAX,
)
from holdfast.core.log.speakers import answered, said
from holdfast.core.memory.hits import (
    Hit,
    NoteCitation,
    RecordCitation,
    cited_note,
    cited_record,
    injection,
    read_citation,
)
from holdfast.core.memory.passages import passages
from holdfast.core.memory.ranking import (
    NOTE_WEIGHTS,
    Alike,
    Candidate,
    Ranked,
    Weights,
    asked,
    essential,
    is_rare_identifier,
    leaders,
    often_said,
    ranked,
    rarity,
    telling,
    weight,
    words_of_sources,
)
from holdfast.core.memory.search_terms import is_common, terms
from holdfast.core.secrets.redaction import without_secrets
from holdfast.core.text.cut import cut, scrub
from holdfast.engine.redactor import redactor as default_redactor
from holdfast.errors import AccessDenied, HoldfastError, NoSuchRecord, StoreUnavailable, UsageError
from holdfast.providers.embeddings import Vectors, find_embedder
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.stores.notes.notes import NoteStore
from holdfast.stores.search_index import Passage, Recall, Role, source_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.memory.note_types import Note
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.ports import Notes, SessionInfo, SessionStore
    from holdfast.providers.embeddings import Embedder
    from holdfast.stores.search_index import Found, Kind, Matches, Source

Scope = Literal["notes", "sessions", "all"]
SCOPES: Final = ("notes", "sessions", "all")
INDEX_FILE: Final = "recall.sqlite3"

_SIMILARITY_MIN: Final = 0.3
"""A passage that holds no word of the query has to be this near in meaning."""
_NOTES_EVERY: Final = 3
"""In a search of everything, at least each third hit is a note, as long as there are any."""
_EMBED_BATCH: Final = 64
_SOURCES_ALONE: Final = 2
"""So few sources are compared as they are; what more have in common is left out."""


class Memory:
    """What an agent has noted and been told, for whoever may know it."""

    def __init__(
        self,
        store: SessionStore | None,
        notes: Notes | None,
        *,
        index: Recall | None = None,
        embedder: Embedder | None = None,
        redactor: Redactor | None = None,
        caller: Caller | None = None,
        weights: Weights | None = None,
    ) -> None:
        """`caller` is who asks, and with that whose sessions are searched; without one, none of
        an owner's. Without an `index` it is kept in memory, without an `embedder` words alone
        count."""
        self._store = store
        self._notes = notes
        self._index = index or Recall(None)
        self._embedder = embedder
        self._redactor = redactor or default_redactor()
        self._caller = caller or Caller(AGENT_DEFAULT, None, visibility="agent")
        self._weights = weights
        self._vectors: tuple[tuple[int, int], Vectors, _Wholes] | None = None
        self.notice = ""
        """What the last search could not do, if anything."""
        self._owned: JsonlStore | None = None

    @classmethod
    def open(
        cls,
        root: str,
        *,
        agent: str = AGENT_DEFAULT,
        owner: str = "",
        caller: Caller | None = None,
        redactor: Redactor | None = None,
        with_vectors: bool = True,
    ) -> Memory:
        """The memory of an agent, or of one of the owners it serves, below a root."""
        store = JsonlStore(root)
        memory = cls(
            store,
            NoteStore(root, agent, owner),
            index=Recall(os.path.join(root, INDEX_FILE)),
            embedder=find_embedder() if with_vectors else None,
            redactor=redactor,
            caller=caller or Caller(agent, None, owner=owner, visibility="agent"),
        )
        memory._owned = store
        return memory

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the index, and of a store that was opened here."""
        self._index.close()
        if self._owned is not None:
            self._owned.close()

    # Asking

    def search(
        self,
        query: str,
        *,
        scope: Scope = "notes",
        limit: int = RECALL_LIMIT,
        before: float | None = None,
        refresh: bool = True,
    ) -> list[Hit]:
        """The passages that answer, best first; with `before`, only what is older than that.

        More hits are only more: the first of them stay the same. `refresh=False` leaves the index
        as it is, for many queries over one state of things.
        """
        _check(scope, limit)
        query = cut(scrub(query), RECALL_QUERY_CHARS_MAX, keep="head").text
        self.notice = ""
        try:
            return self._search(query, scope, limit, before, refresh=refresh)
        except StoreUnavailable:
            # The index gave up its file, and begins anew: it is only a cache.
            return self._search(query, scope, limit, before, refresh=True)

    def _search(
        self, query: str, scope: Scope, limit: int, before: float | None, *, refresh: bool
    ) -> list[Hit]:
        if refresh:
            self.refresh(scope)
        sources = {one.id: one for one in self._searched(scope, before)}
        vector = self._vector_of(query)
        lists = [
            self._ranked(query, vector, part, before)
            for part in _parts(sources.values(), scope)
            if part
        ]
        found = _merged(lists) if len(lists) > 1 else iter(*lists) if lists else iter(())
        return [self._hit(one, row, sources) for one, row in islice(_distinct(found), limit)]

    def search_many(
        self,
        queries: Iterable[str],
        *,
        scope: Scope = "notes",
        limit: int = RECALL_LIMIT,
        before: float | None = None,
    ) -> Iterator[list[Hit]]:
        """`search` for each query, over the index as it is when the first is asked."""
        self.refresh(scope)
        for query in queries:
            yield self.search(query, scope=scope, limit=limit, before=before, refresh=False)

    def get(self, citation: str, *, max_chars: int = EXCERPT_CHARS) -> str:
        """What stands at a citation, as much as fits."""
        match read_citation(citation):
            case NoteCitation() as one:
                text = self._noted(one)
            case RecordCitation() as one:
                text = self._said(one)
        return cut(self._redactor.text(text), max_chars, keep="head").text

    def injection(
        self, hits: Iterable[Hit], max_chars: int = INJECTION_CHARS, *, known: Iterable[str] = ()
    ) -> str:
        """The hits as a block of data for a prompt: `holdfast.core.memory.hits.injection`."""
        return injection(hits, max_chars, known=known)

    # Keeping up

    def refresh(self, scope: Scope = "all") -> None:
        """Bring the index up to date with the files."""
        _check(scope, 1)
        known = {(one.kind, one.name): one for one in self._index.sources()}
        if scope != "sessions":
            self._refresh_notes(known)
        if scope != "notes":
            self._refresh_sessions(known)

    def embed(self, limit: int | None = None) -> int:
        """Make vectors for passages that have none, and return how many were made."""
        if self._embedder is None:
            return 0
        self._index.use_vectors(self._embedder.name)
        made = 0
        while limit is None or made < limit:
            count = _EMBED_BATCH if limit is None else min(_EMBED_BATCH, limit - made)
            waiting = self._index.without_vector(count)
            if not waiting:
                break
            vectors = self._embedder.embed([text for _id, text in waiting])
            ids = (id_ for id_, _text in waiting)
            self._index.add_vectors(zip(ids, vectors, strict=True))
            made += len(waiting)
        return made

    def size(self) -> tuple[int, int]:
        """How many sources and passages are in the index."""
        sources = self._index.sources()
        return len(sources), sum(one.passages for one in sources)

    def _refresh_notes(self, known: Mapping[tuple[Kind, str], Source]) -> None:
        if self._notes is None:
            return
        gone = {name: one for (kind, name), one in known.items() if kind == "note"}
        gone = {name: one for name, one in gone.items() if name.startswith(self._shelf)}
        for file in self._notes.files():
            name = self._shelf + file.path
            stamp = f"{file.inode} {file.size} {file.mtime_ns}"
            if name in gone and gone.pop(name).stamp == stamp:
                continue
            found = [
                one
                for note in self._notes.notes(file.path)
                for one in _passages_of_note(note, file.mtime_ns / 1e9)
            ]
            self._index.replace("note", name, stamp=stamp, head="", passages=found)
        if gone:
            self._index.forget(one.id for one in gone.values())

    def _refresh_sessions(self, known: Mapping[tuple[Kind, str], Source]) -> None:
        if self._store is None:
            return
        infos = {str(info.key): info for info in self._store.sessions()}
        visible = self._visible(infos)
        for name in visible:
            info, source = infos[name], known.get(("session", name))
            stamp = f"{info.head} {info.bytes} {info.records}"
            if source is None or source.stamp != stamp:
                self._read_session(info.key, stamp, source)
        gone = [
            one.id for (kind, name), one in known.items() if kind == "session" and name not in infos
        ]
        if gone:
            self._index.forget(gone)

    def _read_session(self, key: SessionKey, stamp: str, source: Source | None) -> None:
        """Put a session into the index: its new records, where it has only grown."""
        assert self._store is not None
        try:
            if source is not None and source.head:
                fresh = _since(self._store.back(key), source.head)
                if fresh is not None:
                    head = fresh[-1].id if fresh else source.head
                    found = list(_passages_of(fresh))
                    self._index.extend(source, stamp=stamp, head=head, passages=found)
                    return
            records = list(self._store.read(key))
        except HoldfastError:
            return  # what is damaged is not searched, and does not stop the search of the rest
        head = records[-1].id if records else ""
        found = list(_passages_of(records))
        self._index.replace("session", str(key), stamp=stamp, head=head, passages=found)

    @property
    def _shelf(self) -> str:
        """What the names of these notes begin with in the index: whose they are."""
        assert self._notes is not None
        return f"{self._notes.scope}//"  # nobody else's begins so

    # Who may know what

    def _visible(self, infos: Mapping[str, SessionInfo]) -> list[str]:
        subjects = {info.key: subject_of(info.key, info) for info in infos.values()}
        return [
            name
            for name, info in infos.items()
            if decide(self._caller, subjects[info.key], subjects.get).is_allowed
        ]

    def _searched(self, scope: Scope, before: float | None) -> list[Source]:
        """The sources that may answer."""
        allowed: set[tuple[Kind, str]] = set()
        if scope != "notes" and self._store is not None:
            infos = {str(info.key): info for info in self._store.sessions()}
            allowed |= {("session", name) for name in self._visible(infos)}
        shelf = None if scope == "sessions" or self._notes is None else self._shelf
        return [
            one
            for one in self._index.sources()
            if one.passages
            and (before is None or one.oldest is None or one.oldest < before)
            and (
                (one.kind, one.name) in allowed
                or (one.kind == "note" and shelf is not None and _is_on(shelf, one.name))
            )
        ]

    def _noted(self, one: NoteCitation) -> str:
        if self._notes is None:
            raise UsageError(f"there are no notes to read `{one.path}` from")
        if one.first_line is None or one.last_line is None:
            return self._notes.read(one.path).text
        lines = max(1, one.last_line - one.first_line + 1)
        return self._notes.read(one.path, one.first_line, lines).text

    def _said(self, one: RecordCitation) -> str:
        store = self._store
        if store is None:
            raise UsageError(f"there are no sessions to read `{one.key}` from")

        def find(key: SessionKey) -> object:
            try:
                return subject_of(key, store.header(key))
            except HoldfastError:
                return None

        verdict = decide(self._caller, find(one.key), find)  # type: ignore[arg-type]
        if not verdict.is_allowed:
            raise AccessDenied(verdict.reason)
        record = store.find(one.key, one.record)
        text = said(record) or answered(record)
        if not text:
            raise NoSuchRecord(one.record, one.key.session)
        return text

    # Ranking

    def _ranked(
        self, query: str, vector: bytes | None, part: Mapping[int, Source], before: float | None
    ) -> list[tuple[Ranked, Found]]:
        """What answers among sources of one kind, best first."""
        wanted = asked(query)
        total = max(1, sum(one.passages for one in part.values()))
        matches = self._index.matches(wanted, terms(query), part)
        near = self._near(vector, part)
        ids = list(dict.fromkeys([*matches.best, *near]))
        rows = [
            row
            for row in self._index.passages(ids)
            if before is None or row.ts is None or row.ts < before
        ]
        similar = self._similar(vector, [row.id for row in rows])
        average = sum(one.terms for one in part.values()) / total
        weigh = _Weighing(query, wanted, matches, total, average)
        candidates = [
            one
            for row in rows
            if (similar.get(row.id, 0.0) >= _SIMILARITY_MIN or weigh.is_match(row))
            and (one := weigh.candidate(row, similar.get(row.id)))
        ]
        sizes = {one.id: one.terms for one in part.values()}
        words = words_of_sources(matches.sources, wanted, sizes)
        newest = max((one.newest or 0.0 for one in part.values()), default=0.0)
        newest = newest if before is None else min(newest, before)
        by_id = {row.id: row for row in rows}
        is_notes = all(one.kind == "note" for one in part.values())
        weights = self._weights or (NOTE_WEIGHTS if is_notes else Weights())
        means = self._means(vector, part)
        alike = None
        if not is_notes:
            best = leaders(candidates, words, means=means, newest=newest, weights=weights)
            alike = self._alike(best, vector, part, before)
        order = ranked(candidates, words, means=means, alike=alike, newest=newest, weights=weights)
        return [(one, by_id[one.id]) for one in order]

    def _alike(
        self,
        best: Sequence[tuple[Candidate, float]],
        vector: bytes | None,
        part: Mapping[int, Source],
        before: float | None,
    ) -> Alike:
        """What sources have in common with those that answer best."""
        spoken = [(share, often_said(self._terms_around(one.id, before))) for one, share in best]
        holding = self._index.holding({term for _share, counts in spoken for term in counts})
        wanted = telling(spoken, holding, sum(one.passages for one in part.values()))
        counts = self._index.shared({term: holding[term] for term in wanted}, part)
        words = words_of_sources(counts, wanted, {one.id: one.terms for one in part.values()})
        if vector is None or self._vectors is None:
            return Alike(words)
        shares = {one.source: share for one, share in best}
        return Alike(words, self._vectors[2].alike(shares, part))

    def _terms_around(self, passage: int, before: float | None) -> Iterator[str]:
        for row in self._index.around(passage):
            if before is None or row.ts is None or row.ts < before:
                yield from row.terms

    def _vector_of(self, query: str) -> bytes | None:
        """The vector of a query; none where there are none to compare it with."""
        if self._embedder is None or not query.strip():
            return None
        try:
            self.embed(RECALL_EMBED_MAX)
            waiting = self._index.count_without_vector()
            if waiting:
                self.notice = (
                    f"{waiting:,} passages have no vector yet, so words alone were compared; "
                    "`holdfast memory index` makes them"
                )
                return None
            self._load_vectors()
            return self._embedder.embed([query])[0]
        except Exception as error:  # a helper never hurts: words alone answer as well
            self.notice = f"vectors cannot be used, so words alone were compared: {error}"
            return None

    def _load_vectors(self) -> None:
        state = self._index.state()
        if self._vectors is None or self._vectors[0] != state:
            vectors = self._index.vectors()
            self._vectors = (state, Vectors(vectors), _Wholes(vectors))

    def _near(self, vector: bytes | None, part: Mapping[int, Source]) -> list[int]:
        if vector is None or self._vectors is None:
            return []
        nearest = self._vectors[1].nearest(
            vector, RECALL_CANDIDATES_MAX, lambda id_: source_of(id_) in part
        )
        return [id_ for id_, _similarity in nearest]

    def _means(self, vector: bytes | None, part: Mapping[int, Source]) -> dict[int, float]:
        if vector is None or self._vectors is None:
            return {}
        return self._vectors[2].near(vector, part)

    def _similar(self, vector: bytes | None, ids: Sequence[int]) -> dict[int, float]:
        if vector is None or self._vectors is None:
            return {}
        return self._vectors[1].similarity(vector, ids)

    def _hit(self, one: Ranked, row: Found, sources: Mapping[int, Source]) -> Hit:
        source = sources[row.source]
        text = self._redactor.text(row.text)
        score = round(one.score, 4)
        if source.kind == "session":
            citation = cited_record(source.name, row.record)
            return Hit(score, citation, text, row.role, source.name, row.record, ts=row.ts)
        path = source.name.removeprefix(self._shelf)
        session, _, record = row.record.partition(" ")
        return Hit(
            score,
            cited_note(path, row.first_line, row.last_line),
            text,
            row.role,
            session or None,
            record or None,
            path,
            (row.first_line, row.last_line),
            row.ts,
        )


class _Wholes:
    """What whole sources mean: the mean of their vectors, less what all that are searched share.

    Everything that is said to one agent is alike; what tells sources apart is the rest.
    """

    def __init__(self, vectors: Sequence[tuple[int, bytes]]) -> None:
        """Ids in rising order, each with its vector."""
        import numpy

        of_each = [source_of(id_) for id_, _vector in vectors]
        starts = [n for n, one in enumerate(of_each) if n == 0 or one != of_each[n - 1]]
        self._places = {of_each[start]: place for place, start in enumerate(starts)}
        if not starts:
            return
        data = b"".join(vector for _id, vector in vectors)
        rows = numpy.frombuffer(data, dtype=numpy.int8).reshape(len(vectors), -1)
        sums = numpy.add.reduceat(rows, starts, axis=0, dtype=numpy.int32)
        self._means = _units(sums.astype(numpy.float32))

    def near(self, vector: bytes, part: Iterable[int]) -> dict[int, float]:
        """How near each source of the part comes to a vector."""
        import numpy

        sources, wholes, shared = self._apart(part)
        if not sources:
            return {}
        wanted = numpy.frombuffer(vector, dtype=numpy.int8).astype(numpy.float32)
        wanted = _units(_units(wanted) - shared)
        return dict(zip(sources, (wholes @ wanted).tolist(), strict=True))

    def alike(self, shares: Mapping[int, float], part: Iterable[int]) -> dict[int, float]:
        """How near each source of the part comes to some of them, each by its share."""
        sources, wholes, _shared = self._apart(part)
        wanted = [(place, shares[one]) for place, one in enumerate(sources) if one in shares]
        if not wanted:
            return {}
        values = wholes @ sum(share * wholes[place] for place, share in wanted)
        return dict(zip(sources, values.tolist(), strict=True))

    def _apart(self, part: Iterable[int]) -> tuple[list[int], Any, Any]:
        """The sources that have vectors, what sets each of them apart, and what they share."""
        sources = sorted(one for one in part if one in self._places)
        if not sources:
            return [], None, 0.0
        means = self._means[[self._places[one] for one in sources]]
        # Of two, what they share says nothing about either.
        shared = means.mean(axis=0) if len(sources) > _SOURCES_ALONE else 0.0
        return sources, _units(means - shared), shared


def _units(rows: Any) -> Any:
    """Vectors of length one."""
    import numpy

    return rows / numpy.maximum(numpy.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


class _Weighing:
    """What the passages are weighed by, for one query."""

    def __init__(
        self,
        query: str,
        wanted: Mapping[str, float],
        matches: Matches,
        total: int,
        average: float,
    ) -> None:
        held = {term: count for term, count in matches.holding.items() if count}
        self._worth = {term: wanted[term] * rarity(count, total) for term, count in held.items()}
        self._average = average
        self._telling = frozenset(term for term in wanted if not is_common(term))
        self._rare = [
            term for term, count in held.items() if is_rare_identifier(term, count, total)
        ]
        self._phrase = f" {' '.join(essential(query))} " if essential(query) else ""

    def is_match(self, row: Found) -> bool:
        """Whether a passage holds a word that means something, if the query has any."""
        return not self._telling or not self._telling.isdisjoint(row.terms)

    def candidate(self, row: Found, similarity: float | None) -> Candidate:
        counts = Counter(row.terms)
        length = len(row.terms)
        words = sum(
            worth * weight(counts[term], length, self._average)
            for term, worth in self._worth.items()
            if term in counts
        )
        rare = sum(term in counts for term in self._rare) / max(1, len(self._rare))
        return Candidate(
            id=row.id,
            source=row.source,
            place=row.place,
            words=words,
            similarity=similarity,
            is_user=row.role == "user",
            ts=row.ts,
            is_exact=bool(self._phrase) and self._phrase in _flat(row.terms),
            identifiers=rare,
        )


def _flat(found: Sequence[str]) -> str:
    return f" {' '.join(term for term in found if not is_common(term))} "


def _check(scope: str, limit: int) -> None:
    if scope not in SCOPES:
        raise UsageError(
            f"`{cut(str(scope), 40).text}` is no scope", hint=f"one of {', '.join(SCOPES)}"
        )
    if not 1 <= limit <= RECALL_LIMIT_MAX:
        raise UsageError(f"cannot give {limit} hits", hint=f"ask for 1 to {RECALL_LIMIT_MAX}")


# From files to passages


def _passages_of(records: Iterable[Record]) -> Iterator[Passage]:
    """What people and models said, in passages. Nothing else in a log is anybody's words."""
    for record in records:
        words, role = said(record), "user"
        if not words:
            words, role = answered(record), "assistant"
        ts = record.ts or None
        for text in passages(without_secrets(words)) if words else ():
            yield Passage(text, terms(text), _ROLES[role], record=record.id, ts=ts)


_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant"}


def _passages_of_note(note: Note, changed: float) -> Iterator[Passage]:
    """A note in passages; its heading counts as said in each of them."""
    origin = " ".join(filter(None, [note.session, *note.records[:1]]))
    heading = terms(note.heading)
    for text in passages(without_secrets(note.text)):
        yield Passage(
            text,
            [*heading, *terms(text)],
            "note",
            record=origin,
            first_line=note.line,
            last_line=note.last_line,
            ts=note.ts if note.ts is not None else changed,
        )


def _since(back: Iterator[Record], head: str) -> list[Record] | None:
    """The records after `head`, oldest first; none where it is no longer on the path."""
    fresh: list[Record] = []
    for record in back:
        if record.id == head:
            return fresh[::-1]
        fresh.append(record)
    return None


# From lists to hits


def _is_on(shelf: str, name: str) -> bool:
    return name.startswith(shelf)


def _parts(sources: Iterable[Source], scope: Scope) -> list[dict[int, Source]]:
    """Notes and sessions apart: each is weighed among its own kind."""
    notes: dict[int, Source] = {}
    sessions: dict[int, Source] = {}
    for one in sources:
        (notes if one.kind == "note" else sessions)[one.id] = one
    return [
        part for part, name in ((notes, "notes"), (sessions, "sessions")) if scope in (name, "all")
    ]


def _merged(
    lists: Sequence[Sequence[tuple[Ranked, Found]]],
) -> Iterator[tuple[Ranked, Found]]:
    """Notes and sessions in one list, by score, and notes at least at each third place."""
    notes, sessions = (list(reversed(one)) for one in lists)
    since_note = 0
    while notes or sessions:
        is_due = since_note >= _NOTES_EVERY - 1
        is_note = bool(notes) and (
            not sessions or is_due or notes[-1][0].score >= sessions[-1][0].score
        )
        since_note = 0 if is_note else since_note + 1
        yield (notes if is_note else sessions).pop()


def _distinct(found: Iterable[tuple[Ranked, Found]]) -> Iterator[tuple[Ranked, Found]]:
    """Each text once: a fork has the words of its parent."""
    seen: set[str] = set()
    for one, row in found:
        if row.text not in seen:
            seen.add(row.text)
            yield one, row
