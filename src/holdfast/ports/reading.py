"""The part of the session port that reads: one primitive, and the views written once above it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from holdfast.core.log import views
from holdfast.core.log.keys import find_keyed
from holdfast.core.log.walk import position_of
from holdfast.core.window import ANY_WINDOW
from holdfast.ports.following import follow, follower_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Header, Record
    from holdfast.core.log.replay import Live
    from holdfast.core.log.tree import Branch
    from holdfast.core.log.views import LogEntry, LogReport
    from holdfast.core.log.walk import OpenLog
    from holdfast.core.window import WindowFilter


class SessionReader(ABC):
    """Reads sessions. A store implements `open_log` and may override a view with an indexed one."""

    @abstractmethod
    def open_log(self, key: SessionKey) -> AbstractContextManager[OpenLog]:
        """Open a session for reading, as it is now. Takes no lock. Raises `NoSuchSession`."""

    def read(self, key: SessionKey, *, start: str | None = None) -> Iterator[Record]:
        """Yield the records on the path to the head, oldest first, from `start` on."""
        with self.open_log(key) as log:
            yield from views.read_path(log) if start is None else views.read_from(log, start)

    def read_all(self, key: SessionKey) -> Iterator[LogEntry]:
        """Yield every intact record in the order it was written, with its state."""
        with self.open_log(key) as log:
            yield from views.read_entries(log)

    def read_branch(self, key: SessionKey, head: str) -> Iterator[Record]:
        """Yield the records on the path to `head`, oldest first."""
        with self.open_log(key) as log:
            yield from views.read_path(log, head)

    def header(self, key: SessionKey) -> Header:
        """Return the first record: who owns the session and where it comes from.

        A log that begins with another record has a header made up for it, with no owner. Raises
        `StoreError` where the beginning is damaged and the owner therefore unknown.
        """
        with self.open_log(key) as log:
            return views.header(log)

    def last(self, key: SessionKey, count: int, *, before: str | None = None) -> list[Record]:
        """Return the newest `count` records on the path to the head, oldest first.

        With `before`, the newest before the record of that id. Raises `NoSuchRecord` where it is
        not on the path.
        """
        with self.open_log(key) as log:
            return views.last(log, count, before)

    def back(self, key: SessionKey, *, before: str | None = None) -> Iterator[Record]:
        """Yield the path from the head, or from before that record, towards the root.

        Costs what is taken of it. Where an id occurs twice, the newest record has it here, so
        that no `before` leads back to where a reader has been.
        """
        with self.open_log(key) as log:
            yield from views.read_back(log, before)

    def live(self, key: SessionKey, *, window: WindowFilter = ANY_WINDOW) -> Live:
        """Return the path from the newest compaction (that binds `window`) to the head."""
        with self.open_log(key) as log:
            return views.live(log, window)

    def head(self, key: SessionKey) -> str:
        """Return the id of the head."""
        with self.open_log(key) as log:
            return views.head(log)

    def find(self, key: SessionKey, prefix: str) -> Record:
        """Return the one record whose id is `prefix` or starts with it."""
        with self.open_log(key) as log:
            return views.find(log, prefix, self.locate(log, prefix))

    def locate(self, log: OpenLog, prefix: str) -> int:
        """Return the position of the record that `find` returns, in a log that is open."""
        return position_of(log, prefix)

    def follow(
        self,
        key: SessionKey,
        after: str | None = None,
        *,
        idle_seconds: float | None = None,
        stop: threading.Event | None = None,
    ) -> Iterator[Record]:
        """Yield the records that are appended after a record (the head by default), and wait for
        more, whichever process appends them.

        They come in the order they were written, on every branch. It ends once none came for
        `idle_seconds`, or when `stop` is set. Raises `NoSuchSession`, also when the session is
        removed.
        """
        return follow(follower_of(self, key, after), idle_seconds, stop)

    def find_message(self, key: SessionKey, message_key: str) -> Record | None:
        """Return the user message that was stored under a key of the caller's, however old."""
        with self.open_log(key) as log:
            return find_keyed(log, message_key)

    def branches(self, key: SessionKey) -> list[Branch]:
        """Return every leaf of the session's tree."""
        with self.open_log(key) as log:
            return views.list_branches(log)

    def verify(self, key: SessionKey) -> LogReport:
        """Read everything, change nothing, report what is wrong."""
        with self.open_log(key) as log:
            return views.verify(log)
