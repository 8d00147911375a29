"""How fast a projection is: beside a peer's trimming, from turn to turn, and as logs grow.

    .venv-bench/bin/python benchmarks/projection.py [--quick] [--json] [--write PAGE]

Every number is a ratio of two things measured in turns in this run, on the same conversation.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import random
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, trim_messages
from langchain_core.messages.utils import count_tokens_approximately

from holdfast import Assistant, Record, ToolResult, User, Window
from holdfast.context import Plan, ProjectionRequest
from holdfast.core.projection.project import project
from holdfast.core.projection.sizes import Scale
from holdfast.core.projection.view import ProjectionCache
from holdfast.models import target
from holdfast.tokens import counter_for

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = "gpt-4o"
BUDGET = 8_000
WINDOW = Window(12_500)
"""After the reserves and the ratio, about 8,000 tokens are left for messages."""
AIM = target("openai-chat", model=MODEL)
ANY_NUMBER = target("anthropic", model=MODEL)
"""An API that takes any number of messages."""
READERS = ("holdfast.core.extract", "holdfast.core.narrative")
BEFORE = 2.56
"""The ratio of a first cut on 2026-11-18, before its loops were made shorter."""
NAMES = [f"{word}{n}" for n in range(400) for word in ("alpha", "src/mod_", "getValue", "beta ")]


def text(rnd: random.Random, chars: int) -> str:
    return " ".join(rnd.choices(NAMES, k=max(1, chars // 9)))


def conversation(turns: int, seed: int = 7) -> list[Record]:
    """Four messages a turn: a question, a call, its result, an answer."""
    rnd = random.Random(seed)
    records: list[Record] = []
    for turn in range(turns):
        call = {"type": "tool_use", "id": f"c{turn}", "name": "read", "input": {"path": f"f{turn}"}}
        records += [
            User(id=f"{turn:06d}a", content=text(rnd, 200)),
            Assistant(id=f"{turn:06d}b", content=[{"type": "text", "text": text(rnd, 80)}, call]),
            ToolResult(id=f"{turn:06d}c", tool_use_id=f"c{turn}", content=text(rnd, 2_000)),
            Assistant(id=f"{turn:06d}d", content=text(rnd, 400)),
        ]
    return [*records, User(id="zz", content="What now?")]


def peers_messages(records: list[Record]) -> list[Any]:
    """The same conversation as LangChain holds it."""
    made: list[Any] = []
    for record in records:
        if isinstance(record, User):
            made.append(HumanMessage(str(record.content)))
        elif isinstance(record, ToolResult):
            made.append(ToolMessage(str(record.content), tool_call_id=record.tool_use_id))
        elif isinstance(record, Assistant) and isinstance(record.content, list):
            said, call = record.content
            asked = {"id": call["id"], "name": call["name"], "args": call["input"]}
            made.append(AIMessage(said["text"], tool_calls=[asked]))
        elif isinstance(record, Assistant):
            made.append(AIMessage(str(record.content)))
    return made


def plan(records: list[Record], cache: ProjectionCache) -> Plan:
    return project(ProjectionRequest(records, WINDOW, AIM, floor=0), cache)


def fresh() -> ProjectionCache:
    return ProjectionCache(Scale(_counter()))


def _counter() -> Any:
    """A counter that remembers nothing of earlier rounds."""
    counter = counter_for(MODEL)
    for memo in (counter._young, counter._old):  # type: ignore[attr-defined]
        memo.clear()
    return counter


def forget_reading(cache: ProjectionCache) -> None:
    """Leave the cache the sizes, and nothing of what was read for a carry-over."""
    cache.scale._digests.clear()
    cache.scale._names.clear()
    read = [name for name in sys.modules if name.startswith(READERS)]
    for function in (value for name in read for value in vars(sys.modules[name]).values()):
        if hasattr(function, "cache_clear"):
            function.cache_clear()


def appended(records: list[Record], made: Plan, number: int) -> list[Record]:
    decided = [
        msgspec.structs.replace(one, id=f"zz{number:05d}{place}")
        for place, one in enumerate(made.decisions)
    ]
    return [*records, *decided]


def step(number: int) -> list[Record]:
    """One more step of a running turn."""
    rnd = random.Random(number)
    call = {"type": "tool_use", "id": f"n{number}", "name": "read", "input": {"path": "x"}}
    return [
        Assistant(id=f"zzz{number:05d}a", content=[call]),
        ToolResult(id=f"zzz{number:05d}b", tool_use_id=f"n{number}", content=text(rnd, 1_000)),
    ]


def timed(work: Callable[[], Any]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def beside_a_peer(rounds: int) -> dict[str, float]:
    """Milliseconds, medians of rounds that took turns."""
    records = conversation(500)
    messages = peers_messages(records)
    kept = fresh()
    first = plan(records, kept)
    run_log = appended(records, first, 0)
    times: dict[str, list[float]] = {}
    warm = fresh()
    plan(run_log, warm)
    for number in range(rounds):
        times.setdefault("peer", []).append(
            timed(
                lambda: trim_messages(
                    messages,
                    max_tokens=BUDGET,
                    token_counter=count_tokens_approximately,
                    strategy="last",
                    start_on="human",
                )
            )
        )
        times.setdefault("cold", []).append(timed(lambda: plan(records, fresh())))
        times.setdefault("remembered", []).append(timed(lambda: plan(records, kept)))
        forget_reading(kept)
        times.setdefault("unread", []).append(timed(lambda: plan(records, kept)))
        run_log = [*run_log, *step(number)]
        made: list[Plan] = []
        times.setdefault("running", []).append(timed(lambda: made.append(plan(run_log, warm))))  # noqa: B023
        run_log = appended(run_log, made[0], number + 1)
    return {name: 1_000 * statistics.median(taken) for name, taken in times.items()}


def growing(rounds: int, sizes: tuple[int, ...], window: Window) -> dict[int, float]:
    """Microseconds a message, cold: no text was counted before."""
    found: dict[int, float] = {}
    for size in sizes:
        taken = []
        for number in range(max(1, rounds * 400 // size)):
            records = conversation(size // 4, seed=1_000 * size + number)
            request = ProjectionRequest(records, window, ANY_NUMBER, floor=0)
            spent = timed(lambda: project(request, fresh()))  # noqa: B023
            taken.append(1e6 * spent / len(records))
        found[size] = statistics.median(taken)
    return found


def report(peer: dict[str, float], grown: dict[int, float], cut: dict[int, float]) -> str:
    base = peer["peer"]
    first_size, last_size = min(grown), max(grown)
    lines = [
        "# The projection, measured",
        "",
        f"Python {platform.python_version()}, {platform.machine()}, "
        f"langchain-core {version('langchain-core')}, exact counts by `{counter_for(MODEL).name}`.",
        "Made by `benchmarks/projection.py`; ratios of things measured in turns in one run, in CPU "
        "time: the machine does other work too.",
        "",
        "## 2,000 messages into 8,000 tokens",
        "",
        "LangChain's `trim_messages` with its approximate counter drops old messages. A projection "
        "pairs, repairs, counts, cuts, writes what a cut leaves behind, and proves that it fits.",
        "",
        "| | ms | × LangChain | goal |",
        "|---|--:|--:|---|",
        f"| LangChain `trim_messages` | {base:.1f} | 1.00 | |",
        f"| a running session, one more step since the last call | {peer['running']:.1f} | "
        f"**{peer['running'] / base:.2f}** | not slower |",
        f"| the first cut of all 2,000, counts remembered | {peer['remembered']:.1f} | "
        f"**{peer['remembered'] / base:.2f}** ({BEFORE} before) | not slower |",
        f"| the same, and no message was read for a carry-over before | {peer['unread']:.1f} | "
        f"{peer['unread'] / base:.2f} | for comparison |",
        f"| the same, cold: every message counted exactly | {peer['cold']:.1f} | "
        f"{peer['cold'] / base:.2f} | for comparison |",
        "",
        f"The next call after one more step takes **1/{peer['cold'] / peer['running']:.0f}** of "
        "the first (goal: 1/20 or less).",
        "",
        "A first cut is slower than dropping messages where it reads them: of those that go, it "
        "keeps the user's words, files, results and names. A cut reads a message once; what it "
        "read is remembered with its size, within a bound.",
        "",
        "## As logs grow",
        "",
        "| messages | µs a message, all kept | µs a message, cut to 8,000 tokens |",
        "|--:|--:|--:|",
        *(f"| {size:,} | {grown[size]:.1f} | {cut[size]:.1f} |" for size in grown),
        "",
        f"From {first_size:,} to {last_size:,} messages the time for one grows by a factor of "
        f"**{grown[last_size] / grown[first_size]:.2f}** where all are kept, and of "
        f"**{cut[last_size] / cut[first_size]:.2f}** where they are cut: linear (goal: about 1).",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few rounds: is it alive?")
    parser.add_argument("--json", action="store_true", help="print the numbers")
    parser.add_argument("--write", metavar="PAGE", help="write the page there")
    args = parser.parse_args()
    rounds, sizes = (3, (1_000, 4_000)) if args.quick else (25, (1_000, 10_000, 100_000))
    grown = growing(rounds, sizes, Window(10_000_000_000))
    numbers = beside_a_peer(rounds), grown, growing(rounds, sizes, WINDOW)
    if args.json:
        json.dump({"peer": numbers[0], "growing": numbers[1], "cutting": numbers[2]}, sys.stdout)
        return 0
    page = report(*numbers)
    if args.write:
        Path(args.write).write_text(page, "utf-8")
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
