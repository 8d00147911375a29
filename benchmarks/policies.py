"""What policies cost and what they remember, on real agent sessions replayed call by call.

    .venv/bin/python benchmarks/policies.py [--quick] [--half tune|judge] [--json] [--out PAGE]

No model is called: the sessions happened, and each policy is asked what it would have sent for
every call that was made. What such numbers are worth is said at the top of the page it writes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from multiprocessing import get_context
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast import Policy, importers
from holdfast.context import POLICIES, Correction
from holdfast.models import DEFAULT_MODEL, Price, default_price, price_of
from holdfast.simulation import (
    ClearResults,
    Compact,
    DoNothing,
    Holdfast,
    KeepTurns,
    Plays,
    Run,
    Transcript,
    TrimTokens,
    rules_for,
    simulate,
)
from holdfast.tokens import counter_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.foresight import Foresight

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).resolve().parent
CALLS_MIN = 40
SHARE_CALLS_MIN = 50
"""The cache-read share is the median over sessions with so many calls."""
BASELINE = "compact with a summary"
OURS = "holdfast"
MINUTES, HOUR, ALWAYS = 300.0, 3_600.0, None
TIMES = {MINUTES: "5 minutes", HOUR: "1 hour", ALWAYS: "always warm"}


@dataclass(frozen=True, slots=True)
class Setting:
    """The conditions of one comparison."""

    window: int
    static: int
    ttl: float | None = MINUTES
    output: int | None = 0
    marks: int = 4
    look_back: int = 20
    minimum: int = 1_024

    @property
    def name(self) -> str:
        return f"{self.window // 1000}k window, {self.static // 1000}k static, {TIMES[self.ttl]}"


@dataclass(frozen=True, slots=True)
class Goals:
    """What is to be reached at one window; shares in per cent, recall in points."""

    cheaper: float
    recall: float
    """At least; 0 where the baseline's is the goal."""
    verbatim_loss: float
    """With the usual output reserve."""
    read_share: float


SETTINGS = {
    Setting(1_000_000, 18_000): Goals(0, 0, 1.0, 95),
    Setting(200_000, 18_000): Goals(20, 0, 1.0, 95),
    Setting(64_000, 18_000): Goals(25, 0, 5.0, 92),
    Setting(32_000, 6_000): Goals(30, 0, 5.0, 87),
}
DEARER = 1.02
"""A session that costs more than this share of the baseline counts as dearer."""


@dataclass(frozen=True, slots=True)
class Result:
    """One policy over all sessions."""

    run: Run
    read_share: float
    """The median."""
    per_session: tuple[Run, ...]
    seconds: float


@dataclass(slots=True)
class Bench:
    """The sessions, and what has been found."""

    names: list[str]
    transcripts: list[Transcript]
    price: Price
    jobs: int
    results: dict[tuple[Setting, str], Result] = field(default_factory=dict)

    def play(self, setting: Setting, policy: Plays, label: str = "") -> Result:
        key = (setting, label or policy.name)
        if key not in self.results:
            start = time.perf_counter()
            runs = list(self._runs(setting, policy))
            shares = [
                run.read_share
                for run, transcript in zip(runs, self.transcripts, strict=True)
                if len(transcript.calls) >= SHARE_CALLS_MIN
            ]
            self.results[key] = Result(
                reduce(add, runs),
                statistics.median(shares) if shares else 0.0,
                tuple(runs),
                time.perf_counter() - start,
            )
            print(_line(key[1], setting, self.results[key]), file=sys.stderr, flush=True)
        return self.results[key]

    def _runs(self, setting: Setting, policy: Plays) -> Iterator[Run]:
        work = [(index, setting, policy, self.price) for index in range(len(self.transcripts))]
        if self.jobs == 1:
            yield from map(_play_one, work)
            return
        with ProcessPoolExecutor(self.jobs, mp_context=get_context("fork")) as pool:
            yield from pool.map(_play_one, work)


_SHARED: list[Transcript] = []
"""The sessions, where forked workers find them."""


