"""A session's log as its flows see it: read once, then kept up to date in memory."""

from __future__ import annotations

import functools
import threading
import time
from itertools import dropwhile, islice, takewhile
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.flow.effects import StoredMessage
from holdfast.core.log.records import Compaction, Rewind, ToolResult, Undo, User
from holdfast.core.log.refs import restore
from holdfast.core.log.replay import Boundaries
from holdfast.core.log.views import find_answer
from holdfast.core.refusals import as_sent, read_left_out
from holdfast.core.secrets.vault import Vault
from holdfast.core.window import ANY_WINDOW
from holdfast.errors import LogConflict, NoSuchRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import OutputRef, Record
    from holdfast.core.log.replay import Live
    from holdfast.core.window import Window, WindowFilter
    from holdfast.ports import BlobStore, Clock, SessionStore

_RACES_MAX: Final = 50
"""Attempts of one append against other writers; each lost race means that another one succeeded."""
_OPENING_RECORDS: Final = 2_000
"""Records that opening a session looks at where no boundary is nearer."""


class SessionLog:
    """The records from the newest boundary to the head; before the compaction of another tool, the
    user's words as well. Safe for threads.

    Records of other writers are taken over where they only follow ours. Where the head has moved to
    another branch, `LogConflict` is raised and nothing is written.
    """

    def __init__(
        self,
        store: SessionStore,
        key: SessionKey,
        clock: Clock = time.time,
        blobs: BlobStore | None = None,
        vault: Vault | None = None,
    ) -> None:
        self.store = store
        self.key = key
        self._clock = clock
        self._blobs = blobs
        self._vault = vault if vault is not None else Vault({})
        self._mutex = threading.RLock()
        self._records: list[Record] = []
        self._window: WindowFilter = ANY_WINDOW
        self._head = ""
        self._is_as_stored = False
        """The records are those of the log: none is left out between them, none has pictures that
        were moved out of it."""
        self._on_append: list[Callable[[Sequence[Record]], None]] = []
        self._on_load: Callable[[Sequence[Record]], None] | None = None

    @property
    def head(self) -> str:
        return self._head or self.store.head(self.key)

    def on_append(self, callback: Callable[[Sequence[Record]], None]) -> None:
        """Call back with the records of every append through this object."""
        self._on_append.append(callback)

    def on_first_load(self, callback: Callable[[Sequence[Record]], None]) -> None:
        """Call back, once, with the records when they are read for the first time."""
        self._on_load = callback

    def newest(self) -> tuple[list[Record], bool]:
        """The newest records, oldest first, and True where a boundary or the root is among them.

        No more are read than opening a session may cost, however long its log is.
        """
        found: list[Record] = []
        for record in islice(self.store.back(self.key), _OPENING_RECORDS):
            found.append(record)
            if isinstance(record, Compaction):
                return found[::-1], True
        return found[::-1], len(found) < _OPENING_RECORDS

    def read(self, window: Window, *, is_known: bool = False) -> tuple[Record, ...]:
        """The records that a window of this size looks at, as they are now; where it `is_known`
        that no one wrote meanwhile, the store is not asked for its head."""
        with self._mutex:
            has_all = bool(self._head) and window == self._window
            if not has_all or not (is_known or self._is_current()):
                self._load(window)
            return tuple(self._records)

    def since(self, record: str, *, every_branch: bool = False) -> tuple[Record, ...]:
        """The records of the path from this one on, or of every branch; none where it is not
        there."""
        if every_branch:
            written = (entry.record for entry in self.store.read_all(self.key))
            return tuple(dropwhile(lambda found: found.id != record, written))
        try:
            found = tuple(self.store.read(self.key, start=record))
        except NoSuchRecord:
            return ()
        return found if found and found[0].id == record else ()

    def append(
        self,
        records: Sequence[Record],
        *,
        unless: Callable[[Sequence[Record]], bool] | None = None,
        unless_key: str = "",
        token: int | None = None,
    ) -> tuple[Record, ...] | None:
        """Make records durable at the end of the log; see `core.flow.effects.Append`."""
        with self._mutex:
            if not self._head:
                self._load(self._window)
            now = round(self._clock(), 3)
            sealed = map(self._vault.mask_record, records)
            ready = [msgspec.structs.replace(rec, ts=rec.ts or now) for rec in sealed]
            for _ in range(_RACES_MAX):
                if unless is not None and unless(self._records):
                    return None
                if unless_key and self.find_message(unless_key) is not None:
                    return None
                try:
                    done = self.store.append(self.key, ready, expect=self._head, token=token)
                except LogConflict:
                    if self._catch_up() is not None:
                        continue
                    self._head = ""  # another branch: the next call starts from there
                    if unless is not None:
                        return None
                    raise
                pairs = zip(ready, done.ids, strict=True)
                stored = tuple(msgspec.structs.replace(rec, id=id_) for rec, id_ in pairs)
                self._take(stored, done.head)
                return stored
            raise LogConflict(self.key.session, self._head, self.store.head(self.key), "several")

    def find_message(self, message_key: str) -> StoredMessage | None:
        """The message with a key, and its answer. One on a branch that was left counts only with
        an answer: without one it was taken back before it led to anything."""
        found = self.store.find_message(self.key, message_key)
        if found is None:
            return None
        try:
            return StoredMessage(found.id, find_answer(self.store.read(self.key, start=found.id)))
        except NoSuchRecord:
            written = (entry.record for entry in self.store.read_all(self.key))
            answer = find_answer(dropwhile(lambda record: record.id != found.id, written))
            return None if answer is None else StoredMessage(found.id, answer)

    def _is_current(self) -> bool:
        """True if nothing is missing, after taking over the records of other writers."""
        if not self._head:
            return False
        return self.store.is_head(self.key, self._head) or self._catch_up() is not None

    def _take(self, stored: Sequence[Record], head: str) -> None:
        self._records.extend(map(self._with_payloads, stored))
        self._head = head
        if any(isinstance(rec, Rewind | Undo) for rec in stored) or self._lacks(stored):
            self._head = ""
        else:
            _drop_before_cut(self._records, stored, self._window)
        for callback in self._on_append:
            callback(stored)

    def _with_payloads(self, record: Record) -> Record:
        """A record as a model sees it: with the pictures that were moved out of it."""
        if self._blobs is None:
            return record
        whole = restore(record, functools.partial(_read_payload, self._blobs))
        self._is_as_stored &= whole is record
        return whole

    def _load(self, window: WindowFilter) -> None:
        live = self.store.live(self.key, window=window)
        older = words_before(self.store, self.key, live)
        self._is_as_stored = not older
        self._records = [*older, *map(self._with_payloads, live.records)]
        self._head, self._window = live.head, window
        callback, self._on_load = self._on_load, None
        if callback is not None:
            callback(self._records)

    def _catch_up(self) -> list[Record] | None:
        """Take over the records of other writers; None where they do not simply follow ours."""
        try:
            path = list(self.store.read(self.key, start=self._head))
        except NoSuchRecord:
            return None
        if not path or path[0].id != self._head:
            return None
        added = path[1:]
        if any(isinstance(rec, Rewind | Undo) for rec in added):
            return None
        self._records.extend(map(self._with_payloads, added))
        if added:
            self._head = added[-1].id
        if self._lacks(added):
            self._load(self._window)
        else:
            _drop_before_cut(self._records, added, self._window)
        return added

    def _lacks(self, added: Sequence[Record]) -> bool:
        """True if a cut among records that came last needs what is not at hand: the first record
        that it keeps, or, after another tool's, the user's words before it."""
        cuts = [rec for rec in added if isinstance(rec, Compaction)]
        if not cuts:
            return False
        held = {record.id for record in self._records}
        return any(cut.covers is None or (cut.first_kept or cut.id) not in held for cut in cuts)


