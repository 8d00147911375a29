"""Following a session: its records as they are appended, by any process."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from holdfast.core.log import views
from holdfast.core.log.walk import record_at
from holdfast.errors import NoSuchRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from holdfast.core.log.records import Record
    from holdfast.core.log.walk import OpenLog

    OpenAgain = Callable[[], AbstractContextManager[OpenLog]]

_PAUSE_SECONDS: Final = 0.02
_PAUSE_SECONDS_MAX: Final = 0.25
"""Between two looks at a log that does not grow; a look takes microseconds."""
_ANCHORS: Final = 8
"""Looks that are remembered, so that records of an append that failed and was taken back after we
saw them are told from those that took their place."""


class Follower:
    """Reads a log from a position on, and goes on where it ended."""

    def __init__(self, open_log: OpenAgain, start: int | None, record: str) -> None:
        """`start` is the position of `record`, which is known already; None for an empty log."""
        self._open_log = open_log
        self._size = -1
        self._anchors: deque[tuple[int, str]] = deque(maxlen=_ANCHORS)
        self._record = record
        if start is not None:
            self._anchors.append((start, record))

    def read(self) -> Iterator[Record]:
        """Yield what was appended since the last call."""
        with self._open_log() as log:
            if log.size == self._size:
                return
            start, newest = self._anchor(log), None
            for position, record in views.read_since(log, start or 0):
                if position != start:
                    newest = (position, record.id)
                    yield record
            self._size = log.size
            if newest is not None:
                self._anchors.append(newest)

    def _anchor(self, log: OpenLog) -> int | None:
        """Return the position of the newest record that we know and that is still there."""
        if not self._anchors:
            return None
        while self._anchors:
            position, record_id = self._anchors[-1]
            found = record_at(log, position)
            if found is not None and found.id == record_id:
                return position
            self._anchors.pop()
        raise NoSuchRecord(self._record, log.key.session)


def follow(
    follower: Follower, idle_seconds: float | None, stop: threading.Event | None
) -> Iterator[Record]:
    """Yield records until none came for `idle_seconds` or `stop` is set."""
    stop = stop or threading.Event()
    pause, waited_since = _PAUSE_SECONDS, time.monotonic()
    while True:
        for record in follower.read():
            yield record
            pause, waited_since = _PAUSE_SECONDS, time.monotonic()
            if stop.is_set():
                return
        left = pause
        if idle_seconds is not None:
            left = min(pause, waited_since + idle_seconds - time.monotonic())
        if left < 0 or stop.wait(left):
            return
        pause = min(2 * pause, _PAUSE_SECONDS_MAX)
