"""The cost of a turn in a session that is held open, by its age; beside the release before.

    python benchmarks/turn.py [--turns N] [--src FOLDER]... [--write PAGE]

Each session has a window of 32,000 tokens, or one that is never full, and a model that answers at
once: what is measured is CPU of the library alone. `--src` adds the source of another version, as
`git worktree add FOLDER v0.1.0` lays it out. A session without tools says 60 words and hears 120;
one with tools reads three files of 200 words in each turn. Every version runs in a process of its
own, one after the other.
"""

from __future__ import annotations

import argparse
import inspect
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.pages import output_of, words, write_table

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = Path(__file__).resolve().parent.parent
STEP: Final = 200
"""Turns that a figure is the mean of."""
CASES: Final = {
    "32,000": (32_000, 0),
    "32,000, three calls": (32_000, 3),
    "never full": (2_000_000, 0),
}
NEVER_FULL_TURNS: Final = 400


def measure(name: str, turns: int) -> Iterator[float]:
    """Yield the milliseconds of CPU for each turn, for each 200 turns."""
    from holdfast import Reply, Session
    from holdfast.testing import ScriptedModel

    tokens, rounds = CASES[name]
    made = ScriptedModel(window=tokens)
    rng = random.Random(1)
    asked, spent = 0, 0.0

    class Free:
        """Answers at once, and counts a third of a token for each byte."""

        target, window = made.target, made.window

        def send(self, request: dict[str, Any], _on_delta: object = None) -> Reply:
            nonlocal asked, spent
            began = time.process_time()
            asked += 1
            usage = {"input_tokens": len(json.dumps(request)) // 3, "output_tokens": 150}
            if rounds and asked % (rounds + 1):
                given = {"path": f"src/module_{asked % 40}.py"}
                call = {"type": "tool_use", "id": f"c{asked}", "name": "read", "input": given}
                reply = Reply(content=[call], stop="tools", raw_usage=usage)
            else:
                said = {"type": "text", "text": f"Done {asked}. {words(120, rng)}"}
                reply = Reply(content=[said], stop="end", raw_usage=usage)
            spent += time.process_time() - began
            return reply

    def read(path: str) -> str:
        """Read a file."""
        return f"{path}\n{words(200, rng)}"

    options: dict[str, Any] = {"tools": [read]} if rounds else {}
    with tempfile.TemporaryDirectory() as root:
        # The first release called it `root`.
        names = inspect.signature(Session.open).parameters
        options |= {"root" if "root" in names else "store": root, "model": Free()}
        with Session.open("turns", **options) as session:
            for done in range(turns // STEP):
                spent, began = 0.0, time.process_time()
                for turn in range(STEP):
                    session.say(f"Question {done * STEP + turn}: {words(60, rng)}")
                yield 1_000 * (time.process_time() - began - spent) / STEP


def run(source: Path, name: str, turns: int) -> list[float]:
    """Measure a version in a process of its own."""
    found = output_of(__file__, "--one", name, "--turns", str(turns), source=source)
    return [float(line) for line in found.split()]


def main() -> None:
    """Measure, print a table, and write the page where one is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--turns", type=int, default=2_000)
    parser.add_argument("--src", type=Path, action="append", default=[])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--one", choices=[*CASES], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        for figure in measure(args.one, args.turns):
            print(figure, flush=True)
        return
    lines = [
        f"| window | version | turns 1 to {STEP} | the last {STEP} | growth |",
        "|---|---|--:|--:|--:|",
    ]
    print(*lines, sep="\n", flush=True)
    for name in CASES:
        turns = min(args.turns, NEVER_FULL_TURNS) if name == "never full" else args.turns
        for source in (HERE / "src", *args.src):
            label = "**now**" if source == HERE / "src" else source.parent.name
            found = run(source, name, turns)
            lines.append(
                f"| {name} | {label}, {turns:,} turns | {found[0]:.1f} ms | {found[-1]:.1f} ms "
                f"| {found[-1] / found[0]:.1f} |"
            )
            print(lines[-1], flush=True)
    if args.write:
        write_table(args.write, lines, "<!-- figures -->", "<!-- end -->")


if __name__ == "__main__":
    main()
