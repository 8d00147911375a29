"""A date comes from the wall clock, and everything that lasts from a clock that only grows.

People and time servers set a wall clock, and a machine sleeps. Neither may end a turn, give a claim
away or hold a message up.
"""

from __future__ import annotations

import ast
import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from tests.support.cases import check_all

import holdfast
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.conformance import BLOB_CHECKS, SESSION_CHECKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.ports import SessionStore

SOURCE: Final = Path(holdfast.__file__).parent
JUMPS: Final = (0.0, 3_600.0, -86_400.0, 7_200.0, -1.0, 40 * 86_400.0, -40 * 86_400.0)
"""How far the wall clock is off, reading by reading."""

ABOUT_DATES: Final = {
    "a_lease_has_one_holder": "its holder has it since a date",
    "a_claim_gives_what_came_first": "among lanes, by date",
    "a_lane_is_worked_on_in_order": "the first of two lanes is found by date",
    "messages_are_listed_in_pages": "among lanes, by date",
    "an_erasure_takes_messages_along": "they are listed among lanes, by date",
    "messages_are_copied_with_ids_states_and_keys": "they are listed among lanes, by date",
    "a_copy_does_not_overtake_its_lane": "ids are dates",
    "a_copy_replaces_only_an_earlier_state": "the later of two changes is found by date",
    "the_trash_is_emptied_on_request": "by its age",
    "the_same_blob_is_stored_once": "and collected by its age",
    "only_unreferenced_blobs_are_collected": "by their age",
    "young_blobs_are_left_alone": "by their age",
    "a_queued_message_comes_back_as_it_was_put": "it was made at a date",
    "a_postponed_message_holds_its_lane": "it is due at a date",
    "messages_that_are_done_are_forgotten": "after days",
}
"""Checks that compare dates with each other, which a clock that is set in between falsifies."""

READS_WALL: Final = {
    "stores/blobs.py": "files are collected by their age, also after another start",
    "stores/in_memory.py": "the trash and blobs are emptied by their age, as on disk",
    "stores/jsonl/catalogue.py": "the trash is emptied by its age, also after another start",
    "stores/jsonl/writer.py": "a lease of another machine, after a day of grace",
    "stores/queues.py": "messages that are done are forgotten after days",
    "surfaces/formatting.py": "how long ago, for a reader",
}
"""Modules that compute with a reading of the wall clock, with the reason."""

WALL: Final = frozenset({"time.time", "time.time_ns"})
GIVEN: Final = WALL | {"clock", "self._clock", "world.clock"}
"""The wall clock where a module is given one, unless it says that it takes one that only grows."""
GROWING: Final = ("= time.monotonic", "= asyncio.get_running_loop().time")


def jumping_clock() -> Callable[[], float]:
    """Return a wall clock that is set before each reading."""
    jumps, real = itertools.cycle(JUMPS), time.time
    return lambda: real() + next(jumps)


def checks() -> Iterator[tuple[str, Callable[[SessionStore], None]]]:
    for check in SESSION_CHECKS:
        yield check.__name__, check
    for of_blobs in BLOB_CHECKS:
        yield of_blobs.__name__, lambda store, check=of_blobs: check(store.blobs)  # type: ignore[misc]


@pytest.mark.parametrize("kind", ["files", "memory"])
def test_stores_keep_their_promises_under_a_clock_that_jumps(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every promise of the ports that is not about a date: leases, queues, blobs, all of it."""
    clock, numbers = jumping_clock(), itertools.count()
    monkeypatch.setattr(time, "time", clock)

    def run(check: Callable[[SessionStore], None]) -> None:
        root = tmp_path / f"{next(numbers)}"
        root.mkdir()
        store = JsonlStore(root, clock=clock) if kind == "files" else MemoryStore(clock=clock)
        with store:
            check(store)

    every = dict(checks())
    assert set(every) > set(ABOUT_DATES), "listed, but not there"
    check_all(sorted(set(every) - set(ABOUT_DATES)), lambda name: run(every[name]))


def computing_with_the_wall(source: str) -> list[int]:
    """Return the lines where a reading of the wall clock is added, subtracted or compared."""
    found: set[int] = set()
    wall = WALL if any(growing in source for growing in GROWING) else GIVEN
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        names = {
            name.id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign | ast.NamedExpr)
            and _has_reading(node.value, wall, set())
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            for name in ast.walk(target)
            if isinstance(name, ast.Name)
        }
        for node in ast.walk(function):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mod):
                sides: list[ast.expr] = [node.left, node.right]
            elif isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
            else:
                continue
            if any(_has_reading(side, wall, names) for side in sides):
                found.add(node.lineno)
    return sorted(found)


def _has_reading(node: ast.expr, wall: frozenset[str], names: set[str]) -> bool:
    """Return whether an expression is a reading of the wall clock, or a tuple with one."""
    if isinstance(node, ast.Tuple):
        return any(_has_reading(item, wall, names) for item in node.elts)
    if isinstance(node, ast.Name):
        return node.id in names
    return isinstance(node, ast.Call) and ast.unparse(node.func) in wall


def test_only_dates_are_computed_with_the_wall_clock() -> None:
    """Each module that computes with it has a reason; a new one needs another clock, or one."""
    found = {
        path.relative_to(SOURCE).as_posix(): lines
        for path in sorted(SOURCE.rglob("*.py"))
        if "testing" not in path.parts
        and (lines := computing_with_the_wall(path.read_text(encoding="utf-8")))
    }
    assert {name: lines for name, lines in found.items() if name not in READS_WALL} == {}
    assert sorted(set(READS_WALL) - set(found)) == [], "listed needlessly"


def test_computing_with_the_wall_clock_is_seen() -> None:
    """Directly, through a name and in a tuple."""
    for body in ("return time.time() + 3", "now = self._clock()\n  return now < x"):
        assert computing_with_the_wall(f"def f(self, x):\n  {body}\n"), body
    assert computing_with_the_wall("def f():\n  a, now = 1, clock()\n  return now - a\n")
    assert not computing_with_the_wall("def f():\n  return time.monotonic() + 3\n")
