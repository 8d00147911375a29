"""What the benchmarks of the stores share: the workload, and two sides measured in turns."""

from __future__ import annotations

import json
import random
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast import Assistant, JsonlStore, Record, SessionKey, ToolResult, User
from holdfast.records import Compaction
from holdfast.stores import ANY_HEAD, NamedOwner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.stores import SessionStore

KEY = SessionKey("main", "bench")
WINDOW_RECORDS = 400


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of everything."""

    rounds: int
    turns: int
    large_records: int
    small_records: int
    sessions: int
    imports: int
    many_sessions: int


FULL = Plan(
    rounds=7,
    turns=500,
    large_records=1_000_000,
    small_records=10_000,
    sessions=10_000,
    imports=15,
    many_sessions=100_000,
)
QUICK = Plan(
    rounds=5,
    turns=500,
    large_records=100_000,
    small_records=10_000,
    sessions=1_000,
    imports=7,
    many_sessions=10_000,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison."""

    what: str
    other_is: str
    ours: float
    other: float
    unit: str
    ratio: float
    spread: tuple[float, float]
    goal: str = ""
    is_met: bool | None = None
    note: str = ""


# Measuring


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter_ns()
    act()
    return (time.perf_counter_ns() - start) / 1e9


@dataclass(slots=True)
class Pair:
    """Two sides, measured in turns. A round gives one ratio; the rounds give median and spread."""

    ours: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)

    def add(self, ours: float, other: float) -> None:
        self.ours.append(ours)
        self.other.append(other)

    def row(
        self,
        what: str,
        other_is: str,
        *,
        at_most: float | None = None,
        goal: str = "",
        per: int = 1,
        note: str = "",
    ) -> Row:
        """`per`: how many operations a round has; the times shown are for one."""
        ratios = [ours / other for ours, other in zip(self.ours, self.other, strict=True)]
        ratio = statistics.median(ratios)
        unit, scale = _unit(statistics.median(self.other) / per)
        return Row(
            what,
            other_is,
            statistics.median(self.ours) / per * scale,
            statistics.median(self.other) / per * scale,
            unit,
            ratio,
            (min(ratios), max(ratios)),
            goal or (f"≤ {at_most:g}" if at_most is not None else ""),
            None if at_most is None else ratio <= at_most,
            note,
        )


def _unit(seconds: float) -> tuple[str, float]:
    if seconds >= 1:
        return "s", 1.0
    return ("ms", 1e3) if seconds >= 1e-3 else ("µs", 1e6)


def in_turns(
    rounds: int, repeat: int, ours: Callable[[], object], other: Callable[[], object]
) -> Pair:
    """Both sides in turns, `repeat` times a round; the median of a round stands for it."""
    pair = Pair()
    ours(), other()
    for _ in range(rounds):
        mine: list[float] = []
        theirs: list[float] = []
        for number in range(repeat):
            sides = [(mine, ours), (theirs, other)]
            for times, act in sides if number % 2 else sides[::-1]:
                times.append(seconds(act))
        pair.add(statistics.median(mine), statistics.median(theirs))
    return pair


# The workload: turns of a question, a tool call, its result and an answer


@dataclass(frozen=True, slots=True)
class Turn:
    records: tuple[Record, ...]
    """As Holdfast stores them."""
    messages: tuple[dict[str, Any], ...]
    """As a model API takes them."""
    items: tuple[dict[str, Any], ...]
    """As the Agents SDK stores them."""


def workload(turns: int, seed: int = 20_251_115) -> list[Turn]:
    rng = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(2_000)]

    def text(chars: int) -> str:
        parts: list[str] = []
        size = 0
        while size < chars:
            parts.append(rng.choice(words))
            size += len(parts[-1]) + 1
        return " ".join(parts)[:chars]

    return [_turn(number, text) for number in range(turns)]


