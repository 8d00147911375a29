"""The sums of budgets in a SQLite file of the root, or in memory."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from holdfast.core.spending.amounts import Amount
from holdfast.core.spending.budgets import Account, Sums
from holdfast.core.text.cut import scrub
from holdfast.core.text.typed import decode_typed
from holdfast.errors import StoreUnavailable
from holdfast.ports import Settlement
from holdfast.stores.files import explaining_read, open_root
from holdfast.stores.sqlite_files import IN_MEMORY, SharedTransactions, SqliteFile, in_use

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Iterator

    from holdfast.core.owners import NamedOwner
    from holdfast.ports import HeldCall

T = TypeVar("T")
FILE_NAME: Final = "spending.sqlite3"
_VERSION: Final = 1
_WAIT_SECONDS: Final = 30.0
HELD: Final = 0
SETTLED: Final = 1
EXPIRED: Final = 2
"""States of a call. What was held for an expired one is spent, until a settlement corrects it."""
_SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS accounts (
        kind TEXT NOT NULL, name TEXT NOT NULL, period TEXT NOT NULL,
        requests INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0,
        nanodollars INTEGER NOT NULL DEFAULT 0, held_tokens INTEGER NOT NULL DEFAULT 0,
        held_nanodollars INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (kind, name, period)) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS by_period ON accounts (period, requests)",
    """CREATE TABLE IF NOT EXISTS calls (
        name TEXT PRIMARY KEY, at REAL NOT NULL, state INTEGER NOT NULL, accounts BLOB NOT NULL,
        tokens INTEGER NOT NULL, nanodollars INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS by_time ON calls (state, at)",
)
_COLUMNS: Final = ", ".join(Sums._fields)
_READ: Final = f"SELECT {_COLUMNS} FROM accounts WHERE kind = ? AND name = ? AND period = ?"  # noqa: S608
_ADD: Final = """INSERT INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET requests = requests + excluded.requests,
    tokens = tokens + excluded.tokens, nanodollars = nanodollars + excluded.nanodollars,
    held_tokens = held_tokens + excluded.held_tokens,
    held_nanodollars = held_nanodollars + excluded.held_nanodollars"""
_NOTE: Final = """INSERT INTO calls (name, at, state, accounts, tokens, nanodollars)
  VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET state = excluded.state,
    accounts = excluded.accounts"""
_NONE: Final = b"[]"
"""The accounts of a settled call: nothing needs them any more."""


def encode_accounts(accounts: Iterable[Account]) -> bytes:
    """Return accounts as they are kept with a call."""
    return msgspec.json.encode([(kind, scrub(name), period) for kind, name, period in accounts])


def decode_accounts(data: bytes) -> tuple[Account, ...]:
    """Return the accounts of a call."""
    found: tuple[Account, ...] = decode_typed(data, tuple[Account, ...])
    return found


def change_of(state: int | None, bound: Amount, taken: Amount) -> tuple[Sums, Amount] | None:
    """Return what a settlement adds to the sums, and the part of it that is spent; None where the
    call was settled before. `state` is None for a call that was never held."""
    if state == SETTLED:
        return None
    if state == HELD:
        held = Amount(-bound.tokens, -bound.nanodollars)
        return Sums(0, *taken, *held), taken
    if state == EXPIRED:
        taken = Amount(taken.tokens - bound.tokens, taken.nanodollars - bound.nanodollars)
        return Sums(0, *taken), taken
    return Sums(1, *taken), taken


def month_of(at: float) -> str:
    """Return a month before which periods have ended in every time zone."""
    return time.strftime("%Y-%m", time.gmtime(at - 2 * 86_400))


