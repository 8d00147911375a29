"""A log held open for appending: the lock, the write, the sync, and what happens when they fail.

Beside the log is the lease of its session's turn (`<session>.lease`), and the last writer, so that
a conflict can name the other one. Removed sessions are in
`<root>/trash/<agent>.<session>.<milliseconds>.jsonl`.
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import time
from collections import OrderedDict
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import LOCK_WAIT_SECONDS
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.text.cut import cut
from holdfast.core.text.typed import decode_typed
from holdfast.errors import (
    LeaseLost,
    LogConflict,
    LogGrown,
    NoSuchSession,
    TurnInProgress,
)
from holdfast.ports import LeaseHolder, Trashed, awake_time, find_trashed
from holdfast.ports.side_stores import this_boot
from holdfast.stores.changes import forget_writer, note_writer
from holdfast.stores.files import (
    Disk,
    explain,
    explaining,
    hold_lock,
    open_file,
    open_folder,
    unlock,
    write_whole,
)
from holdfast.stores.jsonl.folders import SUFFIX, TRASH
from holdfast.stores.jsonl.log import Ending, LogHandle, read_ending, recent_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.log.batch import Batch, Lines
    from holdfast.core.log.damage import Finding
    from holdfast.stores.jsonl.folders import Folders


_BLOCK_BYTES: Final = 4_096
"""The size of the file, always written as a whole: no one sees half of a change."""
_QUEUE_BYTES: Final = 2_600
"""Of it for those who wait; where many do, the last take their chances."""
_HOLDER_CHARS: Final = 200
_GRACE_SECONDS: Final = 60.0
"""Added to a lease of another machine, whose clock is not ours."""


class _Waiting(msgspec.Struct, frozen=True, array_like=True):
    """A place in the queue for a lease."""

    holder: str
    since: float
    until: float
    """In seconds of `awake_time`."""


class _Lease(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of the file."""

    token: int
    holder: str = ""
    """Empty once the lease is released."""
    since: float = 0.0
    until: float = 0.0
    """In seconds of `awake_time`."""
    wall: float = 0.0
    """The same moment by the wall clock, for other machines."""
    boot: str = ""
    """The machine and its start, from which `until` counts."""
    pid: int = 0
    is_locked: bool = False
    """The holder has the lock on the file; False where a stopped process still had it."""
    queue: tuple[_Waiting, ...] = ()
    """Those who wait for the lease on this machine, in their order."""

    @property
    def is_over(self) -> bool:
        """True if the lease was released, or its time is up."""
        if not self.holder:
            return True
        if self.boot == this_boot():
            return awake_time() >= self.until
        return time.time() >= self.wall + _GRACE_SECONDS


