"""What can go wrong between us and a server: one sentence each, nothing lost, no password shown."""

from __future__ import annotations

import inspect
import signal
import traceback
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.support.cases import check_all

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.core.spending.amounts import Amount
from holdfast.core.spending.budgets import Account
from holdfast.errors import HoldfastError, NotDurable, StoreError, StoreUnavailable, UsageError
from holdfast.ports import ANY_HEAD, HeldCall, SpendingLedger
from holdfast.stores.postgres import appending, connections, schema
from holdfast.stores.postgres.connections import read_address
from holdfast.stores.postgres.prepared import PreparedStatement
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.servers import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY = SessionKey("main", "s")
PASSWORD = "s3cr3t-p4ss"
_numbers = count(1)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less between tries."""
    for module in (connections, appending):
        monkeypatch.setattr(module, "RETRY_DELAYS", (0.01, 0.05, 0.1))


def _sql(server: PostgresServer, *statements: str) -> None:
    with closing(psycopg.connect(server.address, autocommit=True)) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _everything_shown(error: BaseException) -> str:
    """Return whatever a log, a terminal or a debugger would show of an error."""
    return "".join(traceback.format_exception(error)) + repr(vars(error)) + repr(error.args)


@pytest.fixture
def store(postgres_address: str) -> Iterator[PostgresStore]:
    with PostgresStore(postgres_address) as opened:
        opened.create(KEY)
        opened.append(KEY, [User(content="before")], expect=ANY_HEAD)
        yield opened


def _texts(store: PostgresStore) -> list[object]:
    return [getattr(record, "content", "") for record in store.read(KEY)][1:]


# Addresses


def test_each_wrong_address_has_one_sentence_and_a_next_step(
    postgres_server: PostgresServer,
) -> None:
    """A wrong host, port, user, password or database; and the password is nowhere."""
    hba = f"'{_hba_file(postgres_server)}'"
    _sql(
        postgres_server,
        "DROP ROLE IF EXISTS guarded",
        "CREATE ROLE guarded LOGIN PASSWORD 'another'",
        f"COPY (VALUES ('local all guarded scram-sha-256'), ('local all all trust')) TO {hba}",
        "SELECT pg_reload_conf()",
    )
    folder = postgres_server.address.partition("host=")[2]
    wrong = {
        f"postgresql://guarded:{PASSWORD}@/postgres?host={folder}": "refuses the user or its pass",
        f"postgresql://nobody:{PASSWORD}@/postgres?host={folder}": "no such user",
        f"postgresql://postgres:{PASSWORD}@/missing?host={folder}": "no such database",
        f"postgresql://postgres:{PASSWORD}@127.0.0.1:9/postgres": "nothing answers",
        f"postgresql://postgres:{PASSWORD}@host.invalid/postgres": "no such host",
        f"postgresql://postgres@/postgres?host=/nowhere&password={PASSWORD}": "nothing answers",
    }
    for address, says in wrong.items():
        with pytest.raises(StoreUnavailable, match=says) as caught:
            PostgresStore(address)
        assert caught.value.hint
        assert PASSWORD not in _everything_shown(caught.value)
        assert caught.value.__cause__ is None


def _hba_file(server: PostgresServer) -> str:
    with closing(psycopg.connect(server.address)) as connection:
        row = connection.execute("SHOW hba_file").fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize(
    "address",
    [
        f"mysql://u:{PASSWORD}@h/d",
        f"postgresql://u:{PASSWORD}@h:port/d",
        f"postgresql://u:{PASSWORD}@[::1/d",
        f"postgresql://u:{PASSWORD}@h/d?schema=Bad Name",
        f"postgresql://u:{PASSWORD}@h/d?schema={'x' * 60}",
        f"u:{PASSWORD}@h",
        "",
    ],
)
def test_an_address_that_cannot_be_read_is_not_quoted(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_address(address)
    assert caught.value.hint
    assert PASSWORD not in _everything_shown(caught.value)


def test_what_is_shown_of_an_address_has_no_password() -> None:
    """What the driver gets has the password, and not the schema, which is ours."""
    shown = {
        f"postgresql://u:{PASSWORD}@h:5433/d?sslmode=require": "u@h:5433/d",
        f"postgresql://h/d?user=u&password={PASSWORD}": "h/d",
        f"postgresql:///d?host=/run/x&sslpassword={PASSWORD}": "/d",
        "postgresql://u@[::1]:5/d": "u@[::1]:5/d",
    }
    for address, text in shown.items():
        found = read_address(address)
        assert text in found.shown
        assert PASSWORD not in repr(found) + found.shown
        assert (PASSWORD in found.conninfo) == (PASSWORD in address)
        more = f"{address}{'&' if '?' in address else '?'}schema=x"
        assert "schema" not in read_address(more).conninfo


# Schemas, roles and disks


def test_a_newer_schema_is_left_alone(store: PostgresStore, postgres_address: str) -> None:
    """Where it says that this version is too old; otherwise this version works beside it."""
    schema = store._connections.address.schema

    def change(version: int, oldest: int) -> None:
        query = f'UPDATE "{schema}".version SET version = {version}, oldest = {oldest}'
        store._connections.run("test", lambda connection: connection.execute(query.encode()))

    change(7, 1)
    with PostgresStore(postgres_address) as again:
        again.append(KEY, [User(content="beside")], expect=ANY_HEAD)
    change(7, 7)
    with pytest.raises(StoreUnavailable, match=r"version 7.*works with version") as caught:
        PostgresStore(postgres_address)
    assert "newer Holdfast" in str(caught.value.hint)
    assert _texts(store) == ["before", "beside"]


def test_a_schema_of_the_first_version_is_brought_up(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it keeps stays, a process of its version goes on beside, and steps run once."""
    address = f"{postgres_server.address}&schema=first_version"
    monkeypatch.setattr(schema, "VERSION", 1)
    monkeypatch.setattr(schema, "STEPS", schema.STEPS[:1])
    with PostgresStore(address) as old:
        old.create(KEY)
        monkeypatch.undo()
        for text in ("first", "second"):
            with PostgresStore(address) as new:
                new.append(KEY, [User(content=text)], expect=ANY_HEAD)
                assert new.queues.claim("inbox", "w", 600) == []
        old.append(KEY, [User(content="beside")], expect=ANY_HEAD)
        assert _texts(old) == ["first", "second", "beside"]
    _sql(postgres_server, "DROP SCHEMA first_version CASCADE")