def _play_one(work: tuple[int, Setting, Plays, Price]) -> Run:
    index, setting, policy, price = work
    rules = rules_for(price, setting.ttl)
    rules = type(rules)(
        ttl_seconds=rules.ttl_seconds,
        read=rules.read,
        write=rules.write,
        marks=setting.marks,
        look_back=setting.look_back,
        minimum_tokens=setting.minimum,
    )
    return simulate(
        _SHARED[index],
        policy,
        window=setting.window,
        static=setting.static,
        output=setting.output,
        rules=rules,
        price=price,
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
        for session in importers.read(path.read_bytes(), path.name):
            transcript = Transcript(
                session.records, counter_for("claude"), correction=Correction(factor, per_result)
            )
            if len(transcript.calls) < calls_min:
                continue
            first = session.records[0].id or f"{path} {session.name}"
            if first not in found or len(found[first][1].calls) < len(transcript.calls):
                found[first] = (session.name, transcript)
    return sorted(found.values(), key=lambda one: one[0])


# The comparisons


def half_of(name: str) -> str:
    """Return whether settings were chosen on a session (`tune`) or only judged on it (`judge`)."""
    is_odd = hashlib.blake2b(name.encode(), digest_size=4).digest()[0] % 2
    return "judge" if is_odd else "tune"


def others() -> list[Plays]:
    return [
        Compact(),
        DoNothing(),
        KeepTurns(20),
        KeepTurns(20, "steps"),
        TrimTokens(),
        ClearResults(),
    ]


VARIANTS_ABOVE = 64_000
"""Variants are replayed in larger windows alone: each takes a minute."""


def variants() -> dict[str, Policy]:
    """Other settings of ours, and what each takes away."""
    return {
        "never prune because it is cold": Policy(cold_prune=1.0),
        "results shortened late (after 8 steps)": Policy(quiet_steps=8),
        "cut less (keep 0.7)": Policy(keep=0.7),
        "cut early (at 0.75)": Policy(compact=0.75),
    }


def frontier() -> dict[str, Policy]:
    """The named policies, from dear to cheap."""
    return {
        "faithful": POLICIES["faithful"],
        "balanced, as it is": POLICIES["balanced"],
        "thrifty": POLICIES["thrifty"],
    }


RESERVE = "output reserve of min(20k, a quarter)"
UNREPORTED = "replies report no usage"


def sensitivities(setting: Setting) -> dict[str, tuple[Setting, Compact]]:
    """The same comparison under other assumptions."""
    plain = Compact()
    return {
        "as in the tables": (setting, plain),
        RESERVE: (replace(setting, output=None), plain),
        UNREPORTED: (setting, plain),
        "the summary's output is free": (setting, Compact(pays_output=False)),
        "summaries hold 19 %": (setting, Compact(holds=0.19)),
        "summaries hold 28 %": (setting, Compact(holds=0.28)),
        "summaries hold 50 %": (setting, Compact(holds=0.5)),
        "static part twice as large": (replace(setting, static=2 * setting.static), plain),
    }


@dataclass(frozen=True, slots=True)
class Check:
    """One goal, what was found, and whether it was met."""

    where: str
    what: str
    goal: str
    found: str
    is_met: bool


def checks(bench: Bench, setting: Setting, goals: Goals) -> list[Check]:
    base = bench.play(setting, Compact())
    ours = bench.play(setting, Holdfast())
    trim = bench.play(setting, TrimTokens())
    mine, theirs = ours.run.recall, base.run.recall
    where = setting.name
    reserved = replace(setting, output=None)
    least = max(goals.recall / 100, theirs.pooled_share)
    cheaper = -_change(ours, base)
    lost = 100 * (
        bench.play(reserved, Compact()).run.recall.verbatim_share
        - bench.play(reserved, Holdfast()).run.recall.verbatim_share
    )
    found = [
        Check(where, "cheaper than the baseline", f"≥ {goals.cheaper:g} %",
              f"{cheaper:.1f} %", cheaper >= goals.cheaper),
        Check(where, "pooled recall", f"≥ {least:.2%}",
              f"{mine.pooled_share:.2%}", mine.pooled_share >= least),
        Check(where, "far recall", f"≥ {theirs.far_share:.2%}",
              f"{mine.far_share:.2%}", mine.far_share >= theirs.far_share),
        Check(where, "verbatim recall lost, usual output reserve",
              f"≤ {goals.verbatim_loss:g} points", f"{lost:.2f} points",
              lost <= goals.verbatim_loss),
        Check(where, "user's messages in view", "≥ 90 %",
              f"{ours.run.messages_share:.1%}", ours.run.messages_share >= 0.9),
        Check(where, "user's words in view", "≥ 90 %",
              f"{ours.run.words_share:.1%}", ours.run.words_share >= 0.9),
        Check(where, "overflows", f"≤ {base.run.overflows}",
              f"{ours.run.overflows}", ours.run.overflows <= base.run.overflows),
        Check(where, "cheaper than trimming at every call", "≥ 50 %",
              f"{-_change(ours, trim):.1f} %", -_change(ours, trim) >= 50),
        Check(where, "cache-read share, median", f"≥ {goals.read_share:g} %",
              f"{ours.read_share:.1%}", ours.read_share >= goals.read_share / 100),
    ]  # fmt: skip
    for ttl in (HOUR, ALWAYS):
        warmer = replace(setting, ttl=ttl)
        dearer = _change(bench.play(warmer, Holdfast()), bench.play(warmer, Compact()))
        found.append(
            Check(warmer.name, "dearer than the baseline", "≤ 2 %", f"{dearer:+.1f} %", dearer <= 2)
        )
    for ttl in TIMES:
        at = replace(setting, ttl=ttl)
        ratios = _session_ratios(bench.play(at, Holdfast()), bench.play(at, Compact()))
        count = sum(ratio > DEARER for ratio in ratios)
        found.append(
            Check(at.name, f"sessions that cost more than {DEARER:g} of the baseline", "0",
                  f"{count} (worst {ratios[-1]:.3f})", not count)
        )  # fmt: skip
    return found


def _session_ratios(ours: Result, base: Result) -> list[float]:
    """The cost of each session as a share of the baseline's, the cheapest first."""
    pairs = zip(ours.per_session, base.per_session, strict=True)
    return sorted(mine.cost / theirs.cost for mine, theirs in pairs)


def _change(ours: Result, other: Result) -> float:
    """In per cent; negative is cheaper."""
    return 100 * (ours.run.cost / other.run.cost - 1)


# Showing


def _line(name: str, setting: Setting, result: Result) -> str:
    run = result.run
    return f"{setting.name}: {name}: ${run.cost:,.2f} in {result.seconds:.1f} s"


COLUMNS = (
    *("policy", "cost", "to baseline", "sent", "read share", "breaks", "cuts", "prunes"),
    *("recall", "far", "verbatim", "messages", "words", "overflows", "invalid"),
)


def row(name: str, result: Result, base: Result) -> list[str]:
    run, recall = result.run, result.run.recall
    return [
        name,
        f"${run.cost:,.2f}",
        f"{_change(result, base):+.1f} %",
        f"{run.tokens_sent / 1e6:,.1f} M",
        f"{result.read_share:.1%}",
        *(f"{run.breaks:,}", f"{run.cuts:,}", f"{run.prunes:,}"),
        *(f"{recall.pooled_share:.1%}", f"{recall.far_share:.1%}", f"{recall.verbatim_share:.1%}"),
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
A list of names can be long on recall and short on sense: *verbatim* counts only what stands in a message as it was said or found.
Differences of a few tenths of a point or of one per cent are within what moving a cut by one call does.
Results that miss their goal are kept, and so are the ideas that lost.

## How it is counted

- **Tokens**: exact o200k counts × {factor:g}, and {per_result:g} for each tool result, which is about what Claude charges for these sessions. The static part (system prompt and tools) is a parameter.
- **Budget**: for the other policies 0.9 × (window − output − static − 8 % of the window). In the tables the output is 0, which leaves the most room for history and is the harder case at the smaller windows; the usual reserve is among the other assumptions.
- **Cost**: input only, and the model calls that a policy makes for itself, with the list price of {model} ({price}). What the agent's own replies cost is the same for all.
- **Cache**: prefixes by block, {marks} marks (end, static part, end of the request before, end of the opening), a look-back of {look_back} blocks, at least {minimum:,} tokens, lifetime from the last use, gaps as the transcripts have them. A *break* is a change of a prefix that was still warm.
- **Usage**: every reply reports the size of its request, as providers do, and Holdfast's budget is then 0.97 instead of 0.9 of what is left; until 18 November the replay reported none. That is among the other assumptions.
- **Baseline**: full history; at 85 % of the window, a 4,000-token summary and the last 20k tokens (40 % of the budget where that is less). The summary call rides the cached prefix: it pays cache reads, and its output at the output price.
- **Summaries**: a summary holds 25 % of the facts it replaces, the same ones each time. Real summaries of such sessions held 19 to 28 % of the facts that later calls used, those in these sessions 19 to 23 %.
- **Recall**: of the facts that calls used and that had come up before, the share in the request; *far*: last seen more than 10 steps before; *verbatim*: in an original message. *Messages* and *words* are the user's, over all requests: whole messages, and characters.
- **History**: what the sources really compacted is put back; the log keeps everything, so a replay can start from everything.
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
            marks=options.marks,
            look_back=options.look_back,
            minimum=options.minimum,
        )
    ]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    lines += ["", "## Goals", ""]
    found = [
        check for setting, goals in settings(options) for check in checks(bench, setting, goals)
    ]
    lines += table(
        ("where", "what", "goal", "found", "met"),
        [(c.where, c.what, c.goal, c.found, "yes" if c.is_met else "**no**") for c in found],
    )
    for setting, _goals in settings(options):
        lines += _section_of(bench, setting)
    if not options.quick:
        lines += _sensitivity_section(bench, options)
        lines += _frontier_section(bench, options)
        lines += _variant_section(bench, options)
    return "\n".join(lines).rstrip() + "\n"