class LeaseFile:
    """The lease of one session. Every call needs the lock of the log, and its folder."""

    def __init__(self, key: SessionKey) -> None:
        self._key = key
        self._name = f"{key.session}.lease"
        self._fd = -1
        self._identity = (-1, -1)
        self._held: int | None = None
        """The token for which we have the lock on the file."""

    @property
    def is_held(self) -> bool:
        """True while a turn runs through this object."""
        return self._held is not None

    def acquire(self, folder: int, holder: str, seconds: float, queue_seconds: float) -> int:
        holder, lease = cut(holder, _HOLDER_CHARS).text, self._read(folder)
        queue = _queue(lease)
        is_alive, first = self._is_alive(lease), queue[0] if queue else None
        if lease is not None and (is_alive or (first is not None and first.holder != holder)):
            if queue_seconds and lease.boot == this_boot():
                self._write(
                    msgspec.structs.replace(lease, queue=_join(queue, holder, queue_seconds))
                )
            busy = lease if is_alive or first is None else first
            raise TurnInProgress(str(self._key), busy.holder, busy.since)
        if lease is None:
            self._open(folder, os.O_RDWR | os.O_CREAT)
        # A session that is made again under an old name must not repeat a token.
        token = time.time_ns() // 1_000 if lease is None else lease.token + 1
        is_locked = _try_lock(self._fd)
        self._held = token if is_locked else None
        taken = _Lease(token, holder, round(time.time(), 3), pid=os.getpid(), queue=queue[1:])
        self._prolong(taken, seconds, is_locked=is_locked)
        return token

    def leave_queue(self, folder: int, holder: str) -> None:
        lease, name = self._read(folder), cut(holder, _HOLDER_CHARS).text
        if lease is not None and any(other.holder == name for other in lease.queue):
            queue = tuple(other for other in lease.queue if other.holder != name)
            self._write(msgspec.structs.replace(lease, queue=queue))

    def renew(self, folder: int, token: int, seconds: float) -> None:
        lease = self._newest(folder, token)
        is_locked = lease.is_locked or _try_lock(self._fd)
        if is_locked:
            self._held = token
        self._prolong(lease, seconds, is_locked=is_locked)

    def release(self, folder: int, token: int) -> None:
        lease = self._read(folder)
        if lease is not None and (lease.token, lease.pid) == (token, os.getpid()):
            self._prolong(_Lease(token, queue=lease.queue), 0.0, is_locked=False)
        if self._held == token:
            unlock(self._fd)
            self._held = None

    def check(self, folder: int, token: int) -> None:
        """Raise `LeaseLost` where the token is not the newest, or another process's."""
        self._newest(folder, token)

    def current(self, folder: int) -> LeaseHolder | None:
        lease = self._read(folder)
        if not self._is_alive(lease):
            return None
        assert lease is not None
        return LeaseHolder(lease.token, lease.holder, lease.since)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._held = -1, None

    def _newest(self, folder: int, token: int) -> _Lease:
        lease = self._read(folder)
        if lease is None or (lease.token, lease.pid) != (token, os.getpid()):
            raise LeaseLost(str(self._key), lease.holder if lease else "")
        return lease

    def _is_alive(self, lease: _Lease | None) -> bool:
        """True if a lease has a holder that may still write."""
        if lease is None or lease.is_over:
            return False
        if lease.token == self._held or not lease.is_locked:
            return True
        if not _try_lock(self._fd):
            return True
        unlock(self._fd)
        return False

    def _read(self, folder: int) -> _Lease | None:
        """The content of the file that has the name now; None where there is none, or another
        program wrote it."""
        try:
            named = os.stat(self._name, dir_fd=folder, follow_symlinks=False)
            if (named.st_dev, named.st_ino) != self._identity or self._fd < 0:
                self._open(folder, os.O_RDWR)
            return decode_typed(os.pread(self._fd, _BLOCK_BYTES, 0), _Lease)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def _open(self, folder: int, flags: int) -> None:
        self.close()
        # A second name does no harm: a lease means nothing in a backup.
        self._fd = open_file(folder, self._name, flags, keep_links=True)
        opened = os.fstat(self._fd)
        self._identity = (opened.st_dev, opened.st_ino)

    def _prolong(self, lease: _Lease, seconds: float, *, is_locked: bool) -> None:
        """Write a lease that lasts for so many seconds from now."""
        self._write(
            msgspec.structs.replace(
                lease,
                until=awake_time() + seconds,
                wall=time.time() + seconds,
                boot=this_boot(),
                is_locked=is_locked,
            )
        )

    def _write(self, lease: _Lease) -> None:
        os.pwrite(self._fd, msgspec.json.encode(lease).ljust(_BLOCK_BYTES - 1) + b"\n", 0)


