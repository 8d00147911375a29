"""What policies cost and what they remember, on real agent sessions replayed call by call.

    .venv/bin/python benchmarks/policies.py [--quick] [--window N] [--json] [--out PAGE]

No model is called: the sessions happened, and each policy is asked what it would have sent for
every call that was made. The line to hold is full history with a model's summary at 85 % of the
window, with the cache lifetime that is best for it in hindsight. What such numbers are worth is
said at the top of the page it writes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from multiprocessing import get_context
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast import importers
from holdfast.core.projection.policy import POLICIES
from holdfast.core.projection.sizes import Correction
from holdfast.engine.simulation.policies import (
    ClearResults,
    Compact,
    DoNothing,
    Holdfast,
    KeepTurns,
    Plays,
    TrimTokens,
)
from holdfast.engine.simulation.simulate import Run, offer_for, simulate
from holdfast.engine.simulation.transcripts import Transcript
from holdfast.models import Price, price_of
from holdfast.providers.known_models.lookup import default_price
from holdfast.tokens import counter_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).resolve().parent
CALLS_MIN = 40
MODEL = "claude-sonnet-5-5"
CHOSEN = "chosen"
"""The lifetime that a session chooses call by call, as Holdfast does."""
LOSS_MAX = 0.01
"""Of recall, below the line, for a session to count as level with it."""
LEVEL_SHARE = 0.85
"""Of the sessions that must be level."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The conditions of one comparison."""

    window: int
    static: int
    output: int | None = 0
    """Tokens kept free for a reply; None for the usual reserve."""

    @property
    def name(self) -> str:
        return f"{self.window // 1000}k window, {self.static // 1000}k static"


@dataclass(frozen=True, slots=True)
class Goals:
    """What is to be reached at one window, against the line."""

    cost: float
    """A share of the line's that would be good."""
    recall_loss: float
    """Points; the line is the whole past where it never has to summarise."""
    verbatim_loss: float


SETTINGS = {
    Setting(1_000_000, 18_000): Goals(1.0, 0.5, 1.0),
    Setting(200_000, 18_000): Goals(0.8, 0, 1.0),
    Setting(64_000, 18_000): Goals(0.75, 0, 5.0),
    Setting(32_000, 6_000): Goals(0.7, 0, 5.0),
}


@dataclass(frozen=True, slots=True)
class Result:
    """One policy over all sessions."""

    run: Run
    per_session: tuple[Run, ...]
    lifetime: str
    seconds: float


@dataclass(slots=True)
class Bench:
    """The sessions, and what has been found."""

    transcripts: list[Transcript]
    model: str
    price: Price
    jobs: int
    results: dict[tuple[Setting, str, str], Result] = field(default_factory=dict)

    @property
    def lifetimes(self) -> list[str]:
        sold = offer_for(self.model, price=self.price).lifetimes
        return [each.name for each in sold if each.request != "none"]

    def play(self, setting: Setting, policy: Plays, lifetime: str = CHOSEN) -> Result:
        key = (setting, policy.name, lifetime)
        if key not in self.results:
            start = time.perf_counter()
            runs = tuple(self._runs(setting, policy, lifetime))
            took = time.perf_counter() - start
            self.results[key] = Result(reduce(add, runs), runs, lifetime, took)
            cost = self.results[key].run.cost
            print(f"{setting.name}: {policy.name}, {lifetime}: ${cost:,.2f} in {took:.1f} s",
                  file=sys.stderr, flush=True)  # fmt: skip
        return self.results[key]

    def best(self, setting: Setting, policy: Plays) -> Result:
        """The policy with the fixed lifetime that turned out to be cheapest."""
        found = [self.play(setting, policy, lifetime) for lifetime in self.lifetimes]
        return min(found, key=lambda result: result.run.cost)

    def _runs(self, setting: Setting, policy: Plays, lifetime: str) -> Iterator[Run]:
        work = [
            (index, setting, policy, self.model, self.price, lifetime)
            for index in range(len(self.transcripts))
        ]
        if self.jobs == 1:
            yield from map(_play_one, work)
            return
        with ProcessPoolExecutor(self.jobs, mp_context=get_context("fork")) as pool:
            yield from pool.map(_play_one, work)


_SHARED: list[Transcript] = []
"""The sessions, where forked workers find them."""


