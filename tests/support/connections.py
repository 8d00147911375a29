"""A fixture for every test: SQLite connections are closed by what opened them."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def every_connection_is_closed() -> Iterator[None]:
    """Fail the test that leaves a connection open.

    Python itself warns since 3.13, but only when the garbage collector runs: in another test.
    """
    connect, opened = sqlite3.connect, list[sqlite3.Connection]()

    def recording_connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        opened.append(connect(*args, **kwargs))
        return opened[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", recording_connect)
        yield
    left_open = [connection for connection in opened if _is_open(connection)]
    for connection in left_open:
        connection.close()
    assert not left_open, f"the test left {len(left_open)} SQLite connections open"


def _is_open(connection: sqlite3.Connection) -> bool:
    with suppress(sqlite3.ProgrammingError):
        return connection.total_changes >= 0
    return False
