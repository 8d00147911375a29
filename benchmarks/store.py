"""How the session store compares: with the bare system calls, with bare parsing, with a peer.

    .venv-bench/bin/python benchmarks/store.py [--quick] [--json] [--write PAGE]

Every number is a ratio of two things measured side by side in this run, on the same bytes, taking
turns operation by operation or block by block. Lone times depend on the machine and the minute
and are shown only next to what they are compared with. What that is worth: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.stores import ANY_OWNER, NamedOwner

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.store_cases import (
    FULL,
    KEY,
    QUICK,
    WINDOW_RECORDS,
    Bench,
    Pair,
    Plan,
    Row,
    in_turns,
    load,
    log_of,
    nth,
    page_row,
    questions,
    seconds,
)

from holdfast import JsonlStore, Record, SessionKey
from holdfast.stores import ANY_HEAD
from holdfast.stores.blobs import FileBlobs
from holdfast.stores.files import Disk

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.stores import SessionStore

# 1 and 2: appending


def appending(bench: Bench) -> list[Row]:
    lines = _turn_bytes(bench)
    by_turn, hot = Pair(), Pair()
    for number in range(bench.plan.rounds + 1):
        ours, bare = _append_in_turns(bench, lines)
        first, second = _append_hot(bench, lines, is_ours_first=bool(number % 2))
        if number:  # the first round warms up
            by_turn.add(ours, bare)
            hot.add(first, second)
    other = "write + fdatasync of the same bytes"
    return [
        by_turn.row("durable append of a turn, in turns", other, at_most=1.5),
        hot.row("durable append of a turn, hot loop", other, at_most=1.5, per=len(bench.turns)),
    ]


def _turn_bytes(bench: Bench) -> list[bytes]:
    """The bytes that each turn's append writes."""
    root = bench.place()
    found, size = [], 0
    with JsonlStore(root) as store:
        store.create(KEY)
        with log_of(root).open("rb") as file:
            file.seek(0, os.SEEK_END)
            for turn in bench.turns:
                store.append(KEY, turn.records, expect=ANY_HEAD, durability="buffered")
                found.append(file.read())
                size += len(found[-1])
    assert all(data.count(b"\n") == 4 for data in found)
    return found


