"""A real PostgreSQL server for the tests of one worker, and an empty schema for each test."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from holdfast.testing.servers import PostgresServer, ServerUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

_FAST = ("fsync=off", "full_page_writes=off", "autovacuum=off")
"""What a power cut does is tested with servers of their own."""

_numbers = count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    try:
        server = PostgresServer(settings=_FAST)
    except ServerUnavailable as error:
        pytest.skip(f"NOT TESTED on PostgreSQL: {error} ({error.hint})")
    with server:
        yield server


@pytest.fixture
def postgres_address(postgres_server: PostgresServer) -> str:
    """The address of a schema that is not there yet."""
    return f"{postgres_server.address}&schema=t{next(_numbers)}"
