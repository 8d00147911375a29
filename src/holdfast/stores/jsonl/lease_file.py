"""The lease of a session's turn, in `<session>.lease` beside its log.

The file holds the newest token, which only grows, and its holder. It is read and written under the
lock of the log, so that an append and the check of its token are one step. The holder also has a
lock on the file itself, which ends with its process: a lease of a dead process is free at once, and
one of a process that is only stopped when its time is up. Nothing here needs to survive a power
cut: no holder does.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.text.cut import cut
from holdfast.core.text.typed import decode_typed
from holdfast.errors import LeaseLost, NoSuchSession, TurnInProgress
from holdfast.ports import LeaseHolder, awake_time
from holdfast.ports.leases import this_boot
from holdfast.stores.files import explaining, open_file, unlock

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.ids import SessionKey
    from holdfast.stores.jsonl.writer import LogWriter

_BLOCK_BYTES: Final = 4_096
"""The size of the file, always written as a whole: nobody sees half of a change."""
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

    @property
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


def forget(folder: int, session: str) -> None:
    """Delete the lease of a session that is removed: its token is the newest no more."""
    with suppress(FileNotFoundError):
        os.unlink(f"{session}.lease", dir_fd=folder)


def _queue(lease: _Lease | None) -> tuple[_Waiting, ...]:
    """Those who wait and asked lately, since this start of this machine."""
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
