"""The cost of a turn in a session that is held open, by its age; beside the release before.

    python benchmarks/turn.py [--turns N] [--held N] [--src FOLDER]... [--write PAGE]

Each session has a window of 32,000 tokens, or one that is never full, and a model that answers at
once: what is measured is CPU of the library alone. A session without tools says 60 words and hears
120; one with tools reads three files of 200 words in each turn. A session that was cut before has
loaded what a turn needs: the start is measured by itself. A cut is what a turn with one costs more
than the turns around it. `--src` adds the source of another version, as `git worktree add FOLDER
v0.1.0` lays it out; `--held` is the number of turns of one long session of this version. Every
version runs in a process of its own, one after the other.
"""

from __future__ import annotations

import argparse
import inspect
import json
import random
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.pages import output_of, words, write_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE: Final = Path(__file__).resolve().parent.parent
STEP: Final = 200
"""Turns that a figure is the mean of."""
CASES: Final = {
    "32,000": (32_000, 0),
    "32,000, three calls": (32_000, 3),
    "never full": (10_000_000, 0),
}
WARM_TURNS: Final = 60
VIEWS: Final = (80, 800)
"""Messages in view, for the turns whose cost is compared."""
AROUND: Final = 10
LOGS: Final = (400, 4_000)
"""Messages of the logs that are opened, and that were never cut."""
OPENINGS: Final = 3


class Free:
    """A model that answers at once; its own CPU is not counted. A request that is smaller than the
    one before it tells of a cut."""

    def __init__(self, tokens: int, rounds: int) -> None:
        from holdfast.testing import ScriptedModel

        made = ScriptedModel(window=tokens)
        self.target, self.window = made.target, made.window
        self.rng = random.Random(1)
        self._rounds = rounds
        self._asked = self._size = 0
        self.spent = 0.0
        self.was_cut = False

    def send(self, request: dict[str, Any], _on_delta: object = None) -> Any:
        """Answer, and count a third of a token for each byte."""
        from holdfast import Reply

        began = time.process_time()
        self._asked += 1
        size = len(json.dumps(request))
        self.was_cut |= size < self._size
        self._size = size
        usage = {"input_tokens": size // 3, "output_tokens": 150}
        if self._rounds and self._asked % (self._rounds + 1):
            given = {"path": f"src/module_{self._asked % 40}.py"}
            call = {"type": "tool_use", "id": f"c{self._asked}", "name": "read", "input": given}
            reply = Reply(content=[call], stop="tools", raw_usage=usage)
        else:
            said = {"type": "text", "text": f"Done {self._asked}. {words(120, self.rng)}"}
            reply = Reply(content=[said], stop="end", raw_usage=usage)
        self.spent += time.process_time() - began
        return reply


def turns_of(name: str, turns: int) -> Iterator[tuple[float, bool]]:
    """Yield the milliseconds of CPU of each turn, and whether the request was cut in it."""
    from holdfast import Session

    tokens, rounds = CASES[name]
    model = Free(tokens, rounds)

    def read(path: str) -> str:
        """Read a file."""
        return f"{path}\n{words(200, model.rng)}"

    options: dict[str, Any] = {"tools": [read]} if rounds else {}
    with tempfile.TemporaryDirectory() as root:
        options |= {_store_option(): root, "model": model}
        with Session.open("turns", **options) as session:
            for number in range(turns):
                said = f"Question {number}: {words(60, model.rng)}"
                model.spent, model.was_cut, began = 0.0, False, time.process_time()
                session.say(said)
                yield 1_000 * (time.process_time() - began - model.spent), model.was_cut


def _store_option() -> str:
    """Return the name of the option for the folder: the first release called it `root`."""
    from holdfast import Session

    return "root" if "root" in inspect.signature(Session.open).parameters else "store"


def opening(messages: int) -> float:
    """Return the milliseconds of CPU of opening a log that was never cut, with its first turn."""
    from holdfast import Session

    rng, found = random.Random(2), []
    head = {"type": "session", "format": "holdfast", "version": 1, "id": "long", "agent": "main"}
    lines: list[dict[str, Any]] = [{**head, "ts": 1_700_000_000}]
    for place in range(messages):
        kind = "assistant" if place % 2 else "user"
        text = words(120 if place % 2 else 60, rng)
        lines.append({"type": kind, "id": f"r{place:06d}", "ts": 1_700_000_000, "content": text})
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "agents", "main", "sessions")
        folder.mkdir(parents=True)
        for number in range(OPENINGS):
            lines[0]["id"] = name = f"long{number}"
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (folder / f"{name}.jsonl").write_text(text)
            model = Free(10_000_000, 0)
            options: dict[str, Any] = {_store_option(): root, "model": model}
            began = time.process_time()
            with Session.open(name, **options) as session:
                session.say("Where were we?")
                found.append(1_000 * (time.process_time() - began - model.spent))
    return min(found)


