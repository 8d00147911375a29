"""The cost of a home by the number of its sessions; beside the release before.

    python benchmarks/home.py [--sessions N]... [--src FOLDER]... [--found FILE] [--write PAGE]

Every session has eight messages and 3.5 KB, every owner ten sessions. The home is written at once,
as other programs write it. Then, in one process for each version and size: the first listing, the
newest session and the list for a model (each also as a process does that comes a minute later,
and one before which files came that the home's own list does not name),
the index of memory for all sessions, searches of one owner, and erasing that owner's ten sessions.
CPU, and bytes given to the system's `write`; nothing is measured by the wall clock. With
`--found`, figures of earlier runs are read from a file and new ones added: 20,000 sessions take
minutes, and each version and size can be measured by itself.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import random
import sqlite3
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.pages import output_of, write_table

if TYPE_CHECKING:
    from collections.abc import Callable

HERE: Final = Path(__file__).resolve().parent.parent
SIZES: Final = (10, 1_000, 20_000)
OF_AN_OWNER: Final = 10
MESSAGES: Final = 8
WORDS: Final = 55
SEARCHES: Final = 10
ROWS: Final = (
    "first listing",
    "first listing, written",
    "newest session",
    "newest session, after files came",
    "newest session, a minute later",
    "list of 20 for a model",
    "memory index of all",
    "memory index of all, written",
    "memory search",
    "erase ten sessions",
    "erase ten sessions, written",
)


def fill(root: Path, sessions: int) -> int:
    """Write a home; returns the bytes of its logs."""
    rng = random.Random(7)
    known = [f"w{number:x}" for number in range(6_000)]
    folder = root / "agents" / "main" / "sessions"
    folder.mkdir(parents=True, mode=0o700)
    size = 0
    for number in range(sessions):
        name, at = f"s{number:06d}", 1_700_000_000 + number
        lines: list[dict[str, Any]] = [
            {
                "type": "session",
                "format": "holdfast",
                "version": 1,
                "id": name,
                "agent": "main",
                "ts": at,
                "owner": f"owner-{number // OF_AN_OWNER}",
            }
        ]
        for place in range(MESSAGES):
            text = " ".join(rng.choices(known, k=WORDS)) + "."
            kind = "assistant" if place % 2 else "user"
            lines.append({"type": kind, "id": f"r{place:04d}", "ts": at + place, "content": text})
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        path = folder / f"{name}.jsonl"
        path.write_bytes(data)
        path.chmod(0o600)
        size += len(data)
    return size


def written() -> int:
    """Return the bytes that this process has given to the system to write."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("wchar")))


def spent(work: Callable[[], object]) -> tuple[float, int]:
    """Return the milliseconds of CPU and the bytes written of some work."""
    bytes_before, began = written(), time.process_time()
    work()
    return 1_000 * (time.process_time() - began), written() - bytes_before


def pass_a_minute(root: Path) -> None:
    """Make the index believe that it last looked at all files long ago."""
    with closing(sqlite3.connect(root / "index.sqlite3")) as db, db:
        db.execute("UPDATE looks SET looked = 0")


def change_folder(root: Path) -> None:
    """Leave the folder of the sessions as another program does that made a file there lately."""
    folder = root / "agents" / "main" / "sessions"
    (folder / "another.tmp").touch()
    lately = time.time() - 10
    os.utime(folder, (lately, lately))


