"""The one place that syncs, locks, replaces and contains files.

Everything below a root is reached from a descriptor of the root, one component at a time and
without following links, so that no name, link or swap leads out of it. Files must be regular and
have one name. New files are 0600, new folders 0700.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from holdfast.core.limits import READ_BLOCK_BYTES
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import HoldfastWarning, NotDurable, PathRejected, StoreError, StoreUnavailable
from holdfast.ports import DiskUse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


ENTRIES_MAX: Final = 100_000
"""Files and folders that are looked at."""
_BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`, on every file system."""


def measure_folder(root: str) -> DiskUse:
    """Add up the files below a folder, up to `ENTRIES_MAX` of them.

    Links are not followed. What vanishes meanwhile, or may not be read, is left out.
    """
    total = seen = 0
    folders = [root]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if seen == ENTRIES_MAX:
                    return DiskUse(total, _free(root), is_whole=False)
                seen += 1
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    blocks = getattr(status, "st_blocks", None)  # not on Windows
                    total += status.st_size if blocks is None else blocks * _BLOCK_BYTES
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return DiskUse(total, _free(root))


def _free(root: str) -> int | None:
    try:
        import shutil  # brings three compressors along

        return shutil.disk_usage(root).free
    except OSError:
        return None


FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
"""A session is for its user alone."""

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO must fail or return, never hang. It changes nothing for files.
_FILE_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_fdatasync = getattr(os, "fdatasync", os.fsync)

_SYNCED_NAMES_MAX: Final = 100_000
"""Names remembered as durable; more would only save syncs."""
_OCTAL: Final = lazy_pattern(r"\\([0-7]{3})")
_NETWORK: Final = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "gluster", "lustre", "fuse.sshfs")


class Disk:
    """The calls that durability depends on. Tests put a failing disk in its place."""

    mounts = "/proc/self/mountinfo"
    """The file in which the system lists what is mounted."""

    def write(self, fd: int, data: bytes | memoryview) -> int:
        return os.write(fd, data)

    def sync(self, fd: int) -> None:
        """Make data and size durable."""
        _fdatasync(fd)

    def sync_folder(self, fd: int) -> None:
        os.fsync(fd)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)


# Folders and files


def open_root(path: str, *, create: bool) -> int:
    """A descriptor of the root. The root itself may be a link: it is the user's own choice."""
    if create:
        _make_root(os.path.abspath(path))
    return os.open(path, _FOLDER_FLAGS & ~os.O_NOFOLLOW)


def _make_root(path: str) -> None:
    """Make a folder and those above it; each of them is durable before the next."""
    parent = os.path.dirname(path)
    if not os.path.isdir(path):
        _make_root(parent)
        with suppress(FileExistsError):
            os.mkdir(path, FOLDER_MODE)
    if path == parent:
        return
    with suppress(PermissionError):  # a folder that is not ours, and neither is the name in it
        above = os.open(parent, _FOLDER_FLAGS & ~os.O_NOFOLLOW)
        try:
            sync_name(above, os.path.basename(path), os.stat(path))
        finally:
            os.close(above)


_synced_names: set[tuple[int, int, str, int]] = set()
"""Names that this process has made durable: device and inode of the folder, name, inode."""


def sync_name(
    folder: int, name: str, found: os.stat_result | None = None, disk: Disk | None = None
) -> None:
    """Make the name of a file or folder durable, once in a process.

    Another process may have made it and been killed before it could sync the folder. Whatever is
    stored under such a name would go with it when the power goes.
    """
    status = found or os.stat(name, dir_fd=folder, follow_symlinks=False)
    place = os.fstat(folder)
    known = (place.st_dev, place.st_ino, name, status.st_ino)
    if known not in _synced_names:
        (disk or Disk()).sync_folder(folder)
        if len(_synced_names) >= _SYNCED_NAMES_MAX:
            _synced_names.clear()
        _synced_names.add(known)


def open_folder(root: str, parts: Iterable[str], *, create: bool = False) -> int:
    """A descriptor of a folder below the root, made on the way if asked for."""
    fd = open_root(root, create=create)
    for part in parts:
        try:
            below = open_child(fd, part, create=create)
        finally:
            os.close(fd)
        fd = below
    return fd


