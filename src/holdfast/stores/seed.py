"""Files that the seed (claw0) keeps beside its logs, for folders that are opened where they lie."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

import msgspec

from holdfast.core.limits import LABEL_CHARS_MAX
from holdfast.core.text.cut import cut, ellipsis
from holdfast.errors import PathRejected
from holdfast.stores.files import open_file, open_folder

_NAME: Final = "sessions.json"
_BYTES_MAX: Final = 64 * 1024 * 1024
"""The seed writes about 150 bytes for each session."""

_Stamp = tuple[int, int, int]


class SeedLabels:
    """The labels in `agents/AGENT/sessions.json`. A damaged or strange file holds none."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, tuple[_Stamp, dict[str, str]]] = {}

    def of(self, agent: str) -> dict[str, str]:
        """Return the labels of an agent's sessions by their ids; read again where they changed."""
        fd = -1
        with suppress(OSError, PathRejected):
            folder = open_folder(self._root, ("agents", agent))
            try:
                fd = open_file(folder, _NAME, os.O_RDONLY)
            finally:
                os.close(folder)
        if fd == -1:
            self._known.pop(agent, None)
            return {}
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            stamp = status.st_ino, status.st_size, status.st_mtime_ns
            known = self._known.get(agent)
            if known is None or known[0] != stamp:
                data = b""
                with suppress(OSError):
                    data = file.read(_BYTES_MAX)
                known = self._known[agent] = stamp, _labels(data)
            return known[1]


def _labels(data: bytes) -> dict[str, str]:
    try:
        rows = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}  # cut, or being written: the seed writes it in place
    labels: dict[str, str] = {}
    for session, row in rows.items() if isinstance(rows, dict) else ():
        said = row.get("label") if isinstance(row, dict) else None
        if isinstance(said, str) and (words := " ".join(said.split())):
            labels[session] = cut(words, LABEL_CHARS_MAX, keep="head", marker=ellipsis).text
    return labels
