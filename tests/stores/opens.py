"""What is opened, listed, made or moved while a block runs: the interpreter itself reports it."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_EVENTS = frozenset(
    (
        *("open", "os.listdir", "os.scandir", "os.mkdir", "os.rename", "os.remove", "os.link"),
        *("os.truncate", "os.chmod", "os.utime", "sqlite3.connect"),
    )
)
_watching: list[list[Touch]] = []


class Touch(NamedTuple):
    """One thing done to the file system."""

    event: str
    name: str


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _watching and event in _EVENTS:
        target = arguments[0]
        name = os.fsdecode(target) if isinstance(target, str | bytes) else str(target)
        for seen in _watching:
            seen.append(Touch(event, name))


sys.addaudithook(_note)


@contextmanager
def watched() -> Iterator[list[Touch]]:
    """A list that fills while the block runs."""
    seen: list[Touch] = []
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching.remove(seen)


def logs_opened(seen: list[Touch]) -> list[str]:
    """The session logs among what was opened."""
    return [touch.name for touch in seen if touch.event == "open" and ".jsonl" in touch.name]
