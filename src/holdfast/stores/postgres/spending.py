"""The sums of budgets in the database. Accounts are locked in one order, so that none waits for
another in a circle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.core.spending.amounts import Amount
from holdfast.core.spending.budgets import Account, Sums
from holdfast.core.text.cut import scrub
from holdfast.ports import Settlement
from holdfast.stores.postgres.rows import to_bytes, to_text
from holdfast.stores.spending import (
    EXPIRED,
    HELD,
    SETTLED,
    change_of,
    decode_accounts,
    encode_accounts,
    month_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from holdfast.core.owners import NamedOwner
    from holdfast.ports import HeldCall
    from holdfast.stores.postgres.connections import Connection, Connections

T = TypeVar("T")
_COLUMNS: Final = ", ".join(Sums._fields)
_SAME: Final = "a.kind = %s AND md5(a.name) = md5(%s) AND a.period = %s"
_OPEN: Final = """INSERT INTO {s}.spending_accounts (kind, name, period) VALUES (%s, %s, %s)
  ON CONFLICT DO NOTHING"""
_LOCK: Final = f"SELECT {_COLUMNS} FROM {{s}}.spending_accounts AS a WHERE {_SAME} FOR UPDATE"
_READ: Final = f"SELECT {_COLUMNS} FROM {{s}}.spending_accounts AS a WHERE {_SAME}"
_ADD: Final = f"""UPDATE {{s}}.spending_accounts AS a SET
  {", ".join(f"{name} = {name} + %s" for name in Sums._fields)} WHERE {_SAME}"""
_BEGIN: Final = """INSERT INTO {s}.spending_calls (name, at, state, accounts, tokens, nanodollars)
  VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING name"""
_CALL: Final = """SELECT state, accounts, tokens, nanodollars FROM {s}.spending_calls
  WHERE name = %s FOR UPDATE"""
_SETTLE: Final = "UPDATE {s}.spending_calls SET state = %s, accounts = '[]' WHERE name = %s"
_STATE: Final = "UPDATE {s}.spending_calls SET state = %s WHERE name = %s"
_LATE: Final = """SELECT name, accounts, tokens, nanodollars FROM {s}.spending_calls
  WHERE state = %s AND at < %s ORDER BY name FOR UPDATE SKIP LOCKED"""
_DURABLE: Final = """SELECT set_config('synchronous_commit',
  CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
  ELSE current_setting('synchronous_commit') END, true)"""


class PostgresSpending:
    """The `SpendingLedger` in a database."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def hold(self, call: HeldCall, judge: Callable[[dict[Account, Sums]], None]) -> None:
        def work(tables: _Tables) -> None:
            given = (to_bytes(call.name), call.at, HELD, encode_accounts(call.accounts))
            if not tables.rows(_BEGIN, *given, *call.bound):
                return
            judge(tables.lock(call.accounts))
            tables.add(call.accounts, Sums(1, 0, 0, *call.bound))

        self._change("hold a call", work)

    def settle(self, call: HeldCall, taken: Amount) -> Settlement | None:
        name = to_bytes(call.name)

        def work(tables: _Tables) -> Settlement | None:
            given = (name, call.at, SETTLED, b"[]", *taken)
            state, held, bound = None, call.accounts, call.bound
            if not tables.rows(_BEGIN, *given):
                ((state, accounts, *most),) = tables.rows(_CALL, name)
                held, bound = decode_accounts(bytes(accounts)), Amount(*most)
            change = change_of(state, bound, taken)
            if change is None:
                return None
            before = tables.lock(held)
            tables.add(held, change[0])
            tables.run(_SETTLE, SETTLED, name)
            after = {account: _plus(sums, change[0]) for account, sums in before.items()}
            return Settlement(change[1], change[0].requests, after)

        return self._change("settle a call", work)

    def sums(self, accounts: Collection[Account]) -> dict[Account, Sums]:
        found: dict[Account, Sums] = {}
        for account in accounts:
            rows = self._connections.rows("read the sums of budgets", _READ, _values(account))
            found[account] = Sums(*rows[0]) if rows else Sums()
        return found

    def accounts(self, periods: Collection[str], *, limit: int = 1_000) -> dict[Account, Sums]:
        query = f"""SELECT kind, name, period, {_COLUMNS} FROM {{s}}.spending_accounts
          WHERE period = ANY(%s) ORDER BY requests DESC, kind, name, period LIMIT %s"""
        rows = self._connections.rows("read the sums of budgets", query, ([*periods], limit))
        return {
            Account(kind, to_text(name), period): Sums(*sums) for kind, name, period, *sums in rows
        }

    def expire(self, before: float) -> int:
        def work(tables: _Tables) -> int:
            rows = tables.rows(_LATE, HELD, before)
            for name, accounts, tokens, money in rows:
                held = decode_accounts(bytes(accounts))
                tables.lock(held)
                tables.add(held, Sums(0, tokens, money, -tokens, -money))
                tables.run(_STATE, EXPIRED, name)
            return len(rows)

        return self._change("expire calls", work)

    def forget(self, settled: float, before: float) -> None:
        def work(tables: _Tables) -> None:
            query = "DELETE FROM {s}.spending_calls WHERE state = %s AND at < %s"
            tables.run(query, SETTLED, settled)
            tables.run(query, EXPIRED, before)
            query = "DELETE FROM {s}.spending_accounts WHERE left(period, 7) < %s"
            tables.run(query, month_of(before))

        self._change("forget calls", work)

    def erase(self, owner: NamedOwner) -> None:
        whose = scrub(owner.name)

        def work(tables: _Tables) -> None:
            query = "SELECT name, accounts FROM {s}.spending_calls WHERE state <> %s FOR UPDATE"
            for name, data in tables.rows(query, SETTLED):
                found = decode_accounts(bytes(data))
                kept = [account for account in found if account[:2] != ("owner", whose)]
                change = "UPDATE {s}.spending_calls SET accounts = %s WHERE name = %s"
                tables.run(change, encode_accounts(kept), name)
            query = "DELETE FROM {s}.spending_accounts WHERE kind = 'owner' AND name = %s"
            tables.run(query, to_bytes(whose))

        self._change("erase the sums of an owner", work)

    def _change(self, doing: str, work: Callable[[_Tables], T]) -> T:
        """Change sums in a transaction. The names of calls let it be repeated."""

        def run(connection: Connection) -> T:
            with connection.transaction():
                connection.execute(_DURABLE)
                return work(_Tables(self._connections, connection))

        return self._connections.run(doing, run)


class _Tables:
    """The tables within a transaction."""

    def __init__(self, connections: Connections, connection: Connection) -> None:
        self._connections = connections
        self._connection = connection

    def run(self, query: str, *values: object) -> Any:
        text = self._connections.format(query).encode()
        return self._connection.execute(text, values, binary=True)

    def rows(self, query: str, *values: object) -> list[Any]:
        found: list[Any] = self.run(query, *values).fetchall()
        return found

    def lock(self, accounts: Iterable[Account]) -> dict[Account, Sums]:
        """Return the sums of accounts, which nobody else changes until the end."""
        found: dict[Account, Sums] = {}
        for account in sorted(accounts):
            self.run(_OPEN, *_values(account))
            ((*sums,),) = self.rows(_LOCK, *_values(account))
            found[account] = Sums(*sums)
        return found

    def add(self, accounts: Iterable[Account], change: Sums) -> None:
        for account in accounts:
            self.run(_ADD, *change, *_values(account))


def _values(account: Account) -> tuple[str, bytes, str]:
    return account.kind, to_bytes(account.name), account.period


def _plus(sums: Sums, change: Sums) -> Sums:
    return Sums(*(one + other for one, other in zip(sums, change, strict=True)))