def measure(name: str, turns: int) -> dict[str, float]:
    """Return the figures of one case, by their names on the page."""
    list(turns_of("32,000", WARM_TURNS))
    if name == "opening":
        return {f"open a log of {size:,} and say a word": opening(size) for size in LOGS}
    found = list(turns_of(name, turns))
    spent = [one for one, _was_cut in found]
    if name == "never full":
        return {
            f"view of {view} messages": statistics.median(
                spent[view // 2 - AROUND : view // 2 + AROUND]
            )
            for view in VIEWS
        }
    first, last = found[:STEP], found[-STEP:]
    return {
        f"turns 1 to {STEP}": statistics.mean(spent[:STEP]),
        f"the last {STEP} of {turns:,}": statistics.mean(spent[-STEP:]),
        f"a cut in turns 1 to {STEP}": _cost_of_cuts(first),
        f"a cut in the last {STEP}": _cost_of_cuts(last),
    }


def _cost_of_cuts(found: Sequence[tuple[float, bool]]) -> float:
    cut = [spent for spent, was_cut in found if was_cut]
    plain = [spent for spent, was_cut in found if not was_cut]
    return statistics.median(cut) - statistics.median(plain) if cut and plain else 0.0


def hold(turns: int) -> None:
    """Print the CPU of a turn and the memory of the process as a session of many turns goes on."""
    spent: list[float] = []
    for number, (one, _was_cut) in enumerate(turns_of("32,000", turns), 1):
        spent.append(one)
        if number % (turns // 5) == 0:
            resident = int(Path("/proc/self/statm").read_text().split()[1])
            megabytes = resident * resource.getpagesize() / 1e6
            print(f"{number:,}: {statistics.mean(spent):.1f} ms, {megabytes:.0f} MB", flush=True)
            spent.clear()


def main() -> None:
    """Measure, print a table, and write the page where one is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--turns", type=int, default=1_000)
    parser.add_argument("--held", type=int)
    parser.add_argument("--src", type=Path, action="append", default=[])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--one", choices=[*CASES, "opening"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one, args.turns)))
        return
    if args.held:
        hold(args.held)
        return
    sources = (HERE / "src", *args.src)
    names = ["now", *(source.parent.name for source in args.src)]
    lines = [
        f"| CPU of | {' | '.join(f'{name} | growth' for name in names)} |",
        f"|---|{'--:|--:|' * len(names)}",
    ]
    for case in (*CASES, "opening"):
        turns = VIEWS[-1] // 2 + AROUND if case == "never full" else args.turns
        found = []
        for source in sources:
            told = output_of(__file__, "--one", case, "--turns", str(turns), source=source)
            found.append(json.loads(told.splitlines()[-1]))
            print(case, source, found[-1], file=sys.stderr, flush=True)
        rows = list(found[0])
        for place, row in enumerate(rows):
            cells = []
            for figures in found:
                # Rows are in pairs: a young session or a small view, then an old or a large one.
                growth = f"{figures[row] / figures[rows[place - 1]]:.1f} ×" if place % 2 else ""
                cells += [f"{figures[row]:.1f} ms", growth]
            title = row if case in ("opening", "never full") else f"{case}: {row}"
            lines.append(f"| {title} | {' | '.join(cells)} |")
    print(*lines, sep="\n")
    if args.write:
        write_table(args.write, lines, "<!-- figures -->", "<!-- end -->")


if __name__ == "__main__":
    main()
