"""One gateway for one folder: the second is refused, and learns the process of the first."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from holdfast.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILE: Final = "gateway.lock"


@contextmanager
def only_gateway(folder: str | None) -> Iterator[None]:
    """Hold the folder for this process. The lock ends with the process, however it ends.

    Stores that are no folder are shared: there is nothing to hold.
    """
    if folder is None:
        yield
        return
    os.makedirs(folder, mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(os.path.join(folder, _FILE), flags, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise StoreUnavailable(
                f"another gateway serves `{os.path.abspath(folder)}`: process {pid}",
                hint="stop it first; for several processes use a PostgreSQL store",
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(fd)
