"""Sessions in plain files: `<root>/agents/<agent>/sessions/<session>.jsonl`.

An append is one write of whole lines on an append-only descriptor, under a lock that is held for
just that, followed by a data sync. Reading takes no lock. Nothing that was written is ever
changed: a torn end is sealed by the next append and stays in the file, where `verify` finds it.
"""

from __future__ import annotations

import os
import random
import stat
import threading
import time
from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import LOCK_WAIT_SECONDS
from holdfast.core.log.batch import new_header
from holdfast.core.log.records import decode, encode
from holdfast.core.log.views import MESSAGE_KEY, key_of
from holdfast.core.owners import NO_OWNER, UNKNOWN_OWNER, NamedOwner
from holdfast.errors import NoSuchSession
from holdfast.ports import Appended, SessionStore, SideStores
from holdfast.stores.jsonl.erasing import FileEraser
from holdfast.stores.jsonl.folders import SUFFIX, sessions_of
from holdfast.stores.jsonl.writer import FileLeases, Writers
from holdfast.stores.lines import Forward

if TYPE_CHECKING:
    from holdfast.core.log.batch import Batch, Lines
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.owners import FoundOwner, Owner
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.ports import BlobStore, Clock, DiskUse, Durability, Entropy, Trashed
    from holdfast.stores.audit import FileAudit
    from holdfast.stores.files import Disk
    from holdfast.stores.jsonl.folders import Folders
    from holdfast.stores.jsonl.log import FileLog
    from holdfast.stores.notes.notes import NoteStore
    from holdfast.stores.queues import SqliteQueues
    from holdfast.stores.spending import SqliteSpending
    from holdfast.stores.summary_files import FileSidecars


_FIELD: Final = f'"{MESSAGE_KEY}"'.encode()
_LOGS_MAX: Final = 64
"""Logs whose keys are remembered; as many as are held open for appending."""


class _Seen(msgspec.Struct):
    """The keys in the first `size` bytes of a file."""

    identity: tuple[int, int]
    size: int = 0
    keys: set[str] = msgspec.field(default_factory=set)


