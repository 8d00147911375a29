"""Far too much history, a window that the summariser shares, and one more turn; beside the peers.

    .venv-bench-overflow/bin/python benchmarks/overflow.py [--quick] [--json] [--write PAGE]

Every system gets the same texts, the same window and the same model: a fake that counts each
request with a true tokenizer, refuses what is too long in a provider's own words, and otherwise
answers. Each case runs in a process of its own. What such numbers are worth: docs/benchmarks.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.overflow_cases import (
    ANSWER,
    CASES,
    OUTPUT,
    QUICK,
    RUNAWAY,
    WINDOW,
    Case,
    OneModel,
    Result,
    as_json,
    from_json,
    measure,
    take,
    workload,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from benchmarks.overflow_cases import Side

    Maker = Callable[[OneModel, Path], Side]

ROOT = Path(__file__).resolve().parents[1]
SECONDS_MAX = 300
HOLDS = 25
GENEROUS = 100
RECOVERY_MAX = 4


# The systems


def _holdfast(*, is_exact: bool) -> tuple[str, Maker]:
    from benchmarks import overflow_holdfast as side

    def make(model: OneModel, place: Path) -> Side:
        return side.Holdfast(model, place, is_exact=is_exact)

    return side.versions(), make


def _proxy(*, compacts: bool) -> tuple[str, Maker]:
    from benchmarks import overflow_proxy as side

    def make(model: OneModel, place: Path) -> Side:
        return side.Proxied(model, place, compacts=compacts)

    return side.versions(), make


def _deepagents(*, is_whole: bool) -> tuple[str, Maker]:
    from benchmarks import overflow_deepagents as side

    def make(model: OneModel, place: Path) -> Side:
        return side.DeepAgents(model, place, is_whole=is_whole)

    return side.versions(), make


def _strands(manager: str) -> tuple[str, Maker]:
    from benchmarks import overflow_strands as side

    def make(model: OneModel, place: Path) -> Side:
        return side.Strands(model, place, manager=manager)  # type: ignore[arg-type]

    return side.versions(), make


SYSTEMS: dict[str, Callable[[], tuple[str, Maker]]] = {
    "Holdfast": lambda: _holdfast(is_exact=True),
    "Holdfast, estimating": lambda: _holdfast(is_exact=False),
    "Holdfast proxy": lambda: _proxy(compacts=False),
    "Holdfast proxy, compacting client": lambda: _proxy(compacts=True),
    "deepagents": lambda: _deepagents(is_whole=True),
    "deepagents middleware": lambda: _deepagents(is_whole=False),
    "Strands auto": lambda: _strands("auto"),
    "Strands summarizing": lambda: _strands("summarizing"),
    "Strands sliding": lambda: _strands("sliding"),
}
OURS = ("Holdfast", "Holdfast, estimating")


def play(system: str, case: Case, holds: int) -> Result:
    """One system, one case, in this process."""
    versions, make = SYSTEMS[system]()
    model = OneModel(workload(case), holds)
    with tempfile.TemporaryDirectory(prefix="holdfast-overflow-") as place:
        side = make(model, Path(place))
        start = time.perf_counter()
        error = take(model, side)
        return measure(system, versions, model, side, error, time.perf_counter() - start)


class _TimedModel(OneModel):
    """The fake model, and the CPU that it took itself."""

    seconds = 0.0

    def send(self, *args: Any, **named: Any) -> Any:
        start = time.thread_time()
        try:
            return super().send(*args, **named)
        finally:
            self.seconds += time.thread_time() - start


def spend(system: str, case: Case, holds: int) -> float:
    """The seconds of CPU that a system takes for the turn after a history, without the model."""
    _versions, make = SYSTEMS[system]()
    work = workload(case)
    model = _TimedModel(work, holds)
    with tempfile.TemporaryDirectory(prefix="holdfast-overflow-") as place:
        side = make(model, Path(place))
        side.load(work.turns)
        model.begin((f"page {page}" for page in range(case.rounds)), ANSWER)
        start, before = time.process_time(), model.seconds
        side.say(work.prompt)
        return time.process_time() - start - (model.seconds - before)


def play_apart(system: str, case: Case, holds: int) -> Result:
    """The same in a process of its own: a system that hangs or dies takes nothing with it."""
    command = [sys.executable, __file__, "--one", system, case.name, "--holds", str(holds)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return _nothing(system, case, f"not done after {SECONDS_MAX} s")
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        why = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return _nothing(system, case, why[:200])
    return from_json(lines[-1])


def _nothing(system: str, case: Case, error: str) -> Result:
    numbers = dict.fromkeys(
        (
            *("calls", "recovery", "worst", "summaries", "over", "largest", "sent"),
            *("facts", "facts_of", "kept", "kept_of", "invalid", "history"),
        ),
        0,
    )
    return Result(
        system=system,
        case=case.name,
        versions="",
        is_answered=False,
        error=error,
        window=case.window,
        newest="",
        rules={},
        seconds=0.0,
        **numbers,
    )


# What is shown


HEADINGS = (
    *("system", "answered", "calls", "recovery", "worst", "summaries", "over the limit"),
    *("largest", "sent", "newest", "facts", "facts*", "originals", "invalid"),
)


def _cells(result: Result, generous: Result | None) -> tuple[str, ...]:
    return (
        f"**{result.system}**" if result.system in OURS else result.system,
        "yes" if result.is_answered else "**NO**",
        f"{result.calls:,}",
        f"{result.recovery:,}",
        f"{result.worst:,}",
        f"{result.summaries:,}",
        f"{result.over:,}",
        f"{result.largest / result.window:.2f}",
        f"{result.sent:,}",
        result.newest or "–",
        _facts(result),
        _facts(generous) if generous else "",
        f"{100 * result.kept / result.kept_of:.0f} %" if result.kept_of else "–",
        f"{result.invalid:,}",
    )


def _facts(result: Result) -> str:
    return f"{result.facts} of {result.facts_of}" if result.is_answered else "–"


def _table(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    words = ("system", "answered", "newest")
    yield f"| {' | '.join(HEADINGS)} |"
    yield f"|{'|'.join('---' if name in words else '---:' for name in HEADINGS)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _title(case: Case, found: list[Result]) -> str:
    history = max((one.history for one in found), default=0)
    what = f"a history of {history:,} tokens"
    if case.prompt_chars > 1_000:
        what += f", then one message of {case.prompt_chars:,} characters"
    if case.past_chars:
        what += f", one message in it of {case.past_chars:,} characters"
    if case.rounds:
        what += f", then a turn of {case.rounds} tool rounds of 5,000 tokens"
    if case.inflation != 1:
        what += f", of each of which the provider makes {case.inflation:g}"
    if case.is_grown:
        what += ", not loaded but said turn by turn, each with a tool call"
    return f"{case.name}: {what}; window {case.window:,}"


def _goals(found: list[Result]) -> Iterator[str]:
    """What was asked of Holdfast."""
    ours = [one for one in found if one.system in OURS]
    if not ours:
        yield "Holdfast did not run."
        return
    worst = max(ours, key=lambda one: one.worst)
    checks = (
        ("every turn answered", all(one.is_answered for one in ours), _failed(ours)),
        (
            "no request over the limit",
            not any(one.over for one in ours),
            f"largest {max(one.largest / one.window for one in ours):.2f} of the limit",
        ),
        (
            f"at most {RECOVERY_MAX} recovery calls before an answer",
            worst.worst <= RECOVERY_MAX,
            f"at most {worst.worst} ({worst.case})",
        ),
        (
            "newest user message whole, or head and tail where it cannot fit",
            all(one.newest in ("whole", "head + tail") for one in ours),
            ", ".join(sorted({one.newest or "–" for one in ours})),
        ),
        (
            "every original still there",
            all(one.kept == one.kept_of for one in ours),
            f"{sum(one.kept for one in ours):,} of {sum(one.kept_of for one in ours):,}",
        ),
        ("no request that the API would refuse", not any(one.invalid for one in ours), ""),
    )
    yield "| asked of Holdfast | met | found |"
    yield "|---|---|---|"
    for what, is_met, note in checks:
        yield f"| {what} | {'yes' if is_met else '**NO**'} | {note} |"
    facts = ", ".join(f"{one.case} {_facts(one)}" for one in ours if one.system == OURS[0])
    yield f"| stated facts in the last request | no goal | {facts} |"


def _failed(found: list[Result]) -> str:
    failed = [one.case for one in found if not one.is_answered]
    return f"not: {', '.join(failed)}" if failed else f"{len(found)} of {len(found)}"


def _summary(found: list[Result], systems: list[str]) -> Iterator[str]:
    """All cases on one line for each system."""
    names = list(dict.fromkeys(one.case for one in found))
    by = {(one.system, one.case): one for one in found}
    yield f"| system | {' | '.join(names)} |"
    yield f"|---|{'|'.join(['---'] * len(names))}|"
    for system in systems:
        cells = []
        for name in names:
            one = by.get((system, name))
            cells.append("" if one is None else _verdict(one))
        yield f"| {system} | {' | '.join(cells)} |"


def _verdict(one: Result) -> str:
    calls = "1 call" if one.calls == 1 else f"{one.calls:,} calls"
    if not one.is_answered:
        return f"**fails** ({calls})"
    parts = [calls]
    if one.over:
        parts.append(f"{one.over} over")
    return f"ok, {', '.join(parts)}"


def page(found: list[Result], generous: list[Result], facts: dict[str, str]) -> str:
    systems = list(dict.fromkeys(one.system for one in found))
    lines = [
        "# Overflow, measured",
        "",
        f"A window of {WINDOW:,} tokens that the summariser shares, histories of up to a hundred "
        "windows, and one more turn. Every system gets the same texts and the same model.",
        "",
        *_READ_FIRST,
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        "## In short",
        "",
        *_summary(found, systems),
        "",
        *_goals(found),
    ]
    for case in CASES:
        rows = [one for one in found if one.case == case.name]
        if not rows:
            continue
        others = {one.system: one for one in generous if one.case == case.name}
        lines += ["", f"## {_title(case, rows)}", ""]
        lines += _table(_cells(one, others.get(one.system)) for one in rows)
        lines += [""] if any(one.error or one.rules for one in rows) else []
        lines += [f"- {one.system} failed: `{one.error}`" for one in rows if one.error]
        lines += [
            f"- {one.system} broke {rule} in {times} requests"
            for one in rows
            for rule, times in one.rules.items()
        ]
    return "\n".join(lines) + "\n"


_READ_FIRST = (
    "**Read this first.**",
    "The model is a fake: it shows what is sent and whether that fits, not how good an answer "
    "would be.",
    "The texts are made (prose, JSON rows and log lines from a seeded list of words); estimates by "
    "characters are further off for rows and logs than for prose, as they are in real life.",
    "Each system runs with the settings it ships, and is told the window and the room for the "
    f"reply ({OUTPUT:,} tokens) wherever it can be told. Other settings may do better.",
    "*Holdfast proxy* is a client that knows no window and sends all it has, through "
    "`holdfast proxy`, which learns the window from the first refusal; *compacting client* "
    "replaces its older half by a summary when it guesses that 80 % of the window are full. The "
    "goals are those of sessions.",
    "Holdfast counts with a tokenizer where one is installed (`holdfast[tokens]`), and it is the "
    "model's own here; *estimating* is the same without it. The peers estimate by characters.",
    "In all cases but the grown one the history is loaded at once, as when a session moves to a "
    "model with a smaller window. What a Strands manager does after every turn is then done once "
    "before the turn.",
    "",
    "How it is counted:",
    "",
    "- **The limit**: true o200k tokens of system prompt, tools and messages (4 more for each), "
    "and the `max_tokens` of the request, against the window. Above it the model refuses with "
    "the words of Anthropic's API, in the exception that the framework itself uses for that.",
    "- **Calls**: all requests. *Recovery*: those that brought no answer, refused ones and "
    "summaries; *worst*: the most of them before one answer. *Over the limit*: refused as too "
    "long. *Largest*: the largest request as a share of the limit. *Sent*: input tokens of all "
    "requests.",
    "- **Newest**: what of the new user message is in the last request that was answered.",
    "- **Facts**: a user states a ticket number in every tenth turn of the history; how many of "
    f"them the last answered request still shows. A summary holds {HOLDS} % of those it is shown, "
    "which is about what real summaries hold of the facts that later calls use; *facts\\** with "
    "a summariser that holds all it is shown, within 3,000 characters.",
    "- **Originals**: the share of all texts (questions, tool results, answers) that the system "
    "can still give back afterwards: from its log, its checkpointer, its session files.",
    "- **Invalid**: requests that break a rule of Anthropic's API other than size; the model "
    "answers them nevertheless.",
    f"- A system that makes {RUNAWAY} calls without an answer, or takes {SECONDS_MAX} seconds, "
    "has failed.",
)


def machine(found: list[Result]) -> dict[str, str]:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--", "src") else ""
    versions = sorted({one.versions for one in found if one.versions})
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": f"{git('rev-parse', '--short', 'HEAD')}{changed}",
        "python": f"{platform.python_version()}, {platform.machine()}",
        "systems": "; ".join(versions),
    }


def _run(work: list[tuple[str, Case]], holds: int, jobs: int) -> list[Result]:
    def one(item: tuple[str, Case]) -> Result:
        system, case = item
        result = play_apart(system, case, holds)
        print(
            f"{case.name:>10}  {system:<22} {holds:>3} %  {_verdict(result)}  "
            f"facts {_facts(result)}  {result.seconds:.1f} s  {result.error[:90]}",
            file=sys.stderr,
            flush=True,
        )
        return result

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, work))


def _run_generous(found: list[Result], cases: list[Case], jobs: int) -> list[Result]:
    """Again, where a better summariser can make a difference."""
    by_name = {case.name: case for case in cases}
    differ = [one for one in found if one.is_answered and one.summaries]
    rest = [one for one in found if not (one.is_answered and one.summaries)]
    return _run([(one.system, by_name[one.case]) for one in differ], GENEROUS, jobs) + rest


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="four cases, one summariser")
    parser.add_argument("--json", action="store_true", help="results as JSON on stdout")
    parser.add_argument("--write", metavar="PAGE", type=Path, help="write a page of Markdown too")
    parser.add_argument("--only", metavar="SYSTEM", choices=SYSTEMS, action="append")
    parser.add_argument(
        "--case", metavar="CASE", choices=[one.name for one in CASES], action="append"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--one", nargs=2, metavar=("SYSTEM", "CASE"), help=argparse.SUPPRESS)
    parser.add_argument(
        "--cpu", nargs=2, metavar=("SYSTEM", "CASE"), help="seconds of CPU of one turn, no page"
    )
    parser.add_argument("--holds", type=int, default=HOLDS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    by_name = {case.name: case for case in CASES}
    if arguments.one:
        system, name = arguments.one
        print(as_json(play(system, by_name[name], arguments.holds)))
        return 0
    if arguments.cpu:
        system, name = arguments.cpu
        print(f"{system}, {name}: {spend(system, by_name[name], arguments.holds):.2f} s of CPU")
        return 0
    names = arguments.case or (QUICK if arguments.quick else list(by_name))
    cases = [by_name[name] for name in names]
    systems = arguments.only or list(SYSTEMS)
    work = [(system, case) for case in cases for system in systems]
    found = _run(work, HOLDS, arguments.jobs)
    generous = [] if arguments.quick else _run_generous(found, cases, arguments.jobs)
    if arguments.json:
        print(json.dumps([asdict(one) for one in (*found, *generous)], indent=1))
    else:
        print(page(found, generous, machine(found)))
    if arguments.write:
        arguments.write.write_text(page(found, generous, machine(found)), "utf-8")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("LANGSMITH_TRACING", "false")
    sys.exit(main())
