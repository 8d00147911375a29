"""How long the first cut of a session keeps an event loop waiting, beside its next turn.

    python benchmarks/event_loop.py [--quick] [--write PAGE]

A session of 500 to 2,000 records that was never cut is given one more message by `AsyncSession`,
while another task of the same loop asks for its turn every millisecond. The stall is the longest
time in which it did not get one, in CPU that the process used meanwhile: what other programs of the
machine take away is not counted. The model answers at once, so that only our own work is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from subprocess import check_output
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast import Assistant, AsyncSession, Session, SessionKey, User
from holdfast.stores import open_store
from holdfast.testing import ScriptedModel

if TYPE_CHECKING:
    from holdfast import Record

GOAL = 5.0
WINDOW = 32_000
LEASES = 300
FOLLOWING = 9
"""Turns after the first, of which the median is taken."""
WORDS = [
    "heron",
    "stands",
    "in the",
    "shallow",
    "water",
    "and",
    "waits",
    "for a",
    "fish",
    "to come",
]
SUMMARY = """## Goal
Fix what the user asks for, in src/mod1/file_1.py and the files beside it.
## Constraints
Tabs in every module, as the user said.
## Progress
The heron stands in the shallow water; every question was answered.
## Next steps
Answer the next question."""


class Turn(NamedTuple):
    """A turn: the longest stall, and all CPU, in seconds."""

    stall: float
    cpu: float


class Answering:
    """A model behind a network: its answers take no CPU here."""

    def __init__(self) -> None:
        self._scripted = ScriptedModel(otherwise=SUMMARY, window=WINDOW)
        self.target, self.window = self._scripted.target, self._scripted.window

    async def send(self, _request: Any, on_delta: Any = None) -> Any:
        return self._scripted.send({"messages": [], "max_tokens": 1}, on_delta)


def make_session(root: str, count: int, seed: int) -> None:
    """Store questions and answers of different lengths, which nothing has cut."""
    rnd = random.Random(seed)
    records: list[Record] = []
    for number in range(0, count, 2):
        said = " ".join(rnd.choices(WORDS, k=rnd.randint(10, 90)))
        records += [
            User(content=f"In src/mod{number % 37}/file_{number % 91}.py: {said}. Use tabs there."),
            Assistant(content=f"Answer {number}: " + " ".join(rnd.choices(WORDS, k=120))),
        ]
    with open_store(root) as store:
        key = SessionKey("main", "long")
        store.append(key, records, expect=store.create(key), durability="buffered")


async def measure(root: str) -> list[Turn]:
    """Return the first turn, which cuts, and those after it."""
    stalls: list[float] = []

    async def ask() -> None:
        while True:
            began = time.process_time()
            await asyncio.sleep(0.001)
            stalls.append(time.process_time() - began)

    turns = []
    async with await AsyncSession.open("long", model=Answering(), store=root) as session:
        asking = asyncio.create_task(ask())
        for number in range(1 + FOLLOWING):
            stalls.clear()
            began = time.process_time()
            await session.say(f"Question {number} of now: what is next?")
            turns.append(Turn(max(stalls), time.process_time() - began))
        asking.cancel()
        assert any(record.kind == "compaction" for record in session.store.last(session.key, 60))
    return turns


def table(counts: list[int], rounds: int) -> list[str]:
    lines = [
        "| records | first cut | next turn | ratio | quartiles | goal | met | CPU, first turn |",
        "|---:|---:|---:|---:|---:|---:|---|---:|",
    ]
    for count in counts:
        ratios, firsts, nexts, cpu = [], [], [], []
        for seed in range(rounds):
            with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as root:
                make_session(root, count, seed)
                gc.collect()
                first, *following = asyncio.run(measure(root))
            firsts.append(first.stall)
            nexts.append(statistics.median(turn.stall for turn in following))
            ratios.append(firsts[-1] / nexts[-1])
            cpu.append(first.cpu)
        low, middle, high = statistics.quantiles(ratios, n=4)
        lines.append(
            f"| {count:,} | {statistics.median(firsts) * 1e3:.1f} ms "
            f"| {statistics.median(nexts) * 1e3:.1f} ms | {middle:.1f} | {low:.1f} … {high:.1f} "
            f"| ≤ {GOAL:.0f} | {'yes' if middle <= GOAL else 'no'} "
            f"| {statistics.median(cpu):.2f} s |"
        )
        print(lines[-1], file=sys.stderr)
    return lines


def lease_share() -> float:
    """Return the share of a turn's CPU that its lease takes, with a model that answers at once."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as root, open_store(root) as store:
        key = SessionKey("main", "long")
        store.create(key)
        began = time.process_time()
        for _lease in range(LEASES):
            token = store.leases.acquire(key, "benchmark", 60)
            store.leases.release(key, token)
        lease = (time.process_time() - began) / LEASES
        model = ScriptedModel(otherwise="Done.", window=WINDOW)
        with Session.open("long", model=model, store=store) as session:
            session.say("Hello!")
            began = time.process_time()
            for number in range(LEASES // 5):
                session.say(f"Question {number}")
            turn = (time.process_time() - began) / (LEASES // 5)
    return lease / turn


def page(rounds: int, rows: list[str], lease: float) -> str:
    commit = check_output(["git", "describe", "--always", "--dirty"], text=True).strip()
    return "\n".join(
        [
            "# The event loop, measured",
            "",
            "How long the first cut of a session keeps an event loop waiting, beside the turns "
            "after it. A session that was never cut gets one more message by `AsyncSession`, with "
            f"a window of {WINDOW:,} tokens, while another task asks for its turn every "
            "millisecond.",
            "",
            "**Read this first.** The stall is the longest time in which that task did not get its "
            "turn, in CPU that the process used meanwhile: the machine was shared, and times of "
            "the clock would be those of its other programs. The model answers at once and takes "
            f"no CPU. Medians of {rounds} sessions; the next turn is the median of {FOLLOWING}.",
            "",
            f"- date: {datetime.now(UTC):%Y-%m-%d}",
            f"- commit: {commit}",
            f"- python: {platform.python_version()}, {platform.machine()}, "
            f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
            "- command: `python benchmarks/event_loop.py --write docs/benchmarks/event-loop.md`",
            "",
            *rows,
            "",
            "Plans are made in a thread, so what is left is the wait for the interpreter's lock. "
            "A thread that computes keeps it for the switch interval, 5 ms, and a step of the loop "
            "asks for it twice; while a plan is made the interval is 1 ms, and the application's "
            "own comes back afterwards. Long texts are read piece by piece, because a single call "
            "into C cannot be interrupted.",
            "",
            "Two things are left that no thread can help with: a full garbage collection of "
            "Python (15 to 25 ms here, about one in a first cut of 1,000 records), and the "
            "vocabulary of the tokenizer, which its package loads when a process first counts "
            "tokens (150 ms, once). The first is in the figures above, the second is not: a short "
            "session comes before the others.",
            "",
            "The build before it (610cc47), three sessions each in the same hour: 6.3, 6.6 and 8.0 "
            "times at 500, 1,000 and 2,000 records, with 1.12, 1.94 and 3.73 s of CPU.",
            "",
            "## The lease of a turn",
            "",
            f"Taking and releasing it costs {lease:.1%} of the CPU of a turn in a folder, with a "
            "model that answers at once (goal: at most 3 %).",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", type=Path, metavar="PAGE")
    args = parser.parse_args()
    counts, rounds = ([500], 3) if args.quick else ([500, 1_000, 2_000], 11)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as root:
        make_session(root, 100, 0)
        asyncio.run(measure_short(root))
    rows = table(counts, rounds)
    text = page(rounds, rows, lease_share())
    if args.write:
        args.write.write_text(text)
    else:
        print(text)


async def measure_short(root: str) -> None:
    """Let the process load what it needs once."""
    async with await AsyncSession.open("long", model=Answering(), store=root) as session:
        await session.say("Hello! " + " ".join(WORDS))


if __name__ == "__main__":
    main()