class FileLeases:
    """The `Leases` of sessions in files."""

    def __init__(self, root: str, writer: Callable[[SessionKey], LogWriter]) -> None:
        self._root = root
        self._writer = writer

    @cached_property
    def place(self) -> str:
        return os.path.realpath(self._root)

    def acquire(
        self, key: SessionKey, holder: str, seconds: float, *, queue_seconds: float = 0.0
    ) -> int:
        with self._writer(key).lease() as (lease, folder), explaining(f"lease `{key.session}`"):
            return lease.acquire(folder, holder, seconds, queue_seconds)

    def leave_queue(self, key: SessionKey, holder: str) -> None:
        with self._writer(key).lease() as (lease, folder), explaining(f"lease `{key.session}`"):
            lease.leave_queue(folder, holder)

    def renew(self, key: SessionKey, token: int, seconds: float) -> None:
        with self._writer(key).lease() as (lease, folder), explaining(f"lease `{key.session}`"):
            lease.renew(folder, token, seconds)

    def release(self, key: SessionKey, token: int) -> None:
        writer = self._writer(key)
        try:
            with writer.lease() as (lease, folder), explaining(f"lease `{key.session}`"):
                lease.release(folder, token)
        except NoSuchSession:
            writer.close()  # the log was deleted meanwhile: its lease must not block the name
            raise

    def current(self, key: SessionKey) -> LeaseHolder | None:
        with self._writer(key).lease() as (lease, folder), explaining(f"lease `{key.session}`"):
            return lease.current(folder)


def forget_lease(folder: int, session: str) -> None:
    """Delete the lease of a session that is removed: its token is the newest no more."""
    with suppress(FileNotFoundError):
        os.unlink(f"{session}.lease", dir_fd=folder)


def _queue(lease: _Lease | None) -> tuple[_Waiting, ...]:
    """Those who wait and asked recently, since this start of this machine."""
    if lease is None or lease.boot != this_boot():
        return ()
    now = awake_time()
    return tuple(place for place in lease.queue if place.until > now)


def _join(queue: tuple[_Waiting, ...], holder: str, seconds: float) -> tuple[_Waiting, ...]:
    """Keep a place in the queue for so many seconds, the last if the holder has none."""
    until = round(awake_time() + seconds, 3)
    if all(place.holder != holder for place in queue):
        joined = (*queue, _Waiting(holder, round(time.time(), 3), until))
        return joined if len(msgspec.json.encode(joined)) <= _QUEUE_BYTES else queue
    return tuple(
        msgspec.structs.replace(place, until=until) if place.holder == holder else place
        for place in queue
    )


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def move_to_trash(
    folders: Folders, key: SessionKey, folder: int, *, now: float, size: int
) -> Trashed:
    """Move the log of a session, which the caller has locked, from its folder to the trash."""
    trash = open_folder(folders.root, TRASH, create=True)
    try:
        with hold_lock(trash, wait_seconds=LOCK_WAIT_SECONDS):
            stamp, taken = int(now * 1000), set(os.listdir(trash))
            while f"{key.agent}.{key.session}.{stamp}{SUFFIX}" in taken:
                stamp += 1
            name = f"{key.agent}.{key.session}.{stamp}"
            os.rename(key.session + SUFFIX, name + SUFFIX, src_dir_fd=folder, dst_dir_fd=trash)
        forget_writer(folder, key.session)
        forget_lease(folder, key.session)
        folders.disk.sync_folder(trash)
        folders.disk.sync_folder(folder)
        folders.changes.mark(key)
    finally:
        os.close(trash)
    return Trashed(name, key, stamp / 1000, size)


def list_trash(folders: Folders) -> list[Trashed]:
    """Return the removed sessions, the newest first. Other files there are skipped."""
    found = []
    for name, status in folders.listing(TRASH):
        parts = name.split(".")
        if not stat.S_ISREG(status.st_mode) or len(parts) != 4:
            continue
        if name.endswith(SUFFIX) and parts[2].isdecimal():
            agent, session, stamp, _ = parts
            if is_name(agent) and is_name(session):
                key = SessionKey(agent, session)
                stem = name.removesuffix(SUFFIX)
                found.append(Trashed(stem, key, int(stamp) / 1000, status.st_size))
    return sorted(found, key=lambda trashed: (-trashed.removed, trashed.name))


def restore(folders: Folders, name: str) -> SessionKey:
    """Take the newest session of that name, id or `agent/id` out of the trash."""
    trashed = find_trashed(list_trash(folders), name)
    key = trashed.key
    with explaining(f"restore `{name}`"), folders.free_place(key) as folder:
        trash = open_folder(folders.root, TRASH)
        try:
            source, target = trashed.name + SUFFIX, key.session + SUFFIX
            os.rename(source, target, src_dir_fd=trash, dst_dir_fd=folder)
            folders.disk.sync_folder(folder)
            folders.changes.mark(key)
        finally:
            os.close(trash)
    return key


