"""Appends: one statement each, and what is done when its answer does not come.

The statement takes the lock of the session's row, compares the head and the token, and writes the
records and the facts. Where the connection is lost meanwhile, the same statement is sent again and
first looks for its own records: the lock makes it wait for the first try, and the ids of that try
are refused if it comes late. So the outcome is known as soon as the server can be asked.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.core.log.batch import Batch, Lines, refuse_id
from holdfast.errors import LeaseLost, LogConflict, StoreUnavailable
from holdfast.ports import Appended
from holdfast.stores.jsonl.last_writer import this_process
from holdfast.stores.postgres.connections import RETRY_DELAYS
from holdfast.stores.postgres.failures import explain_unknown_outcome, is_lost
from holdfast.stores.postgres.grouping import GroupCommit
from holdfast.stores.postgres.rows import additions, id_for_index, key_for_index, to_bytes, to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.errors import HoldfastError
    from holdfast.stores.postgres.connections import Connection, Connections

APPEND: Final = """SELECT outcome, head, detail FROM {s}.append_1(
  %b::text, %b::text, %b::bytea, %b::bigint, %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[],
  %b::bytea, %b::boolean, %b::boolean, %b::boolean, %b::bytea, %b::bytea, %b::float8, %b::float8,
  %b::bigint, %b::bytea, %b::bytea, %s::jsonb, %b::float8)"""
_LOCK: Final = """SELECT head FROM {s}.logs
  WHERE agent = %s AND session = %s AND state = 0 FOR NO KEY UPDATE"""
_HEADS_MAX: Final = 10_000
"""Heads that a process remembers, so that ids follow them without asking."""


class _Call(msgspec.Struct, frozen=True):
    """An append, ready to be sent."""

    key: SessionKey
    batch: Batch
    lines: Lines
    now: float
    expect: str | None
    is_buffered: bool
    token: int | None

    def parameters(self, writer: bytes, *, is_repeated: bool, is_ordered: bool) -> tuple[Any, ...]:
        """Return what the statement takes."""
        keys = [key_for_index(record) for record in self.batch.records]
        return (
            self.key.agent,
            self.key.session,
            None if self.expect is None else to_bytes(self.expect),
            self.token,
            [to_bytes(record_id) for record_id in self.batch.claimed] or None,
            [id_for_index(record_id) for record_id in self.lines.ids],
            keys if any(keys) else None,
            self.lines.data.split(b"\n")[:-1],
            writer,
            self.is_buffered,
            is_repeated,
            is_ordered,
            *additions(self.batch.records, self.lines.ids, self.now),
        )


class _Answer(NamedTuple):
    outcome: str
    head: bytes
    detail: bytes | None


class Appender:
    """Appends to the sessions of one database."""

    def __init__(
        self,
        connections: Connections,
        encode: Callable[[Batch, str], tuple[Lines, float]],
        absent: Callable[[SessionKey], HoldfastError],
    ) -> None:
        self._connections = connections
        self._encode = encode
        self._absent = absent
        self._heads: dict[SessionKey, str] = {}
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
        known = expect if expect is not None else self._heads.get(key, "")
        lines, now = self._encode(batch, known)
        call = _Call(key, batch, lines, now, expect, is_buffered, token)
        call, answer = self._settle(call)
        if answer.outcome == "appended":
            self._remember(key, call.lines.ids[-1])
            return Appended(call.lines.ids, call.lines.ids[-1])
        self._heads.pop(key, None)
        raise self._refusal(call, answer)

    def _settle(self, call: _Call) -> tuple[_Call, _Answer]:
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
            if answer.outcome != "order":
                return call, answer
            # The ids of another writer are later. With the lock held, the head stays what it is.
            is_repeated, is_locked = False, True

    def _send(self, sent: list[_Call], *, is_repeated: bool) -> _Answer:
        """Append in one statement."""
        return self._run(
            sent,
            lambda connection: self._execute(
                connection, sent[-1], is_repeated=is_repeated, is_ordered=True
            ),
        )

    def _send_with_others(self, call: _Call) -> _Answer | BaseException:
        """Append in one statement, in one transaction with those of other threads that wait."""
        parameters = call.parameters(_writer(), is_repeated=False, is_ordered=True)
        found = self._group.run((call.key.agent, call.key.session), parameters)
        return found if isinstance(found, BaseException) else _Answer(*found)

    def _send_group(self, calls: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Run appends in one transaction and one round trip."""
        query = self._connections.format(APPEND).encode()

        def work(connection: Connection) -> list[tuple[Any, ...]]:
            if len(calls) == 1:
                return connection.execute(query, calls[0], binary=True).fetchall()
            with connection.pipeline(), connection.transaction():
                cursors = [connection.execute(query, call, binary=True) for call in calls]
            return [row for cursor in cursors for row in cursor.fetchall()]

        doing = f"append to session `{calls[0][1]}`" if len(calls) == 1 else "append"
        return self._connections.run(doing, work, is_repeatable=False)

    def _send_locked(self, sent: list[_Call]) -> _Answer:
        """Append under the lock of the session's row, with ids that follow its head."""
        key = sent[-1].key

        def work(connection: Connection) -> _Answer:
            with connection.transaction():
                query = self._connections.format(_LOCK).encode()
                row = connection.execute(query, (key.agent, key.session), binary=True).fetchone()
                if row is None:
                    return _Answer("absent", b"", None)
                lines, now = self._encode(sent[-1].batch, to_text(row[0]))
                sent.append(msgspec.structs.replace(sent[-1], lines=lines, now=now))
                return self._execute(connection, sent[-1], is_repeated=False, is_ordered=False)

        return self._run(sent, work)

    def _run(self, sent: list[_Call], work: Callable[[Connection], _Answer]) -> _Answer:
        doing = f"append to session `{sent[-1].key.session}`"
        return self._connections.run(doing, work, is_repeatable=False)

    def _execute(
        self, connection: Connection, call: _Call, *, is_repeated: bool, is_ordered: bool
    ) -> _Answer:
        parameters = call.parameters(_writer(), is_repeated=is_repeated, is_ordered=is_ordered)
        query = self._connections.format(APPEND).encode()
        row = connection.execute(query, parameters, binary=True).fetchone()
        assert row is not None
        return _Answer(*row)

    def _refusal(self, call: _Call, answer: _Answer) -> HoldfastError:
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

    def _remember(self, key: SessionKey, head: str) -> None:
        if len(self._heads) >= _HEADS_MAX:
            self._heads.clear()
        self._heads[key] = head


def _is_refusal(error: BaseException) -> bool:
    """Return whether the server said no, so that nothing of a transaction was stored."""
    return error.__cause__ is not None and not is_lost(error.__cause__)


def _writer() -> bytes:
    return to_bytes(str(this_process()))
