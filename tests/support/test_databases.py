"""A test over PostgreSQL has a database wherever it opens a store, and none of another test's."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import conftest
from tests.support import databases, runs
from tests.support.databases import POSTGRES, SHARE, Schemas, pytest_generate_tests

from holdfast.core.log.ids import SessionKey
from holdfast.core.owners import ANY_OWNER
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.stores.opening import open_store
from holdfast.stores.postgres.store import PostgresStore

if TYPE_CHECKING:
    from pathlib import Path

KEY = SessionKey("main", "s")
SUITE = databases.TESTS / databases.SUITES[0] / "test_any.py"


@pytest.fixture
def schemas(postgres_schemas: Schemas, monkeypatch: pytest.MonkeyPatch) -> Schemas:
    postgres_schemas.stand_in_for(JsonlStore, monkeypatch)
    postgres_schemas.stand_in_for(MemoryStore, monkeypatch)
    return postgres_schemas


def test_every_way_to_open_a_store_opens_a_database(schemas: Schemas, tmp_path: Path) -> None:
    """One folder is one place, however it is named; two stores in memory are two."""
    stores: list[Any] = [
        *(JsonlStore(tmp_path), open_store(str(tmp_path)), JsonlStore(f"{tmp_path}/x/..")),
        *(JsonlStore(tmp_path / "other"), MemoryStore(), open_store("memory:")),
    ]
    assert {type(store) for store in stores} == {PostgresStore}
    stores[0].create(KEY, label="here")
    assert [len(store.sessions(owner=ANY_OWNER)) for store in stores] == [1, 1, 1, 0, 0, 0]
    assert any(b"here" in data for _name, data in schemas.read_rows(tmp_path))
    assert not list(tmp_path.iterdir())
    schemas.clear()
    assert JsonlStore(tmp_path).sessions(owner=ANY_OWNER) == []
    schemas.clear()


def test_stores_that_rest_do_not_stay_connected(schemas: Schemas, tmp_path: Path) -> None:
    """A property may leave hundreds open; the server has so many connections."""
    schemas.clear()
    stores: list[Any] = [JsonlStore(tmp_path) for _ in range(databases._OPEN_MAX + 10)]
    assert sum(bool(store._connections._idle) for store in stores) <= databases._OPEN_MAX + 1
    stores[0].create(KEY)
    assert stores[1].head(KEY)
    schemas.clear()
    assert not any(store._connections._idle for store in stores)


def test_schemas_are_used_again(schemas: Schemas) -> None:
    """A property opens one store after the other: a thousand schemas would take a minute."""
    names = set()
    for _example in range(5):
        store: Any = MemoryStore()
        store.create(KEY)
        names.add(store._connections.address.schema)
        store.close()
        del store
        gc.collect()
    assert len(names) == 1
    schemas.clear()


def test_a_property_takes_a_tenth_of_its_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """And as many as before where it is as written."""
    taken: list[int] = []

    @settings(max_examples=50, database=None)
    @given(st.integers())
    def law(number: int) -> None:
        taken.append(number)

    databases.take_fewer_examples(law, monkeypatch)
    law()
    assert len(taken) == 5
    monkeypatch.undo()
    law()
    assert len(taken) == 55


def test_an_exception_needs_a_reason() -> None:
    """And none is made for a test that has no second form anyway."""
    for marker in (pytest.mark.files_only.mark, None):
        asked: list[Any] = []
        node = SimpleNamespace(
            path=SUITE, nodeid="t", get_closest_marker=lambda _name, found=marker: found
        )
        metafunc: Any = SimpleNamespace(
            config=SimpleNamespace(getoption=lambda _name: POSTGRES),
            definition=node,
            parametrize=lambda *given, asked=asked, **_more: asked.append(given),
        )
        if marker is None:
            pytest_generate_tests(metafunc)
            assert asked[0][1][1] == POSTGRES
        else:
            with pytest.raises(pytest.fail.Exception, match="reason"):
                pytest_generate_tests(metafunc)


def test_the_ordinary_run_takes_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them at night, none in the quick run, and alone where only they are wanted."""
    items: Any = [_Item(number, kind) for number in range(100) for kind in ("", POSTGRES)]
    count = {
        run: sum(item.kind == POSTGRES for item in _choose(run, items, monkeypatch))
        for run in ("quick", "test", "nightly")
    }
    assert count == {"quick": 0, "test": 100 * SHARE, "nightly": 100}
    alone: Any = conftest.choose(items, is_postgres_alone=True)
    assert {item.kind for item in alone} == {POSTGRES}


def _choose(run: str, items: Any, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr(conftest, "RUN", run)
    patch.setattr(runs, "RUN", run)
    return conftest.choose(items)


class _Item:
    """As much of a pytest item as a sample looks at."""

    def __init__(self, number: int, kind: str) -> None:
        self.kind, self.path, self.nodeid = kind, "a.py", f"a.py::test_{number}[{kind}]"
        self.callspec = SimpleNamespace(params={"every_store": kind})

    def get_closest_marker(self, _name: str) -> None:
        return None