def test_missing_tables_are_named(store: PostgresStore, postgres_server: PostgresServer) -> None:
    schema = store._connections.address.schema
    _sql(postgres_server, f'DROP TABLE "{schema}".records')
    for ask in (
        lambda: list(store.read(KEY)),
        lambda: store.append(KEY, [User(content="x")], expect=ANY_HEAD),
    ):
        with pytest.raises(StoreUnavailable, match=f"a table is missing from schema `{schema}`"):
            ask()
    _sql(postgres_server, f'DROP SCHEMA "{schema}" CASCADE')
    with pytest.raises(StoreUnavailable, match="missing"):
        store.sessions(owner=ANY_OWNER)


def test_a_role_that_may_only_read_is_told_so(
    store: PostgresStore, postgres_server: PostgresServer, postgres_address: str
) -> None:
    """It can read everything, and an append names the rights it lacks; nothing is half done."""
    schema = store._connections.address.schema
    _sql(
        postgres_server,
        f"DROP ROLE IF EXISTS reader_{schema}",
        f"CREATE ROLE reader_{schema} LOGIN",
        f'GRANT USAGE ON SCHEMA "{schema}" TO reader_{schema}',
        f'GRANT SELECT ON ALL TABLES IN SCHEMA "{schema}" TO reader_{schema}',
    )
    address = postgres_address.replace("postgres@", f"reader_{schema}@")
    with PostgresStore(address) as reader:
        assert _texts(reader) == ["before"]
        for act in (
            lambda: reader.append(KEY, [User(content="x")], expect=ANY_HEAD),
            lambda: reader.create(SessionKey("main", "new")),
            lambda: reader.leases.acquire(KEY, "turn", 1),
            lambda: reader.blobs.put(b"x"),
            lambda: reader.remove(KEY),
        ):
            with pytest.raises(StoreUnavailable, match="may not do that") as caught:
                act()
            assert "GRANT" in str(caught.value.hint)
    with pytest.raises(StoreUnavailable, match="may not do that"):
        PostgresStore(address.replace(f"schema={schema}", "schema=not_there"))
    assert _texts(store) == ["before"]


@pytest.mark.parametrize(
    ("state", "says"),
    [("53100", "disk of the server is full"), ("25006", "takes no writes"), ("53200", "memory")],
)
def test_a_server_that_cannot_write_loses_nothing(
    store: PostgresStore, postgres_server: PostgresServer, state: str, says: str
) -> None:
    """In the middle of an append of many: none of them is there, and the next one is."""
    schema = store._connections.address.schema
    _sql(
        postgres_server,
        f"""CREATE FUNCTION "{schema}".fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF convert_from(NEW.line, 'UTF8') LIKE '%number 7%' THEN
          RAISE 'no' USING ERRCODE = '{state}'; END IF; RETURN NEW; END $$""",
        f"""CREATE TRIGGER fail BEFORE INSERT ON "{schema}".records
          FOR EACH ROW EXECUTE FUNCTION "{schema}".fail()""",
    )
    before = store.info(KEY)
    with pytest.raises(StoreUnavailable, match=says) as caught:
        store.append(KEY, [User(content=f"number {n}") for n in range(20)], expect=ANY_HEAD)
    assert "nothing was changed" in str(caught.value.hint)
    assert store.info(KEY) == before
    store.append(KEY, [User(content="after")], expect=before.head)
    assert _texts(store) == ["before", "after"]


