"""Real servers for the tests of one worker: an empty schema, an empty bucket for each test."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.stores.s3 import S3Blobs
from holdfast.testing.servers import PostgresServer, S3Server, ServerUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.databases import Schemas

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
    """The address of a schema that is not there yet; its tables take 40 ms of CPU."""
    return f"{postgres_server.address}&schema=t{next(_numbers)}"


@pytest.fixture
def empty_postgres_address(postgres_schemas: Schemas) -> Iterator[str]:
    """The address of a schema without rows, for tests that leave its tables as they are."""
    yield postgres_schemas.address_of(object())
    postgres_schemas.clear()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    try:
        server = S3Server()
        server.bucket("tests")
    except ServerUnavailable as error:
        pytest.skip(f"NOT TESTED on S3: {error} ({error.hint})")
    with server:
        yield server


@pytest.fixture
def s3_options(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `S3Blobs` takes to reach the server. Its client wants certificates, also for HTTP."""
    monkeypatch.delenv("SSL_CERT_DIR")
    if not s3_server.is_running:
        s3_server.start()  # a server that ended is no fault of ours; its folder is still there
    return s3_server.options


@pytest.fixture
def s3_blobs(s3_options: dict[str, Any]) -> S3Blobs:
    """Payloads below a prefix that is not there yet."""
    return S3Blobs(f"s3://tests/t{next(_numbers)}", **s3_options)
