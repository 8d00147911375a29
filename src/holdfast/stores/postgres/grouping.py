"""Group commit: appends that wait at the same time share one statement, and so one flush.

No append waits for others to come. The first ones are sent alone; those that come while they are
under way are sent together afterwards, by one of their threads. Each has its own answer. Where the
server ends the transaction, nothing of it was stored, and each append is sent again by itself: so
one that fails does not take others with it.

There are two statements that append: for one session, and for many at once. The second one only
appends or leaves alone: why a session was left alone is a question for the first one.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.stores.postgres.prepared import (
    PreparedStatement,
    pack_array,
    pack_bytes_array,
    pack_fixed_array,
    pack_int_array,
    unpack_int_array,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.stores.postgres.connections import Connection

    Parameters = Any
    Row = tuple[Any, ...]

GROUP_MAX: Final = 128
"""Appends in one transaction: it holds the locks of their sessions until it is done."""

LEADERS_MAX: Final = 2
"""Transactions under way at once: while one waits for its flush, the next is prepared."""

SendGroup = Callable[["Sequence[Parameters]"], "list[Row]"]
"""Runs statements in one transaction, and returns the answer of each."""


class _Waiting:
    """An append that waits for its answer, or for its turn to send."""

    def __init__(self, order: Any, parameters: Parameters) -> None:
        self.order = order
        self.parameters = parameters
        self.wake = threading.Lock()
        """Held until it has its answer, or leads."""
        self.wake.acquire()
        self.answer: Row | None = None
        self.error: BaseException = InterruptedError("the thread that sends was interrupted")
        self.is_alone = False
        self.is_leader = False


class GroupCommit:
    """Sends the appends of many threads."""

    def __init__(self, send: SendGroup) -> None:
        self._send = send
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._queue: deque[_Waiting] = deque()
        self._leaders = 0

    def run(self, order: Any, parameters: Parameters) -> Row | BaseException:
        """Return the answer to an append; or what went wrong when it was sent with others, so that
        it must be sent by itself.

        `order` is its session, the place of its lock: transactions take locks in one order, so that
        none waits for another that waits for it. Raises what went wrong when it was sent alone.
        """
        if self._pid != os.getpid():
            self._reset()  # what waited in a parent process is sent there
        with self._mutex:
            is_first = self._leaders < LEADERS_MAX  # then nothing waits
            if is_first:
                self._leaders += 1
            else:
                mine = _Waiting(order, parameters)
                self._queue.append(mine)
        if is_first:
            try:
                return self._send([parameters])[0]
            finally:
                self._hand_over()
        self._wait(mine)
        if mine.is_leader:
            self._lead(mine)
        if mine.answer is not None:
            return mine.answer
        if mine.is_alone:
            raise mine.error
        return mine.error

    def _wait(self, mine: _Waiting) -> None:
        try:
            mine.wake.acquire()
        except BaseException:  # interrupted: nobody waits for a leader that has gone
            with self._mutex:
                if mine in self._queue:
                    self._queue.remove(mine)
            if mine.is_leader:
                self._hand_over()
            raise

    def _lead(self, mine: _Waiting) -> None:
        """Send everything that waits, then let the next one lead."""
        with self._mutex:
            found = {mine.order: mine}
            left: deque[_Waiting] = deque()
            for item in self._queue:
                if item is mine:
                    continue
                if item.is_leader or item.order in found or len(found) == GROUP_MAX:
                    left.append(item)  # a session is in a group once: the next group takes it
                else:
                    found[item.order] = item
            self._queue = left
        group = [found[order] for order in sorted(found)]
        try:
            answers = self._send([waiting.parameters for waiting in group])
            for waiting, answer in zip(group, answers, strict=True):
                waiting.answer = answer
        except Exception as error:
            mine.is_alone = len(group) == 1
            for waiting in group:
                waiting.error = error
        finally:
            for waiting in group:
                if waiting is not mine:
                    waiting.wake.release()
            self._hand_over()

    def _hand_over(self) -> None:
        with self._mutex:
            following = next((item for item in self._queue if not item.is_leader), None)
            if following is None:
                self._leaders -= 1
                return
            following.is_leader = True
        following.wake.release()


LEFT_ALONE: Final = (b"alone", b"", None)
"""The answer for a session to which nothing was appended together with others."""


class PackedAppend(NamedTuple):
    """An append as the statements take it, values in binary form."""

    agent: bytes
    session: bytes
    expect: bytes | None
    token: bytes | None
    claimed: Sequence[bytes]
    ids: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    starts: Sequence[int]
    """The start of each line, counted from the end of the log."""
    lines: Sequence[bytes]
    size: bytes
    writer: bytes
    is_buffered: bytes
    is_repeated: bytes
    is_ordered: bytes
    title: bytes
    label: bytes | None
    created: bytes
    last_active: bytes
    messages: bytes
    kept: bytes | None
    boundary: bytes | None
    turns: bytes
    calls: bytes
    tools: bytes
    unknown: bytes
    totals: bytes | None
    stated_cost: bytes

    @property
    def can_be_grouped(self) -> bool:
        """True where nothing must be looked up in the log before or after."""
        return not self.claimed and self.boundary is None


_TYPES: Final = (
    *("text", "text", "bytea", "int8", "bytea[]", "bytea[]", "bytea[]", "int8[]", "bytea[]"),
    *("int8", "bytea", "bool", "bool", "bool", "bytea", "bytea", "float8", "float8", "int8"),
    *("bytea", "bytea", "int8", "int8", "int8", "int8", "jsonb", "float8"),
)
_EACH: Final = {
    "agent": "text",
    "session": "text",
    "expect": "bytea",
    "token": "int8",
    "size": "int8",
    "title": "bytea",
    "label": "bytea",
    "created": "float8",
    "last_active": "float8",
    "messages": "int8",
    "turns": "int8",
    "calls": "int8",
    "tools": "int8",
    "unknown": "int8",
    "totals": "jsonb",
    "stated_cost": "float8",
}
"""The values that each append of a group has, and their types."""
_FIXED: Final = {name for name, kind in _EACH.items() if kind in ("int8", "float8")} - {"token"}
"""Those that are 8 bytes long, and always there."""
_GROUP_TYPES: Final = (
    *("bytea", *(f"{kind}[]" for kind in _EACH.values()), "bytea[]", "bytea[]", "int8[]"),
    *("int8[]", "int8[]", "bytea[]", "bytea[]", "bytea[]"),
)


class AppendStatements:
    """Runs appends on a connection."""

    def __init__(self, format_query: Callable[[str], str]) -> None:
        """`format_query` puts the name of the schema into a statement."""

        def make(query: str, types: Sequence[str]) -> PreparedStatement:
            places = ", ".join(f"${number}" for number in range(1, len(types) + 1))
            return PreparedStatement(format_query(f"{query}({places})"), types)

        self._one = make("SELECT outcome, head, detail FROM {s}.append_1", _TYPES)
        self._group = make("SELECT {s}.append_group_1", _GROUP_TYPES)

    def append(self, connection: Connection, call: PackedAppend) -> Row:
        """Append to one session; returns outcome, head and details."""
        return self._one.run(connection, [_values(call)])[0]

    def append_group(self, connection: Connection, calls: Sequence[PackedAppend]) -> list[Row]:
        """Append to different sessions, in the order of their names, in one transaction.

        Returns an answer for each: appended, or left alone.
        """
        (row,) = self._group.run(connection, [_group_values(calls)])
        done = set(unpack_int_array(row[0] or b""))
        return [
            (b"appended", call.ids[-1], None) if number in done else LEFT_ALONE
            for number, call in enumerate(calls, 1)
        ]


def _values(call: PackedAppend) -> tuple[bytes | None, ...]:
    return (
        *call[:4],
        pack_bytes_array(call.claimed) if call.claimed else None,
        pack_bytes_array(call.ids),
        pack_bytes_array(call.keys) if any(call.keys) else None,
        pack_int_array(call.starts),
        pack_bytes_array(call.lines),
        *call[9:],
    )


def _group_values(calls: Sequence[PackedAppend]) -> tuple[bytes | None, ...]:
    counts = [len(call.ids) for call in calls]
    columns = dict(zip(PackedAppend._fields, zip(*calls, strict=True), strict=True))
    ids, keys, starts, lines = (
        list(chain.from_iterable(columns[name])) for name in ("ids", "keys", "starts", "lines")
    )
    numbers = chain.from_iterable([number] * count for number, count in enumerate(counts, 1))
    return (
        calls[0].writer,
        *[
            pack_fixed_array(kind, columns[name])
            if name in _FIXED
            else pack_array(kind, columns[name])
            for name, kind in _EACH.items()
        ],
        pack_bytes_array([call.ids[0] for call in calls]),
        pack_bytes_array([call.ids[-1] for call in calls]),
        pack_int_array(counts),
        pack_int_array(list(numbers)),
        pack_int_array(starts),
        pack_bytes_array(ids),
        pack_bytes_array(keys) if any(keys) else None,
        pack_bytes_array(lines),
    )