# Lost connections


class _Line:
    """Cuts the connection around the next statements that append."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *cuts: str) -> None:
        self.left = list(cuts)
        real = PreparedStatement.run

        def run(statement: PreparedStatement, connection: Any, calls: Any) -> Any:
            if not self.left:
                return real(statement, connection, calls)
            cut = self.left.pop(0)
            if cut == "after":
                real(statement, connection, calls)
            connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        monkeypatch.setattr(PreparedStatement, "run", run)


@pytest.mark.parametrize("expect", [True, False], ids=["expect", "any"])
@pytest.mark.parametrize(
    "cuts",
    [("after",), ("before",), ("before", "after"), ("after", "before"), ("before", "before")],
    ids="-".join,
)
def test_an_append_whose_answer_is_lost_is_stored_once(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, cuts: tuple[str, ...], expect: bool
) -> None:
    """Wherever the line is cut, and again while asking: the records are there, and once."""
    head = store.head(KEY) if expect else ANY_HEAD
    _Line(monkeypatch, *cuts)
    done = store.append(KEY, [User(content="a"), User(content="b")], expect=head)
    assert _texts(store) == ["before", "a", "b"]
    assert done.head == done.ids[-1] == store.head(KEY)
    store.append(KEY, [User(content="next")], expect=done.head)
    assert store.verify(KEY).is_sound


def test_a_late_first_try_writes_nothing(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that arrives after it was sent again is refused, like a second one would be."""
    sent: list[tuple[PreparedStatement, Any]] = []
    real = PreparedStatement.run

    def run(statement: PreparedStatement, connection: Any, calls: Any) -> Any:
        if not sent:
            sent.append((statement, calls))
            connection.close()
            raise psycopg.OperationalError("lost")
        return real(statement, connection, calls)

    with monkeypatch.context() as patch:
        patch.setattr(PreparedStatement, "run", run)
        store.append(KEY, [User(content="once")], expect=ANY_HEAD)
    statement, calls = sent[0]
    with store._connections.use() as connection:
        (late,) = statement.run(connection, calls)
    assert late[0] == b"order"
    assert _texts(store) == ["before", "once"]


