"""Appends: one statement each, and what is done when its answer does not come.

Appends that wait at the same time share one statement, and so one flush.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.core.log.batch import Batch, Lines, refuse_id
from holdfast.errors import LeaseLost, LogConflict, StoreUnavailable
from holdfast.ports import Appended
from holdfast.stores.changes import this_process
from holdfast.stores.postgres.connections import RETRY_DELAYS, explain_unknown_outcome, is_lost
from holdfast.stores.postgres.prepared import (
    PreparedStatement,
    pack_array,
    pack_bool,
    pack_bytes_array,
    pack_fixed_array,
    pack_float,
    pack_int,
    pack_int_array,
    pack_jsonb,
    unpack_int_array,
)
from holdfast.stores.postgres.rows import additions, id_for_index, key_for_index, to_bytes, to_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.errors import HoldfastError
    from holdfast.stores.postgres.connections import Connection, Connections
    from holdfast.stores.postgres.rows import Additions

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
        except BaseException:  # interrupted: no one waits for a leader that has gone
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


_LOCK: Final = """SELECT head FROM {s}.logs
  WHERE agent = %s AND session = %s AND state = 0 FOR NO KEY UPDATE"""
_HEADS_MAX: Final = 10_000
"""Heads that a process remembers, so that ids follow them without asking."""


class AppendCall(msgspec.Struct, frozen=True):
    """An append, ready to be sent."""

    key: SessionKey
    batch: Batch
    lines: Lines
    added: Additions
    expect: str | None
    is_buffered: bool
    token: int | None

    def pack(self, *, is_repeated: bool, is_ordered: bool) -> PackedAppend:
        """Return what the statement takes."""
        lines = self.lines.data.split(b"\n")[:-1]
        starts, size = [], 0
        for line in lines:
            starts.append(size)
            size += len(line) + 1
        added = self.added
        turns, calls, tools, unknown = map(pack_int, added.counts)
        return PackedAppend(
            self.key.agent.encode(),
            self.key.session.encode(),
            None if self.expect is None else to_bytes(self.expect),
            None if self.token is None else pack_int(self.token),
            [to_bytes(record_id) for record_id in self.batch.claimed],
            # Ids of our own need no look at their length.
            [id_for_index(record_id) for record_id in self.lines.ids]
            if self.batch.claimed
            else [record_id.encode() for record_id in self.lines.ids],
            [key_for_index(record) if record.extra else None for record in self.batch.records],
            starts,
            lines,
            pack_int(size),
            _writer(os.getpid()),
            pack_bool(self.is_buffered),
            pack_bool(is_repeated),
            pack_bool(is_ordered),
            added.title,
            added.label,
            pack_float(added.created),
            pack_float(added.last_active),
            pack_int(added.messages),
            added.kept,
            added.boundary,
            turns,
            calls,
            tools,
            unknown,
            pack_jsonb(added.totals),
            pack_float(added.stated_cost),
        )


@lru_cache(maxsize=1)
def _writer(_pid: int) -> bytes:
    """Return this process as conflicts name it; a forked child has another number."""
    return to_bytes(str(this_process()))


class _Answer(NamedTuple):
    outcome: str
    head: bytes
    detail: bytes | None


def _read_answer(row: Sequence[bytes | None]) -> _Answer:
    outcome, head, detail = row
    return _Answer((outcome or b"").decode(), head or b"", detail)


class Appender:
    """Appends to the sessions of one database."""

    def __init__(
        self,
        connections: Connections,
        encode: Callable[[Batch, str], tuple[Lines, float]],
        absent: Callable[[SessionKey], HoldfastError],
        restore_head: Callable[[SessionKey], str],
    ) -> None:
        """`restore_head` returns the head that readers see, and makes it the stored one."""
        self._connections = connections
        self._encode = encode
        self._absent = absent
        self._restore_head = restore_head
        self._heads: dict[SessionKey, tuple[str, bool]] = {}
        """For each session, the head that we wrote, and True where a title is certain."""
        self._statements = AppendStatements(connections.format)
        self._group = GroupCommit(self._send_group)

    def append(
        self,
        key: SessionKey,
        batch: Batch,
        *,
        expect: str | None,
        is_buffered: bool,
        token: int | None,
    ) -> Appended:
        """Add a batch; raises what `SessionStore.append_batch` says."""
        head, has_title = self._heads.get(key, ("", False))
        # What is known of the log holds as long as the head is the one that we wrote.
        is_titled = has_title and expect == head
        lines, now = self._encode(batch, head if expect is None else expect)
        added = additions(batch.records, lines.ids, now, is_titled=is_titled)
        call = AppendCall(key, batch, lines, added, expect, is_buffered, token)
        call, answer = self._settle(call)
        if answer.outcome == "conflict" and self._restore_head(key) == expect:
            # The newest record is lost or damaged: readers see the one before it.
            call, answer = self._settle(call)
        if answer.outcome == "appended":
            has_title = is_titled or added.title != b""
            self._remember(key, call.lines.ids[-1], has_title=has_title)
            return Appended(call.lines.ids, call.lines.ids[-1])
        self._heads.pop(key, None)
        raise self._refusal(call, answer)

    def _settle(self, call: AppendCall) -> tuple[AppendCall, _Answer]:
        """Send an append until its outcome is known."""
        is_repeated = is_locked = is_alone = False
        delays = iter(RETRY_DELAYS)
        while True:
            sent = [call]
            try:
                if is_locked and not is_repeated:
                    answer: _Answer | BaseException = self._send_locked(sent)
                elif is_alone or is_repeated or call.is_buffered:
                    answer = self._send(sent, is_repeated=is_repeated)
                else:
                    answer = self._send_with_others(call)
            except StoreUnavailable as error:
                call = sent[-1]
                if not is_repeated and not is_lost(error.__cause__):
                    raise  # nothing was sent, or the server said no
                delay = next(delays, None)
                if delay is None:
                    record = call.lines.ids[0]
                    address = self._connections.address
                    raise explain_unknown_outcome(address, str(call.key), record) from error
                is_repeated = True
                time.sleep(delay)
                continue
            call = sent[-1]
            if isinstance(answer, BaseException):  # sent with others: now alone
                is_alone, is_repeated = True, not _is_refusal(answer)
                continue
            if answer.outcome == "alone":
                is_alone = True
                continue
            if answer.outcome != "order":
                return call, answer
            # The ids of another writer are later. With the lock held, the head stays what it is.
            is_repeated, is_locked = False, True

    def _send(self, sent: list[AppendCall], *, is_repeated: bool) -> _Answer:
        """Append in one statement."""
        return self._run(
            sent,
            lambda connection: self._execute(
                connection, sent[-1], is_repeated=is_repeated, is_ordered=True
            ),
        )

    def _send_with_others(self, call: AppendCall) -> _Answer | BaseException:
        """Append in one statement together with those of other threads that wait."""
        packed = call.pack(is_repeated=False, is_ordered=True)
        if not packed.can_be_grouped:
            return _read_answer(LEFT_ALONE)
        found = self._group.run((packed.agent, packed.session), packed)
        return found if isinstance(found, BaseException) else _read_answer(found)

    def _send_group(self, calls: Sequence[PackedAppend]) -> list[tuple[bytes | None, ...]]:
        """Run appends to different sessions in one transaction and one round trip."""

        def work(connection: Connection) -> list[tuple[bytes | None, ...]]:
            if len(calls) == 1:
                return [self._statements.append(connection, calls[0])]
            return self._statements.append_group(connection, calls)

        doing = f"append to session `{calls[0].session.decode()}`" if len(calls) == 1 else "append"
        return self._connections.run(doing, work, is_repeatable=False)

    def _send_locked(self, sent: list[AppendCall]) -> _Answer:
        """Append under the lock of the session's row, with ids that follow its head."""
        key = sent[-1].key

        def work(connection: Connection) -> _Answer:
            with connection.transaction():
                query = self._connections.format(_LOCK).encode()
                row = connection.execute(query, (key.agent, key.session), binary=True).fetchone()
                if row is None:
                    return _Answer("absent", b"", None)
                batch = sent[-1].batch
                lines, now = self._encode(batch, to_text(row[0]))
                added = additions(batch.records, lines.ids, now)
                sent.append(msgspec.structs.replace(sent[-1], lines=lines, added=added))
                return self._execute(connection, sent[-1], is_repeated=False, is_ordered=False)

        return self._run(sent, work)

    def _run(self, sent: list[AppendCall], work: Callable[[Connection], _Answer]) -> _Answer:
        doing = f"append to session `{sent[-1].key.session}`"
        return self._connections.run(doing, work, is_repeatable=False)

    def _execute(
        self, connection: Connection, call: AppendCall, *, is_repeated: bool, is_ordered: bool
    ) -> _Answer:
        packed = call.pack(is_repeated=is_repeated, is_ordered=is_ordered)
        return _read_answer(self._statements.append(connection, packed))

    def _refusal(self, call: AppendCall, answer: _Answer) -> HoldfastError:
        """Return the error that says why nothing was appended."""
        key = str(call.key)
        match answer.outcome:
            case "absent":
                return self._absent(call.key)
            case "lease":
                return LeaseLost(key, to_text(answer.detail or b""))
            case "conflict":
                writer = to_text(answer.detail or b"")
                return LogConflict(key, call.expect or "", to_text(answer.head), writer)
            case outcome:
                assert outcome == "repeat", outcome
                return refuse_id(to_text(answer.detail or b""), call.key)

    def _remember(self, key: SessionKey, head: str, *, has_title: bool) -> None:
        if len(self._heads) >= _HEADS_MAX:
            self._heads.clear()
        self._heads[key] = (head, has_title)


def _is_refusal(error: BaseException) -> bool:
    """Return whether the server said no, so that nothing of a transaction was stored."""
    return error.__cause__ is not None and not is_lost(error.__cause__)