def _play_one(work: tuple[int, Setting, Plays, str, Price, str]) -> Run:
    index, setting, policy, model, price, lifetime = work
    offer = offer_for(model, price=price)
    if lifetime != CHOSEN:
        only = tuple(each for each in offer.lifetimes if each.name == lifetime)
        offer = msgspec.structs.replace(offer, lifetimes=only)
    return simulate(
        _SHARED[index],
        policy,
        window=setting.window,
        static=setting.static,
        output=setting.output,
        price=price,
        offer=offer,
    )


# The sessions


def data_folders(given: str | None, agents: list[str]) -> list[Path]:
    """Where the transcripts are: `agents/NAME` below it."""
    root = Path(given or os.environ.get("HOLDFAST_DATA") or HERE / "../../shared/data")
    return [root.resolve() / "agents" / agent for agent in agents]


def read_sessions(
    folders: list[Path], factor: float, per_result: float, calls_min: int = CALLS_MIN
) -> list[tuple[str, Transcript]]:
    """Every session with enough calls; of growing snapshots of one session, the longest."""
    found: dict[str, tuple[str, Transcript]] = {}
    paths = [path for folder in folders for path in sorted(folder.rglob("*.json*"))]
    for path in paths:
        if "subagents" in path.parts:
            continue
        for session in importers.read_transcript(path.read_bytes(), path.name):
            transcript = Transcript(
                session.records, counter_for("claude"), correction=Correction(factor, per_result)
            )
            if len(transcript.calls) < calls_min:
                continue
            first = session.records[0].id or f"{path} {session.name}"
            if first not in found or len(found[first][1].calls) < len(transcript.calls):
                found[first] = (session.name, transcript)
    return sorted(found.values(), key=lambda one: one[0])


def set_aside(found: list[tuple[str, Transcript]]) -> list[tuple[str, Transcript]]:
    """The sessions on which nothing was tuned: every third was used for thresholds, and for the
    weights of a cut those of one half (`half_of` in story.py)."""
    return [
        (name, one)
        for place, (name, one) in enumerate(found, 1)
        if place % 3 and int(name[:8], 16) // 16 % 2
    ]


# The comparisons


def ours(name: str = "balanced") -> Holdfast:
    return Holdfast(POLICIES[name], name=f"holdfast, {name}")


def others() -> list[Plays]:
    return [DoNothing(), KeepTurns(20, "steps"), TrimTokens(), ClearResults()]


@dataclass(frozen=True, slots=True)
class Check:
    """One goal, what was found, and whether it was met."""

    where: str
    what: str
    goal: str
    found: str
    is_met: bool


def checks(bench: Bench, setting: Setting, goals: Goals) -> list[Check]:
    line, mine = bench.best(setting, Compact()), bench.play(setting, ours())
    said, kept = line.run.recall, mine.run.recall
    least, far = said.pooled_share - goals.recall_loss / 100, said.far_share
    far -= goals.recall_loss / 100 if not line.run.cuts else 0
    verbatim = 100 * (said.verbatim_share - kept.verbatim_share)
    level = level_sessions(mine, line) / len(bench.transcripts)
    ratio = mine.run.cost / line.run.cost
    rows = [
        ("recall", f"≥ {least:.2%}", f"{kept.pooled_share:.2%}", kept.pooled_share >= least),
        ("far recall", f"≥ {far:.2%}", f"{kept.far_share:.2%}", kept.far_share >= far),
        ("sessions with recall within a point of the line", f"≥ {LEVEL_SHARE:.0%}",
         f"{level:.0%}", level >= LEVEL_SHARE),
        ("verbatim recall lost", f"≤ {goals.verbatim_loss:g} points", f"{verbatim:+.2f} points",
         verbatim <= goals.verbatim_loss),
        ("cost, as a share of the line's", f"≤ {goals.cost:.2f}", f"{ratio:.3f}",
         ratio <= goals.cost),
        ("requests over the window", "≤ the line's", f"{mine.run.overflows}",
         mine.run.overflows <= line.run.overflows),
        ("requests a provider would refuse", "0", f"{mine.run.invalid}", not mine.run.invalid),
    ]  # fmt: skip
    return [Check(setting.name, *row) for row in rows]


def level_sessions(mine: Result, line: Result) -> int:
    """Count the sessions whose recall is at most a point below the line's."""
    pairs = zip(mine.per_session, line.per_session, strict=True)
    return sum(
        one.recall.pooled_share >= other.recall.pooled_share - LOSS_MAX for one, other in pairs
    )


# Showing

COLUMNS = (
    *("policy", "lifetime", "cost", "to the line", "sent", "cuts", "prunes"),
    *("recall", "far", "verbatim", "level sessions", "messages", "words", "overflows", "invalid"),
)


