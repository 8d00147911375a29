"""Adapters beside the stores they replace, and agents of each framework in a window of 25,000.

    .venv-bench-adapters/bin/python benchmarks/adapters.py [--quick] [--only stores|resume|agents]
        [--json FILE] [--write PAGE]

Every number of the stores is a ratio of two things measured side by side in this run, taking
turns block by block, through the framework's own interface. What such numbers are worth:
docs/benchmarks/adapters.md.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.adapters_agents import AGENTS, AgentResult, play, take
from benchmarks.adapters_stores import MAKERS, StoreSide

from holdfast.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
TURNS = 500
QUICK_TURNS = 60
BLOCK = 20
READS = 7
PROCESSES = 4
PROCESS_TURNS = 25
APPEND_GOAL = 1.5
READ_GOAL = 1.0
DISK_GOAL = 0.05
PACKAGES = (
    *("openai-agents", "langgraph", "langgraph-checkpoint-sqlite", "pydantic-ai-slim"),
    *("strands-agents", "google-adk", "claude-agent-sdk", "langchain"),
)


@dataclass(frozen=True, slots=True)
class StoreResult:
    """What one framework's two stores did."""

    framework: str
    own: str
    ours: str
    turns: int
    append: float
    append_spread: tuple[float, float]
    append_ms: tuple[float, float]
    read: float
    read_spread: tuple[float, float]
    read_ms: tuple[float, float]
    bytes: tuple[int, int]
    kept: tuple[int, int] | None
    """Of `PROCESSES * PROCESS_TURNS` turns, in what the store gives back: own, ours."""
    logged: int | None
    """The same for our log, with its branches."""
    kept_in_turns: int | None
    """The same for what ours gives back where the processes wait for each other's turns."""
    synced_append: float | None
    """The append beside the framework's own store with a sync added to each of its writes, or with
    a file to sync where it has none; None where it syncs itself."""
    durable_read: float | None
    """The resume beside a store in memory whose turns are read from such a file."""
    is_durable: bool


@dataclass(frozen=True, slots=True)
class ResumeResult:
    """The milliseconds of CPU that a resume takes."""

    framework: str
    own: float
    ours: float
    file: float | None
    """Beside a file that holds the turns of a store in memory."""


# The stores


def measure_stores(framework: str, turns: int) -> StoreResult:
    """Both stores of a framework, in turns."""
    own, ours = MAKERS[framework](is_ours=False), MAKERS[framework](is_ours=True)
    with tempfile.TemporaryDirectory(prefix="holdfast-adapters-") as folder:
        places = {side.store: Path(folder) / side.store for side in (own, ours)}
        for place in places.values():
            place.mkdir()
        appends = _append(own, ours, places, turns)
        reads = _read(own, ours, places, turns)
        sizes = (_bytes_in(places[own.store]), _bytes_in(places[ours.store]))
        kept, logged, in_turns = _share(own, ours, Path(folder))
        synced = _synced_append(own, ours, Path(folder), turns)
        durable_read = None
        if own.durable_writer is not None:
            synced, durable_read = _beside_a_file(own, ours, Path(folder), turns)
    ratios = [mine / theirs for theirs, mine in appends]
    read_ratios = [mine / theirs for theirs, mine in reads]
    return StoreResult(
        framework=framework,
        own=own.store,
        ours=ours.store,
        turns=turns,
        append=sum(mine for _, mine in appends) / sum(theirs for theirs, _ in appends),
        append_spread=(min(ratios), max(ratios)),
        append_ms=(
            1e3 * sum(theirs for theirs, _ in appends) / turns,
            1e3 * sum(mine for _, mine in appends) / turns,
        ),
        read=statistics.median(read_ratios),
        read_spread=(min(read_ratios), max(read_ratios)),
        read_ms=(
            1e3 * statistics.median(theirs for theirs, _ in reads),
            1e3 * statistics.median(mine for _, mine in reads),
        ),
        bytes=sizes,
        kept=kept,
        logged=logged,
        kept_in_turns=in_turns,
        synced_append=synced,
        durable_read=durable_read,
        is_durable=not own.store.startswith("InMemory"),
    )