def open_child(parent: int, name: str, *, create: bool = False) -> int:
    """A descriptor of a folder in an open folder, made if asked for."""
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, FOLDER_MODE, dir_fd=parent)
    fd = os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    if create:
        try:
            sync_name(parent, name, os.fstat(fd))
        except BaseException:
            os.close(fd)
            raise
    return fd


def open_file(folder: int, name: str, flags: int, *, keep_links: bool = False) -> int:
    """Return a descriptor of a regular file that no one else can change.

    A backup by hard links (`cp -al`, rsnapshot) gives a file a second name. To write to such a file
    would change the backup: it gets a copy of its own first, unless `keep_links` says that the
    caller sees to that.
    """
    fd = os.open(name, flags | _FILE_FLAGS, FILE_MODE, dir_fd=folder)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise PathRejected(f"`{name}` is not a regular file", hint="nothing was read from it")
        if not is_private(found):
            raise PathRejected(
                f"`{name}` has {found.st_nlink} names (hard links), and others can change it",
                hint="copy it, or take the right to write away from others with `chmod go-w`",
            )
        if found.st_nlink == 1 or keep_links or not flags & (os.O_WRONLY | os.O_RDWR):
            return fd
        copy_own(folder, name, fd, Disk())
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return open_file(folder, name, flags)


def is_private(found: os.stat_result) -> bool:
    """Return whether only this user can change a file: it has one name, or is his under all."""
    return found.st_nlink == 1 or (found.st_uid == os.geteuid() and not found.st_mode & 0o022)


def has_name(folder: int, name: str, fd: int) -> bool:
    """Return whether an open file is the one that has this name now."""
    try:
        named = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    ours = os.fstat(fd)
    return (named.st_ino, named.st_dev) == (ours.st_ino, ours.st_dev)


def copy_own(folder: int, name: str, fd: int, disk: Disk) -> None:
    """Replace a file that has several names by a copy with one; the other names stay as they are.

    No one may write to it meanwhile.
    """
    links = os.fstat(fd).st_nlink
    source = os.open(name, os.O_RDONLY | _FILE_FLAGS, dir_fd=folder)
    try:
        pieces = iter(lambda: os.read(source, READ_BLOCK_BYTES), b"")
        write_new(folder, name, pieces, disk)
    finally:
        os.close(source)
    warnings.warn(
        f"`{name}` had {links} names (hard links, as a backup makes them): it was copied, and the "
        "other names keep what they had",
        HoldfastWarning,
        stacklevel=2,
    )