def _section_of(bench: Bench, setting: Setting) -> list[str]:
    lines = [f"## {setting.window:,} tokens, {setting.static:,} static", ""]
    for ttl in TIMES:
        at = replace(setting, ttl=ttl)
        base = bench.play(at, Compact())
        policies: list[Plays] = others() if ttl == MINUTES else [Compact(), TrimTokens()]
        rows = [row(one.name, bench.play(at, one), base) for one in (*policies, Holdfast())]
        lines += [f"### Cache of {TIMES[ttl]}", "", *table(COLUMNS, rows)]
    rows = []
    for ttl in TIMES:
        at = replace(setting, ttl=ttl)
        ratios = _session_ratios(bench.play(at, Holdfast()), bench.play(at, Compact()))
        dearer = [ratio for ratio in ratios if ratio > DEARER]
        middle = statistics.median(ratios)
        cells = (f"{ratios[0]:.3f}", f"{middle:.3f}", f"{ratios[-1]:.3f}")
        rows.append([TIMES[ttl], *cells, f"{len(dearer)} of {len(ratios)}"])
    columns = ("cache", "cheapest", "median", "dearest", f"above {DEARER:g}")
    lines += ["### By session, cost to the baseline's", "", *table(columns, rows)]
    return [*lines, *_halves(bench, setting)]


