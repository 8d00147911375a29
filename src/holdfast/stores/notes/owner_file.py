"""The name of the owner whose notes a folder holds: the name of the folder has only a hash of it.

`.owner` is written before the first note, and by the next change where it is missing or damaged.
"""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Final

from holdfast.core.owners import UNKNOWN_OWNER, NamedOwner
from holdfast.errors import PathRejected
from holdfast.stores.files import explaining_read, open_file, open_folder, write_new

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.owners import UnknownOwner
    from holdfast.stores.notes.folder import NoteFolder

OWNER_FILE: Final = ".owner"
_BYTES_MAX: Final = 1024 * 1024
"""More than any name has: what is longer is not read to its end."""


def keep_owner(notes: NoteFolder, folder: int, owner: NamedOwner) -> None:
    """Write the owner's name into an open folder, unless it is there."""
    data = json.dumps({"owner": owner.name}).encode() + b"\n"  # escapes lone surrogates too
    if _read(folder) != data:
        write_new(folder, OWNER_FILE, [data], notes.disk)


def read_owner(root: str, parts: Sequence[str]) -> NamedOwner | UnknownOwner:
    """Return the owner that a folder of notes names; unknown where no name can be read.

    Anybody can copy a folder: the caller compares what the name stands for.
    """
    with explaining_read(os.path.join(*parts, OWNER_FILE)):
        try:
            folder = open_folder(root, parts)
        except FileNotFoundError:
            return UNKNOWN_OWNER
        try:
            data = _read(folder)
        finally:
            os.close(folder)
    try:
        name = json.loads(data)["owner"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return UNKNOWN_OWNER
    return NamedOwner(name) if isinstance(name, str) and name else UNKNOWN_OWNER


def _read(folder: int) -> bytes:
    """Return the content of the file; empty where it is no plain file."""
    try:
        fd = open_file(folder, OWNER_FILE, os.O_RDONLY)
    except PathRejected:
        return b""
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):  # nothing, or a link: it is replaced
            return b""
        raise
    with os.fdopen(fd, "rb") as file:
        return file.read(_BYTES_MAX)
