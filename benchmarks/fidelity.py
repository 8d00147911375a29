"""What is still known after 1, 3 and 10 compactions of real agent sessions, and what can be had.

    .venv/bin/python benchmarks/fidelity.py [--data FOLDER] [--window N] [--json] [--out PAGE]

No model is called. Each session is compacted by code in the first two thirds of its calls; what the
last third then used is looked for in the context after the last cut, in checkpoints of that
moment, and with one search of the log.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.lives import section
from benchmarks.policies import CALLS_MIN, data_folders, read_sessions

from holdfast import OPERATOR, Assistant, History, Policy, SessionKey, ToolResult, Window, importers
from holdfast.context import ProjectionRequest, render_checkpoint
from holdfast.core.checkpoint.capture import capture_state
from holdfast.core.checkpoint.render import injection
from holdfast.core.evaluation.needs import facts_in
from holdfast.core.limits import CHECKPOINT_CUT_CHARS
from holdfast.core.memory.running_summary import Sidecar, advance
from holdfast.core.memory.running_summary import render as render_sidecar
from holdfast.core.models.window import budget_for
from holdfast.core.projection.project import project
from holdfast.core.projection.sizes import Scale
from holdfast.core.projection.view import ProjectionCache
from holdfast.engine.simulation.transcripts import text_in
from holdfast.errors import HoldfastError
from holdfast.records import Compaction, to_json, tool_calls
from holdfast.stores import MemoryStore
from holdfast.tokens import counter_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast import Record
    from holdfast.context import Plan
    from holdfast.core.checkpoint.state import State
    from holdfast.core.log.records import Json
    from holdfast.core.projection.request import Pressure
    from holdfast.engine.simulation.transcripts import ReplayCall, Transcript

HERE = Path(__file__).resolve().parent
CUTS = (1, 3, 10)
MEASURED_FROM = 2 / 3
"""The cuts are made in this part of the calls; what the others used is looked for."""
WINDOW = 64_000
STATIC_TOKENS = 6_000
KEY = SessionKey("main", "bench")
KINDS = ("path", "identifier", "number", "quoted")
WHAT = (*KINDS, "request", "open item")
OURS = "holdfast"
PATH = re.compile(r"/|\.(?:go|py|md|[jt]sx?|jsonl?|ya?ml|toml|sh|txt|rs|html|css|sql|exs?|rb|c|h)$")
NUMBER = re.compile(r"[0-9a-f]{7,40}|[0-9a-f-]{36}|\d+")


@dataclass(frozen=True, slots=True)
class Need:
    """Something from before the last cut that was used after it, or must not be forgotten."""

    what: str
    text: str
    lines: tuple[str, ...] = ()
    """For a request: it is there where all of its lines are."""

    def is_in(self, text: str, facts: set[str]) -> bool:
        if self.lines:
            return all(line in text for line in self.lines)
        return self.text in (text if self.what == "open item" else facts)


@dataclass(slots=True)
class Tally:
    """Of each kind of need: how many there were, and how many were met."""

    needed: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    sessions: int = 0

    def add(self, needs: Sequence[Need], text: str, tokens: int) -> None:
        facts = facts_in(text)
        flat = " ".join(text.split())
        for need in needs:
            self.needed[need.what] += 1
            self.met[need.what] += need.is_in(flat, facts)
        self.tokens += tokens
        self.sessions += 1

    def merge(self, other: Tally) -> None:
        self.needed += other.needed
        self.met += Counter(other.met)
        self.tokens += other.tokens
        self.sessions += other.sessions

    def share(self, *whats: str) -> float | None:
        needed = sum(self.needed[what] for what in whats)
        return sum(self.met[what] for what in whats) / needed if needed else None


@dataclass(slots=True)
class Reach:
    """What one search of the log gave for what was needed."""

    needed: int = 0
    shown: int = 0
    """It stands in the reply."""
    named: int = 0
    """The reply names the record that has it, cut to its cap; one read of it shows the rest."""
    missed: list[str] = field(default_factory=list)

    def merge(self, other: Reach) -> None:
        self.needed += other.needed
        self.shown += other.shown
        self.named += other.named
        self.missed += other.missed


@dataclass(slots=True)
class Measured:
    """One session, or all of them."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    reach: Reach = field(default_factory=Reach)
    cuts_made: Counter[int] = field(default_factory=Counter)

    def tally(self, name: str) -> Tally:
        return self.tallies.setdefault(name, Tally())

    def merge(self, other: Measured) -> None:
        for name, tally in other.tallies.items():
            self.tally(name).merge(tally)
        self.reach.merge(other.reach)
        self.cuts_made += other.cuts_made