def measure(sessions: int) -> dict[str, float]:
    """Measure a home of so many sessions with the version that is imported."""
    from holdfast import Caller, History, Memory, Session
    from holdfast.core.history.access import OPERATOR
    from holdfast.engine import erasing
    from holdfast.stores.opening import open_store

    whose: Any = "owner-0"
    with suppress(ImportError):  # the first release has plain names
        from holdfast.core.owners import NamedOwner

        whose = NamedOwner(whose)
    caller = Caller("main", None, owner=whose, visibility="agent")
    rng = random.Random(3)
    queries = [" ".join(f"w{rng.randrange(6_000):x}" for _ in range(6)) for _ in range(SEARCHES)]
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "home"
        root.mkdir(mode=0o700)
        found["bytes"] = fill(root, sessions)
        where = "root" if "root" in inspect.signature(Session.open).parameters else "store"

        def open_newest() -> None:
            options: dict[str, Any] = {where: root}
            Session.open(owner=whose, model="offline", create=False, **options).close()

        def list_for_model() -> None:
            with open_store(str(root)) as store:
                shown = History(store, caller=caller).sessions(limit=20)
                assert len(shown["sessions"]) == OF_AN_OWNER, shown

        with open_store(str(root)) as store:
            found["first listing"], found["first listing, written"] = spent(lambda: list_all(store))
            open_newest()  # loads the code, and the patterns of secrets
            list_for_model()
            found["newest session"] = spent(open_newest)[0]
            change_folder(root)
            for row in ("newest session, after files came", "newest session, a minute later"):
                pass_a_minute(root)
                found[row] = spent(open_newest)[0]
            pass_a_minute(root)
            found["list of 20 for a model"] = spent(list_for_model)[0]
            everything = Memory(store, None, caller=OPERATOR)
            found["memory index of all"], found["memory index of all, written"] = spent(
                everything.refresh
            )
            own = Memory(store, None, caller=caller)
            assert own.search(queries[0], scope="sessions"), "the owner's sessions answer"
            searching = spent(lambda: [own.search(query, scope="sessions") for query in queries])[0]
            found["memory search"] = searching / SEARCHES
            erase = getattr(erasing, "erase_owner", None)
            found["erase ten sessions"], found["erase ten sessions, written"] = spent(
                lambda: erase(store, whose) if erase else erasing.erase(store, owner=whose)
            )
            assert own.search(queries[0], scope="sessions") == []
    return found


def list_all(store: Any) -> None:
    """List the newest sessions of everybody, whatever the version calls them."""
    try:
        from holdfast.core.owners import ANY_OWNER
    except ImportError:
        assert store.sessions(limit=20)
    else:
        assert store.sessions(limit=20, owner=ANY_OWNER)


def run(source: Path, sessions: int) -> dict[str, float]:
    """Measure a version in a process of its own."""
    figures: dict[str, float] = json.loads(
        output_of(__file__, "--one", str(sessions), source=source)
    )
    return figures


def main() -> None:
    """Measure, print a table, and write the page where one is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sessions", type=int, action="append")
    parser.add_argument("--src", type=Path, action="append", default=[])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--found", type=Path)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one)))
        return
    sizes = args.sessions or SIZES
    sources = {"now": HERE / "src", **{source.parent.name: source for source in args.src}}
    found: dict[str, dict[str, float]] = {}
    if args.found and args.found.exists():
        found = json.loads(args.found.read_text())
    for size in sizes:
        for label, source in sources.items():
            if f"{label} {size}" not in found:
                found[f"{label} {size}"] = run(source, size)
                if args.found:
                    args.found.write_text(json.dumps(found))
    lines = [
        f"| sessions | version | {' | '.join(f'{size:,}' for size in sizes)} |",
        f"|---|---|{'--:|' * len(sizes)}",
    ]
    for row in ROWS:
        for label in sources:
            cells = [_shown(row, found[f"{label} {size}"]) for size in sizes]
            lines.append(f"| {row} | {label} | {' | '.join(cells)} |")
    print(*lines, sep="\n")
    if args.write:
        write_table(args.write, lines, "<!-- figures -->", "<!-- end -->")


def _shown(row: str, figures: dict[str, float]) -> str:
    if row not in figures:
        return ""  # of an earlier run
    if row.endswith("written"):
        share = figures[row] / figures["bytes"]
        return f"{figures[row] / 1e6:.1f} MB ({share:.1f} × the logs)"
    return f"{figures[row]:.1f} ms"


if __name__ == "__main__":
    main()
