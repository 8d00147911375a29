"""The home of `holdfast serve --demo` has what its page promises, made by the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Compaction, Rewind
from holdfast.core.owners import ANY_OWNER, NO_OWNER, NamedOwner
from holdfast.core.queues import INBOX
from holdfast.engine.operations.approvals import ListWaitingCalls
from holdfast.engine.timers import Timers
from holdfast.providers.known_models.lookup import price_of
from holdfast.stores.opening import open_store
from holdfast.surfaces.cli.demo.home import make_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.ports import SessionStore

pytestmark = pytest.mark.files_only("the demo is in a folder")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("home")
    make_home(str(root))
    return root


@pytest.fixture
def home(root: Path) -> Iterator[SessionStore]:
    with open_store(str(root)) as store:
        yield store


def test_it_has_ten_sessions_of_two_owners(home: SessionStore) -> None:
    found = list(home.sessions(owner=ANY_OWNER))

    assert len(found) == 10
    assert {info.owner for info in found} == {NamedOwner("alice"), NamedOwner("bob")}
    assert all(info.label for info in found)


def test_each_call_has_a_price(home: SessionStore) -> None:
    models = set()
    for info in home.sessions(owner=ANY_OWNER):
        for record in home.read(info.key):
            if isinstance(record, Assistant):
                assert record.usage, info.key
                models.add(record.model)

    assert len(models) >= 5
    assert all(price_of(model or "") is not None for model in models)


def test_it_has_cuts_and_a_branch(home: SessionStore) -> None:
    release = list(home.read(SessionKey("coder", "release")))
    flaky = list(home.read(SessionKey("coder", "flaky-test")))

    assert sum(isinstance(record, Compaction) for record in release) > 3
    assert sum(isinstance(record, Rewind) for record in flaky) == 1


def test_a_call_waits_and_a_message_failed_and_a_timer_is_ahead(home: SessionStore) -> None:
    waiting = ListWaitingCalls().page(home, ANY_OWNER, lambda _key: True).calls

    assert [(call.tool, call.owner, call.state) for call in waiting] == [
        ("refund", "bob", "parked")
    ]
    assert waiting[0].reason == "a refund of 89 euros is above 50"
    assert home.queues.counts(INBOX, owner=NamedOwner("alice")) == {"failed": 1}
    assert len(list(Timers(home).ahead(NamedOwner("bob")))) == 1


def test_it_has_an_import_and_notes(home: SessionStore) -> None:
    parser = home.read(SessionKey("coder", "parser"))

    assert sum(isinstance(record, Assistant) for record in parser) == 5
    assert list(home.notes("main", NO_OWNER).notes())
    assert list(home.notes("assistant", NamedOwner("bob")).notes())