@contextmanager
def _bare_file(bench: Bench) -> Iterator[int]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    fd = os.open(bench.place() / "bare.jsonl", flags, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def _append_in_turns(bench: Bench, lines: list[bytes]) -> tuple[float, float]:
    ours: list[float] = []
    bare: list[float] = []
    with JsonlStore(bench.place()) as store, _bare_file(bench) as fd:
        head = store.create(KEY)

        def append(number: int) -> None:
            nonlocal head
            head = store.append(KEY, bench.turns[number].records, expect=head).head

        def write(number: int) -> None:
            os.write(fd, lines[number])
            os.fdatasync(fd)

        sides = [(ours, append), (bare, write)]
        for number in range(len(lines)):
            for times, act in sides if number % 2 else sides[::-1]:
                start = time.perf_counter_ns()
                act(number)
                times.append((time.perf_counter_ns() - start) / 1e9)
    return statistics.median(ours), statistics.median(bare)


def _append_hot(bench: Bench, lines: list[bytes], *, is_ours_first: bool) -> tuple[float, float]:
    with JsonlStore(bench.place()) as store, _bare_file(bench) as fd:
        start = store.create(KEY)

        def append() -> None:
            head = start
            for turn in bench.turns:
                head = store.append(KEY, turn.records, expect=head).head

        def write() -> None:
            for data in lines:
                os.write(fd, data)
                os.fdatasync(fd)

        if is_ours_first:
            mine = seconds(append)
            return mine, seconds(write)
        theirs = seconds(write)
        return seconds(append), theirs


def appending_beside_a_peer(bench: Bench) -> list[Row]:
    synced, buffered = Pair(), Pair()
    for number in range(bench.plan.rounds + 1):
        times = asyncio.run(_append_beside_sqlite(bench))
        if number:
            synced.add(times[0], times[2])
            buffered.add(times[1], times[2])
    other = f"Agents SDK {_version('openai-agents')} SQLiteSession, file"
    goal = "faster"
    return [
        synced.row("append of a turn, synced", other, at_most=1.0, goal=goal),
        buffered.row("append of a turn, buffered", other, at_most=1.0, goal=goal),
    ]


async def _append_beside_sqlite(bench: Bench) -> tuple[float, float, float]:
    from agents import SQLiteSession

    times: tuple[list[float], ...] = ([], [], [])
    session = SQLiteSession("bench", str(bench.place() / "sessions.db"))
    try:
        with JsonlStore(bench.place()) as synced, JsonlStore(bench.place()) as buffered:
            synced.create(KEY)
            buffered.create(KEY)
            for number, turn in enumerate(bench.turns):
                for place in range(3):
                    side = (number + place) % 3  # each goes first in a third of the turns
                    items = list(turn.items)
                    start = time.perf_counter_ns()
                    if side == 0:
                        synced.append(KEY, turn.records, expect=ANY_HEAD)
                    elif side == 1:
                        buffered.append(KEY, turn.records, expect=ANY_HEAD, durability="buffered")
                    else:
                        await session.add_items(items)
                    times[side].append((time.perf_counter_ns() - start) / 1e9)
    finally:
        session.close()
    synced_time, buffered_time, peer = (statistics.median(kept) for kept in times)
    return synced_time, buffered_time, peer


# 3: opening a long session for its next turn


def opening(bench: Bench) -> list[Row]:
    plan = bench.plan
    large, small = bench.place(), bench.place()
    for root, count in ((large, plan.large_records), (small, plan.small_records)):
        with JsonlStore(root) as store:
            load(bench, store, count)
    size, offset = log_of(large).stat().st_size, _window_offset(large)
    assert len(_live(large)) == len(_live(small)) == WINDOW_RECORDS

    def parsed(parse: Callable[[bytes], object]) -> Callable[[], object]:
        def act() -> list[object]:
            fd = os.open(log_of(large), os.O_RDONLY)
            try:
                data = os.pread(fd, size - offset, offset)
            finally:
                os.close(fd)
            return [parse(line) for line in data.split(b"\n") if line]

        assert len(act()) == WINDOW_RECORDS
        return act

    what = f"open {plan.large_records:,} records ({size / 1e9:.2f} GB) for the next turn"
    rounds, repeat = plan.rounds, 21
    beside_msgspec = in_turns(rounds, repeat, lambda: _live(large), parsed(msgspec.json.decode))
    beside_json = in_turns(rounds, repeat, lambda: _live(large), parsed(json.loads))
    beside_small = in_turns(rounds, repeat, lambda: _live(large), lambda: _live(small))
    rows = [
        beside_msgspec.row(what, "msgspec on its live window's lines", at_most=2),
        beside_json.row(what, "json.loads on its live window's lines", at_most=2),
        beside_small.row(
            what,
            f"the same with {plan.small_records:,} records",
            at_most=1.1,
            goal="about 1",
        ),
        *_replaying(large, f"replay {plan.large_records:,} records", rounds=5),
    ]
    shutil.rmtree(large)
    return rows


def _live(root: Path) -> tuple[Record, ...]:
    with JsonlStore(root) as store:
        return store.live(KEY).records


def _window_offset(root: Path) -> int:
    """Where the lines of the live window begin: found by looking back, without our reader."""
    data_bytes = 8 * 1024 * 1024
    size = log_of(root).stat().st_size
    with log_of(root).open("rb") as file:
        file.seek(max(0, size - data_bytes))
        data = file.read()
    return size - len(data) + data.rindex(b'\n{"type":"compaction"') + 1


# 4: questions that must not cost more in a longer log, nor among more sessions


def asking(bench: Bench) -> list[Row]:
    plan = bench.plan
    roots = {count: bench.place() for count in (plan.large_records, plan.small_records)}
    with contextlib.ExitStack() as stack:
        stores: dict[int, SessionStore] = {}
        names = {}
        for count, root in roots.items():
            stores[count] = stack.enter_context(JsonlStore(root))
            names[count] = load(bench, stores[count], count)
            stores[count].totals(KEY)  # the index reads a log once
        rows = questions(bench, stores, names)
    for root in roots.values():
        shutil.rmtree(root)
    return [*rows, _page_row(bench)]


def _page_row(bench: Bench) -> Row:
    with contextlib.ExitStack() as stack:
        stores: dict[int, SessionStore] = {}
        for count in (bench.plan.many_sessions, 1_000):
            root = bench.place()
            store = stores[count] = stack.enter_context(JsonlStore(root, disk=_Unsynced()))
            store.create(SessionKey("main", "s0"), owner=NamedOwner("ann"))
            folder = log_of(root).parent
            header = (folder / "s0.jsonl").read_bytes()
            for number in range(1, count):
                line = header.replace(b'"s0"', f'"s{number}"'.encode())
                (folder / f"s{number}.jsonl").write_bytes(line)
            assert len(store.sessions(owner=ANY_OWNER)) == count
        return page_row(bench, stores, "every file looked at once a minute")


# 5: reading everything


def replaying(bench: Bench) -> list[Row]:
    root = bench.filled()
    what = f"replay of {bench.plan.turns:,} turns"
    return _replaying(root, what, rounds=bench.plan.rounds, repeat=11)


def _replaying(root: Path, what: str, *, rounds: int, repeat: int = 1) -> list[Row]:
    def read() -> int:
        with JsonlStore(root) as store:
            return sum(1 for _ in store.read(KEY))

    def parsed(parse: Callable[[bytes], object]) -> Callable[[], object]:
        def act() -> int:
            with log_of(root).open("rb") as file:
                return sum(1 for line in file if parse(line))

        assert act() == read()
        return act

    beside_json = in_turns(rounds, repeat, read, parsed(json.loads))
    beside_msgspec = in_turns(rounds, repeat, read, parsed(msgspec.json.decode))
    return [
        beside_json.row(what, "json.loads on the same lines", at_most=1.5),
        beside_msgspec.row(what, "msgspec to dicts on the same lines", at_most=1.5),
    ]


# 5: disk


def disk(bench: Bench) -> list[Row]:
    root = bench.filled()
    ours = log_of(root).stat().st_size
    messages = [message for turn in bench.turns for message in turn.messages]
    raw = len(json.dumps(messages, ensure_ascii=False, separators=(",", ":")).encode())
    items = sum(len(json.dumps(item)) for turn in bench.turns for item in turn.items)
    peer = asyncio.run(_sqlite_bytes(bench))

    def row(other: int, other_is: str, goal: float | None = None) -> Row:
        ratio = ours / other
        is_met = None if goal is None else ratio <= goal
        goal_text = "" if goal is None else f"≤ {goal:g}"
        what = f"bytes on disk, {len(messages):,} messages"
        return Row(
            what, other_is, ours / 1e3, other / 1e3, "kB", ratio, (ratio, ratio), goal_text, is_met
        )

    return [
        row(raw, "raw JSON of the messages, compact", 1.1),
        row(peer, "SQLiteSession's database after a checkpoint"),
        row(items, "the SDK's items as plain json.dumps"),
    ]


async def _sqlite_bytes(bench: Bench) -> int:
    import sqlite3

    from agents import SQLiteSession

    path = bench.place() / "sessions.db"
    session = SQLiteSession("bench", str(path))
    for turn in bench.turns:
        await session.add_items(list(turn.items))
    session.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


# 6: listing


class _Unsynced(Disk):
    """For making many sessions quickly: nothing here is measured."""

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, fd: int) -> None:
        pass


