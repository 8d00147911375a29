"""Memory that answers: notes and past sessions, searched by words and by meaning, with citations.

Before each search the index is compared with the files, so that a note written a moment ago is
found. Only words that people and models said are in it: no summary, checkpoint, tool result or
injected text. Words of other owners and agents are neither read nor found, and secrets are masked
on the way in and on the way out. Passages whose vectors are still to be made are compared by words
alone, and `Memory.notice` says how many.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.config import AGENT_DEFAULT
from holdfast.core.history.access import Caller, decide, readable_owners, subject_of
from holdfast.core.limits import (
    EXCERPT_CHARS,
    INJECTION_CHARS,
    RECALL_LIMIT,
    RECALL_LIMIT_MAX,
    RECALL_QUERY_CHARS_MAX,
    RECALL_TURN_CHARS_MAX,
)
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.replay import assistant_text, user_text
from holdfast.core.memory.hits import (
    Hit,
    NoteCitation,
    RecordCitation,
    cite_note,
    cite_record,
    find_focus,
    injection,
    read_citation,
)
from holdfast.core.memory.ranking import query_terms
from holdfast.core.owners import NO_OWNER, owner_argument, owner_of, owner_text
from holdfast.core.secrets.redaction import Redactor
from holdfast.core.text.cut import cut, scrub
from holdfast.core.turn.options import check_word
from holdfast.engine.memory.accesses import MemoryAccesses
from holdfast.engine.memory.indexer import Indexer, Scope
from holdfast.engine.memory.ranker import (
    COMPARED,
    Neighbours,
    Ranker,
    distinct_texts,
    find_replaced,
    merge_kinds,
    newest_first,
    read_texts,
    standing_hits,
)
from holdfast.engine.memory.vectors import IndexVectors, VectorWorker, mask_embedder
from holdfast.engine.redactor import redactor as default_redactor
from holdfast.errors import AccessDenied, HoldfastError, NoSuchRecord, StoreUnavailable, UsageError
from holdfast.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

    from holdfast.core.memory.ranking import Ranked, Weights
    from holdfast.core.owners import Owner
    from holdfast.ports import (
        FoundPassage,
        IndexSource,
        Notes,
        SessionStore,
    )
    from holdfast.providers.embedders import EmbedTexts
    from holdfast.providers.embeddings import Embedder

SCOPES: Final = ("notes", "sessions", "all")


class IndexSize(NamedTuple):
    """The part of a memory that is in the index."""

    sources: int
    """Files of notes and sessions."""
    passages: int
    """Their passages."""
    vectors: int
    """Passages that have a vector of the embedder."""


class Memory:
    """The notes and past sessions that a caller may search."""

    def __init__(
        self,
        store: SessionStore,
        notes: Notes | None,
        *,
        embedder: Embedder | EmbedTexts | str | None = None,
        redactor: Redactor | None = None,
        caller: Caller | None = None,
        weights: Weights | None = None,
        background: VectorWorker | bool = False,
        is_audited: bool = True,
        recall: Scope = "all",
    ) -> None:
        """`caller` decides whose sessions are searched; without one, none that has an owner.

        Without an `embedder` words alone count; it is an `Embedder`, a function that makes vectors
        of texts, or the name of a model. With `background`, vectors that a search lacks are
        made after it, in a thread that `close` stops: of this memory, or one that several share.
        `is_audited` is False where another notes what is given in the audit log. `recall` is
        the part that a session searches for what the user says: `notes`, `sessions` or `all`.
        """
        check_word("recall", recall, SCOPES)
        self.recall = recall
        self._store = store
        self._notes = notes
        self._index = store.search_index
        self.redactor = redactor or default_redactor()
        self._caller = caller or Caller(AGENT_DEFAULT, None, visibility="agent")
        self.owners = readable_owners(self._caller)
        """The owners whose sessions are searched."""
        self._registered: Redactor | None = None
        self._secrets: dict[str, str] = {}
        self._indexer = Indexer(self._index, store, notes, self._caller, self._mask_for_index)
        model = mask_embedder(embedder, self.redactor)
        self._vectors = IndexVectors(self._index, model)
        self._ranker = Ranker(self._index, self._vectors, weights)
        self._accesses: MemoryAccesses | None = None
        if is_audited:
            self._accesses = MemoryAccesses(store.audit, self._caller, self.redactor)
        self._owned: SessionStore | None = None
        self._own_worker: VectorWorker | None = None
        if background is True and model is not None:
            self._own_worker = VectorWorker(self._index, model)
        self._worker = background if isinstance(background, VectorWorker) else self._own_worker

    def keep_out(self, secrets: Mapping[str, str]) -> None:
        """Keep registered secrets (name → value) out of what is indexed from now on, in every
        form: a session gives its own."""
        known = set(self._secrets.values())
        new = {value: name for name, value in secrets.items() if value not in known}
        for value, name in new.items():
            taken = name in self._secrets
            self._secrets[f"{name}-{len(self._secrets)}" if taken else name] = value
        if new:
            self._registered = Redactor(self._secrets)

    def _mask_for_index(self, text: str) -> str:
        masked = self.redactor.text(text)
        return masked if self._registered is None else self._registered.text(masked)

    @property
    def notice(self) -> str:
        """The reason why the last search compared some or all passages by words alone, if so."""
        failed = self._worker.error if self._worker is not None and self._vectors.missing else ""
        return f"{self._vectors.notice}; that failed: {failed}" if failed else self._vectors.notice

    @classmethod
    def open(
        cls,
        root: str,
        *,
        agent: str = AGENT_DEFAULT,
        owner: str | Owner = NO_OWNER,
        caller: Caller | None = None,
        redactor: Redactor | None = None,
        embedder: Embedder | EmbedTexts | str | None = None,
        background: bool = True,
        recall: Scope = "all",
    ) -> Memory:
        """The memory of an agent, or of one of the owners it serves, in the store at an address.

        Without an `embedder` words alone count; it is an `Embedder`, a function that makes vectors
        of texts, or the name of a model. Vectors that a search lacks are made after it, in a
        thread that `close` stops, unless `background` is False.
        """
        whose = owner_argument(owner)
        store = open_store(root)
        memory = cls(
            store,
            store.notes(agent, whose, redactor=redactor),
            embedder=embedder,
            redactor=redactor,
            caller=caller or Caller(agent, None, owner=whose, visibility="agent"),
            background=background,
            recall=recall,
        )
        memory._owned = store
        return memory

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop making vectors, and close a store that `open` opened."""
        if self._own_worker is not None:
            self._own_worker.close()
        if self._owned is not None:
            self._owned.close()

    def search(
        self,
        query: str,
        *,
        scope: Scope = "all",
        limit: int = RECALL_LIMIT,
        before: float | None = None,
        now: float | None = None,
        refresh: bool = True,
        asker: SessionKey | None = None,
        standing: bool = False,
        paths: Container[str] | None = None,
    ) -> list[Hit]:
        """The passages that answer, best first; with `before`, only older ones. Audited.

        A higher limit only adds hits: the first ones stay the same. Times that the query names
        ("in May", "two weeks ago") are counted from `now`: by default `before`, or else the
        clock. `refresh=False` leaves the index as it is, for many queries over one state of the
        files. `asker` is the session that asks, for the audit log, where the caller has none.
        With `standing`, instructions that people gave and replies took up come after the hits,
        whatever the query is: few sentences, beyond the limit. `paths` are the files of notes to
        search, all by default.
        """
        _check(scope, limit)
        if now is None:
            now = time.time() if before is None else before
        query = cut(scrub(query), RECALL_QUERY_CHARS_MAX, keep="head").text
        with self._worker.rest() if self._worker is not None else nullcontext():
            try:
                hits, sources = self._search(
                    query, scope, limit, before, now, refresh=refresh, paths=paths
                )
                if standing and scope != "notes":
                    parts = {row.id: row for row in self._indexer.sources("sessions", before)}
                    hits += standing_hits(self._index, query, parts, before, self.redactor)
            except StoreUnavailable:
                # The index gave up its damaged file and starts again: it is only a cache.
                self._indexer.start_over()
                hits, sources = self._search(
                    query, scope, limit, before, now, refresh=True, paths=paths
                )
        if self._worker is not None:
            self._worker.want(self._vectors.missing)
        if self._accesses is not None and sources:  # where there is nothing, no one reads anything
            self._accesses.note_search(scope, hits, asker)
        return hits

    def _search(
        self,
        query: str,
        scope: Scope,
        limit: int,
        before: float | None,
        now: float,
        *,
        refresh: bool,
        paths: Container[str] | None,
    ) -> tuple[list[Hit], int]:
        """The hits, and the number of sources that could have answered."""
        if refresh:
            self.refresh(scope)
        sources = {
            source.id: source
            for source in self._indexer.sources(scope, before)
            if paths is None
            or source.kind != "note"
            or source.name.removeprefix(self._indexer.prefix) in paths
        }
        vector = self._vectors.of_query(query, sources.values(), make=self._worker is None)
        lists = [
            self._ranker.rank(query, vector, part, before, now)
            for part in _parts(sources.values(), scope)
            if part
        ]
        found = merge_kinds(lists) if len(lists) > 1 else iter(*lists) if lists else iter(())
        shown = max(limit, COMPARED)
        texts = read_texts(self._index, found, shown)
        ranked = list(islice(distinct_texts(texts), shown))
        compared = [row for _rank, row in ranked[:COMPARED]]
        replaced = find_replaced(
            query,
            compared,
            lambda row: _speaker(self._store, self._caller, row, sources[row.source]),
        )
        ranked = list(newest_first(ranked, replaced))[:limit]
        said = [row for _rank, row in ranked if sources[row.source].kind == "session"]
        beside = Neighbours(self._index, said, before, self.redactor)
        asked = query_terms(query)
        hits = {
            row.id: self._hit(rank, row, sources[row.source], beside, asked) for rank, row in ranked
        }
        marked = [
            msgspec.structs.replace(hit, superseded_by=hits[replaced[id_]].citation)
            if replaced.get(id_) in hits
            else hit
            for id_, hit in hits.items()
        ]
        return marked, len(sources)

    def search_many(
        self,
        queries: Iterable[str],
        *,
        scope: Scope = "all",
        limit: int = RECALL_LIMIT,
        before: float | None = None,
    ) -> Iterator[list[Hit]]:
        """`search` for each query, over the index as it is at the first of them."""
        self.refresh(scope)
        for query in queries:
            yield self.search(query, scope=scope, limit=limit, before=before, refresh=False)

    def get(self, citation: str, *, max_chars: int = EXCERPT_CHARS) -> str:
        """The text at a citation, as much as fits. Audited."""
        with self._accesses.reading(citation) if self._accesses else nullcontext():
            match read_citation(citation):
                case NoteCitation() as cited:
                    text = _read_note(self._notes, cited)
                case RecordCitation() as cited:
                    text = _read_record(self._store, self._caller, cited)
        return cut(self.redactor.text(text), max_chars, keep="head").text

    def injection(
        self, hits: Iterable[Hit], max_chars: int = INJECTION_CHARS, *, known: Iterable[str] = ()
    ) -> str:
        """The hits as a block of data for a prompt: `holdfast.core.memory.hits.injection`."""
        return injection(hits, max_chars, known=known)

    def refresh(self, scope: Scope = "all") -> None:
        """Bring the index up to date with the files."""
        _check(scope, 1)
        self._indexer.refresh(scope)

    def embed(
        self, limit: int | None = None, *, report: Callable[[int], object] | None = None
    ) -> int:
        """Make vectors for passages that have none, and return the number made.

        Those of sources that the caller may search, as they were at the last `refresh`. What was
        made is stored batch by batch: who is interrupted goes on where it was. `report` is called
        with the number so far.
        """
        sources = [source.id for source in self._indexer.sources("all", None)]
        return self._vectors.embed(sources, limit, report or (lambda _made: None))

    def size(self) -> IndexSize:
        """The amount of what is in the index that the caller may search."""
        sources = self._indexer.sources("all", None)
        passages = sum(source.passages for source in sources)
        return IndexSize(
            len(sources), passages, self._vectors.count([source.id for source in sources])
        )

    def _hit(
        self,
        rank: Ranked,
        row: FoundPassage,
        source: IndexSource,
        beside: Neighbours,
        asked: Mapping[str, float],
    ) -> Hit:
        mask = self.redactor.text
        text, name = mask(row.text), mask(source.name)
        score = round(rank.score, 4)
        focus = find_focus(text, asked, RECALL_TURN_CHARS_MAX)
        if source.kind == "session":
            return Hit(
                score,
                cite_record(name, row.record),
                text,
                row.role,
                name,
                row.record,
                ts=row.ts,
                turns_before=beside.before(row, name),
                turns_after=beside.after(row, name),
                focus=focus,
            )
        path = mask(source.name.removeprefix(self._indexer.prefix))
        session, _, record = row.record.partition(" ")
        return Hit(
            score,
            cite_note(path, row.first_line, row.last_line),
            text,
            row.role,
            session or None,
            record or None,
            path,
            (row.first_line, row.last_line),
            row.ts,
            focus=focus,
        )


