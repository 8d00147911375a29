"""Appends: one statement each, and what is done when its answer does not come.

The statement takes the lock of the session's row, compares the head and the token, and writes the
records and the facts. Where the connection is lost meanwhile, the same statement is sent again and
first looks for its own records: the lock makes it wait for the first try, and the ids of that try
are refused if it comes late. So the outcome is known as soon as the server can be asked.
"""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.core.log.batch import Batch, Lines, refuse_id
from holdfast.errors import LeaseLost, LogConflict, StoreUnavailable
from holdfast.ports import Appended
from holdfast.stores.jsonl.last_writer import this_process
from holdfast.stores.postgres.connections import RETRY_DELAYS
from holdfast.stores.postgres.failures import explain_unknown_outcome, is_lost
from holdfast.stores.postgres.grouping import (
    LEFT_ALONE,
    AppendStatements,
    GroupCommit,
    PackedAppend,
)
from holdfast.stores.postgres.prepared import pack_bool, pack_float, pack_int, pack_jsonb
from holdfast.stores.postgres.rows import (
    additions,
    id_for_index,
    key_for_index,
    to_bytes,
    to_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.errors import HoldfastError
    from holdfast.stores.postgres.connections import Connection, Connections
    from holdfast.stores.postgres.rows import Additions

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
