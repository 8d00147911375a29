"""Samples are spread over the kinds, the same everywhere, and whole at night."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import choose, choose_slow
from tests.support import runs
from tests.support.runs import examples, is_in_share, sample

NAMES = [
    f"{kind}/{number}"
    for kind, count in (("a", 100), ("b", 10), ("c", 1))
    for number in range(count)
]


def kind_of(name: str) -> str:
    return name.split("/")[0]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(runs, "RUN", "test")
    return monkeypatch


def test_each_kind_has_its_share(run: pytest.MonkeyPatch) -> None:
    """A tenth of each kind, and at least one."""
    chosen = sample(NAMES, share=0.1, kind=kind_of)

    assert [sum(kind_of(name) == kind for name in chosen) for kind in "abc"] == [10, 1, 1]
    assert chosen == [name for name in NAMES if name in chosen]


def test_sample_does_not_depend_on_order(run: pytest.MonkeyPatch) -> None:
    """The names decide, not where they stand."""
    assert set(sample(NAMES, share=0.1)) == set(sample(NAMES[::-1], share=0.1))
    assert sample(NAMES, share=0.1) != NAMES[:12]


def test_a_name_alone_is_in_its_share(run: pytest.MonkeyPatch) -> None:
    """About a tenth of all names, whichever others there are; at night, all."""
    chosen = [name for name in map(str, range(1_000)) if is_in_share(name, 0.1)]

    assert 70 < len(chosen) < 130
    run.setattr(runs, "RUN", "nightly")
    assert all(is_in_share(name, 0.1) for name in NAMES)


def test_night_has_every_item_and_more_examples(run: pytest.MonkeyPatch) -> None:
    """Nothing that a sample leaves out is left out at night."""
    run.setattr(runs, "RUN", "nightly")

    assert sample(NAMES, share=0.1) == NAMES
    assert examples(60).max_examples == 600


def test_shorter_runs_have_a_part_of_the_examples(run: pytest.MonkeyPatch) -> None:
    """At least one is always left."""
    assert examples(60).max_examples == 4
    run.setattr(runs, "RUN", "quick")
    assert [examples(count).max_examples for count in (60, 5)] == [3, 1]


def test_sampled_cases_are_some_of_each_group() -> None:
    """One of two kinds of session for each other parameter, and the rest."""
    found = [
        "a.py::test_turn[blocking-1]",
        "a.py::test_turn[async-1]",
        "a.py::test_turn[blocking-2]",
        "a.py::test_turn[async-2]",
        "a.py::test_plain",
    ]
    items = [Item(name) for name in found]

    kept = [item.nodeid for item in choose(items)]  # type: ignore[arg-type]

    assert [name.rpartition("-")[2] for name in kept] == ["1]", "2]", "a.py::test_plain"]


def test_the_slow_files_are_run_in_two_parts(run: pytest.MonkeyPatch) -> None:
    """One in eight of the slow ones of a folder, and all others; then what that left out."""
    files = ("test_docs.py", "surfaces/http/test_kills.py", "core/log/test_ids.py")
    items = [Item(f"{file}::test_{number}") for file in files for number in range(12)]

    made: Any = items
    some, others = (choose_slow(made, part) for part in ("sample", "rest"))

    assert [sum(item.path == runs.TESTS / file for item in some) for file in files] == [2, 2, 12]
    assert sorted(item.nodeid for item in [*some, *others]) == sorted(item.nodeid for item in items)
    assert choose_slow(made, None) == made


def test_every_slow_file_is_there() -> None:
    """A pattern that fits no file would leave its tests out of nothing."""
    assert [pattern for pattern in runs.SLOW_FILES if not list(runs.TESTS.glob(pattern))] == []


class Item:
    """As much of a pytest item as a sample looks at."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.path = runs.TESTS / nodeid.partition("::")[0]
        if "[" in nodeid:
            kind, number = nodeid.partition("[")[2].rstrip("]").split("-")
            self.callspec = SimpleNamespace(params={"bench": kind, "number": NUMBERS[number]})

    def get_closest_marker(self, _name: str) -> pytest.Mark | None:
        return pytest.mark.sampled(1 / 2, "bench").mark if hasattr(self, "callspec") else None


NUMBERS = {"1": object(), "2": object()}