_opened: list[str] = []
_is_counting = False


def _count_opens(event: str, arguments: tuple[object, ...]) -> None:
    if _is_counting and event == "open" and str(arguments[0]).endswith(".jsonl"):
        _opened.append(str(arguments[0]))


def listing(bench: Bench) -> list[Row]:
    global _is_counting
    count = bench.plan.sessions
    root = bench.place()
    with JsonlStore(root, disk=_Unsynced()) as store:
        for number in range(count):
            key = SessionKey("main", f"session-{number:05d}")
            store.create(key, label=f"label {number}")
            store.append(key, nth(bench, number), expect=ANY_HEAD, durability="buffered")
    paths = sorted(log_of(root).parent.glob("*.jsonl"))

    def listed() -> int:
        with JsonlStore(root) as store:
            return len(store.sessions(owner=ANY_OWNER))

    def listed_without_index() -> int:
        for name in root.glob("index.sqlite3*"):
            name.unlink()
        return listed()

    def first_lines() -> int:
        found = 0
        for path in paths:
            with path.open("rb") as file:
                found += json.loads(file.readline())["type"] == "session"
        return found

    assert listed_without_index() == listed() == first_lines() == count
    sys.addaudithook(_count_opens)
    _is_counting = True
    listed()
    _is_counting = False
    rounds = max(5, bench.plan.rounds - 2)
    what = f"list {count:,} sessions"
    naive = "open each log, parse its first line"
    opened = f"{len(_opened)} logs opened"
    again = in_turns(rounds, 1, listed, first_lines).row(f"{what}, again", naive, note=opened)
    first = in_turns(rounds, 1, listed_without_index, first_lines)
    return [
        replace(again, goal="0 logs opened", is_met=not _opened),
        first.row(f"{what}, index made anew", naive, note="reads every log whole"),
    ]