def records_at_hand(log: SessionLog) -> tuple[Record, ...]:
    """Return the newest records as the store has them, as far as they are in memory; none where
    that is not known."""
    with log._mutex:
        if not log._is_as_stored or not log._head:
            return ()
        return tuple(log._records) if log.store.is_head(log.key, log._head) else ()


def words_before(store: SessionStore, key: SessionKey, live: Live) -> list[Record]:
    """Return the user's words from before another tool's compaction, without refused ones: no
    carry-over of ours has them, and the next one must."""
    if live.boundary is None or live.boundary.covers is not None or not live.records:
        return []
    first = live.records[0].id
    older = list(takewhile(lambda record: record.id != first, store.read(key)))
    return [
        record
        for record in as_sent(older, read_left_out([*older, *live.records]))
        if isinstance(record, User) or (isinstance(record, ToolResult) and record.refused)
    ]


def _read_payload(blobs: BlobStore, ref: OutputRef) -> bytes:
    from holdfast.engine.outputs import payload_of  # few records have one

    return payload_of(blobs)(ref)


def _drop_before_cut(records: list[Record], added: Sequence[Record], window: WindowFilter) -> None:
    """Drop what is before a cut among records that came last: a log that is opened again does not
    read it either."""
    boundaries = Boundaries(window)
    cut = next((rec for rec in reversed(added) if boundaries.is_one(rec)), None)
    if isinstance(cut, Compaction):
        first = cut.first_kept or cut.id
        places = range(len(records) - 1, -1, -1)
        del records[: next(at for at in places if records[at].id == first)]