def empty_trash(folders: Folders, *, before: float) -> list[Trashed]:
    """Delete the sessions that were removed before that time."""
    gone = [trashed for trashed in list_trash(folders) if trashed.removed <= before]
    for trashed in gone:
        folders.unlink(TRASH, trashed.name + SUFFIX)
    return gone


_WRITERS_MAX: Final = 64
"""Logs held open for appending; more would use up the descriptors of a process. Those with a
running turn are kept beyond it."""
_RECENT_RECORDS: Final = 500
"""The newest records, among which an id that came with a record is looked for under the lock. A
retry comes soon after the append that it repeats."""


class LogWriter:
    """Appends to one log. It remembers the log's end, so as not to read it again."""

    def __init__(self, folders: Folders, key: SessionKey, wait_seconds: float) -> None:
        self.key = key
        self.head = ""
        """The head when we last looked."""
        self._folders = folders
        self._disk: Disk = folders.disk
        self._mutex = threading.Lock()
        self._file = LogHandle(folders, key, wait_seconds)
        self._lease = LeaseFile(key)
        self._ending: Ending | None = None
        """The end as other writers left it; None once we have written after them."""
        self._recent: set[str] | None = None
        self._marked = b""

    def append(
        self,
        lines_after: Callable[[str], Lines],
        *,
        expect: str | None,
        batch: Batch,
        header: Callable[[], bytes],
        is_synced: bool,
        token: int | None = None,
    ) -> tuple[Lines, Finding | None]:
        """Write the lines that follow the head, as one act; return what had to be sealed first.

        `header` makes the first line of an empty file. An older lease's `token` writes nothing.
        """
        with self._mutex:
            size = self._file.lock()
            try:
                if token is not None:
                    self._lease.check(self._file.folder, token)
                if size != self._file.known_size:
                    self._look_at_end(size)
                if expect is not None and expect != self.head:
                    self._look_at_end(size)  # what we remember may be damaged by now
                if expect is not None and expect != self.head:
                    raise LogConflict(str(self.key), expect, self.head, self._file.last_writer())
                if batch.claimed:
                    self._refuse_repeats(batch)
                lines = lines_after(self.head)
                ending, data = self._ending, lines.data
                if ending is not None:
                    note_writer(self._file.folder, self.key.session)
                    data = (ending.seal if self._file.known_size else header()) + data
                self._write(data, is_synced=is_synced)
            finally:
                self._file.unlock()
            self._marked = self._folders.changes.mark(self.key, self._marked)
            self.head, self._ending = lines.ids[-1], None
            if self._recent is not None:
                self._recent.update(lines.ids)
                if len(self._recent) > 10 * _RECENT_RECORDS:
                    self._recent = None
        return lines, ending.torn if ending else None

    def head_if_ours(self) -> str | None:
        """Return the head without reading the log; None where another writer may have written."""
        if not self._mutex.acquire(blocking=False):
            return None  # an append is on its way
        try:
            is_ours = self._ending is None and self._file.is_as_known()
            return self.head if is_ours and self.head else None
        finally:
            self._mutex.release()

    def extend(self, data: bytes, *, at: int) -> None:
        """Write lines of another log as they are; raises `LogGrown` unless the log ends there."""
        with self._mutex:
            size = self._file.lock(is_foreign_allowed=True)
            try:
                if size != at:
                    raise LogGrown(str(self.key), at, size)
                note_writer(self._file.folder, self.key.session)
                self._file.known_size = size
                self._write(data, is_synced=True)
            finally:
                self._file.unlock()
                self._file.known_size = -1  # the next append looks at the end itself
            self._marked = self._folders.changes.mark(self.key, self._marked)

    def sync(self) -> None:
        """Make everything appended so far durable."""
        with self._exclusive(), explaining(f"sync session `{self.key.session}`"):
            self._disk.sync(self._file.fd)

    def discard(self, *, now: float) -> Trashed:
        """Move the log to the trash."""
        with self._exclusive(), explaining(f"remove session `{self.key.session}`"):
            size = os.fstat(self._file.fd).st_size
            return move_to_trash(self._folders, self.key, self._file.folder, now=now, size=size)

    @contextmanager
    def lease(self) -> Iterator[tuple[LeaseFile, int]]:
        """Hold the log's lock; yields the lease of the session's turn, and its folder."""
        with self._exclusive():
            yield self._lease, self._file.folder

    @property
    def is_leased(self) -> bool:
        """True while a turn runs through this writer, which must stay open until it ends."""
        return self._lease.is_held

    def close(self) -> None:
        """Release the descriptors."""
        with self._mutex:
            self._lease.close()
            self._file.close()

    def __del__(self) -> None:
        self._lease.close()
        self._file.close()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        with self._mutex:
            self._file.lock()
            try:
                yield
            finally:
                self._file.unlock()

    def _look_at_end(self, size: int) -> None:
        """Bring what we know of the end up to date: another writer has appended."""
        with explaining(f"read session `{self.key.session}`"):
            self._ending = read_ending(self._file.log(size))
        self.head, self._file.known_size, self._recent = self._ending.head, size, None

    def _refuse_repeats(self, batch: Batch) -> None:
        """Refuse ids that are in the log. An older repeat is found when it is read."""
        if self._recent is None:
            self._recent = recent_ids(self._file.log(self._file.known_size), _RECENT_RECORDS)
        batch.refuse_repeats(self._recent, self.key)

    def _write(self, data: bytes, *, is_synced: bool) -> None:
        # Unknown until the write is known to be good.
        file, disk = self._file, self._disk
        size, file.known_size = file.known_size, -1
        try:
            write_whole(file.fd, data, disk)
            if is_synced:
                disk.sync(file.fd)
        except OSError as error:
            self._take_back(size, len(data))
            raise explain(error, f"append to session `{self.key.session}`") from error
        file.known_size = size + len(data)

    def _take_back(self, size: int, length: int) -> None:
        """Remove what a failed append left, so that a retry does not write it twice.

        Where even that fails, the rest stays as a torn end for the next append to seal.
        """
        with suppress(OSError):
            if size < os.fstat(self._file.fd).st_size <= size + length:
                self._disk.truncate(self._file.fd, size)
        # After a failed sync the descriptor may report the next one as good: do not keep it.
        unlock(self._file.fd)
        self._file.close()