# One session


def measure(transcript: Transcript, window: int) -> Measured:
    """Cut, then look."""
    found = Measured()
    calls = transcript.calls
    last = max(1, int(len(calls) * MEASURED_FROM))
    at = calls[last]
    needs = needs_after(transcript, last)
    before = transcript.records[: at.records]
    state = capture_state(before, session="bench", trigger="pre_compact", now=0.0)
    beside = injection(state, CHECKPOINT_CUT_CHARS)
    for count in CUTS:
        log, made = compacted(transcript, window, [last * n // count for n in range(1, count + 1)])
        found.cuts_made[count] += made
        text = shown(log, transcript, window)
        tokens = transcript.counter.count(text)
        found.tally(f"{OURS}, {count}").add(needs, text, tokens)
        both = f"{text}\n{beside}"
        found.tally(f"{OURS} and a checkpoint of {CHECKPOINT_CUT_CHARS:,} characters, {count}").add(
            needs, both, transcript.counter.count(both)
        )
        kept = kept_text(log, transcript, window)
        newest = tail(everything(at), tokens, transcript)
        found.tally(f"keep the newest tokens, {count}").add(needs, newest, tokens)
        head = head_only(transcript, [last * n // count for n in range(1, count + 1)], window)
        found.tally(f"head-only summary, {count}").add(
            needs, f"{head}\n{kept}", transcript.counter.count(head + kept)
        )
    for cap in (4_000, 500):
        text = render_checkpoint(state, cap)
        found.tally(f"checkpoint of {cap:,} characters").add(
            needs, text, transcript.counter.count(text)
        )
    text = render_sidecar(advance(Sidecar(), before))
    found.tally("running summary of 1,200 characters").add(
        needs, text, transcript.counter.count(text)
    )
    found.reach = reach(before, needs)
    return found


def needs_after(transcript: Transcript, last: int) -> list[Need]:
    """What the calls from the last cut on used of what was there before, and what must stay."""
    names = transcript.fact_names
    calls = transcript.calls
    seen = {fact for piece in transcript.pieces(calls[last].units) for fact in piece.facts}
    used = {use.fact for call in calls[last:] for use in call.uses}
    needs = [Need(kind_of(names[fact]), names[fact]) for fact in sorted(seen & used)]
    for saying in transcript.sayings[: calls[last].said]:
        lines = tuple(" ".join(line.split()) for line in saying.lines if line.strip())
        if lines:
            needs.append(Need("request", lines[0], lines))
    items = open_items(transcript.records[: calls[last].records])
    return [*needs, *(Need("open item", " ".join(item.split())) for item in items)]


def kind_of(fact: str) -> str:
    if " " in fact:
        return "quoted"
    if NUMBER.fullmatch(fact):
        return "number"
    return "path" if PATH.search(fact) else "identifier"


def compacted(
    transcript: Transcript, window: int, places: Sequence[int]
) -> tuple[list[Record], int]:
    """The log up to the last place, with a cut at each of them."""
    log: list[Record] = []
    read, made = 0, 0
    cache = ProjectionCache(Scale(transcript.counter))
    for place in places:
        call = transcript.calls[place]
        log += transcript.records[read : call.records]
        read = call.records
        plan = _project(log, transcript, window, cache, "cut")
        for decision in plan.decisions:
            made += isinstance(decision, Compaction)
            log.append(msgspec.structs.replace(decision, id=f"decision-{len(log)}"))
    return log, made


def shown(log: list[Record], transcript: Transcript, window: int) -> str:
    """Everything a model would read after these records."""
    plan = _project(log, transcript, window, ProjectionCache(Scale(transcript.counter)), "hold")
    return "\n".join(text_in(b) for one in plan.prompt.messages for b in one.blocks)


def kept_text(log: list[Record], transcript: Transcript, window: int) -> str:
    """The same without what the cuts left behind."""
    plan = _project(log, transcript, window, ProjectionCache(Scale(transcript.counter)), "hold")
    return "\n".join(
        text_in(b) for unit in plan.units_kept for part in unit.parts for b in part.blocks
    )


def _project(
    log: list[Record], transcript: Transcript, window: int, cache: ProjectionCache, how: Pressure
) -> Plan:
    request = ProjectionRequest(
        log,
        Window(window, "simulated"),
        transcript.target,
        system="word " * STATIC_TOKENS,
        floor=0,
        pressure=how,
    )
    return project(request, cache)


def everything(call: ReplayCall) -> list[str]:
    return [text_in(block) for unit in call.units for part in unit.parts for block in part.blocks]


def tail(texts: Sequence[str], tokens: int, transcript: Transcript) -> str:
    """The newest texts that fit, the last of them in part."""
    kept: list[str] = []
    for text in reversed(texts):
        size = transcript.counter.count(text)
        if size > tokens:
            kept.append(text[-int(len(text) * tokens / size) :] if tokens > 0 else "")
            break
        kept.append(text)
        tokens -= size
    return "\n".join(reversed(kept))


def head_only(transcript: Transcript, places: Sequence[int], window: int) -> str:
    """A summary that keeps the beginning of what was there: the summary before, then the rest."""
    budget = budget_for(Window(window, "simulated"), system=STATIC_TOKENS, floor=0).tokens
    cap = Policy().carry_cap(budget)
    summary = ""
    for place in places:
        text = "\n".join([summary, *everything(transcript.calls[place])])
        size = transcript.counter.count(text)
        summary = text[: int(len(text) * min(1.0, cap / size))] if size else ""
    return summary


def open_items(records: Iterable[Record]) -> list[str]:
    """What is to do, by a plain reading of the two tools that these sessions keep lists with."""
    todos: list[str] = []
    tasks: dict[str, list[str]] = {}
    for record in records:
        for call in tool_calls(record.content) if isinstance(record, Assistant) else ():
            given = call.get("input")
            given = given if isinstance(given, dict) else {}
            if call.get("name") == "TodoWrite":
                todos = [
                    str(one.get("content", ""))
                    for one in given.get("todos", ())
                    if one.get("status") != "completed"
                ]
            elif call.get("name") == "TaskCreate":
                tasks[str(len(tasks) + 1)] = [str(given.get("subject", "")), "pending"]
            elif call.get("name") == "TaskUpdate" and str(given.get("taskId")) in tasks:
                status = str(given.get("status", "pending"))
                tasks[str(given.get("taskId"))][1] = status
    left = [text for text, status in tasks.values() if status in ("pending", "in_progress")]
    return [text[:150] for text in (*todos, *left) if text.strip()]


def reach(records: Sequence[Record], needs: Sequence[Need]) -> Reach:
    """Each need as one question to the history of the session, as a model would ask it."""
    store = MemoryStore()
    store.create(KEY)
    store.append_each(KEY, [msgspec.structs.replace(one, parent=None) for one in records])
    history = History(store, caller=OPERATOR)
    found = Reach()
    for need in needs:
        found.needed += 1
        query = max(need.lines, key=len)[:200] if need.lines else need.text
        reply = history.read(str(KEY), query=query, include_tools=True)
        wanted = need.lines or (" ".join(need.text.split()),)
        ids = [one.get("id") for one in reply.get("messages", ()) if isinstance(one, dict)]
        if _holds(reply, wanted):
            found.shown += 1
        elif any(_holds(to_json(store.find(KEY, str(one))), wanted) for one in ids):
            found.named += 1
        else:
            found.missed.append(need.text[:80])
    return found


def _holds(value: object, wanted: Sequence[str]) -> bool:
    texts = " ".join(" ".join(_texts(value)).split())
    return all(one in texts for one in wanted)


def _texts(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for item in value.values() for text in _texts(item)]
        case list():
            return [text for item in value for text in _texts(item)]
        case bool() | None:
            return []
        case _:
            return [str(value)]


# Files


@dataclass(slots=True)
class Files:
    """Two readings of which files were touched."""

    sessions: int = 0
    changed: int = 0
    read: int = 0
    differences: list[str] = field(default_factory=list)


CHANGES = frozenset(("write", "edit", "multiedit", "notebookedit", "write_file", "edit_file"))
READS = frozenset(("read", "read_file"))
EDITOR = frozenset(("str_replace_editor", "str_replace_based_edit_tool"))


def plain_files(records: Iterable[Record]) -> tuple[set[str], set[str]]:
    """Changed and only read, by the names of the tools that are known to do that."""
    wanted: dict[str, tuple[str, bool]] = {}
    changed: set[str] = set()
    read: set[str] = set()
    for record in records:
        if isinstance(record, Assistant):
            for call in tool_calls(record.content):
                given = call.get("input")
                name = str(call.get("name", "")).lower()
                if isinstance(given, dict) and (touch := _plain_touch(name, given)):
                    wanted[str(call.get("id"))] = touch
        elif isinstance(record, ToolResult) and record.tool_use_id in wanted:
            path, is_change = wanted.pop(record.tool_use_id)
            if not record.is_error:
                (changed if is_change else read).add(path)
    return changed, read - changed


def _plain_touch(name: str, given: Json) -> tuple[str, bool] | None:
    path = given.get("file_path") or given.get("notebook_path") or given.get("path")
    if not isinstance(path, str):
        return None
    if name in EDITOR:
        return path, given.get("command") != "view"
    if name in CHANGES | READS:
        return path, name in CHANGES
    if name == "grep" and re.search(r"[^/]\.[A-Za-z]\w{0,11}$", path):
        return path, False
    return None


def compare_files(folder: Path) -> Files:
    """Every coding session below the folder, of whatever agent."""
    found = Files()
    for path in sorted(folder.parent.rglob("*.json*")):
        if path.parts[len(folder.parent.parts)] not in ("claude-code", "pi", "openhands"):
            continue
        try:
            sessions = list(importers.read_transcript(path.read_bytes(), path.name))
        except HoldfastError:
            continue
        for session in sessions:
            records = list(session.records)
            changed, read = plain_files(records)
            state = capture_state(records, session="bench", trigger="asked", now=0.0)
            found.sessions += 1
            found.changed += len(changed)
            found.read += len(read)
            found.differences += _differences(path, state, changed, read)
    return found


def _differences(path: Path, state: State, changed: set[str], read: set[str]) -> list[str]:
    pairs = (("changed", set(state.files_changed), changed), ("read", set(state.files_read), read))
    return [
        f"{path.parent.name}/{path.name[:16]}: {kind}, only in {where}: `{one}`"
        for kind, ours, theirs in pairs
        for where, some in (("the checkpoint", ours - theirs), ("the plain reading", theirs - ours))
        for one in sorted(some)
    ]


# Showing

INTRO = """# Fidelity, measured

{sessions} real coding sessions with {calls_min} calls or more, compacted by code 1, 3 and 10 times in the first two thirds of their calls ({cuts}), at a window of {window:,} tokens.
No model is called, neither to summarise nor to judge.

**Read this first.**
What a later turn needs is judged by what it used: the names in the arguments of the calls of the last third (the definition that [policies.md](policies.md) uses: paths, symbols, ids, numbers, quoted strings) which had come up before the last cut, each once a session; then every message of the user before that cut, whole; and the items that are open at that moment, by a plain reading of the list tools.
A name in the context is not an understanding of it, and what was not used may have mattered too.
A file that is listed relative to a folder written above the list counts as its whole path.
The sessions are of two teams, one agent and mostly one programming language.
A cut is one that is asked for (`/compact`): it comes however little there is to cut, and ten of them are more than a session of this length would make by itself.
"Keep the newest tokens" has as many tokens as Holdfast's context; "head-only" has the same newest messages and a summary of the same cap that keeps the beginning of what is cut and of the summary before.
"""  # noqa: E501

REACHED = """## Within reach

Each need of the table above was put as one question to `sessions_history` of the whole log (`query`, with tools; its reply has at most 80 KiB). *Shown*: it stands in the reply. *Named*: the reply names the record, whose text was cut to its cap; one read shows the rest.

"""  # noqa: E501

FILES = """## Files touched

The lists of the checkpoint beside an independent reading of the calls by the names of the tools ({sessions} sessions of three agents; {changed} files changed, {read} only read). A call counts once its result is no error.

"""  # noqa: E501


def page(found: Measured, files: Files, facts: dict[str, str], window: int, sessions: int) -> str:
    made = ", ".join(f"{count}: {found.cuts_made[count]} cuts" for count in CUTS)
    lines = [INTRO.format(sessions=sessions, calls_min=CALLS_MIN, cuts=made, window=window)]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    lines += ["", "## In context after the last cut", ""]
    first = next(iter(found.tallies.values()))
    columns = ("what", "tokens", "all names", *(_plural(what) for what in WHAT))
    counts = [f"{first.needed[what]:,}" for what in WHAT]
    names = f"{sum(first.needed[kind] for kind in KINDS):,}"
    rows = [("(needed)", "", names, *counts)]
    rows += [(name, *_cells(tally)) for name, tally in sorted_rows(found)]
    lines += _table(columns, rows)
    lines += [REACHED.strip(), ""]
    reached = found.reach
    lines += _table(
        ("needed", "shown by one search", "named, one more read", "not found", "within reach"),
        [(f"{reached.needed:,}", f"{reached.shown / reached.needed:.2%}",
          f"{reached.named / reached.needed:.2%}", f"{len(reached.missed):,}",
          f"{1 - len(reached.missed) / reached.needed:.2%}")],
    )  # fmt: skip
    if reached.missed:
        lines += [_not_found(sorted(set(reached.missed))), ""]
    lines += [FILES.format(sessions=files.sessions, changed=files.changed, read=files.read).strip()]
    lines += ["", f"Differences: {len(files.differences)}.", ""]
    lines += [f"- {one}" for one in files.differences[:60]]
    return "\n".join(lines).rstrip() + "\n"


def _not_found(missed: Sequence[str]) -> str:
    """What it was, and why as far as that is known."""
    said = [f"Not found: {', '.join(f'`{one}`' for one in missed[:40])}."]
    if any(one.isdecimal() for one in missed):
        said.append("A number among a call's arguments (a timeout, say) is no text to the search.")
    if any(" " in one for one in missed):
        said.append("The search wants all words of a phrase, and newer messages had them apart.")
    return " ".join(said)


def _plural(what: str) -> str:
    return "quoted strings" if what == "quoted" else f"{what}s"


def sorted_rows(found: Measured) -> list[tuple[str, Tally]]:
    order = (
        f"{OURS},",
        f"{OURS} and",
        "keep the newest tokens",
        "head-only summary",
        "checkpoint",
        "running summary",
    )
    return sorted(
        found.tallies.items(),
        key=lambda one: next(at for at, name in enumerate(order) if one[0].startswith(name)),
    )


def _cells(tally: Tally) -> list[str]:
    def shown_share(*whats: str) -> str:
        share = tally.share(*whats)
        return "–" if share is None else f"{share:.1%}"

    tokens = f"{tally.tokens / max(1, tally.sessions):,.0f}"
    return [tokens, shown_share(*KINDS), *(shown_share(what) for what in WHAT)]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(columns)} |", "|---" + "|---:" * (len(columns) - 1) + "|"]
    return [*lines, *(f"| {' | '.join(cells)} |" for cells in rows), ""]


def machine(given: str) -> dict[str, str]:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": git("rev-parse", "--short", "HEAD") or "unknown",
        "python": platform.python_version(),
        "counter": counter_for("claude").name,
        "command": f"`python benchmarks/fidelity.py {given}`".replace(" `", "`"),
    }


_SHARED: list[Transcript] = []
"""The sessions, where forked workers find them."""


def _measure(work: tuple[int, int]) -> Measured:
    index, window = work
    return measure(_SHARED[index], window)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with `agents/claude-code` (or HOLDFAST_DATA)")
    parser.add_argument("--window", type=int, default=WINDOW)
    parser.add_argument("--sessions", type=int, help="only the first N sessions")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="write the page there")
    options = parser.parse_args()
    (folder,) = data_folders(options.data, ["claude-code"])
    if not folder.is_dir():
        print(f"no transcripts at {folder}: give --data or set HOLDFAST_DATA", file=sys.stderr)
        return 2
    _SHARED.extend(one for _name, one in read_sessions([folder], 1.12, 90.0)[: options.sessions])
    found = Measured()
    work = [(index, options.window) for index in range(len(_SHARED))]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("fork")) as pool:
        for done in pool.map(_measure, work):
            found.merge(done)
            print(f"{sum(found.cuts_made.values())} cuts", file=sys.stderr, flush=True)
    files = compare_files(folder)
    if options.json:
        print(json.dumps({"measured": asdict(found), "files": asdict(files)}, indent=1))
        return 0
    given = f"--window {options.window}" if options.window != WINDOW else ""
    text = page(found, files, machine(given), options.window, len(_SHARED)) + "\n" + section()
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