def open_to_append(folder: int, name: str, disk: Disk) -> int:
    """Return a descriptor for reading and appending; the file is durable in its folder."""
    fd = open_file(folder, name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        sync_name(folder, name, os.fstat(fd), disk)
    except BaseException:
        os.close(fd)
        raise
    return fd


def write_whole(fd: int, data: bytes, disk: Disk) -> None:
    """One write, and more only if the system took less than all of it."""
    written = disk.write(fd, data)
    while written < len(data):
        step = disk.write(fd, memoryview(data)[written:])
        if step <= 0:
            raise OSError(errno.EIO, "the disk took no more bytes")
        written += step


def write_new(
    folder: int, name: str, chunks: Iterable[bytes], disk: Disk, *, is_cache: bool = False
) -> None:
    """Make `name` with this content, all at once and, but for a cache, durably; an existing file is
    replaced."""
    temporary = f".{name}.{os.getpid()}-{time.monotonic_ns()}.tmp"
    fd = open_file(folder, temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        try:
            for chunk in chunks:
                write_whole(fd, chunk, disk)
            if not is_cache:
                disk.sync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    if not is_cache:
        disk.sync_folder(folder)


def is_temporary(name: str) -> bool:
    """Return whether a name is one that `write_new` leaves behind when it is killed."""
    return name.startswith(".") and name.endswith(".tmp")


# Locks


class LockTimeout(OSError):
    """The lock was not free in time."""

    def __init__(self) -> None:
        super().__init__(errno.ETIMEDOUT, "locked by another process")


def lock(fd: int, *, wait_seconds: float) -> None:
    """Take the lock on an open file or folder. It ends with its process, however that ends."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _lock_patiently(fd, wait_seconds)


def _lock_patiently(fd: int, wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    pause = 0.0002
    while time.monotonic() < deadline:
        time.sleep(pause)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pause = min(pause * 1.5, 0.02)
        else:
            return
    raise LockTimeout


def unlock(fd: int) -> None:
    # Explicitly: a child forked meanwhile shares the lock and would keep it.
    fcntl.flock(fd, fcntl.LOCK_UN)


def size_at_rest(fd: int, *, wait_seconds: float = 1.0) -> int:
    """Return the size of a log; waits a while for an append in the middle of its write."""
    with suppress(OSError), hold_lock(fd, wait_seconds=wait_seconds):
        return os.fstat(fd).st_size
    return os.fstat(fd).st_size


@contextmanager
def hold_lock(fd: int, *, wait_seconds: float) -> Iterator[None]:
    """Hold the lock for a block."""
    lock(fd, wait_seconds=wait_seconds)
    try:
        yield
    finally:
        unlock(fd)


# Errors

_REFUSALS: Final = {
    errno.ENOSPC: ("the disk is full", "free some space and try again"),
    errno.EDQUOT: ("the disk quota is used up", "free some space and try again"),
    errno.EROFS: ("the file system is read-only", "choose another root with --root"),
    errno.EACCES: ("permission denied", "check the owner and mode of the root"),
    errno.EPERM: ("permission denied", "check the owner and mode of the root"),
    errno.ENOLCK: (
        "this file system has no working locks",
        "keep the root on a local disk; for several hosts use PostgreSQL",
    ),
    errno.EOPNOTSUPP: (
        "this file system has no working locks",
        "keep the root on a local disk; for several hosts use PostgreSQL",
    ),
    errno.ETIMEDOUT: ("another process holds the lock", "try again when it has ended"),
    errno.EMFILE: ("too many open files", "raise the limit (`ulimit -n`)"),
}


def explain(error: OSError, doing: str) -> StoreError:
    """Return the error to raise for a failed system call while `doing` something."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO):
        # Its name alone: the folders above it are nothing that a client of a server should read.
        named = isinstance(error.filename, str) and os.path.basename(error.filename)
        return PathRejected(
            f"cannot {doing}: a link or something else is where a file or folder should be"
            + (f" (`{named}`)" if named else ""),
            hint="nothing was opened; look at the path with `ls -l`",
        )
    known = _REFUSALS.get(error.errno or 0)
    if known:
        reason, hint = known
        return StoreUnavailable(f"cannot {doing}: {reason}", hint=hint)
    return NotDurable(
        f"cannot {doing}: {error.strerror or error}",
        hint="nothing is acknowledged and nothing before it is lost; check the disk",
    )


@contextmanager
def explaining(doing: str) -> Iterator[None]:
    """Turn the errors of system calls in a block into ours."""
    try:
        yield
    except OSError as error:
        raise explain(error, doing) from error


@contextmanager
def explaining_read(what: str) -> Iterator[None]:
    """Turn the errors of system calls in a block that only reads into ours."""
    try:
        yield
    except OSError as error:
        explained = explain(error, f"read {what}")
        if isinstance(explained, NotDurable):
            explained = StoreUnavailable(
                str(explained), hint="nothing was changed; check the disk, and try again"
            )
        raise explained from error


def network_filesystem(path: str, mounts: str = Disk.mounts) -> str | None:
    """The type of the file system under `path` where it is a network one, else None."""
    best, kind = "", ""
    with suppress(OSError), open(mounts, encoding="utf-8", errors="surrogateescape") as lines:
        real = os.path.realpath(path)
        for line in lines:
            fields, _, tail = line.partition(" - ")
            mounted = _OCTAL.sub(lambda code: chr(int(code[1], 8)), fields.split(" ")[4])
            inside = real == mounted or real.startswith(mounted.rstrip("/") + "/")
            if inside and len(mounted) >= len(best):
                best, kind = mounted, tail.split(" ")[0]
    return kind if kind.startswith(_NETWORK) else None
