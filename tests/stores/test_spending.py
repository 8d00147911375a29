"""The sums of budgets on disk: a call costs one sync."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from holdfast.core.spending.amounts import Amount
from holdfast.core.spending.budgets import Account, Sums
from holdfast.ports import HeldCall
from holdfast.stores.spending import SqliteSpending
from holdfast.stores.sqlite_files import SqliteFile

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ANN = Account("owner", "ann", "2026-11-19")


def test_a_call_costs_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is held with a sync, and settled without one: what a power cut takes is still held,
    and counts at its most. A call that was never held has only its settlement, which is synced."""
    levels: list[int] = []
    begin: Any = SqliteFile.transaction

    def noting(self: SqliteFile, **given: Any) -> Any:
        found = begin(self, **given)
        db = found.__enter__()
        levels.append(db.execute("PRAGMA synchronous").fetchone()[0])
        found.__exit__(None, None, None)
        return begin(self, **given)

    monkeypatch.setattr(SqliteFile, "transaction", noting)
    full, normal = 2, 1
    with closing(SqliteSpending(str(tmp_path / "spending.sqlite3"))) as ledger:
        for name, bound in (("held", Amount(9, 9)), ("unheld", Amount())):
            call = HeldCall(name, (ANN,), bound, 1.0)
            if name == "held":
                ledger.hold(call, lambda _sums: None)
            ledger.settle(call, Amount(2, 2))
        assert levels == [full, normal, full]
        assert ledger.sums([ANN]) == {ANN: Sums(2, 4, 4)}