def _halves(bench: Bench, setting: Setting) -> list[str]:
    """The sessions that settings were chosen on, and the others."""
    rows = []
    for name, at in (("tables", setting), ("usual reserve", replace(setting, output=None))):
        ours, base = bench.play(at, Holdfast()), bench.play(at, Compact())
        for half in ("tune", "judge"):
            places = [place for place, one in enumerate(bench.names) if half_of(one) == half]
            if not places:
                continue
            mine = reduce(add, (ours.per_session[place] for place in places))
            theirs = reduce(add, (base.per_session[place] for place in places))
            rows.append(
                [
                    f"{name}, {half} ({len(places)} sessions)",
                    f"{mine.cost / theirs.cost:.3f}",
                    f"{mine.recall.pooled_share:.2%}",
                    _points(mine.recall.pooled_share, theirs.recall.pooled_share),
                    _points(mine.recall.verbatim_share, theirs.recall.verbatim_share),
                ]
            )
    columns = ("sessions", "cost to baseline", "recall", "recall to baseline", "verbatim")
    return ["### By half, 5 minutes", "", *table(columns, rows)]


def _sensitivity_section(bench: Bench, options: argparse.Namespace) -> list[str]:
    lines = ["## Under other assumptions", "", "Ours against the baseline, cache of 5 minutes.", ""]
    columns = ("assumption", "cheaper", "recall", "far", "verbatim", "read share", "overflows")
    for setting, _goals in settings(options):
        rows = []
        for name, (at, compact) in sensitivities(setting).items():
            label = f"{BASELINE}: {name}"
            base = bench.play(at, compact, label)
            if name != UNREPORTED and at in (setting, replace(setting, output=None)):
                ours = bench.play(at, Holdfast())
            else:
                plays = Holdfast(is_judged=False, reports_usage=name != UNREPORTED)
                ours = bench.play(at, plays, f"{OURS}: {name}")
            mine, theirs = ours.run.recall, base.run.recall
            rows.append(
                [
                    name,
                    f"{-_change(ours, base):.1f} %",
                    *(_points(mine.pooled_share, theirs.pooled_share),),
                    *(_points(mine.far_share, theirs.far_share),),
                    *(_points(mine.verbatim_share, theirs.verbatim_share),),
                    f"{ours.read_share:.1%}",
                    f"{ours.run.overflows} / {base.run.overflows}",
                ]
            )
        lines += [f"### {setting.window:,} tokens", "", *table(columns, rows)]
    return lines