class SqliteSpending:
    """The `SpendingLedger` of one machine. Safe for threads and for processes."""

    def __init__(self, path: str | None) -> None:
        """`path` is the file, made on first use; without one the sums are in memory."""
        self._path = path
        self._file = SqliteFile(path or IN_MEMORY, _prepare, wait_seconds=_WAIT_SECONDS)
        self._writes = SharedTransactions(self._file)

    def close(self) -> None:
        """Close the file; the next call opens it again. In memory, everything is gone."""
        with self._writes.alone():
            self._file.close()

    def hold(self, call: HeldCall, judge: Callable[[dict[Account, Sums]], None]) -> None:
        bound = call.bound

        def work(db: sqlite3.Connection) -> None:
            if _state(db, call.name) is not None:
                return
            judge(_sums(db, call.accounts))
            _add(db, call.accounts, Sums(1, 0, 0, *bound))
            db.execute(_NOTE, (call.name, call.at, HELD, encode_accounts(call.accounts), *bound))

        self._run("hold a call", work)

    def settle(self, call: HeldCall, taken: Amount) -> Settlement | None:
        def work(db: sqlite3.Connection) -> Settlement | None:
            found = _state(db, call.name)
            state, held, bound = found or (None, call.accounts, call.bound)
            change = change_of(state, bound, taken)
            if change is None:
                return None
            _add(db, held, change[0])
            db.execute(_NOTE, (call.name, call.at, SETTLED, _NONE, *taken))
            return Settlement(change[1], change[0].requests, _sums(db, held))

        was_held = call.bound != Amount()  # if a power cut loses this, it counts by that
        return self._run("settle a call", work, is_synced=not was_held)

    def sums(self, accounts: Collection[Account]) -> dict[Account, Sums]:
        if self._is_empty():
            return dict.fromkeys(accounts, Sums())
        return self._run("read the sums of budgets", lambda db: _sums(db, accounts))

    def accounts(self, periods: Collection[str], *, limit: int = 1_000) -> dict[Account, Sums]:
        if self._is_empty():
            return {}
        marks = ", ".join("?" * len(periods))
        statement = f"""SELECT kind, name, period, {_COLUMNS} FROM accounts
          WHERE period IN ({marks}) ORDER BY requests DESC, kind, name, period LIMIT ?"""  # noqa: S608
        rows = self._run(
            "read the sums of budgets",
            lambda db: db.execute(statement, [*periods, limit]).fetchall(),
        )
        return {Account(*row[:3]): Sums(*row[3:]) for row in rows}

    def expire(self, before: float) -> int:
        if self._is_empty():
            return 0

        def work(db: sqlite3.Connection) -> int:
            rows = db.execute(
                "SELECT name, accounts, tokens, nanodollars FROM calls WHERE state = ? AND at < ?",
                (HELD, before),
            ).fetchall()
            for name, accounts, tokens, money in rows:
                change = Sums(0, tokens, money, -tokens, -money)
                _add(db, decode_accounts(accounts), change)
                db.execute("UPDATE calls SET state = ? WHERE name = ?", (EXPIRED, name))
            return len(rows)

        return self._run("expire calls", work)

    def forget(self, settled: float, before: float) -> None:
        if self._is_empty():
            return

        def work(db: sqlite3.Connection) -> None:
            for state, at in ((SETTLED, settled), (EXPIRED, before)):
                db.execute("DELETE FROM calls WHERE state = ? AND at < ?", (state, at))
            db.execute("DELETE FROM accounts WHERE substr(period, 1, 7) < ?", (month_of(before),))

        self._run("forget calls", work)

    def erase(self, owner: NamedOwner) -> None:
        if self._is_empty():
            return
        name = scrub(owner.name)

        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM accounts WHERE kind = 'owner' AND name = ?", (name,))
            rows = db.execute("SELECT name, accounts FROM calls WHERE state <> ?", (SETTLED,))
            for call, data in rows.fetchall():
                found = decode_accounts(data)
                kept = [account for account in found if account[:2] != ("owner", name)]
                db.execute(
                    "UPDATE calls SET accounts = ? WHERE name = ?", (encode_accounts(kept), call)
                )

        self._run("erase the sums of an owner", work)
        with self._explaining("erase the sums of an owner"), self._writes.alone():
            if self._path is not None and not self._file.compact():
                raise in_use(self._path, "another process is reading it")

    def _is_empty(self) -> bool:
        """True where no call was ever counted: the file is made by the first."""
        return self._path is not None and not os.path.lexists(self._path)

    def _run(
        self, doing: str, work: Callable[[sqlite3.Connection], T], *, is_synced: bool = True
    ) -> T:
        with self._explaining(doing):
            return self._writes.run(work, is_synced=is_synced)

    @contextmanager
    def _explaining(self, doing: str) -> Iterator[None]:
        import sqlite3

        with explaining_read("the sums of budgets"):
            try:
                if self._path is not None and not self._file.is_open:
                    os.close(open_root(os.path.dirname(self._path), create=True))
                yield
            except (sqlite3.Error, UnicodeDecodeError) as error:
                raise StoreUnavailable(
                    f"cannot {doing} in `{self._file.path}`: {error}",
                    hint="nothing was changed; check the disk and other programs that use the "
                    "file. A damaged file can be moved away: budgets then begin at zero",
                ) from error


def _state(db: sqlite3.Connection, name: str) -> tuple[int, tuple[Account, ...], Amount] | None:
    row = db.execute(
        "SELECT state, accounts, tokens, nanodollars FROM calls WHERE name = ?", (name,)
    ).fetchone()
    return None if row is None else (row[0], decode_accounts(row[1]), Amount(*row[2:]))


def _sums(db: sqlite3.Connection, accounts: Iterable[Account]) -> dict[Account, Sums]:
    found: dict[Account, Sums] = {}
    for account in accounts:
        kind, name, period = account
        row: Any = db.execute(_READ, (kind, scrub(name), period)).fetchone()
        found[account] = Sums(*row) if row is not None else Sums()
    return found


def _add(db: sqlite3.Connection, accounts: Iterable[Account], change: Sums) -> None:
    db.executemany(_ADD, [(kind, scrub(name), period, *change) for kind, name, period in accounts])


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > _VERSION:
        db.execute("ROLLBACK")
        raise StoreUnavailable(
            f"cannot use the sums of budgets: a newer version of Holdfast made them ({version})",
            hint="nothing was changed; use that version",
        )
    for statement in _SCHEMA:
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {_VERSION}")
    db.execute("COMMIT")
