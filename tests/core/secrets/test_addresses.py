"""Addresses: what is a folder and what is not, and no password is shown."""

from __future__ import annotations

from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import check_all
from tests.support.runs import examples

from holdfast.core.secrets.addresses import address_kind, describe_address

KINDS = {
    ".sessions": "folder",
    "/var/lib/holdfast": "folder",
    "~/sessions": "folder",
    "C:\\Users\\ann\\sessions": "folder",
    "C:/Users/ann": "folder",
    "c:": "folder",
    "notes: 2026": "folder",
    "a:b:c": "folder",
    "x:/y": "folder",
    "12://x": "folder",
    "://x": "folder",
    "./memory:": "folder",
    "./postgresql://host/db": "folder",
    "/postgresql://host/db": "folder",
    "memory": "folder",
    "memory/x:y": "folder",
    "postgresql": "folder",
    "mysqlx:db": "folder",
    "memory:": "memory",
    "MEMORY:": "memory",
    " memory: ": "memory",
    "memory:named": "memory",
    "memory://": "memory",
    "postgresql://host/db": "postgresql",
    "PostgreSQL://host/db": "postgresql",
    " postgresql://host/db": "postgresql",
    "postgres://host/db": "postgres",
    "postgresql:host": "postgresql",
    "postgresql:/u:p@host/db": "postgresql",
    "mysql://host/db": "mysql",
    "s3://bucket": "s3",
    "s3:bucket": "s3",
    "file:///tmp/x": "file",
    "git+ssh://host": "git+ssh",
}

SHOWN = {
    "/var/lib/a b:c": "/var/lib/a b:c",
    "memory:": "memory:",
    "Memory: ": "memory:",
    "postgresql://host": "postgresql://host",
    "postgresql:///db": "postgresql:///db",
    "postgresql://ann@host/db": "postgresql://ann@host/db",
    "postgresql://ann:pw12@host:5433/db": "postgresql://ann@host:5433/db",
    "postgres://ann:pw12@a:1,b:2/db": "postgres://…",
    "postgresql://ann:pw12@[::1]:5433/db": "postgresql://ann@[::1]:5433/db",
    "postgresql://host/db?password=pw12&sslmode=require": "postgresql://host/db?…",
    "postgresql://ann:pw@12@host/db": "postgresql://…",
    "postgresql://ann:pw/12@host/db": "postgresql://…",
    "postgresql://ann:pw?12@host/db": "postgresql://…",
    "postgresql://ann:12?34@host/db": "postgresql://…",
    "postgresql://ann:pw12": "postgresql://…",
    "postgresql:/ann:pw12@host/db": "postgresql:…",
    "mysql://ann:pw12@host/db": "mysql://host/db",
    "https://token@host/x": "https://host/x",
    "s3://KEY:SECRET@bucket/a/b": "s3://bucket/a/b",
    "s3://bucket/a/b": "s3://bucket/a/b",
}


def test_kinds_of_addresses() -> None:
    """Only `memory:`, `SCHEME://`, and words that mean a store are no folders."""
    check_all(KINDS.items(), lambda case: _equal(address_kind(case[0]), case[1]))


def test_addresses_are_shown_without_what_may_be_a_password() -> None:
    check_all(SHOWN.items(), lambda case: _equal(describe_address(case[0]), case[1]))


def _equal(found: object, wanted: object) -> None:
    assert found == wanted


PASSWORD = st.text(min_size=1, max_size=12).map(lambda text: f"Pw0{text}9wP")
"""With anything in it, and two ends that nothing else has."""
WORD = st.text("abcdefgh", min_size=1, max_size=5)
SHAPES = (
    "{scheme}://{user}:{password}@{host}/{db}",
    "{scheme}://{user}:{password}@{host}:5432/{db}?sslmode=require",
    "{scheme}://:{password}@{host}/{db}",
    "{scheme}://{user}:{password}@",
    "{scheme}://{user}:{password}",
    "{scheme}:/{user}:{password}@{host}/{db}",
    "{scheme}:{user}:{password}@{host}/{db}",
    "{scheme}://{host}/{db}?user={user}&password={password}",
    "{scheme}://{host}?password={password}",
    "{scheme}://{user}@{host}/{db}?a=1&sslpassword={password}#x",
    "  {scheme}://{user}:{password}@{host}/{db}\n",
)


@given(
    shape=st.sampled_from(SHAPES),
    scheme=st.sampled_from(["postgresql", "postgres", "POSTGRESQL", "s3"]),
    user=WORD,
    host=WORD,
    db=WORD,
    password=PASSWORD,
    is_quoted=st.booleans(),
)
@examples(300)
def test_no_password_is_shown(
    shape: str, scheme: str, user: str, host: str, db: str, password: str, *, is_quoted: bool
) -> None:
    """Whatever a password has in it, escaped or forgotten to be, no part of it is shown."""
    written = quote(password, safe="", errors="surrogatepass") if is_quoted else password
    address = shape.format(scheme=scheme, user=user, password=written, host=host, db=db)

    shown = describe_address(address)

    assert "Pw0" not in shown
    assert "9wP" not in shown
    assert shown.startswith(f"{scheme.lower()}:")
    assert describe_address(shown) == shown or shown.endswith("…")


@given(st.text(max_size=60))
@examples(200)
def test_any_text_is_an_address(text: str) -> None:
    """Every text has a kind, and is shown; a folder as it is."""
    if address_kind(text) == "folder":
        assert describe_address(text) == text
    else:
        assert describe_address(text).startswith(address_kind(text))
