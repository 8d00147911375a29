"""Logs and leases of sessions in memory.

A log is a list of encoded lines, so that nothing a caller holds can change what was appended. A
position is the byte offset that the line has in a file of them: `@57` is the same record anywhere.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.core.log.damage import Flaw
from holdfast.core.log.views import head
from holdfast.errors import LeaseLost, TurnInProgress
from holdfast.ports import LeaseHolder, awake_time
from holdfast.stores.lines import item_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.walk import LogLine


class Waiting(NamedTuple):
    """A place in the queue for a lease."""

    since: float
    until: float


class MemoryLog(msgspec.Struct):
    """The encoded records of one session, as an `OpenLog`."""

    key: SessionKey
    held: list[bytes] = msgspec.field(default_factory=list)
    starts: list[int] = msgspec.field(default_factory=list)
    """The position of each line."""
    size: int = 0
    ids: set[str] = msgspec.field(default_factory=set)
    head: str = ""
    writer: str = ""
    lease: LeaseHolder = LeaseHolder(0, "", 0.0)
    """The newest; without a holder once it is released."""
    lease_until: float = 0.0
    queue: dict[str, Waiting] = msgspec.field(default_factory=dict)
    """Those who wait for the lease by their names, in their order."""

    def lines(self, start: int = 0) -> Iterator[LogLine]:
        for index in range(bisect_left(self.starts, start), len(self.held)):
            yield from self._line(index)

    def lines_back(self, end: int | None = None) -> Iterator[LogLine]:
        last = len(self.held) if end is None else bisect_left(self.starts, end)
        for index in range(last - 1, -1, -1):
            yield from self._line(index)

    def data(self) -> Iterator[bytes]:
        for line in self.held:
            yield line + b"\n"

    def add(self, data: bytes, ids: Iterable[str]) -> None:
        """Append encoded records."""
        for self.head in ids:
            self.ids.add(self.head)
        self._add_lines(data)

    def extend(self, data: bytes) -> None:
        """Append lines of another log, whatever they are."""
        start = self.size
        self._add_lines(data)
        found = (item for _position, _size, item, _line in self.lines(start))
        self.ids.update(
            item.id for item in found if item is not None and not isinstance(item, Flaw)
        )
        self.head = head(self)

    def view(self) -> MemoryLog:
        """Return the log as it is now."""
        return msgspec.structs.replace(self, held=self.held[:], starts=self.starts[:])

    def _add_lines(self, data: bytes) -> None:
        for line in data.split(b"\n")[:-1]:
            self.held.append(line)
            self.starts.append(self.size)
            self.size += len(line) + 1
        self.writer = f"pid {os.getpid()} ({threading.current_thread().name})"

    def _line(self, index: int) -> Iterator[LogLine]:
        """Yield a line as readers get it; none where it is blank."""
        position, line = self.starts[index], self.held[index]
        if line and not line.isspace():
            yield position, len(line), item_of(position, line), line


class MemoryLeases:
    """The `Leases` of sessions in memory."""

    def __init__(self, log: Callable[[SessionKey], MemoryLog], mutex: threading.RLock) -> None:
        self._log = log
        self._mutex = mutex
        self._tokens = count(1)

    @property
    def place(self) -> str:
        return f"memory {id(self._mutex):x}"

    def acquire(
        self, key: SessionKey, holder: str, seconds: float, *, queue_seconds: float = 0.0
    ) -> int:
        with self._mutex:
            log, found, now = self._log(key), self.current(key), awake_time()
            log.queue = {name: place for name, place in log.queue.items() if place.until > now}
            first = next(iter(log.queue), holder)
            if found is None and first == holder:
                log.queue.pop(holder, None)
                log.lease = LeaseHolder(next(self._tokens), holder, time.time())
                log.lease_until = now + seconds
                return log.lease.token
            busy = found or LeaseHolder(0, first, log.queue[first].since)
            if queue_seconds:
                since = log.queue[holder].since if holder in log.queue else time.time()
                log.queue[holder] = Waiting(since, now + queue_seconds)
            raise TurnInProgress(str(key), busy.holder, busy.since)

    def leave_queue(self, key: SessionKey, holder: str) -> None:
        with self._mutex:
            self._log(key).queue.pop(holder, None)

    def renew(self, key: SessionKey, token: int, seconds: float) -> None:
        with self._mutex:
            log = self._log(key)
            self.check(log, token)
            log.lease_until = awake_time() + seconds

    def release(self, key: SessionKey, token: int) -> None:
        with self._mutex:
            log = self._log(key)
            if log.lease.token == token:
                log.lease = LeaseHolder(token, "", 0.0)

    def current(self, key: SessionKey) -> LeaseHolder | None:
        log = self._log(key)
        return log.lease if log.lease.holder and awake_time() < log.lease_until else None

    def check(self, log: MemoryLog, token: int) -> None:
        """Raise `LeaseLost` where the token is not the newest."""
        if log.lease.token != token:
            raise LeaseLost(str(log.key), log.lease.holder)