def _turn(number: int, text: Callable[[int], str]) -> Turn:
    question, path, output, answer = text(200), text(24), text(2_000), text(400)
    call = f"toolu_{number:020d}"
    block = {"type": "tool_use", "id": call, "name": "read_file", "input": {"path": path}}
    result = {"type": "tool_result", "tool_use_id": call, "content": output}
    return Turn(
        records=(
            User(content=question),
            Assistant(content=[block]),
            ToolResult(tool_use_id=call, content=output),
            Assistant(content=answer),
        ),
        messages=(
            {"role": "user", "content": question},
            {"role": "assistant", "content": [block]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": answer},
        ),
        items=(
            {"role": "user", "content": question},
            {
                "type": "function_call",
                "call_id": call,
                "name": "read_file",
                "arguments": json.dumps({"path": path}),
            },
            {"type": "function_call_output", "call_id": call, "output": output},
            {"role": "assistant", "content": answer},
        ),
    )


def log_of(root: Path, key: SessionKey = KEY) -> Path:
    return root / "agents" / key.agent / "sessions" / f"{key.session}.jsonl"


class Bench:
    """A folder to work in and what to do there."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder = folder
        self.plan = plan
        self.turns = workload(plan.turns)
        self._made = 0

    def place(self) -> Path:
        """A new, empty folder."""
        self._made += 1
        path = self._folder / f"{self._made:04d}"
        path.mkdir()
        return path

    def filled(self) -> Path:
        """A root with the workload in one session."""
        root = self.place()
        with JsonlStore(root) as store:
            store.create(KEY)
            for turn in self.turns:
                store.append(KEY, turn.records, expect=ANY_HEAD, durability="buffered")
        return root


def load(bench: Bench, store: SessionStore, records: int) -> str:
    """A bulk load, with a compaction at the start of every window; returns an id in the middle."""
    stream = (record for number in range(records) for record in nth(bench, number))
    store.create(KEY)
    middle = ""
    for first in range(0, records, WINDOW_RECORDS):
        block: list[Record] = [Compaction(summary="What happened so far. " * 20)]
        block.extend(next(stream) for _ in range(WINDOW_RECORDS - 1))
        added = store.append_each(KEY, block, durability="buffered")
        if first <= records // 2:
            middle = added.ids[WINDOW_RECORDS // 2]
    store.sync(KEY)
    return middle


def nth(bench: Bench, number: int) -> tuple[Record, ...]:
    return bench.turns[number % len(bench.turns)].records


def questions(bench: Bench, stores: dict[int, SessionStore], names: dict[int, str]) -> list[Row]:
    """Questions about a session that must not cost more in a longer log."""
    plan = bench.plan

    def find(count: int) -> object:
        return stores[count].find(KEY, names[count])

    def status(count: int) -> object:
        stores[count].append(KEY, nth(bench, 1), expect=ANY_HEAD, durability="buffered")
        return stores[count].totals(KEY), stores[count].info(KEY)

    def follow(count: int) -> object:
        head = stores[count].head(KEY)
        stores[count].append(KEY, nth(bench, 1), expect=ANY_HEAD, durability="buffered")
        return list(stores[count].follow(KEY, head, idle_seconds=0))

    rows = []
    for what, act in (
        ("find a record by its id", find),
        ("append a turn, then totals and facts", status),
        ("append a turn, seen by a follower", follow),
    ):
        pair = in_turns(
            plan.rounds,
            31,
            lambda act=act: act(plan.large_records),  # type: ignore[misc]
            lambda act=act: act(plan.small_records),  # type: ignore[misc]
        )
        small = f"the same with {plan.small_records:,} records"
        rows.append(pair.row(f"{what}, {plan.large_records:,} records", small, at_most=1.5))
    return rows


def page_row(bench: Bench, stores: dict[int, SessionStore], note: str = "") -> Row:
    """A page of 50 after an append, among many sessions and among few."""
    many, few = max(stores), min(stores)

    def page(count: int) -> object:
        key = SessionKey("main", f"s{random.randrange(count)}")
        stores[count].append(key, nth(bench, 1), expect=ANY_HEAD, durability="buffered")
        found = stores[count].sessions(owner=NamedOwner("ann"), limit=50)
        assert (len(found), found[0].key) == (50, key)
        return found

    pair = in_turns(bench.plan.rounds, 31, lambda: page(many), lambda: page(few))
    what = f"append, then a page of 50 among {many:,} sessions"
    return pair.row(what, f"the same among {few:,}", at_most=1.5, note=note)