def test_a_server_that_stays_away_leaves_the_outcome_open(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what is not known, and names the record that decides it."""
    with monkeypatch.context() as patch:
        _Line(patch, "after", *["before"] * 20)
        with pytest.raises(NotDurable, match="not known whether") as caught:
            store.append(KEY, [User(content="a")], expect=ANY_HEAD)
    (stored,) = list(store.read(KEY))[2:]
    assert f"record `{stored.id}`" in str(caught.value.hint)


def test_connections_that_the_server_closed_are_replaced(
    store: PostgresStore, postgres_server: PostgresServer
) -> None:
    """After a restart, a failover or an idle timeout: nobody notices."""
    for _time in range(3):
        _sql(
            postgres_server,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'holdfast'",
        )
        store.append(KEY, [User(content="x")], expect=ANY_HEAD)
        _sql(
            postgres_server,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'holdfast'",
        )
        store.notes("main").append("a note")
        assert len(_texts(store)) == 2 + _time


def test_a_restarted_server_has_everything_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped as by a power cut and started again, between and within calls."""
    monkeypatch.setattr(connections, "RETRY_DELAYS", (0.1,) * 100)
    with PostgresServer() as server, PostgresStore(server.address) as store:
        store.create(KEY)
        for number in range(2):
            store.append(KEY, [User(content=str(number))], expect=ANY_HEAD)
            server.stop(signal.SIGKILL)
            server.start()
        assert _texts(store) == ["0", "1"]
        assert store.verify(KEY).is_sound


# Every method


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "append": (KEY, [User(content="x")]),
    "append_each": (KEY, [User(content="x")]),
    "create": (SessionKey("main", "new"),),
    "find": (KEY, "x"),
    "find_message": (KEY, "x"),
    "fork": (KEY, SessionKey("main", "forked")),
    "last": (KEY, 2),
    "read_branch": (KEY, "x"),
    "restore": ("x",),
    "erase_from_indexes": ([KEY],),
    "possible_copies": (["main/x"],),
    "begin_erasure": (KEY,),
    "finish_erasure": (KEY,),
    "sessions_since": ("",),
    "is_head": (KEY, "no-such-record"),
    "extend_log": (KEY, b"\n"),
    "note_scopes": ("main",),
}
KEYWORDS: dict[str, dict[str, Any]] = {
    "append": {"expect": ANY_HEAD},
    "extend_log": {"at": 0},
    "fork": {"at": None},
    **{
        name: {"owner": ANY_OWNER}
        for name in ("sessions", "sessions_since", "erasable", "begin_erasure", "trash_keys")
    },
}
STEPS = {"append_batch", "create_log", "open_log", "locate"}
"""Steps of other methods."""
SILENT = {"close", "describe", "caveat", "local_folder", "sweep"}
"""Methods that ask the server nothing."""
SIDE_STORES: dict[str, Callable[[Any], object]] = {
    "audit": lambda audit: audit.entries(),
    "blobs": lambda blobs: blobs.put(b"x"),
    "leases": lambda leases: leases.acquire(KEY, "turn", 1),
    "notes": lambda notes: notes.append("a note"),
    "queues": lambda queues: queues.messages(owner=ANY_OWNER),
    "search_index": lambda index: index.sources(),
    "summaries": lambda summaries: summaries.load(KEY),
}
CALL = HeldCall("call", (Account("owner", "ann", "2026-11"),), Amount(1, 1), 1.0)
SPENDING: dict[str, tuple[Any, ...]] = {
    "spending.hold": (CALL, lambda _sums: None),
    "spending.settle": (CALL, Amount(1, 1)),
    "spending.sums": (CALL.accounts,),
    "spending.accounts": (["2026-11"],),
    "spending.expire": (2.0,),
    "spending.forget": (2.0, 2.0),
    "spending.erase": (NamedOwner("ann"),),
}
QUIET = {"summaries"}
"""A cache, which is missing where it cannot be read."""


def _methods() -> list[str]:
    found = [
        name
        for name, member in inspect.getmembers(PostgresStore)
        if not name.startswith("_") and name not in STEPS | SILENT
        if callable(member) or isinstance(member, property)
    ]
    found.remove("spending")
    return [*found, *(f"spending.{name}" for name in vars(SpendingLedger) if name[0] != "_")]


def _use(store: PostgresStore, method: str) -> None:
    if method.startswith("spending."):
        getattr(store.spending, method.removeprefix("spending."))(*SPENDING[method])
        return
    found = getattr(store, method)
    if method in SIDE_STORES:
        SIDE_STORES[method](found("main") if callable(found) else found)
        return
    given = ARGUMENTS.get(method)
    if given is None:
        given = (KEY,) if "key" in inspect.signature(found).parameters else ()
    result = found(*given, **KEYWORDS.get(method, {}))
    if inspect.isgenerator(result):
        next(result)


ERRORS: list[Exception] = [
    psycopg.OperationalError("server closed the connection unexpectedly"),
    psycopg.errors.DiskFull("could not extend file"),
    psycopg.errors.UndefinedTable("no such table"),
    psycopg.errors.InternalError_("a bug"),
    psycopg.InterfaceError("the connection is closed"),
]


def test_every_error_of_the_driver_is_one_of_ours(
    postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the server says to whichever method: our error, with a next step."""

    def check(case: tuple[str, Exception]) -> None:
        method, error = case

        def execute(*_: Any, **__: Any) -> Any:
            raise error

        with monkeypatch.context() as patch, PostgresStore(postgres_address) as store:
            patch.setattr(psycopg.Connection, "execute", execute)
            patch.setattr(psycopg.Cursor, "copy", execute)
            patch.setattr(PreparedStatement, "run", execute)
            if method in QUIET:
                _use(store, method)
                return
            with pytest.raises(StoreError) as caught:
                _use(store, method)
        assert isinstance(caught.value, HoldfastError)
        assert caught.value.hint

    with PostgresStore(postgres_address) as store:
        store.create(KEY)
        store.append(KEY, [User(content="before")], expect=ANY_HEAD)
    check_all([(method, error) for method in _methods() for error in ERRORS], check)


def test_every_sentence_about_the_server_fits_its_schema() -> None:
    """Each known code has a sentence and a next step."""
    address = read_address("postgresql://u@h/d?schema=mine")
    for state in connections._BY_STATE:
        error = psycopg.errors.lookup(state)("x")
        found = connections.explain(error, "do it", address)
        assert "{" not in f"{found}{found.hint}"
        assert found.hint