def _append(
    own: StoreSide, ours: StoreSide, places: dict[str, Path], turns: int
) -> list[tuple[float, float]]:
    """The seconds of each block of turns: own, ours."""
    found: list[tuple[float, float]] = []
    with ExitStack() as stack:
        writers = {
            side.store: stack.enter_context(side.writer(places[side.store])) for side in (own, ours)
        }
        for block in range(turns // BLOCK):
            times = {}
            for side in (own, ours) if block % 2 else (ours, own):
                start = time.perf_counter()
                for number in range(block * BLOCK, (block + 1) * BLOCK):
                    writers[side.store](f"mark-{number}")
                times[side.store] = time.perf_counter() - start
            found.append((times[own.store], times[ours.store]))
    return found


def _read(
    own: StoreSide, ours: StoreSide, places: dict[str, Path], turns: int
) -> list[tuple[float, float]]:
    """The seconds of reading everything again, with the store opened for it."""
    found: list[tuple[float, float]] = []
    for number in range(READS + 1):
        times = {}
        for side in (own, ours) if number % 2 else (ours, own):
            start = time.perf_counter()
            read = side.read(places[side.store])
            times[side.store] = time.perf_counter() - start
            marks = _marks(repr(read))
            assert len(marks) == turns, (side.store, len(marks))
            del read
        if number:  # the first round warms up
            found.append((times[own.store], times[ours.store]))
    return found


def measure_resume(framework: str, turns: int) -> ResumeResult:
    """The CPU of a resume: the median, the stores taking turns in one process."""
    own, ours = MAKERS[framework](is_ours=False), MAKERS[framework](is_ours=True)
    sides = [own, ours]
    if own.durable_writer is not None and own.durable_read is not None:
        durable = replace(own, store="file", writer=own.durable_writer, read=own.durable_read)
        sides.append(durable)
    found: dict[str, list[float]] = {side.store: [] for side in sides}
    with tempfile.TemporaryDirectory(prefix="holdfast-adapters-") as folder:
        for side in sides:
            place = Path(folder) / side.store
            place.mkdir()
            with side.writer(place) as append:
                for number in range(turns):
                    append(f"mark-{number}")
        for number in range(READS + 1):
            for side in sides:
                gc.collect()
                start = time.process_time()
                read = side.read(Path(folder) / side.store)
                took = time.process_time() - start
                assert len(_marks(repr(read))) == turns
                del read
                if number:  # the first round warms up
                    found[side.store].append(1e3 * took)
    middle = {store: statistics.median(times) for store, times in found.items()}
    return ResumeResult(framework, middle[own.store], middle[ours.store], middle.get("file"))


def _synced_append(own: StoreSide, ours: StoreSide, folder: Path, turns: int) -> float | None:
    """The append beside a store of files that never syncs, with a sync added to each write."""
    if not own.is_files:
        return None
    places = {side.store: folder / f"synced-{side.store}" for side in (own, ours)}
    for place in places.values():
        place.mkdir()
    replace = os.replace

    def sync(name: Any) -> None:
        opened = os.open(name, os.O_RDONLY)
        os.fsync(opened)
        os.close(opened)

    def synced_replace(source: Any, target: Any) -> None:
        is_theirs = Path(target).is_relative_to(places[own.store])
        if is_theirs:
            sync(source)
        replace(source, target)
        if is_theirs:
            sync(os.path.dirname(target))

    os.replace = synced_replace  # type: ignore[assignment]
    try:
        found = _append(own, ours, places, turns)
    finally:
        os.replace = replace
    return sum(mine for _, mine in found) / sum(theirs for theirs, _ in found)


def _beside_a_file(
    own: StoreSide, ours: StoreSide, folder: Path, turns: int
) -> tuple[float, float]:
    """Append and resume beside a store in memory that writes its turns to a file, too."""
    assert own.durable_writer is not None
    assert own.durable_read is not None
    durable = replace(own, store="file", writer=own.durable_writer, read=own.durable_read)
    places = {side.store: folder / f"durable-{side.store}" for side in (durable, ours)}
    for place in places.values():
        place.mkdir()
    appends = _append(durable, ours, places, turns)
    reads = _read(durable, ours, places, turns)
    ratio = sum(mine for _, mine in appends) / sum(theirs for theirs, _ in appends)
    return ratio, statistics.median(mine / theirs for theirs, mine in reads)


def _share(
    own: StoreSide, ours: StoreSide, folder: Path
) -> tuple[tuple[int, int] | None, int | None, int | None]:
    """Four processes at once on one session: what is there afterwards."""
    if not (own.is_shared or ours.is_shared):
        return None, None, None
    kept = {}
    logged = in_turns = None
    for side in (own, ours):
        if not side.is_shared:
            kept[side.store] = -1
            continue
        place = folder / f"shared-{side.store}"
        kept[side.store] = _run_processes(side, place, "--turns-of")
        if side.is_ours:
            with open_store(place) as store:
                lines = [line for key in store.keys(None) for line in store.export(key)]
            logged = len(_marks(b"".join(lines).decode()) - {"mark-first"})
        if side.writer_in_turns is not None:
            in_turns = _run_processes(side, folder / "shared-in-turns", "--in-turns-of")
    return (kept[own.store], kept[ours.store]), logged, in_turns


def _run_processes(side: StoreSide, place: Path, option: str) -> int:
    """Run the processes, and return how many of their turns the store gives back."""
    place.mkdir()
    with side.writer(place) as append:
        append("mark-first")
    command = [sys.executable, __file__, option, side.framework, side.store, str(place)]
    running = [
        subprocess.Popen(
            [*command, str(number)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for number in range(PROCESSES)
    ]
    for process in running:
        process.wait(600)
    return len(_marks(repr(side.read(place))) - {"mark-first"})


def write_turns(
    framework: str, store: str, place: Path, number: str, *, is_in_turns: bool = False
) -> None:
    """The turns of one of the processes; one that fails is not tried again."""
    sides = [MAKERS[framework](is_ours=is_ours) for is_ours in (False, True)]
    side = next(side for side in sides if side.store == store)
    writer = side.writer_in_turns if is_in_turns else side.writer
    assert writer is not None
    with writer(place) as append:
        for turn in range(PROCESS_TURNS):
            try:
                append(f"mark-{number}x{turn}")
            except Exception as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)


def _marks(text: str) -> set[str]:
    return set(re.findall(r"mark-\w+", text)) - {"mark"}


def _bytes_in(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


# What is shown


def _stores_page(found: list[StoreResult]) -> Iterator[str]:
    yield (
        "| framework | its store | append of a turn | | append, both synced | resume | "
        "| resume, both from disk | disk | |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for one in found:
        durable = "" if one.is_durable else " (in memory)"
        yield (
            f"| {one.framework} | `{one.own}`{durable} "
            f"| {_ratio(one.append, APPEND_GOAL)} ({_spread(one.append_spread)}) "
            f"| {one.append_ms[0]:.2f} / {one.append_ms[1]:.2f} ms "
            f"| {_synced(one)} "
            f"| {_ratio(one.read, READ_GOAL)} ({_spread(one.read_spread)}) "
            f"| {one.read_ms[0]:.0f} / {one.read_ms[1]:.0f} ms "
            f"| {'as before' if one.durable_read is None else _ratio(one.durable_read, READ_GOAL)} "
            f"| {_disk(one)} | {_megabytes(one)} |"
        )
    yield ""
    yield (
        f"| framework | {PROCESSES} processes on one session: its own | ours | in our log "
        "| ours, one turn at a time |"
    )
    yield "|---|---:|---:|---:|---:|"
    total = PROCESSES * PROCESS_TURNS
    for one in found:
        if one.kept is not None:
            own = "–" if one.kept[0] < 0 else f"{one.kept[0]} of {total}"
            logged = f"{one.logged} of {total}"
            patient = "" if one.kept_in_turns is None else f"{one.kept_in_turns} of {total}"
            yield (f"| {one.framework} | {own} | {one.kept[1]} of {total} | {logged} | {patient} |")


def _resume_page(found: list[ResumeResult]) -> Iterator[str]:
    yield "| framework | its store | ours | ratio | beside a file |"
    yield "|---|---:|---:|---:|---:|"
    for one in found:
        file = "" if one.file is None else _ratio(one.ours / one.file, READ_GOAL)
        ratio = _ratio(one.ours / one.own, READ_GOAL)
        yield f"| {one.framework} | {one.own:.1f} | {one.ours:.1f} | {ratio} | {file} |"


def _ratio(found: float, goal: float) -> str:
    return f"{found:.2f}" if found <= goal else f"**{found:.2f}**"


def _synced(one: StoreResult) -> str:
    if one.synced_append is not None:
        return _ratio(one.synced_append, APPEND_GOAL)
    return "as before" if one.is_durable else "–"


def _spread(ratios: tuple[float, float]) -> str:
    return f"{ratios[0]:.2f}–{ratios[1]:.2f}"


def _disk(one: StoreResult) -> str:
    if not one.is_durable:
        return "–"
    found = one.bytes[1] / one.bytes[0]
    if one.framework == "LangGraph":
        return f"{found:.3f}" if found <= DISK_GOAL else f"**{found:.3f}**"
    return f"{found:.2f}"


def _megabytes(one: StoreResult) -> str:
    own, ours = (size / 1e6 for size in one.bytes)
    return f"{own:.1f} / {ours:.1f} MB" if one.is_durable else f"– / {ours:.1f} MB"


def _agents_page(found: list[AgentResult]) -> Iterator[str]:
    yield (
        "| framework | with | history | a result of 400,000 characters | after the kill "
        "| over the limit | invalid | texts still there |"
    )
    yield "|---|---|---|---|---|---:|---:|---:|"
    for one in found:
        yield (
            f"| {one.framework} | {one.means} | {one.first} | {one.second} | {one.third} "
            f"| {one.over} of {one.requests} | {one.invalid} | {one.kept} of {one.kept_of} |"
        )


def page(stores: list[StoreResult], resumes: list[ResumeResult], agents: list[AgentResult]) -> str:
    """The page without what people wrote around it."""
    lines = [
        f"- date: {datetime.now(UTC):%Y-%m-%d}",
        f"- commit: {_commit()}",
        f"- python: {platform.python_version()}, {platform.machine()}, load {_load()}",
        f"- releases: {', '.join(f'{name} {version(name)}' for name in PACKAGES)}",
        "",
    ]
    if agents:
        lines += ["## Agents", "", *_agents_page(agents), ""]
    if stores:
        turns = stores[0].turns
        title = f"## Stores: {turns} turns, {4 * turns:,} messages"
        lines += [title, "", *_stores_page(stores), ""]
    if resumes:
        lines += ["## CPU of a resume, in ms", "", *_resume_page(resumes), ""]
    return "\n".join(lines)


def _load() -> str:
    return f"{os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    """Measure, and show what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_TURNS} turns")
    parser.add_argument("--only", choices=["stores", "resume", "agents"])
    parser.add_argument("--framework", help="this one alone")
    parser.add_argument("--json", type=Path, help="write what was found here, too")
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    parser.add_argument("--turns-of", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--in-turns-of", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--take", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.take:
        take(*args.take)
        return
    shared = args.turns_of or args.in_turns_of
    if shared:
        framework, store, place, number = shared
        write_turns(framework, store, Path(place), number, is_in_turns=bool(args.in_turns_of))
        return
    stores: list[StoreResult] = []
    resumes: list[ResumeResult] = []
    agents: list[AgentResult] = []
    turns = QUICK_TURNS if args.quick else TURNS
    for name in MAKERS if args.only in (None, "stores") else ():
        if args.framework in (None, name):
            stores.append(measure_stores(name, turns))
            print("\n".join(_stores_page(stores[-1:])), flush=True)
    for name in MAKERS if args.only in (None, "resume") else ():
        if args.framework in (None, name):
            resumes.append(measure_resume(name, turns))
            print("\n".join(_resume_page(resumes[-1:])), flush=True)
    for name in AGENTS if args.only in (None, "agents") else ():
        if args.framework in (None, name):
            for is_ours in (False, True):
                agents.append(play(name, is_ours=is_ours, script=__file__))
                print("\n".join(_agents_page(agents[-1:])), flush=True)
    if args.json:
        parts: dict[str, list[Any]] = {"stores": stores, "resumes": resumes, "agents": agents}
        found = {name: [asdict(one) for one in part] for name, part in parts.items()}
        args.json.write_text(json.dumps(found, indent=1))
    text = page(stores, resumes, agents)
    if args.write:
        kept = args.write.read_text().split("<!-- measured -->")[0]
        args.write.write_text(f"{kept}<!-- measured -->\n\n{text}")
    print(text)


if __name__ == "__main__":
    main()