class Writers:
    """The logs that a store holds open for appending, at most `_WRITERS_MAX`."""

    def __init__(self, folders: Folders, wait_seconds: float) -> None:
        self._folders = folders
        self._wait_seconds = wait_seconds
        self._forget()

    def writer(self, key: SessionKey) -> LogWriter:
        """Return the writer of a session; the one used longest ago is closed for a new one."""
        if self._pid != os.getpid():
            self._forget()  # a forked child shares its parent's locks: it needs its own
        with self._mutex:
            writer = self._writers.get(key)
            if writer is None:
                writer = self._writers[key] = LogWriter(self._folders, key, self._wait_seconds)
            self._writers.move_to_end(key)
            if len(self._writers) > _WRITERS_MAX:
                self._close_oldest()
        return writer

    def head_if_ours(self, key: SessionKey) -> str | None:
        """Return the head of a session that this process wrote last; None where it may not have."""
        writer = self._writers.get(key) if self._pid == os.getpid() else None
        return None if writer is None else writer.head_if_ours()

    def _close_oldest(self) -> None:
        """Close the writer used longest ago; one whose session runs a turn stays."""
        for key, writer in self._writers.items():
            if not writer.is_leased:
                self._writers.pop(key).close()
                return

    def drop(self, key: SessionKey) -> None:
        """Close the writer of a session, unless another thread has."""
        with self._mutex:
            writer = self._writers.pop(key, None)
        if writer is not None:
            writer.close()

    def close(self) -> None:
        """Close every writer."""
        with self._mutex:
            for writer in self._writers.values():
                writer.close()
            self._writers.clear()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._writers: OrderedDict[SessionKey, LogWriter] = OrderedDict()
