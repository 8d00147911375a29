"""The last writer of a log, in a file beside it, so that a conflict can name the other writer.

It is written under the log's lock when the writer changes. Nothing depends on it: where it cannot
be read, the other writer is unknown.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import msgspec

from holdfast.core.text.typed import decode_typed
from holdfast.errors import PathRejected
from holdfast.stores.files import open_file


class Writer(msgspec.Struct, frozen=True):
    """A process that appends."""

    pid: int
    host: str
    command: str

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host} ({self.command})"


def this_process() -> Writer:
    """Return this process, as it is named to others."""
    program = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
    first = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1].isalpha() else ""
    return Writer(os.getpid(), os.uname().nodename, f"{program} {first}".strip())


def note(folder: int, session: str) -> None:
    """Leave this process's name beside the log."""
    with suppress(OSError, PathRejected):
        forget(folder, session)  # it may have a second name, or lead elsewhere
        fd = open_file(folder, _name(session), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            os.write(fd, msgspec.json.encode(this_process()))
        finally:
            os.close(fd)


def last(folder: int, session: str) -> str:
    """Return the last writer, in words."""
    try:
        fd = open_file(folder, _name(session), os.O_RDONLY)
    except (OSError, PathRejected):
        return "an unknown writer"
    try:
        return str(decode_typed(os.read(fd, 4096), Writer))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return "an unknown writer"
    finally:
        os.close(fd)


def forget(folder: int, session: str) -> None:
    with suppress(OSError):
        os.unlink(_name(session), dir_fd=folder)


def _name(session: str) -> str:
    return f"{session}.writer"