def _points(mine: float, theirs: float) -> str:
    return f"{100 * (mine - theirs):+.1f}"


def _variant_section(bench: Bench, options: argparse.Namespace) -> list[str]:
    lines = [
        "## What each part is worth, and what lost",
        "",
        "Holdfast with one thing changed, cache of 5 minutes, against the same baseline. "
        "Whether a provider would take each request was not looked at again.",
        "",
    ]
    for setting, _goals in settings(options):
        if setting.window <= VARIANTS_ABOVE:
            continue
        base = bench.play(setting, Compact())
        rows = [row("as it is", bench.play(setting, Holdfast()), base)]
        for name, policy in variants().items():
            plays = Holdfast(policy, is_judged=False)
            rows.append([*row(name, bench.play(setting, plays, name), base)[:-1], "–"])
        lines += [f"### {setting.window:,} tokens", "", *table(COLUMNS, rows)]
    return lines


FRONTIER = """## What a lower price costs

Settings for the largest window, the usual output reserve, cache of 5 minutes. *Incomplete* are calls that used something which stood in no message as it was said: an agent may have to read it again.
*Priced* adds what that costs at worst, one more call for each, with 3,000 tokens that are read and 200 that are written. *Foresight* keeps what the next 40 calls will use, whatever it is: no policy can know that, so it bounds what a better choice at the same size could bring.

"""  # noqa: E501
AGAIN_TOKENS, AGAIN_REPLY = 3_000, 200