def _speaker(store: SessionStore, caller: Caller, row: FoundPassage, source: IndexSource) -> str:
    """The person that said it: the owner, and the name where several people write."""
    if source.kind == "note":
        return f"{owner_text(caller.owner)}\n"
    try:
        key = SessionKey(*source.name.split("/", 1))
        name = getattr(store.find(key, row.record), "name", None)
        return f"{store.header(key).owner}\n{name or ''}"
    except HoldfastError:
        return str(row.id)  # someone: it replaces nothing


def _check(scope: str, limit: int) -> None:
    if scope not in SCOPES:
        raise UsageError(
            f"`{cut(str(scope), 40).text}` is not a scope", hint=f"use one of {', '.join(SCOPES)}"
        )
    if not 1 <= limit <= RECALL_LIMIT_MAX:
        raise UsageError(f"cannot return {limit} hits", hint=f"ask for 1 to {RECALL_LIMIT_MAX}")


def _read_note(notes: Notes | None, cited: NoteCitation) -> str:
    if notes is None:
        raise UsageError(f"there are no notes to read `{cited.path}` from")
    if cited.first_line is None or cited.last_line is None:
        return notes.read(cited.path).text
    lines = max(1, cited.last_line - cited.first_line + 1)
    return notes.read(cited.path, cited.first_line, lines).text


def _read_record(store: SessionStore, caller: Caller, cited: RecordCitation) -> str:
    def find(key: SessionKey) -> object:
        try:
            header = store.header(key)
            return subject_of(key, header, owner_of(header.owner))
        except HoldfastError:
            return None

    verdict = decide(caller, find(cited.key), find)  # type: ignore[arg-type]
    if not verdict.is_allowed:
        raise AccessDenied(verdict.reason)
    record = store.find(cited.key, cited.record)
    text = user_text(record) or assistant_text(record)
    if not text:
        raise NoSuchRecord(cited.record, cited.key.session)
    return text


def _parts(sources: Iterable[IndexSource], scope: Scope) -> list[dict[int, IndexSource]]:
    """Notes and sessions separately: each is ranked among its own kind."""
    notes: dict[int, IndexSource] = {}
    sessions: dict[int, IndexSource] = {}
    for source in sources:
        (notes if source.kind == "note" else sessions)[source.id] = source
    return [
        part for part, name in ((notes, "notes"), (sessions, "sessions")) if scope in (name, "all")
    ]
