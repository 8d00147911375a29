"""A session's log as its flows see it: read once, then kept up with."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.records import Compaction, Rewind, Undo
from holdfast.core.log.refs import restored
from holdfast.core.secrets.vault import Vault
from holdfast.engine.outputs import payload_of
from holdfast.errors import LogConflict, NoSuchRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.ports import BlobStore, Clock, SessionStore

_RACES_MAX: Final = 50
_RECORDS_KEPT: Final = 5_000
"""More than this are read anew from the last boundary when there is a new one."""


class Log:
    """The records from the newest boundary to the head. Safe for threads.

    Another writer's records are taken in where they only follow ours; where the head has moved to
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
        self._vault = vault or Vault({})
        self._mutex = threading.RLock()
        self._records: list[Record] = []
        self._window: int | None = None
        self._head = ""
        self._heard: list[Callable[[Sequence[Record]], None]] = []

    @property
    def head(self) -> str:
        return self._head or self.store.head(self.key)

    def on_append(self, heard: Callable[[Sequence[Record]], None]) -> None:
        """Be told of every record that is appended here."""
        self._heard.append(heard)

    def read(self, window: int) -> tuple[Record, ...]:
        """What a window of this size looks at, as it is now."""
        with self._mutex:
            if window != self._window or not self._is_current():
                self._load(window)
            return tuple(self._records)

    def append(
        self, records: Sequence[Record], *, unless_cut: bool = False, since: str = ""
    ) -> tuple[Record, ...] | None:
        """Make records durable after whatever is there; see `core.flow.effects.Append`."""
        with self._mutex:
            if not self._head:
                self._load(self._window)
            now = round(self._clock(), 3)
            sealed = map(self._vault.sealed, records)
            ready = [msgspec.structs.replace(one, ts=one.ts or now) for one in sealed]
            for _ in range(_RACES_MAX):
                if unless_cut and self._was_cut(since):
                    return None
                try:
                    done = self.store.append(self.key, ready, expect=self._head)
                except LogConflict:
                    if self._catch_up() is not None:
                        continue
                    self._head = ""  # another branch: what is asked next is asked of that
                    if unless_cut:
                        return None
                    raise
                pairs = zip(ready, done.ids, strict=True)
                stored = tuple(msgspec.structs.replace(one, id=id_) for one, id_ in pairs)
                self._take(stored, done.head)
                return stored
            raise LogConflict(self.key.session, self._head, self.store.head(self.key), "several")

    def _was_cut(self, since: str) -> bool:
        """Whether what came after a record changed what is seen before it."""
        for record in reversed(self._records):
            if record.id == since:
                return False
            if isinstance(record, Compaction | Undo):
                return True
        return bool(since)  # it is not there any more

    def _is_current(self) -> bool:
        """Whether nothing is missing, after what others appended was taken in."""
        if not self._head:
            return False
        return self.store.head(self.key) == self._head or self._catch_up() is not None

    def _take(self, stored: Sequence[Record], head: str) -> None:
        self._records.extend(map(self._whole, stored))
        self._head = head
        is_boundary = any(isinstance(one, Compaction) for one in stored)
        if any(isinstance(one, Rewind | Undo) for one in stored) or (
            is_boundary and len(self._records) > _RECORDS_KEPT
        ):
            self._head = ""
        for heard in self._heard:
            heard(stored)

    def _whole(self, record: Record) -> Record:
        """A record as a model sees it: with the pictures that were moved out of it."""
        return record if self._blobs is None else restored(record, payload_of(self._blobs))

    def _load(self, window: int | None) -> None:
        live = self.store.live(self.key, window=window)
        self._records = list(map(self._whole, live.records))
        self._head, self._window = live.head, window

    def _catch_up(self) -> list[Record] | None:
        """Take in what others appended; None where that does not simply follow ours."""
        try:
            path = list(self.store.read(self.key, start=self._head))
        except NoSuchRecord:
            return None
        if not path or path[0].id != self._head:
            return None
        added = path[1:]
        if any(isinstance(one, Rewind | Undo) for one in added):
            return None
        self._records.extend(map(self._whole, added))
        if added:
            self._head = added[-1].id
        return added
