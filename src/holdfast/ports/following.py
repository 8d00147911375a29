"""Following a session: its records as they are appended, by any process."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from holdfast.core.log import views
from holdfast.core.log.walk import record_at
from holdfast.errors import NoSuchRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.log.walk import OpenLog
    from holdfast.ports.reading import SessionReader

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


class Watch:
    """Waits between two looks at a log: a moment, and longer while nothing comes.

    The watch of a store that hears of appends ends a wait as soon as one is heard.
    """

    def pause(self, last: float | None) -> float:
        """Return the seconds to wait, after a wait of `last` seconds in vain or, None, a record."""
        return _PAUSE_SECONDS if last is None else min(2 * last, _PAUSE_SECONDS_MAX)

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Wait for so long, at most until `stop` is set."""
        stop.wait(seconds)


def follower_of(reader: SessionReader, key: SessionKey, after: str | None) -> Follower:
    """Return a follower of what is appended after a record, or after the head."""
    with reader.open_log(key) as log:
        start = views.head_position(log) if after is None else reader.locate(log, after)
        known = None if start is None else record_at(log, start)
    return Follower(lambda: reader.open_log(key), start, known.id if known else "")


def follow(
    follower: Follower,
    idle_seconds: float | None,
    stop: threading.Event | None,
    watching: AbstractContextManager[Watch] | None = None,
) -> Iterator[Record]:
    """Yield records until none came for `idle_seconds` or `stop` is set."""
    stop = stop or threading.Event()
    pause, waited_since = None, time.monotonic()
    with watching or nullcontext(
        Watch()
    ) as watch:  # before the first look: nothing is appended unseen between them
        while True:
            for record in follower.read():
                yield record
                pause, waited_since = None, time.monotonic()
                if stop.is_set():
                    return
            pause = left = watch.pause(pause)
            if idle_seconds is not None:
                left = min(pause, waited_since + idle_seconds - time.monotonic())
            if left < 0:
                return
            watch.wait(left, stop)
            if stop.is_set():
                return
