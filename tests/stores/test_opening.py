"""A store is opened from an address; what is no address makes no folder and shows no password."""

from __future__ import annotations

import os
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from tests.core.secrets.test_addresses import PASSWORD, SHAPES
from tests.support.cases import check_all
from tests.support.runs import examples

from holdfast import Memory, Session, SessionKey, User, config
from holdfast.core.log import records
from holdfast.core.owners import ANY_OWNER
from holdfast.errors import HoldfastError, UsageError
from holdfast.stores import ANY_HEAD, MemoryStore
from holdfast.stores import opening as stores_opening
from holdfast.stores.blobs import FileBlobs
from holdfast.stores.in_memory import MemoryBlobs
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.stores.opening import open_blobs, open_store
from holdfast.surfaces import cli
from holdfast.surfaces.cli.dispatch import EXIT_USAGE
from holdfast.surfaces.cli.help import COMMANDS

if TYPE_CHECKING:
    from holdfast.ports import SessionStore

KEY = SessionKey("main", "work")
FOLDERS = (
    *("plain", "with space", "C:drive", "a:b", "notes: 2026", "./memory:", "./postgresql:"),
    *("./s3:x", "./postgresql:/host/db", "memory", "mysql:db", "ünï"),
)
NO_STORES = (
    *("mysql://host/db", "s3://bucket", "s3:bucket", "file:///tmp/x", "http://host", "memory://"),
    *("memory:named", "postgresql:host", "postgresql:/host/db", "sqlite:///x.db", "", "  ", "a\0b"),
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run every test in an empty folder: what an address makes by mistake is seen."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_path_is_a_folder(here: Path) -> None:
    """Names with a colon are folders too; `./` makes one of a name that means something else."""

    def check(name: str) -> None:
        for address in (name, here / "other" / Path(name)):
            with open_store(address) as store:
                store.create(KEY)
                assert os.path.isdir(address)
                assert store.describe() == os.path.abspath(address)
                assert store.describe(KEY).startswith(store.describe())
                assert os.path.isfile(store.describe(KEY))
                assert store.local_folder == os.fspath(address)
                assert store.caveat == ""

    check_all(FOLDERS, check)


def test_other_kinds_are_errors_and_make_no_folder(here: Path) -> None:
    """By every way in: the function, a session, the memory, the command, the variable."""

    def check(address: str) -> None:
        with pytest.raises(UsageError) as raised:
            open_store(address)
        assert raised.value.hint
        if address.strip():  # nothing means the default
            with pytest.raises(UsageError):
                Session.open("work", model="offline", store=address)
            if "\0" not in address:
                assert cli.main(["sessions", "--root", address]) == EXIT_USAGE
        assert os.listdir(here) == []

    check_all(NO_STORES, check)


def test_paths_are_no_addresses(here: Path) -> None:
    """`Path` takes a slash out of an address: what looks like one is refused, not made."""
    for address in (Path("postgresql://host/db"), Path("memory:"), Path("s3://bucket")):
        with pytest.raises(UsageError, match="text"):
            open_store(address)
    assert os.listdir(here) == []


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    """Without the extra, the error names what to install."""

    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name="driver")

    monkeypatch.setattr(stores_opening, "import_module", missing)
    for opened, extra in (
        (lambda: open_store("postgresql://ann:Pw0@host/db"), "postgres"),
        (lambda: open_blobs("s3://bucket/prefix"), "s3"),
    ):
        with pytest.raises(UsageError, match="driver is not installed") as raised:
            opened()
        assert raised.value.hint == f"install it with `pip install 'holdfast[{extra}]'`"
        assert "Pw0" not in str(raised.value)
    assert os.listdir(here) == []


def test_memory_is_kept_nowhere(here: Path) -> None:
    """A session in `memory:` works and leaves no file; another store of it is another one."""
    with Session.open("work", model="offline", store="memory:") as session:
        session.say("hello")
        session.checkpoint()
    with open_store("memory:") as store:
        assert store.sessions(owner=ANY_OWNER) == []
        assert store.describe() == "memory:"
        assert "memory" in store.caveat
    assert os.listdir(here) == []