# 7: importing


def importing(bench: Bench) -> list[Row]:
    """With and without `typing_extensions`, which msgspec imports where it is installed.

    Holdfast does not need it; the peer's packages bring it into this environment.
    """
    without = "import sys; sys.modules['typing_extensions'] = None; "
    rows = []
    for name in ("holdfast", "holdfast.stores.jsonl.store"):
        for setup, where in ((without, "plain install"), ("", "with typing_extensions")):
            pair = Pair()
            for number in range(bench.plan.imports + 1):
                sides = [f"import {name}", "import json, sqlite3"]
                order = sides if number % 2 else sides[::-1]
                taken = {statement: _import_time(statement, setup) for statement in order}
                if number:
                    pair.add(taken[sides[0]], taken[sides[1]])
            rows.append(_import_row(pair, f"import {name}, {where}"))
    return rows


def _import_row(pair: Pair, what: str) -> Row:
    differences = [ours - other for ours, other in zip(pair.ours, pair.other, strict=True)]
    more = statistics.median(differences) * 1e3
    row = pair.row(what, "import json, sqlite3", note=f"{more:+.1f} ms")
    return replace(row, goal="at most 60 ms more", is_met=more <= 60.0)


def _import_time(statement: str, setup: str) -> float:
    """In a fresh interpreter, so that nothing is there already."""
    clock = "time.perf_counter()"
    code = f"import time; {setup}t = {clock}; {statement}; print({clock} - t)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


# 8: blobs


