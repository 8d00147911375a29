"""Append-only by law in other frameworks: their real loops, at a provider that enforces its rules.

`make peers` installs the frameworks; anywhere else these tests are skipped, and say so.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from tests.support import peers
from tests.support.runs import examples

import holdfast.integrations

pytest.importorskip("httpx2")

from tests.lives.adapted import DRIVERS, Adapted
from tests.lives.lives import Life, Resume, Say, lives

from holdfast.integrations.common import bounded
from holdfast.integrations.common.bounded import ListBounds

pytestmark = [
    pytest.mark.files_only("it makes its own stores, and asks none for more than a log"),
    pytest.mark.filterwarnings("default"),  # of the frameworks, about themselves
]
CASES = [(name, dialect) for name, kind in DRIVERS.items() for dialect in kind.dialects]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "any")
    for name in ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
        monkeypatch.delenv(name, raising=False)


def test_every_adapter_that_bounds_requests_lives() -> None:
    """A package of the integrations that fits lists into a window has an agent here."""
    place = Path(holdfast.integrations.__file__).parent
    found = {
        path.relative_to(place).parts[0]
        for path in place.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and any(one.name == "BoundedMessages" for one in node.names)
    }
    assert found
    assert found == {kind.adapter for kind in DRIVERS.values()}


@pytest.mark.parametrize(("name", "dialect"), CASES)
def test_requests_only_grow_and_reasoning_goes_back(name: str, dialect: str) -> None:
    """Turns, tools, cuts, rewinds, forks, restarts, other models, failures: no law is broken."""
    peers.needs(DRIVERS[name].package)

    @examples(30)
    @given(life=lives(dialect))
    def check(life: Life) -> None:
        assert Adapted(life, name).run() == []

    check()


@pytest.mark.parametrize(("name", "dialect"), CASES)
def test_the_framework_alone_breaks_no_law(name: str, dialect: str) -> None:
    """In a window without end and without an adapter: the frameworks send everything back."""
    peers.needs(DRIVERS[name].package)

    @examples(30)
    @given(life=lives(dialect))
    def check(life: Life) -> None:
        assert Adapted(life, name, is_direct=True).run() == []

    check()


# The tests themselves

STEPS = (Say(40, ((900,), (900,))),) * 4 + (Say(40, ((900,), (900, 5), (300,))),) * 3


def grown(dialect: str) -> Life:
    """A life that outgrows a small window several times."""
    return Life(dialect, 0, 16_000, streams=False, thinking=True, steps=STEPS)


KEEPING = [case for case in CASES if not DRIVERS[case[0]].edits_history]


@pytest.mark.parametrize(("name", "dialect"), KEEPING)
def test_a_restart_goes_on_from_the_cut(
    name: str, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process finds the decisions where the framework keeps the replies."""
    peers.needs(DRIVERS[name].package)
    steps = tuple(step for said in STEPS for step in (said, Resume()))
    life = grown(dialect)._replace(steps=(*steps, Say(5)))
    known = Adapted(life, name)
    assert known.run() == []
    assert known.epochs
    monkeypatch.setattr(ListBounds, "take_up", lambda *_args: None)
    forgotten = Adapted(life, name).run()
    assert "an epoch was forgotten" in {fault.law for fault in forgotten}


BOUND = [case for case in CASES if case[1] in ("anthropic", "openai-responses")]


@pytest.mark.parametrize(("name", "dialect"), BOUND)
def test_an_adapter_that_keeps_stale_reasoning_is_caught(
    name: str, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers.needs(DRIVERS[name].package)
    monkeypatch.setattr(bounded, "_find_stale", lambda *_args: set())
    assert Adapted(grown(dialect), name).run() != []


@pytest.mark.parametrize(("name", "dialect"), CASES)
def test_a_cut_stays_until_the_window_is_full_again(
    name: str, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer than half of the requests begin an epoch; nearly all do where cuts are forgotten."""
    peers.needs(DRIVERS[name].package)

    def count() -> tuple[int, int]:
        life = Adapted(grown(dialect), name)
        faults = life.run()
        begun = [bool(view.plan.decisions) for view in life.views if view.plan.records[4:]]
        return len(faults), 100 * sum(begun) // max(1, len(begun))

    faults, share = count()
    assert faults == 0
    assert 0 < share < 50
    if not DRIVERS[name].edits_history:
        monkeypatch.setattr(bounded, "_standing", lambda *_args: [])
        assert count()[1] > 60