class MessageKeys:
    """Tells whether a log may hold a key, without reading it again from the beginning."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._logs: OrderedDict[SessionKey, _Seen] = OrderedDict()

    def may_hold(self, log: FileLog, message_key: str) -> bool:
        """Return False where no line of the log has the key."""
        with self._mutex:
            seen = self._entry(log)
            lines = Forward(log.fd, seen.size, log.size)
            for _position, line in lines:
                if isinstance(line, bytes) and _FIELD in line:
                    seen.keys.add(key_of(decode(line)))
            seen.size = lines.tail_position
            tail = lines.tail  # a record without its newline counts, and is read again
            is_last = isinstance(tail, bytes) and key_of(decode(tail)) == message_key
            return is_last or message_key in seen.keys

    def _entry(self, log: FileLog) -> _Seen:
        status = os.fstat(log.fd)
        identity = (status.st_dev, status.st_ino)
        seen = self._logs.get(log.key)
        if seen is None or seen.identity != identity or seen.size > log.size:
            seen = self._logs[log.key] = _Seen(identity)
        self._logs.move_to_end(log.key)
        if len(self._logs) > _LOGS_MAX:
            self._logs.popitem(last=False)
        return seen


class FileSideStores(SideStores):
    """Everything that a folder keeps beside its logs. Imported on use: an append needs none."""

    root: str
    """The folder of all sessions."""
    _clock: Clock
    _folders: Folders
    _blobs: BlobStore | None

    @property
    def blobs(self) -> BlobStore:
        if self._blobs is not None:
            return self._blobs
        from holdfast.stores.blobs import FileBlobs

        return FileBlobs(self.root)

    @property
    def audit(self) -> FileAudit:
        from holdfast.stores.audit import FileAudit

        return FileAudit(self.root)

    @property
    def summaries(self) -> FileSidecars:
        from holdfast.stores.summary_files import FileSidecars  # brings much of the core

        return FileSidecars(self.root)

    @cached_property
    def queues(self) -> SqliteQueues:
        from holdfast.stores.queues import FILE_NAME, SqliteQueues

        return SqliteQueues(os.path.join(self.root, FILE_NAME), clock=self._clock)

    @cached_property
    def spending(self) -> SqliteSpending:
        from holdfast.stores.spending import FILE_NAME, SqliteSpending

        return SqliteSpending(os.path.join(self.root, FILE_NAME))

    def notes(
        self,
        agent: str,
        owner: Owner = NO_OWNER,
        *,
        clock: Clock = time.time,
        redactor: Redactor | None = None,
    ) -> NoteStore:
        from holdfast.stores.notes.notes import NoteStore

        return NoteStore(self.root, agent, owner, clock=clock, redactor=redactor)

    def note_scopes(self, agent: str) -> dict[str, FoundOwner]:
        from holdfast.stores.notes.note_files import OWNER_FILE, TRASH, read_owner
        from holdfast.stores.notes.notes import OWNERS, note_scope

        def names(scope: str) -> dict[str, bool]:
            found = self._folders.listing(tuple(scope.split("/")))
            return {name: stat.S_ISDIR(status.st_mode) for name, status in found}

        own = note_scope(agent, NO_OWNER)
        scopes: dict[str, FoundOwner] = {own: NO_OWNER}
        for name, is_folder in names(f"{own}/{OWNERS}").items() if names(own).get(OWNERS) else ():
            if is_folder:
                scope = f"{own}/{OWNERS}/{name}"
                owner = read_owner(self.root, scope.split("/"))
                is_proven = isinstance(owner, NamedOwner) and note_scope(agent, owner) == scope
                scopes[scope] = owner if is_proven else UNKNOWN_OWNER
        ours = {OWNERS, TRASH, OWNER_FILE}
        return {scope: owner for scope, owner in scopes.items() if names(scope).keys() - ours}


class JsonlStore(FileEraser, FileSideStores, SessionStore):
    """The `SessionStore` of a single machine. Safe for threads and for processes."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        disk: Disk | None = None,
        clock: Clock = time.time,
        entropy: Entropy = random.getrandbits,
        lock_wait_seconds: float = LOCK_WAIT_SECONDS,
        blobs: BlobStore | None = None,
    ) -> None:
        """`blobs` keeps payloads elsewhere than below the root."""
        super().__init__(root, disk=disk, clock=clock, entropy=entropy)
        self._writers = Writers(self._folders, lock_wait_seconds)
        self._message_keys = MessageKeys()
        self._blobs = blobs

    def close(self) -> None:
        self._writers.close()
        if self._opened_index is not None:
            self._opened_index.close()
        self._folders.changes.close()
        self._close_search_index()
        if "queues" in vars(self):
            self.queues.close()
        if "spending" in vars(self):
            self.spending.close()

    def describe(self, key: SessionKey | None = None) -> str:
        parts = () if key is None else (*sessions_of(key.agent), key.session + SUFFIX)
        return os.path.join(os.path.abspath(self.root), *parts)

    @property
    def local_folder(self) -> str:
        return self.root

    def disk_use(self) -> DiskUse:
        from holdfast.stores.files import measure_folder

        return measure_folder(self.root)

    @cached_property
    def leases(self) -> FileLeases:
        return FileLeases(str(self.root), self._writers.writer)

    def append_batch(
        self,
        key: SessionKey,
        batch: Batch,
        *,
        expect: str | None,
        durability: Durability,
        token: int | None,
    ) -> Appended:
        self._warn_of_network()
        writer = self._writers.writer(key)
        ready = self._encode(batch, writer.head)

        def lines_after(head: str) -> Lines:
            # Usually ready before the lock was taken; again only if another writer's id is later.
            return ready if head < ready.ids[0] else self._encode(batch, head)

        lines, sealed = writer.append(
            lines_after,
            expect=expect,
            batch=batch,
            header=lambda: encode(new_header(key, now=self._clock())) + b"\n",
            is_synced=durability == "synced",
            token=token,
        )
        return Appended(lines.ids, lines.ids[-1], sealed)

    def extend_log(self, key: SessionKey, data: bytes, *, at: int) -> None:
        self._warn_of_network()
        try:
            self._writers.writer(key).extend(data, at=at)
        except NoSuchSession:
            if at > 0:
                raise
            self._folders.create(key, [data])

    def _encode(self, batch: Batch, head: str) -> Lines:
        return batch.encode(after=head, now=self._clock(), random_bits=self._entropy(28))

    def find_message(self, key: SessionKey, message_key: str) -> Record | None:
        with self.open_log(key) as log:
            if not self._message_keys.may_hold(log, message_key):
                return None
        return super().find_message(key, message_key)

    def is_head(self, key: SessionKey, record: str) -> bool:
        return self._writers.head_if_ours(key) == record or super().is_head(key, record)

    def sync(self, key: SessionKey) -> None:
        self._writers.writer(key).sync()

    def remove(self, key: SessionKey) -> Trashed:
        trashed = self._writers.writer(key).discard(now=self._clock())
        self._writers.drop(key)
        self.summaries.forget(key)  # a cache of words; a restored session makes it again
        return trashed
