"""The working directory that a transcript names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.records import Json

_NAMES: Final = ("cwd", "workdir", "working_directory", "workingDirectory", "directory")
_INSIDE: Final = ("payload", "session_meta", "info", "meta", "metadata", "data", "context")


def folder_in(head: Iterable[Json]) -> str:
    """Return the first working directory that the first lines of a file name; empty if none."""
    for line in head:
        inner = (line.get(name) for name in _INSIDE)
        for value in (line, *inner):
            if isinstance(value, dict):
                found = (value.get(name) for name in _NAMES)
                folder = next((text for text in found if isinstance(text, str) and text), "")
                if folder:
                    return folder
    return ""