def blobs(bench: Bench) -> list[Row]:
    rng = random.Random(7)
    words = [bytes(rng.choices(b"etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(2_000)]
    text = b" ".join(rng.choices(words, k=200_000))[: 1 << 20]
    store, bare = FileBlobs(bench.place()), bench.place()
    numbers = iter(range(10**9))
    stored: list[tuple[str, Path]] = []

    def put() -> None:
        stored.append((store.put(b"%020d" % next(numbers) + text), bare))

    def write() -> None:
        data = b"%020d" % next(numbers) + text
        fd = os.open(bare / str(next(numbers)), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(fd, zstd.compress(data, 3))
            os.fsync(fd)
        finally:
            os.close(fd)

    puts = in_turns(bench.plan.rounds, 11, put, write)
    sha256, path = stored[0][0], sorted(bare.iterdir())[0]

    def get() -> int:
        return len(store.get(sha256))

    def read() -> int:
        return len(zstd.decompress(path.read_bytes()))

    assert get() == read() == len(text) + 20
    gets = in_turns(bench.plan.rounds, 21, get, read)
    return [
        puts.row(
            "put a 1 MB text as a blob", "zstd + write + fsync", note="hashed, locked, renamed"
        ),
        gets.row("get a 1 MB text", "read + zstd", note="verified before and while delivered"),
    ]


# 9: many machines


def postgres(bench: Bench) -> list[Row]:
    from benchmarks.store_postgres import compare  # needs a server, from a package

    return compare(bench)


# Reporting


def machine(folder: Path) -> dict[str, str]:
    memory = "?"
    with open("/proc/meminfo", encoding="ascii") as lines:
        memory = f"{int(lines.readline().split()[1]) / 1024**2:.0f} GiB"
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": _commit(),
        "machine": f"{os.cpu_count()} cores, {memory}, {platform.machine()}, {platform.system()} "
        f"{platform.release()}",
        "file system": _filesystem(folder),
        "python": platform.python_version(),
        "msgspec": _version("msgspec"),
        "openai-agents": _version("openai-agents"),
        "psycopg": _version("psycopg"),
        "langgraph-checkpoint-postgres": _version("langgraph-checkpoint-postgres"),
        "load": f"{os.getloadavg()[0]:.1f} processes wanted to run when it began",
    }


def _commit() -> str:
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(here), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--", "../src") else ""
    return f"{git('rev-parse', '--short', 'HEAD') or 'unknown'}{changed}"


def _filesystem(folder: Path) -> str:
    done = subprocess.run(
        ["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "?"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"


def _number(value: float) -> str:
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 100 else f"{value:.3g}"


def _cells(row: Row) -> tuple[str, ...]:
    low, high = row.spread
    spread = "" if low == high else f"{low:.2f} to {high:.2f}"
    met = {None: "", True: "yes", False: "NO"}[row.is_met]
    ours, other = (f"{_number(value)} {row.unit}" for value in (row.ours, row.other))
    return (
        *(row.what, row.other_is, ours, other, f"{row.ratio:.2f}", spread),
        *(row.goal, met, row.note),
    )


HEADINGS = ("what", "against", "ours", "other", "ratio", "spread", "goal", "met", "note")
NUMBERS = ("ours", "other", "ratio", "spread")


def show(rows: list[Row], facts: dict[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Holdfast's store, as ratios (below 1: faster or smaller than the other)")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in NUMBERS else "left")
    for row in rows:
        style = "bold red" if row.is_met is False else None
        table.add_row(*_cells(row), style=style)
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table)
    console.print("  ".join(f"{name}: {value}" for name, value in facts.items()), highlight=False)


def page(rows: list[Row], facts: dict[str, str], plan: Plan, command: str) -> str:
    """The result as Markdown, its limits first."""
    lines = [
        "# The store, measured",
        "",
        'One run on one machine: read the ratios, not the times, and read them as "about".',
        "Both sides of a row were measured in this run, in turns, on the same bytes; the ratio is "
        f"the median over {plan.rounds} rounds (5 where a round takes seconds), the spread its "
        "smallest and largest value.",
        "The page cache is warm throughout, the disk is whatever the machine has, and other work "
        "may run beside it.",
        "What else to keep in mind is in [`benchmarks/README.md`](../../benchmarks/README.md). "
        "Results that miss their goal are kept.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        f"- command: `{command}`",
        "",
        f"| {' | '.join(HEADINGS)} |",
        f"|{'|'.join('---:' if name in NUMBERS else '---' for name in HEADINGS)}|",
        *(f"| {' | '.join(_cells(row))} |" for row in rows),
        "",
        "Ratio: ours divided by the other, so below 1 means faster or smaller.",
    ]
    return "\n".join(lines) + "\n"


PARTS: dict[str, Callable[[Bench], list[Row]]] = {
    "append": appending,
    "peer": appending_beside_a_peer,
    "open": opening,
    "ask": asking,
    "replay": replaying,
    "disk": disk,
    "list": listing,
    "import": importing,
    "blobs": blobs,
    "postgres": postgres,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the large sizes")
    parser.add_argument("--json", action="store_true", help="rows as JSON on stdout")
    parser.add_argument("--write", metavar="PAGE", type=Path, help="write a page of Markdown too")
    parser.add_argument("--only", choices=sorted(PARTS), action="append", help="just this part")
    parser.add_argument("--temp", type=Path, default=None, help="where to work (about 3 GB)")
    arguments = parser.parse_args()
    plan = QUICK if arguments.quick else FULL
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=arguments.temp) as folder:
        facts = machine(Path(folder))
        for name, part in PARTS.items():
            if arguments.only and name not in arguments.only:
                continue
            print(f"{name} …", file=sys.stderr, flush=True)
            place = Path(folder, name)
            place.mkdir()
            gc.collect()
            rows.extend(part(Bench(place, plan)))
            shutil.rmtree(place)
    if arguments.json:
        print(json.dumps({"facts": facts, "rows": [asdict(row) for row in rows]}, indent=1))
    else:
        show(rows, facts)
    if arguments.write:
        command = " ".join(["python", "benchmarks/store.py", *(["--quick"] * arguments.quick)])
        arguments.write.parent.mkdir(parents=True, exist_ok=True)
        arguments.write.write_text(page(rows, facts, plan, command))


if __name__ == "__main__":
    main()