def test_the_command_says_that_memory_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    """Once, on stderr; what programs read on stdout is as ever."""
    assert cli.main(["new", "--root", "memory:", "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("gone when this process ends") == 1
    assert "gone" not in printed.out


def test_the_variable_is_an_address(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    """`HOLDFAST_ROOT` means what `--root` and `root=` mean."""
    monkeypatch.setenv("HOLDFAST_ROOT", "memory:")
    with Session.open("work", model="offline") as session:
        session.say("hello")
    monkeypatch.setenv("HOLDFAST_ROOT", "mysql://host/db")
    with pytest.raises(UsageError, match="no such kind"):
        Session.open("work", model="offline")
    assert os.listdir(here) == []


# Blobs elsewhere


@pytest.mark.parametrize("root", ["memory:", "root"])
def test_blobs_are_kept_elsewhere(root: str, here: Path) -> None:
    """Payloads go to the other place and to no other, and come back from there."""
    for blobs in ("other", here / "other", MemoryBlobs(), FileBlobs("other")):
        with open_store(root, blobs=blobs) as store:
            sha256 = store.blobs.put(b"payload")
            assert store.blobs.get(sha256) == b"payload"
            assert not (here / "root" / "blobs").exists()
            assert not isinstance(blobs, MemoryBlobs) or store.blobs is blobs
    assert FileBlobs("other").get(sha256) == b"payload"


def test_the_variable_gives_other_blobs(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    """A large output of a session and the command that reads it use `HOLDFAST_BLOBS`."""
    monkeypatch.setenv("HOLDFAST_BLOBS", "elsewhere")
    assert config.load().blobs == "elsewhere"
    with Session.open("work", model="offline", store="root") as session:
        session.store.blobs.put(b"payload")
    assert len(list(FileBlobs("elsewhere"))) == 1
    assert list(FileBlobs("root")) == []
    assert cli.main(["disk", "--clean", "--root", "root", "--grace", "0"]) == 0
    assert list(FileBlobs("elsewhere")) == []
    monkeypatch.setenv("HOLDFAST_BLOBS", "gs://bucket")
    with pytest.raises(UsageError, match="blobs at `gs://bucket`"):
        Session.open("work", model="offline", store="root")
    assert not (here / "gs:").exists()


def test_own_blobs_stay_where_they_were(here: Path) -> None:
    """Without another address, a folder keeps its payloads below itself."""
    for store in (open_store("root"), JsonlStore("root")):
        with store:
            store.blobs.put(b"payload")
    assert len(list(FileBlobs(here / "root"))) == 1


# Passwords


@given(password=PASSWORD)
@examples(30)
def test_no_error_shows_a_password(password: str) -> None:
    """Not in the error, its hint and representation, the traceback, nor what the command prints."""
    words = {"user": "ann", "host": "h.invalid", "db": "db", "password": password}
    for shape in SHAPES:
        # Kinds that are known elsewhere: nothing is looked up, and halves of them are no folders.
        store, blobs = shape.format(scheme="s3", **words), shape.format(scheme="postgres", **words)
        _check_shown(open_store, store)
        _check_shown(open_blobs, blobs)
        assert "Pw0" not in repr(config.load(root=store, environ={"HOLDFAST_BLOBS": blobs}))


def _check_shown(act: Any, address: str) -> None:
    try:
        act(address)
    except HoldfastError as error:
        text = f"{error} {error!r} {error.hint} {traceback.format_exception_only(error)}"
        assert "Pw0" not in text
        assert "9wP" not in text
    else:
        raise AssertionError(f"it was opened: {address!r}")


@pytest.mark.parametrize(
    "address",
    [
        "mysql://ann:Pw0secret9wP@host/db",
        "postgresql://ann:Pw0secret9wP@127.0.0.1:1/db",
        "postgresql://ann:Pw0/@secret9wP@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?user=ann&password=Pw0secret9wP",
    ],
)
def test_no_command_shows_the_password_of_an_address(
    address: str, capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    """Every command, for people and for programs, with a root that cannot be opened."""

    def check(argv: list[str]) -> None:
        with suppress(SystemExit):
            cli.main([*argv, "--root", address])
        printed = capsys.readouterr()
        assert "Pw0" not in printed.out + printed.err
        assert "9wP" not in printed.out + printed.err
        assert os.listdir(here) == []

    names = {*COMMANDS} - {"demo", "chat"}
    check_all(([name, *more] for name in sorted(names) for more in ([], ["--json"])), check)


# Real servers


def test_a_database_is_opened_by_its_address(
    postgres_address: str, capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    """Sessions, commands and the memory use it like a folder, and leave no file."""
    with Session.open("work", model="offline", store=postgres_address) as session:
        session.say("My sister lives in Lisbon.")
    with Memory.open(postgres_address) as memory:
        assert [hit.session for hit in memory.search("sister", scope="sessions")] == ["main/work"]
    assert cli.main(["log", "work", "--root", postgres_address]) == 0
    assert "Lisbon" in capsys.readouterr().out
    assert os.listdir(here) == []


def test_payloads_of_a_folder_are_in_a_bucket(
    s3_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    """`HOLDFAST_BLOBS=s3://…` and the AWS variables are all that it takes."""
    monkeypatch.setenv("HOLDFAST_BLOBS", f"s3://tests/{here.name}")
    for variable, option in (
        ("AWS_ENDPOINT_URL", "endpoint"),
        ("AWS_ACCESS_KEY_ID", "access_key_id"),
        ("AWS_SECRET_ACCESS_KEY", "secret_access_key"),
        ("AWS_REGION", "region"),
    ):
        monkeypatch.setenv(variable, s3_options[option])
    with Session.open("work", model="offline", store="root") as session:
        sha256 = session.store.blobs.put(b"payload")
    assert open_blobs(f"s3://tests/{here.name}").get(sha256) == b"payload"
    assert not (here / "root" / "blobs").exists()


def _store_of(address: str) -> SessionStore:
    store = open_store(address)
    store.create(KEY)
    store.append(KEY, [User(content="hello")], expect=ANY_HEAD)
    return store


def test_every_store_is_opened_by_the_same_function() -> None:
    """A folder and memory give stores with the same content from the same acts."""
    with _store_of("root") as files, _store_of("memory:") as memory:
        assert isinstance(files, JsonlStore)
        assert isinstance(memory, MemoryStore)
        assert [info.title for info in files.sessions(owner=ANY_OWNER)] == ["hello"]
        assert [info.title for info in memory.sessions(owner=ANY_OWNER)] == ["hello"]


def test_types_are_resolved_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many open a store at once: two of them in msgspec would crash the process."""
    real, busy, together = msgspec.json.Decoder, threading.Lock(), []

    def make(kind: Any) -> Any:
        is_first = busy.acquire(blocking=False)
        together.append(not is_first)
        time.sleep(0.01)
        if is_first:
            busy.release()
        return real(kind)

    records.record_decoder.cache_clear()
    monkeypatch.setattr(msgspec.json, "Decoder", make)
    ready = threading.Barrier(8)

    def open_store() -> None:
        ready.wait()
        MemoryStore().create(SessionKey("main", "s"))

    threads = [threading.Thread(target=open_store) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [False]