def row(name: str, result: Result, line: Result) -> list[str]:
    run, recall = result.run, result.run.recall
    return [
        name,
        result.lifetime,
        f"${run.cost:,.2f}",
        f"{run.cost / line.run.cost:.3f}",
        f"{run.tokens_sent / 1e6:,.1f} M",
        *(f"{run.cuts:,}", f"{run.prunes:,}"),
        *(f"{recall.pooled_share:.2%}", f"{recall.far_share:.1%}", f"{recall.verbatim_share:.2%}"),
        f"{level_sessions(result, line)} of {len(line.per_session)}",
        *(f"{run.messages_share:.1%}", f"{run.words_share:.1%}"),
        *(f"{run.overflows:,}", f"{run.invalid:,}"),
    ]


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(columns)} |", "|---" + "|---:" * (len(columns) - 1) + "|"]
    return [*lines, *(f"| {' | '.join(cells)} |" for cells in rows), ""]


INTRO = """# Policies, measured

{sessions} real Claude Code sessions with {calls_min} calls or more ({calls:,} calls, {uses:,} uses of something that had come up before, {far:.1%} of them far), replayed call by call.
No model is called: for each call that was really made, each policy says what it would have sent.

**Read this first.**
The sessions are of two teams, one agent and mostly one programming language; another agent's sessions will differ.
An agent that saw less might have acted differently, read a file again for example; a replay cannot show that.
What a call used is judged by the names in its arguments (paths, symbols, ids, numbers, quoted strings), so recall sees exact names and no gist.
Differences of a few tenths of a point or of one per cent are within what moving a cut by one call does.
Goals that are missed are in the table.

## How it is counted

- **The line**: full history; at 85 % of the window a model writes a summary of 4,000 tokens, and the last 20k tokens stay (40 % of the budget where that is less). It has the fixed cache lifetime that is cheapest for all sessions in hindsight. The summary call rides the cached prefix: it pays cache reads, and its output at the output price. A summary holds 25 % of the facts it replaces, the same ones each time; real summaries of such sessions held 19 to 28 %.
- **Ours**: the named policies; the lifetime is *chosen* call by call from the pauses so far, as a session does.
- **Tokens**: exact o200k counts × {factor:g}, and {per_result:g} for each tool result, which is about what Claude charges for these sessions. The static part (system prompt and tools) is a parameter. In the first tables no tokens are kept free for a reply, for the line and for us; *usual reserve* keeps min(20k, a quarter of the window) free.
- **Cost**: input only, and the model calls that a policy makes for itself, with the list price of {model} ({price}). What the agent's own replies cost is the same for all.
- **Cache**: prefixes by block, 4 marks, a look-back of 20 blocks, at least 1,024 tokens, lifetime from the last use, gaps as the transcripts have them.
- **Recall**: of the facts that calls used and that had come up before, the share in the request; *far*: last seen more than 10 steps before; *verbatim*: in an original message; *level sessions*: recall at most a point below the line's. *Messages* and *words* are the user's, over all requests.
- **History**: what the sources really compacted is put back; the log keeps everything, so a replay can start from everything.
- **With the product alone**, in a folder that has such transcripts: `holdfast simulate claude-code --calls 40 --window 200k --static 18k --output 0 --model claude-sonnet-5-5 --cache auto --policy compact,holdfast`; `--cache 1h` is the line's lifetime.
"""  # noqa: E501


def page(bench: Bench, facts: dict[str, str], options: argparse.Namespace) -> str:
    uses = [use for one in bench.transcripts for call in one.calls for use in call.uses]
    lines = [
        INTRO.format(
            sessions=len(bench.transcripts),
            calls_min=options.calls,
            calls=sum(len(one.calls) for one in bench.transcripts),
            uses=len(uses),
            far=sum(use.is_far for use in uses) / len(uses),
            factor=options.factor,
            per_result=options.per_result,
            model=options.model,
            price=bench.price.note,
        )
    ]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    lines += ["", "## Goals", "", "`balanced`, the default, against the line.", ""]
    asked = settings(options)
    found = [check for setting, goals in asked for check in checks(bench, setting, goals)]
    lines += table(
        ("where", "what", "goal", "found", "met"),
        [(c.where, c.what, c.goal, c.found, "yes" if c.is_met else "**no**") for c in found],
    )
    for setting, _goals in asked:
        lines += _section(bench, setting, quick=options.quick)
    return "\n".join(lines).rstrip() + "\n"


