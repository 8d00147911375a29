"""Keeping a search index up to date with notes and sessions, for one caller.

Only words that people and models said go into the index, with secrets masked. Sessions that the
caller may not read are neither read nor searched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from holdfast.core.history.access import Gate, readable_owners, subject_of
from holdfast.core.log.replay import assistant_text, user_text
from holdfast.core.memory.hits import passages
from holdfast.core.memory.search_terms import MARK, terms
from holdfast.core.memory.standing import may_stand
from holdfast.core.owners import ANY_OWNER, owner_of, row_text
from holdfast.core.refusals import as_told, reaches_back
from holdfast.errors import HoldfastError
from holdfast.ports.side_stores import IndexPassage, NewSource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from holdfast.core.history.access import Caller, Subject
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.memory.note_files import Note
    from holdfast.core.owners import OwnerFilter
    from holdfast.ports import Notes, SessionInfo, SessionStore
    from holdfast.ports.side_stores import IndexSource, Role, SearchIndex

_SOURCES_AT_ONCE: Final = 2_000
_PASSAGES_AT_ONCE: Final = 10_000
"""Sources and passages of one transaction: some megabytes in memory, and 15 times fewer bytes
written than with a transaction for each session."""
Scope = Literal["notes", "sessions", "all"]


class Indexer:
    """Brings an index up to date, and knows which of its sources a caller may search."""

    def __init__(
        self,
        index: SearchIndex,
        store: SessionStore,
        notes: Notes | None,
        caller: Caller,
        mask: Callable[[str], str],
    ) -> None:
        """`mask` takes the secrets out of a text before it is stored in the index."""
        self._index = index
        self._store = store
        self._notes = notes
        self._caller = caller
        self._mask = mask
        self._waiting: list[NewSource] = []
        """Sources that are read and not yet written."""
        self._waiting_passages = 0
        self._listed: dict[OwnerFilter, tuple[str, dict[str, SessionInfo]]] = {}
        """The sessions of the caller's owners as they were last listed, and the state they were
        in then: only what changed since is listed again."""
        self._readable: dict[str, None] | None = None
        """Those of them that the caller may search."""
        self._unread: set[str] = set()
        """Those that could not be read, and are tried again."""
        self._held: set[str] = set()
        """The sessions that were in the index when it was last asked."""

    @property
    def prefix(self) -> str:
        """The beginning of the index names of these notes, which says whose they are."""
        assert self._notes is not None
        return f"{self._notes.scope}//"  # unique: no scope has two slashes

    def refresh(self, scope: Scope) -> None:
        """Bring the index up to date with the files."""
        if scope != "sessions" and self._notes is not None:
            found = self._index.sources(notes=self.prefix)
            self._refresh_notes(self._notes, {source.name: source for source in found})
        if scope != "notes":
            self._refresh_sessions(self._store)

    def sources(self, scope: Scope, before: float | None) -> list[IndexSource]:
        """The sources that may answer: of the sessions, those that the last `refresh` has seen."""
        prefix = None if scope == "sessions" or self._notes is None else self.prefix
        found = self._index.sources(self._names_to_search(scope), prefix)
        held = {source.name for source in found if source.kind == "session"}
        if scope != "notes" and not self._held <= held:  # the index was begun again
            self.start_over()
            self._refresh_sessions(self._store)
            found = self._index.sources(self._names_to_search(scope), prefix)
        elif scope != "notes":
            self._held = held
        return [
            source
            for source in found
            if source.passages
            and (before is None or source.oldest is None or source.oldest < before)
        ]

    def start_over(self) -> None:
        """Compare every session with the index at the next `refresh`."""
        self._listed.clear()
        self._held.clear()
        self._unread.clear()

    def _names_to_search(self, scope: Scope) -> Collection[str]:
        if scope == "notes":
            return ()
        if self._readable is None:
            changed, _is_whole = self._list_changed(self._store)
            self._readable = dict.fromkeys(self._visible(self._store, changed))
            self._listed.clear()  # nothing was compared with the index
        return self._readable

    def _list_changed(self, store: SessionStore) -> tuple[dict[str, SessionInfo], bool]:
        """List the sessions of the owners that the caller may read: those that changed, or all;
        and whether it is all of them."""
        changed: dict[str, SessionInfo] = {}
        is_whole = False
        for owner in readable_owners(self._caller):
            state, infos = self._listed.get(owner, ("", {}))
            found = store.sessions_since(state, owner=owner)
            if state:
                infos |= {str(info.key): info for info in found.infos}
                if len(infos) != found.total:  # some were removed
                    state, found = "", store.sessions_since("", owner=owner)
            fresh = {str(info.key): info for info in found.infos}
            if not state:
                is_whole, infos = True, fresh
            self._listed[owner] = (found.state, infos)
            changed |= fresh
        if is_whole:
            changed = {
                name: info
                for _state, infos in self._listed.values()
                for name, info in infos.items()
            }
        return changed, is_whole

    def _visible(self, store: SessionStore, infos: Mapping[str, SessionInfo]) -> list[str]:
        """The sessions among these that the caller may search."""
        subjects = {info.key: subject_of(info.key, info, info.owner) for info in infos.values()}

        def find(key: SessionKey) -> Subject | None:
            known = subjects.get(key)
            if known is not None:
                return known
            header = store.header(key)
            return subject_of(key, header, owner_of(header.owner))

        gate = Gate(self._caller, find)
        return [name for name, info in infos.items() if gate.verdict(subjects[info.key]).is_allowed]

    def _refresh_notes(self, notes: Notes, gone: dict[str, IndexSource]) -> None:
        """Bring the index up to date with notes; `gone` are all that it has."""
        for file in notes.files():
            name = self.prefix + file.path
            stamp = f"{file.inode} {file.size} {file.mtime_ns}"
            if name in gone and gone.pop(name).stamp == stamp:
                continue
            found = [
                passage
                for note in notes.notes(file.path)
                for passage in _note_passages(note, file.mtime_ns / 1e9, self._mask)
            ]
            self._put(NewSource("note", name, stamp, "", found, self.prefix))
        self._write()
        if gone:
            self._index.forget(source.id for source in gone.values())

    def _refresh_sessions(self, store: SessionStore) -> None:
        before = {name for _state, infos in self._listed.values() for name in infos}
        try:
            changed, is_whole = self._list_changed(store)
            self._compare(store, changed, before if is_whole else None)
        except BaseException:
            self.start_over()
            raise

    def _compare(
        self, store: SessionStore, infos: dict[str, SessionInfo], before: set[str] | None
    ) -> None:
        """Put sessions that changed into the index. With `before`, these are all sessions, and
        those that were there before and are not among them are gone."""
        for _state, listed in self._listed.values():
            infos = {name: listed[name] for name in self._unread & listed.keys()} | infos
        readable = dict.fromkeys(self._visible(store, infos))
        self._readable = readable if before is not None else {**(self._readable or {}), **readable}
        if not infos and before is None:
            return
        # Sessions of owners that the caller may not read are not listed, and not gone.
        is_all = ANY_OWNER in readable_owners(self._caller)
        named = None if is_all else {*infos, *(before or ())}
        known = {
            source.name: source for source in self._index.sources(named) if source.kind == "session"
        }
        self._unread = set()
        # One owner after the other: what is written together is in few segments.
        for name in sorted(readable, key=lambda each: row_text(infos[each].owner) or ""):
            info, source = infos[name], known.get(name)
            stamp = session_stamp(info)
            is_new = source is None or source.stamp != stamp
            if is_new and not self._read_session(store, info, stamp, source):
                self._unread.add(name)
        self._write()
        gone = {name: source.id for name, source in known.items() if name not in infos}
        if gone:
            self._index.forget(gone.values())
            self._held.difference_update(gone)

    def _read_session(
        self, store: SessionStore, info: SessionInfo, stamp: str, source: IndexSource | None
    ) -> bool:
        """Put a session into the index; only its new records if it has grown. Returns False where
        it cannot be read: it is not searched, and must not stop the search of others."""
        key = info.key
        try:
            if source is not None and source.head:
                fresh = _since(store.back(key), source.head)
                if fresh is not None and not reaches_back(fresh):
                    head = fresh[-1].id if fresh else source.head
                    before = store.find(key, source.head) if fresh else None
                    said = user_text(before) if before is not None else ""
                    found = list(_record_passages(fresh, self._mask, said))
                    self._index.extend(source, stamp=stamp, head=head, passages=found)
                    return True
            records = list(store.read(key))
        except HoldfastError:
            return False
        head = records[-1].id if records else ""
        found = list(_record_passages(records, self._mask))
        self._put(NewSource("session", str(key), stamp, head, found, row_text(info.owner) or ""))
        return True

    def _put(self, new: NewSource) -> None:
        """Put a source into the index, together with others: each transaction costs pages."""
        self._waiting.append(new)
        self._waiting_passages += len(new.passages)
        if len(self._waiting) >= _SOURCES_AT_ONCE or self._waiting_passages >= _PASSAGES_AT_ONCE:
            self._write()

    def _write(self) -> None:
        waiting, self._waiting, self._waiting_passages = self._waiting, [], 0
        if waiting:
            self._index.replace(waiting)


def session_stamp(info: SessionInfo) -> str:
    """Return the stamp that a session has in the index while it is as these facts say."""
    return f"{info.head} {info.bytes} {info.records}"


def _record_passages(
    records: Sequence[Record], mask: Callable[[str], str], said: str = ""
) -> Iterator[IndexPassage]:
    """The words of people and models that no model refused, in passages.

    `said` is what a person said right before them: a reply is marked if some of it may stand.
    """
    said = mask(said)
    for record in as_told(records):
        role: Role = "user"
        words = mask(user_text(record))
        mark: tuple[str, ...] = ()
        if words:
            said = words
        else:
            words, role = mask(assistant_text(record)), "assistant"
            mark = (MARK,) if words and may_stand(said, words) else ()
            said = "" if words else said
        for text in passages(words) if words else ():
            found = [*mark, *terms(text)]
            yield IndexPassage(text, found, role, record=record.id, ts=record.ts or None)
            mark = ()


def _note_passages(
    note: Note, changed: float, mask: Callable[[str], str]
) -> Iterator[IndexPassage]:
    """A note in passages; its heading counts as part of each of them."""
    origin = " ".join(filter(None, [note.session, *note.records[:1]]))
    heading = terms(note.heading)
    for text in passages(mask(note.text)):
        yield IndexPassage(
            text,
            [*heading, *terms(text)],
            "note",
            record=origin,
            first_line=note.line,
            last_line=note.last_line,
            ts=note.ts if note.ts is not None else changed,
        )


def _since(back: Iterator[Record], head: str) -> list[Record] | None:
    """The records after `head`, oldest first; None if it is no longer on the path."""
    fresh: list[Record] = []
    for record in back:
        if record.id == head:
            return fresh[::-1]
        fresh.append(record)
    return None
