"""A claim looks at the first message of each lane, whatever waits behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.core.owners import ANY_OWNER
from holdfast.stores.postgres import queues
from holdfast.stores.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterator

LANES = 6
_FILL = """INSERT INTO {s}.messages
    (queue, lane, owner, session, key, body, state, tries, claims, lost_claims, due, holder, reason)
  SELECT 'inbox', convert_to('lane' || n %% %(lanes)s, 'UTF8'), '', '',
    convert_to('key' || n, 'UTF8'), '{}', 'waiting', 0, 0, 0, clock_timestamp(), '', ''
  FROM generate_series(%(first)s::int, %(last)s) AS n"""


@pytest.fixture
def store(postgres_address: str) -> Iterator[PostgresStore]:
    with PostgresStore(postgres_address) as store:
        yield store


def fill(store: PostgresStore, first: int, last: int) -> None:
    """Let messages wait in a few lanes."""
    with store._connections.transaction("fill") as connection:
        query = store._connections.format(_FILL).encode()
        connection.execute(query, {"first": first, "last": last, "lanes": LANES})


def count_rows(store: PostgresStore) -> int:
    """Return how many rows a claim looks at, those it throws away included."""
    values = {"queue": "inbox", "holder": b"w", "seconds": 0.0, "limit": 32}
    rows = store._connections.rows(
        "explain", f"EXPLAIN (ANALYZE, FORMAT JSON) {queues._CLAIM}", values
    )
    return _rows_of(rows[0][0][0]["Plan"])


def _rows_of(plan: dict[str, Any]) -> int:
    own: float = plan["Actual Rows"]
    own += sum(value for name, value in plan.items() if name.startswith("Rows Removed by"))
    return int(own * plan["Actual Loops"]) + sum(map(_rows_of, plan.get("Plans", ())))


@pytest.mark.parametrize("is_known", [False, True], ids=["new table", "with statistics"])
def test_a_claim_costs_the_same_behind_any_backlog(store: PostgresStore, is_known: bool) -> None:
    """It was a product of all messages that wait: 34 s for 4,500 of them in six lanes, while the
    claims of running turns ran out."""
    store.queues.counts("inbox", owner=ANY_OWNER)
    looked_at = []
    for first, last in ((1, 60), (61, 3_000)):
        fill(store, first, last)
        if is_known:
            with store._connections.transaction("analyze") as connection:
                connection.execute(store._connections.format("ANALYZE {s}.messages").encode())
        looked_at.append(count_rows(store))
    assert looked_at[1] <= 20 * LANES
    assert [each.lane for each in store.queues.claim("inbox", "w", 60, limit=32)] != []
