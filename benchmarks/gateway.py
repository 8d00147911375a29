"""`holdfast serve` beside the same turns in-process: throughput, delay, memory, stalls.

    .venv-bench/bin/python benchmarks/gateway.py [--quick] [--only PART] [--json]

Sessions have their turns one after the other, so many sessions at a time, with the offline model.
Every ratio is of two runs after each other on the same machine, in the same store. Each process is
a real one, reached over sockets; the clients run on the same machine and take their share of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.gateway_load import (
    FULL,
    QUICK,
    Plan,
    check_logs,
    make_long_sessions,
    make_sessions,
    probe_compactions,
    probe_idle,
    run_in_process,
    run_through,
    serving,
)
from benchmarks.proxy_processes import RecordingUpstream, running
from benchmarks.proxy_speed import take_turns

from holdfast.stores import open_store
from holdfast.testing import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPACTED = tuple(f"long{number}" for number in range(10))


@dataclass(frozen=True, slots=True)
class Row:
    """A figure beside its goal."""

    what: str
    ours: str
    other: str
    ratio: float
    goal: str
    is_met: bool


def measure_load(root: str, folder: Path, plan: Plan, kind: str, processes: int) -> Iterator[Row]:
    """The same turns in-process and through so many processes.

    The CPU of a turn is that of the servers, without the clients and the database: on a machine
    that does other things too, it says more than the turns a second.
    """
    inside, through = _place(root, "inside"), _place(root, f"through{processes}")
    make_sessions(inside, plan)
    with open_store(inside) as store:
        bare_cpu = time.process_time()
        bare = run_in_process(store, plan)
        bare_cpu = time.process_time() - bare_cpu
    make_sessions(through, plan)
    with serving(through, folder, plan, processes) as servers:
        before = sum(server.cpu_seconds() for server in servers)
        served, after_tenth = run_through(servers, plan)
        served_cpu = sum(server.cpu_seconds() for server in servers) - before
        memory = sum(server.memory() for server in servers)
        descriptors = max(server.descriptors() for server in servers)
    what = f"{kind}, {processes} process{'es' if processes > 1 else ''}"
    ratio = served.per_second / bare.per_second
    rates = (f"{served.per_second:.0f}/s", f"{bare.per_second:.0f}/s")
    yield Row(f"{what}: turns a second", *rates, ratio, "≥ 0.5", ratio >= 0.5)
    delays = (served.percentile(0.99), bare.percentile(0.99))
    ratio = delays[0] / delays[1]
    shown = (f"{delays[0]:.2f} s", f"{delays[1]:.2f} s")
    yield Row(f"{what}: p99 of a turn", *shown, ratio, "≤ 3", ratio <= 3)
    cpu = (served_cpu / plan.total, bare_cpu / plan.total)
    shown = (f"{cpu[0] * 1e3:.1f} ms", f"{cpu[1] * 1e3:.1f} ms")
    ratio = cpu[0] / cpu[1]
    yield Row(f"{what}: CPU of a turn", *shown, ratio, "none", is_met=True)
    ratio = memory / after_tenth
    shown = (f"{memory / 1e6:.0f} MB", f"{after_tenth / 1e6:.0f} MB")
    yield Row(f"{what}: memory, beside a tenth", *shown, ratio, "≤ 1.2", ratio <= 1.2)
    wrong = check_logs(through, plan)
    total = sum(wrong.values())
    yield Row(f"{what}: lost, doubled, reordered", str(total), "0", float(total), "0", not total)
    yield Row(
        f"{what}: file descriptors", str(descriptors), "256", descriptors / 256, "< 1",
        descriptors < 256,
    )  # fmt: skip


def measure_stalls(root: str, folder: Path, plan: Plan) -> Iterator[Row]:
    """The longest time until `/healthz` is answered, idle and while ten sessions compact."""
    make_long_sessions(root, plan, COMPACTED)
    with serving(root, folder, plan, 1) as (server,):
        probe_idle(server, 3.0)  # it may still be loading
        idle = max(probe_idle(server, plan.idle_seconds))
        seconds, wall = probe_compactions(server, COMPACTED)
        idle = max(idle, *probe_idle(server, plan.idle_seconds))
    stall = max(seconds)
    what = f"longest stall, ten compactions of {plan.compacted:,} records ({wall:.0f} s)"
    shown = (f"{stall * 1e3:.1f} ms", f"{idle * 1e3:.1f} ms")
    yield Row(what, *shown, stall / idle, "≤ 50", stall / idle <= 50)


UPSTREAM_SIDES = ("proxy guard", "serve guard")
"""The proxy alone, and the same code in `holdfast serve`."""


def measure_upstream(*, is_quick: bool) -> Iterator[Row]:
    """Streams of a provider through the proxy alone and through `holdfast serve`, in turns.

    Streams a second are those of many at once, one sum for each side over all rounds. The CPU of a
    stream is that of the server's process alone.
    """
    rounds = 6 if is_quick else 24
    with ExitStack() as stack:
        upstream = RecordingUpstream()
        sides = [
            stack.enter_context(running(name, upstream.url, Path(sys.executable).parent))
            for name in UPSTREAM_SIDES
        ]
        take_turns(sides, 2_000, 2, 20)  # what is loaded with the first requests
        for size, at_once in ((2_000, 1), (160_000, 1), (2_000, 50)):
            before = [side.cpu_seconds for side in sides]
            found = take_turns(sides, size, rounds, at_once)
            cpu = [side.cpu_seconds - start for side, start in zip(sides, before, strict=True)]
            proxy, ours = (found[name] for name in UPSTREAM_SIDES)
            what = f"{size // 1000} KB, {at_once} at once"
            firsts = [statistics.median(times.first) for times in (ours, proxy)]
            rates = [len(times.whole) / sum(times.whole) * at_once for times in (ours, proxy)]
            spent = [total / (rounds + 1) / at_once for total in cpu[::-1]]
            for name, unit, scale, share, (mine, other) in (
                ("first token", " ms", 1e3, firsts[1] / firsts[0], firsts),
                ("streams a second", "/s", 1, rates[0] / rates[1], rates),
            ):
                shown = (f"{mine * scale:.1f}{unit}", f"{other * scale:.1f}{unit}")
                yield Row(f"{what}: {name}", *shown, share, "≥ 0.9", share >= 0.9)
            shown = (f"{spent[0] * 1e3:.1f} ms", f"{spent[1] * 1e3:.1f} ms")
            share = spent[1] / spent[0]
            yield Row(f"{what}: CPU of a stream", *shown, share, "none", is_met=True)


def _place(root: str, name: str) -> str:
    return f"{root}&schema={name}" if "://" in root else f"{root}/{name}"


def run(plan: Plan, parts: list[str]) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        if "folder" in parts:
            yield from measure_load(str(folder / "a"), folder, plan, "folder", 1)
        if "stalls" in parts:
            yield from measure_stalls(str(folder / "b"), folder, plan)
        if "upstream" in parts:
            yield from measure_upstream(is_quick=plan is QUICK)
        for processes in (1, 3) if "postgres" in parts else ():
            with PostgresServer() as server:
                yield from measure_load(server.address, folder, plan, "PostgreSQL", processes)


def facts(plan: Plan) -> dict[str, str]:
    return {
        "plan": f"{plan.sessions:,} sessions × {plan.turns} turns, {plan.at_once} at a time",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "python": platform.python_version(),
    }


def main() -> None:
    parts = ["folder", "stalls", "upstream", "postgres"]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the sessions")
    parser.add_argument("--sessions", type=int, metavar="N", help="so many sessions")
    parser.add_argument("--only", choices=parts, action="append", help="just this part")
    parser.add_argument("--json", action="store_true", help="rows as JSON on stdout")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    if arguments.sessions:
        plan = replace(plan, sessions=arguments.sessions)
    known = facts(plan)
    rows: list[Row] = []
    if not arguments.json:
        print("\n".join(f"- {name}: {value}" for name, value in known.items()), "\n")
        print("| what | ours | other | ratio | goal | met |\n|---|---:|---:|---:|---|---|")
    for row in run(plan, arguments.only or parts):
        rows.append(row)
        if not arguments.json:
            met = "yes" if row.is_met else "NO"
            print(
                f"| {row.what} | {row.ours} | {row.other} | {row.ratio:.2f} | {row.goal} | {met} |",
                flush=True,
            )
    if arguments.json:
        print(json.dumps({"facts": known, "rows": [asdict(row) for row in rows]}, indent=1))
    else:
        print(f"\nload at the end: {' '.join(f'{load:.1f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