def _section(bench: Bench, setting: Setting, *, quick: bool) -> list[str]:
    line = bench.best(setting, Compact())
    rows = [
        row("summary at 85 % (the line)" if one is line else "summary at 85 %", one, line)
        for one in (bench.play(setting, Compact(), each) for each in bench.lifetimes)
    ]
    rows += [row(one.name, bench.best(setting, one), line) for one in others()]
    names = ("balanced",) if quick else ("thrifty", "balanced", "faithful")
    played = {name: bench.play(setting, ours(name)) for name in names}
    rows += [row(result.run.policy, result, line) for result in played.values()]
    lines = [f"## {setting.window:,} tokens, {setting.static:,} static", ""]
    lines += table(COLUMNS, rows)
    pairs = zip(played["balanced"].per_session, line.per_session, strict=True)
    ratios = sorted(mine.cost / other.cost for mine, other in pairs)
    lines += [
        f"By session, `balanced` costs {ratios[0]:.2f} to {ratios[-1]:.2f} of the line, "
        f"{statistics.median(ratios):.2f} in the median.",
        "",
    ]
    if quick:
        return lines
    reserved = Setting(setting.window, setting.static, None)
    line = bench.best(reserved, Compact())
    rows = [row("summary at 85 %", line, line)]
    rows.append(row(ours().name, bench.play(reserved, ours()), line))
    return [*lines, "With the usual reserve for a reply:", "", *table(COLUMNS, rows)]


def settings(options: argparse.Namespace) -> list[tuple[Setting, Goals]]:
    return [
        (setting, goals)
        for setting, goals in SETTINGS.items()
        if not options.window or setting.window in options.window
    ]


def machine(options: argparse.Namespace) -> dict[str, str]:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--", "../src") else ""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": f"{git('rev-parse', '--short', 'HEAD') or 'unknown'}{changed}",
        "python": platform.python_version(),
        "counter": counter_for("claude").name,
        "command": f"`python benchmarks/policies.py {' '.join(options.given)}`".replace(" `", "`"),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with `agents/…` (or HOLDFAST_DATA)")
    parser.add_argument(
        "--agent",
        action="append",
        help="whose sessions, a folder in `agents`; repeat (claude-code)",
    )
    parser.add_argument("--calls", type=int, default=CALLS_MIN, help="leave out shorter sessions")
    parser.add_argument("--every", type=int, default=1, help="only every Nth session, by name")
    parser.add_argument(
        "--aside", action="store_true", help="only sessions on which nothing was tuned"
    )
    parser.add_argument("--window", type=int, action="append", help="only this window; repeat")
    parser.add_argument("--model", default=MODEL, help="whose prices and lifetimes are used")
    parser.add_argument("--factor", type=float, default=1.12, help="Claude tokens to an o200k one")
    parser.add_argument("--per-result", type=float, default=80.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="the default policy alone")
    parser.add_argument("--json", action="store_true", help="print every run as JSON")
    parser.add_argument("--out", "--write", dest="out", type=Path, help="write the page here")
    options = parser.parse_args()
    options.given = [one for one in sys.argv[1:] if one != "--json"]
    return options


def main() -> int:
    options = _arguments()
    folders = data_folders(options.data, options.agent or ["claude-code"])
    for folder in folders:
        if not folder.is_dir():
            print(f"no transcripts at {folder}: give --data or set HOLDFAST_DATA", file=sys.stderr)
            return 2
    found = read_sessions(folders, options.factor, options.per_result, options.calls)
    if options.aside:
        found = set_aside(found)
    found = found[options.every - 1 :: options.every]
    if not found:
        print(f"no session with {options.calls} calls or more there", file=sys.stderr)
        return 2
    price = price_of(options.model) or default_price()
    bench = Bench([one for _name, one in found], options.model, price, options.jobs)
    _SHARED.extend(bench.transcripts)
    text = page(bench, machine(options), options)
    if options.json:
        runs = [
            {
                "setting": setting.name,
                "output": setting.output,
                "policy": name,
                "lifetime": lifetime,
                "cost": result.run.cost,
                "recall": result.run.recall.pooled_share,
                "far": result.run.recall.far_share,
                "verbatim": result.run.recall.verbatim_share,
                "messages": result.run.messages_share,
                "words": result.run.words_share,
                "overflows": result.run.overflows,
                "invalid": result.run.invalid,
            }
            for (setting, name, lifetime), result in bench.results.items()
        ]
        print(json.dumps(runs, indent=1))
    elif options.out is None:
        print(text)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