def _frontier_section(bench: Bench, options: argparse.Namespace) -> list[str]:
    setting = max((setting for setting, _goals in settings(options)), key=lambda one: one.window)
    setting = replace(setting, output=None)
    base = bench.play(setting, Compact())
    played: dict[str, Plays] = {BASELINE: Compact()}
    played |= {
        name: Holdfast() if policy == Policy() else Holdfast(policy, is_judged=False)
        for name, policy in frontier().items()
    }
    played |= {f"foresight, {keep:,} tokens kept": Foresight(keep) for keep in (16_000, 24_000)}
    rows = []
    for name, policy in played.items():
        found = bench.play(setting, policy, "" if policy in (Compact(), Holdfast()) else name)
        mine, theirs = _priced(found.run, bench.price), _priced(base.run, bench.price)
        rows.append(
            [
                name,
                f"{found.run.cost / base.run.cost:.3f}",
                "–" if isinstance(policy, Foresight) else f"{found.run.recall.pooled_share:.2%}",
                _points(found.run.recall.verbatim_share, base.run.recall.verbatim_share),
                f"{found.run.recall.incomplete:,}",
                f"{mine / theirs:.3f}",
            ]
        )
    columns = ("policy", "cost to baseline", "recall", "verbatim", "incomplete", "priced")
    return [FRONTIER, *table(columns, rows)]


def _priced(run: Run, price: Price) -> float:
    """The cost of a run, and of one more call for each that was incomplete."""
    read = run.tokens_sent / run.requests * price.cache_read
    again = read + AGAIN_TOKENS * price.cache_write + AGAIN_REPLY * price.output
    return run.cost + run.recall.incomplete * again / 1_000_000


def settings(options: argparse.Namespace) -> list[tuple[Setting, Goals]]:
    return [
        (
            replace(
                setting,
                static=options.static if options.static is not None else setting.static,
                output=options.output,
                marks=options.marks,
                look_back=options.look_back,
                minimum=options.minimum,
            ),
            goals,
        )
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
    parser.add_argument("--window", type=int, action="append", help="only this window; repeat")
    parser.add_argument("--static", type=int, help="tokens of system prompt and tools, everywhere")
    parser.add_argument(
        "--output", default=0, type=lambda text: None if text == "default" else int(text),
        help="tokens kept free for a reply, or `default` for the product's reserve",
    )  # fmt: skip
    parser.add_argument("--model", default=DEFAULT_MODEL, help="whose list price is used")
    parser.add_argument(
        "--price", type=float, nargs=4, metavar=("INPUT", "OUTPUT", "READ", "WRITE"),
        help="dollars for a million tokens instead",
    )  # fmt: skip
    parser.add_argument("--marks", type=int, default=4)
    parser.add_argument("--look-back", type=int, default=20)
    parser.add_argument("--minimum", type=int, default=1_024, help="smallest cached prefix")
    parser.add_argument("--factor", type=float, default=1.12, help="Claude tokens to an o200k one")
    parser.add_argument("--per-result", type=float, default=80.0)
    parser.add_argument("--half", choices=("tune", "judge"), help="only these sessions")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="without assumptions and variants")
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
    sessions = [
        (name, one)
        for name, one in read_sessions(folders, options.factor, options.per_result, options.calls)
        if options.half in (None, half_of(name))
    ]
    if not sessions:
        print(f"no session with {options.calls} calls or more there", file=sys.stderr)
        return 2
    price = Price(*options.price) if options.price else price_of(options.model) or default_price()
    bench = Bench([name for name, _one in sessions], [one for _name, one in sessions], price,
                  options.jobs)  # fmt: skip
    _SHARED.extend(bench.transcripts)
    text = page(bench, machine(options), options)
    if options.json:
        found = [
            {
                "setting": setting.name,
                "output": setting.output,
                "policy": name,
                "cost": result.run.cost,
                "read_share": result.read_share,
                "recall": result.run.recall.pooled_share,
                "far": result.run.recall.far_share,
                "verbatim": result.run.recall.verbatim_share,
                "messages": result.run.messages_share,
                "words": result.run.words_share,
                "breaks": result.run.breaks,
                "overflows": result.run.overflows,
                "invalid": result.run.invalid,
            }
            for (setting, name), result in bench.results.items()
        ]
        print(json.dumps(found, indent=1))
    elif options.out is None:
        print(text)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
