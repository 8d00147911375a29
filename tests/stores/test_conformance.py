"""Every store keeps the promises of its port."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.cases import check_all

from holdfast import ports
from holdfast.core.owners import ANY_OWNER, NO_OWNER
from holdfast.ports import (
    Audit,
    BlobStore,
    Leases,
    Notes,
    PassageVectors,
    RunningSummaries,
    SearchIndex,
    SessionStore,
)
from holdfast.stores.audit import FileAudit, MemoryAudit
from holdfast.stores.blobs import FileBlobs
from holdfast.stores.in_memory import MemoryBlobs, MemoryLeases, MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.stores.notes.notes import StoredNotes
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.search.sqlite import SqliteSearchIndex, SqliteVectors
from holdfast.stores.summary_files import MemorySummaries
from holdfast.testing import conformance
from holdfast.testing.conformance import (
    AUDIT_CHECKS,
    BLOB_CHECKS,
    PROCESS_CHECKS,
    SESSION_CHECKS,
    check_audit,
    check_blob_store,
    check_session_store,
    owning,
)
from holdfast.testing.conformance.processes import (
    a_paused_holder_writes_nothing_after_its_successor as check_paused_holder,
)
from holdfast.testing.conformance.samples import KEY

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.owners import Owner, OwnerFilter
    from holdfast.ports import SessionInfo
    from holdfast.stores.s3 import S3Blobs
    from holdfast.testing.conformance import AuditCheck, BlobCheck, ProcessCheck, SessionCheck


NOT_CHECKED: dict[type, set[str]] = {
    Notes: {"location"},  # a text for people
}
"""The names on a port that no check can say anything about."""
PARAMETERS = (("store",), ("audit",), ("open_store",))
"""What a function of the suite takes that is a check."""


@pytest.mark.parametrize("check", SESSION_CHECKS, ids=lambda check: check.__name__)
def test_jsonl_store_keeps_the_promise(check: SessionCheck, tmp_path: Path) -> None:
    """Sessions in plain files do what every session store must do."""
    with JsonlStore(tmp_path) as store:
        check(store)


@pytest.mark.parametrize("check", SESSION_CHECKS, ids=lambda check: check.__name__)
def test_memory_store_keeps_the_promise(check: SessionCheck) -> None:
    """Sessions in memory do what every session store must do: the port needs no files."""
    with MemoryStore() as store:
        check(store)


@pytest.mark.parametrize("check", SESSION_CHECKS, ids=lambda check: check.__name__)
def test_postgres_store_keeps_the_promise(check: SessionCheck, empty_postgres_address: str) -> None:
    """Sessions in a database do what every session store must do."""
    with PostgresStore(empty_postgres_address) as store:
        check(store)


@pytest.mark.parametrize("check", BLOB_CHECKS, ids=lambda check: check.__name__)
def test_postgres_blobs_keep_the_promise(check: BlobCheck, empty_postgres_address: str) -> None:
    """Payloads in a database do what every blob store must do."""
    with PostgresStore(empty_postgres_address) as store:
        check(store.blobs)


@pytest.mark.parametrize("check", AUDIT_CHECKS, ids=lambda check: check.__name__)
def test_postgres_audit_keeps_the_promise(check: AuditCheck, empty_postgres_address: str) -> None:
    """An audit log in a database does what every audit log must do."""
    with PostgresStore(empty_postgres_address) as store:
        check(store.audit)


@pytest.mark.usefixtures("forked_processes")
@pytest.mark.sampled(1 / 2, "check")
@pytest.mark.parametrize("check", PROCESS_CHECKS, ids=lambda check: check.__name__)
def test_postgres_store_keeps_the_promise_between_processes(
    check: ProcessCheck, empty_postgres_address: str
) -> None:
    """Sessions in a database have one turn at a time, also between processes."""
    check(functools.partial(PostgresStore, empty_postgres_address))


@pytest.mark.parametrize("check", BLOB_CHECKS, ids=lambda check: check.__name__)
def test_s3_blobs_keep_the_promise(check: BlobCheck, s3_blobs: S3Blobs) -> None:
    """Payloads in a bucket do what every blob store must do."""
    check(s3_blobs)


@pytest.mark.parametrize("check", BLOB_CHECKS, ids=lambda check: check.__name__)
def test_file_blobs_keep_the_promise(check: BlobCheck, tmp_path: Path) -> None:
    """Payloads in files do what every blob store must do."""
    check(FileBlobs(tmp_path))


@pytest.mark.parametrize("check", BLOB_CHECKS, ids=lambda check: check.__name__)
def test_memory_blobs_keep_the_promise(check: BlobCheck) -> None:
    """Payloads in memory do what every blob store must do."""
    check(MemoryBlobs())


@pytest.mark.parametrize("check", AUDIT_CHECKS, ids=lambda check: check.__name__)
def test_file_audit_keeps_the_promise(check: AuditCheck, tmp_path: Path) -> None:
    """An audit log in a file does what every audit log must do."""
    check(FileAudit(tmp_path / "root"))


@pytest.mark.parametrize("check", AUDIT_CHECKS, ids=lambda check: check.__name__)
def test_memory_audit_keeps_the_promise(check: AuditCheck) -> None:
    """An audit log in memory does what every audit log must do."""
    check(MemoryAudit())


@pytest.mark.usefixtures("forked_processes")
@pytest.mark.parametrize("check", PROCESS_CHECKS, ids=lambda check: check.__name__)
def test_jsonl_store_keeps_the_promise_between_processes(
    check: ProcessCheck, tmp_path: Path
) -> None:
    """Sessions in plain files have one turn at a time, also between processes."""
    check(functools.partial(JsonlStore, str(tmp_path)))


def _store_without_fence(root: str) -> JsonlStore:
    """A store that does not compare tokens. Other processes import this function by its name."""
    store = JsonlStore(root)
    append = store.append_batch
    store.append_batch = lambda *args, **more: append(*args, **{**more, "token": None})  # type: ignore[method-assign]
    return store


@pytest.mark.usefixtures("forked_processes")
def test_conformance_notices_a_store_that_does_not_compare_tokens(tmp_path: Path) -> None:
    """Without the comparison in the append, a paused holder writes after its successor."""
    with pytest.raises(AssertionError):
        check_paused_holder(functools.partial(_store_without_fence, str(tmp_path)))
    with JsonlStore(tmp_path) as store:
        assert "late" in [getattr(record, "content", "") for record in store.read(KEY)]


def test_conformance_lists_every_check() -> None:
    """No check is written and then left out: every function of the suite that takes a store."""
    listed: list[object] = [*SESSION_CHECKS, *BLOB_CHECKS, *AUDIT_CHECKS, *PROCESS_CHECKS]
    written: set[object] = set()
    for found in pkgutil.walk_packages(conformance.__path__, f"{conformance.__name__}."):
        module = importlib.import_module(found.name)
        written |= {
            function
            for _name, function in inspect.getmembers(module, inspect.isfunction)
            if list(inspect.signature(function).parameters)
            in (["store"], ["audit"], ["open_store"])
        }
    assert set(listed) == written
    assert len(listed) == len(written)
    assert len(SESSION_CHECKS) >= 115
    assert (len(BLOB_CHECKS), len(AUDIT_CHECKS)) == (8, 5)
    assert len(PROCESS_CHECKS) >= 9


OWNER_TYPES = re.compile(r"\b(?:NamedOwner|Owner|OwnerFilter|AnyOwner|NoOwner)\b")


def operations_that_ask_whose() -> dict[str, str]:
    """Each method of a port with a parameter for an owner, and the type of that parameter."""
    found = {}
    for module in pkgutil.walk_packages(ports.__path__, f"{ports.__name__}."):
        for name, port in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            for method, function in vars(port).items():
                if port.__module__ != module.name or not inspect.isfunction(function):
                    continue
                for parameter in inspect.signature(function).parameters.values():
                    if OWNER_TYPES.search(str(parameter.annotation)):
                        found[f"{name}.{method}"] = str(parameter.annotation)
    return found


def test_every_operation_that_asks_whose_is_walked() -> None:
    """A new method of a port with an owner is asked for two people, nobody and everybody."""
    found = operations_that_ask_whose()
    assert set(found) == owning.ASKS.keys() | owning.ERASES
    narrow = {name for name, kind in found.items() if kind == "Owner"}
    assert narrow == owning.NARROW
    assert len(found) >= 10


class Nosy(MemoryStore):
    """Takes nobody's for everybody's in its listing."""

    def sessions(self, *, owner: OwnerFilter, **asked: Any) -> list[SessionInfo]:
        return super().sessions(owner=ANY_OWNER if owner == NO_OWNER else owner, **asked)


class Forgetful(MemoryStore):
    """Erases every log of an id, whoever asks."""

    def begin_erasure(self, *keys: SessionKey, owner: OwnerFilter) -> None:
        super().begin_erasure(*keys, owner=ANY_OWNER)


class Mixing(MemoryStore):
    """Keeps the notes of all owners together."""

    def notes(self, agent: str, owner: Owner = NO_OWNER, **given: Any) -> StoredNotes:
        return super().notes(agent, NO_OWNER, **given)


@pytest.mark.parametrize(
    ("store", "check"),
    [
        (Nosy, owning.whoever_asks_gets_their_own),
        (Mixing, owning.whoever_asks_gets_their_own),
        (Forgetful, owning.what_is_erased_of_one_owner_stays_of_the_others),
    ],
)
def test_conformance_notices_a_leak(store: type[SessionStore], check: SessionCheck) -> None:
    """A store that confuses nobody with everybody, in one operation, breaks a promise."""
    with MemoryStore() as sound, store() as broken:
        check(sound)
        with pytest.raises(AssertionError):
            check(broken)


KEPT: dict[type, type] = {
    SessionStore: MemoryStore,
    Notes: StoredNotes,
    RunningSummaries: MemorySummaries,
    SearchIndex: SqliteSearchIndex,
    PassageVectors: SqliteVectors,
    Leases: MemoryLeases,
    BlobStore: MemoryBlobs,
    Audit: MemoryAudit,
}
"""For each port, a class that keeps it."""


def test_checks_use_everything_on_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that no check calls could be missing from a store that passes them all."""
    used: dict[type, set[str]] = {port: set() for port in KEPT}

    def note_uses(port: type) -> None:
        def look_up(self: object, name: str) -> object:
            used[port].add(name)
            return object.__getattribute__(self, name)

        monkeypatch.setattr(KEPT[port], "__getattribute__", look_up)

    def check(port: type) -> None:
        wanted = {name for name in dir(port) if not name.startswith("_")}
        assert wanted, "the port has no methods"
        assert wanted - used[port] == NOT_CHECKED.get(port, set())

    for port in KEPT:
        note_uses(port)
    check_session_store(MemoryStore)
    check_all(KEPT, check)


def test_conformance_runs_without_a_test_framework() -> None:
    """The entry points run every check on a store of its own."""
    made: list[MemoryStore] = []

    def make() -> MemoryStore:
        made.append(MemoryStore())
        return made[-1]

    check_session_store(make)
    check_blob_store(MemoryBlobs)
    check_audit(MemoryAudit)
    assert len(made) == len(SESSION_CHECKS) + len(BLOB_CHECKS) + len(AUDIT_CHECKS)


def test_conformance_notices_a_store_that_forgets() -> None:
    """A store that drops a record fails the checks: they can fail."""

    class Forgetful(MemoryStore):
        def last(self, key: SessionKey, count: int, *, before: str | None = None) -> list[Record]:
            return super().last(key, count, before=before)[:-1]

    with pytest.raises(AssertionError):
        check_session_store(Forgetful)
