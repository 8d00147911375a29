"""Find transcripts: the files of a folder, and folders that are one transcript together."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO, Final

from holdfast.errors import UsageError
from holdfast.importers.agents import opencode
from holdfast.importers.common import unpacking

if TYPE_CHECKING:
    from collections.abc import Iterator

_HIDDEN_TRANSCRIPTS: Final = (".aider.chat.history.md",)


def find(path: str) -> Iterator[str]:
    """The files under a path that may be transcripts, in order; a plain file is itself.

    A storage folder of OpenCode, whose messages are a file each, counts as one file. So does a
    folder below that cannot be read: `load` says why.
    """
    if not os.path.isdir(path):
        yield path
        return
    entries = _entries(path)
    if opencode.is_storage(entry.name for entry in entries):
        yield path
        return
    for entry in entries:
        if entry.name.startswith(".") and entry.name not in _HIDDEN_TRANSCRIPTS:
            continue
        if entry.is_dir(follow_symlinks=False):
            can_be_read = os.access(entry.path, os.R_OK | os.X_OK)
            yield from find(entry.path) if can_be_read else [entry.path]
        elif entry.is_file():
            yield entry.path


def load(path: str) -> bytes:
    """The bytes of a file, or of a folder that is one transcript."""
    try:
        if os.path.isdir(path):
            os.listdir(path)  # a walk passes over a folder that cannot be read
            return opencode.assemble(_files_of(path))
        with open(path, "rb") as file:
            return read_bounded(file, path)
    except OSError as error:
        hint = "pass a file or a folder with transcripts that this user may read"
        raise UsageError(f"cannot read `{path}`: {error.strerror}", hint=hint) from error


def read_bounded(file: BinaryIO, name: str) -> bytes:
    """The bytes of an open file; raises where there are more than an import takes."""
    data = file.read(unpacking.UNPACKED_BYTES_MAX + 1)
    if len(data) > unpacking.UNPACKED_BYTES_MAX:
        raise UsageError(
            f"`{name}` has more than {unpacking.UNPACKED_BYTES_MAX:,} bytes",
            hint="split it, and import the transcripts in it one by one",
        )
    return data


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(f"cannot read the folder `{folder}`: {error.strerror}") from error


def _files_of(folder: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for place, _folders, names in os.walk(folder):
        for name in sorted(names):
            if name.endswith(".json"):
                path = os.path.join(place, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder).replace(os.sep, "/")] = file.read()
    return found
