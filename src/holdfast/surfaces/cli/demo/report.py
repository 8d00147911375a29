"""The report of the demo: requests, savings, losses, and commands that restore each cut."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.registry import target
from holdfast.core.limits import OFFLOAD_SHARE, REF_CHARS
from holdfast.core.log.records import MESSAGES, Prune, ToolResult
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.window import Window
from holdfast.engine.session.prepare import prepare_request
from holdfast.surfaces.answers import Cell, Row
from holdfast.surfaces.cli.command import pick
from holdfast.surfaces.cli.demo.replay import KEY, PRICED_AS, price
from holdfast.surfaces.formatting import count, money

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Content, Record
    from holdfast.ports import BlobStore, SessionStore
    from holdfast.surfaces.cli.app import App
    from holdfast.surfaces.cli.demo.recording import PlantedFact, Recording
    from holdfast.surfaces.cli.demo.replay import Scene
    from holdfast.surfaces.formatting import Tone


_ROWS: Final = 6
"""Lines of the chart: it fits beside the text in a terminal of 24."""
_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"


class Crash(msgspec.Struct, frozen=True):
    """The process that was killed."""

    pid: int
    call: str
    tool: str
    acknowledged: int
    """Records the store had acknowledged by then."""
    lost: int
    """Of those, the ones that are missing."""


class FactCheck(msgspec.Struct, frozen=True):
    what: str
    text: str
    is_kept: bool
    """The last request contains it word for word."""


class ShellLine(msgspec.Struct, frozen=True):
    """A shell command, and what it shows."""

    what: str
    line: str


class DemoReport(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run, for programs and for the tables at the end."""

    title: str
    turns: int
    calls: int
    tools: int
    window_stated: int
    window_real: int
    refused: int
    over_window: int
    largest: int
    sizes: list[int]
    """Tokens of each answered request."""
    cuts: list[int]
    """The calls before which a compaction was made."""
    tokens_sent: int
    tokens_cached: int
    tokens_summaries: int
    tokens_output: int
    cost: float
    whole_largest: int
    whole_sent: int
    whole_cached: int
    whole_cost: float
    overflow_call: int | None
    priced_as: str
    price_note: str
    trimmed: int
    cleared: int
    compactions: int
    by_model: int
    """Of the compactions, those with a summary by a model; the others are made by code."""
    summary_calls: int
    notes: list[str]
    crash: Crash
    told: list[str]
    """Interrupted calls that the model was told of."""
    tool_runs: int
    run_twice: list[str]
    facts: list[FactCheck]
    messages: int
    messages_whole: int
    """Of those, the ones that the last request contains in full."""
    results: int
    results_identical: int
    """Tool results that are stored exactly as the tool returned them."""
    offloaded: int
    """Of the results, those whose text is outside the log."""
    root: str
    is_kept: bool
    """The folder was not removed."""
    commands: list[ShellLine]

    @property
    def is_sound(self) -> bool:
        return not (
            self.crash.lost
            or self.run_twice
            or self.over_window
            or self.results_identical != self.results
            or not all(fact.is_kept for fact in self.facts)
        )


def report(
    scene: Scene,
    recording: Recording,
    store: SessionStore,
    crash: Crash,
    *,
    journal: Sequence[str],
    is_kept: bool,
) -> DemoReport:
    """Build the report, checked against the log and the last request."""
    records = list(store.read(KEY))
    results = [record for record in records if isinstance(record, ToolResult)]
    answered = [
        result
        for result in results
        if result.tool_use_id in recording.results and result.tool_use_id not in scene.told
    ]
    ran = [line.split()[0] for line in journal]
    same = ("title", "turns", "calls", "over_window", "largest", "sizes", "whole_largest")
    more = (
        "whole_sent",
        "whole_cached",
        "overflow_call",
        "refused",
        "trimmed",
        "cleared",
        "notes",
        "told",
    )
    renamed = {"window_stated": "stated", "window_real": "real", "summary_calls": "helper_calls"}
    sums = {"sent": "sent", "cached": "cached", "summaries": "helper_sent", "output": "output"}
    tokens = {f"tokens_{name}": field for name, field in sums.items()}
    return DemoReport(
        **pick(scene, *same, *more, **renamed, **tokens),
        tools=len(results),
        cost=round(scene.cost, 4),
        whole_cost=round(scene.whole_cost, 4),
        priced_as=PRICED_AS,
        price_note=price().note,
        compactions=len(scene.compactions),
        cuts=[each.call for each in scene.happenings if each.head == "compaction"],
        by_model=sum(cut.method == "model" for cut in scene.compactions),
        crash=crash,
        tool_runs=len(ran),
        run_twice=sorted({call for call in ran if ran.count(call) > 1}),
        facts=_facts(recording.facts, scene.last_request),
        messages=sum(record.kind in MESSAGES for record in records),
        messages_whole=_count_whole(store, recording, Window(scene.real, "demo")),
        results=len(answered),
        results_identical=sum(
            _output(result, store.blobs) == recording.results[result.tool_use_id].content
            for result in answered
        ),
        offloaded=sum(result.output_ref is not None for result in results),
        root=store.describe(),
        is_kept=is_kept,
        commands=_commands(store, records, scene),
    )


def _output(result: ToolResult, blobs: BlobStore) -> Content:
    """Return the output of a tool, from the log or from its blob."""
    ref = result.output_ref
    return result.content if ref is None else blobs.get(ref.sha256).decode()


def _facts(facts: Sequence[PlantedFact], request: Sequence[str]) -> list[FactCheck]:
    text = " ".join(" ".join(request).split())
    return [FactCheck(fact.what, fact.text, fact.text in text) for fact in facts]


def _count_whole(store: SessionStore, recording: Recording, window: Window) -> int:
    """Count the messages that the next request contains in full."""
    request = ProjectionRequest(
        store.live(KEY, window=window).records,
        window,
        target("anthropic", provider="recording", model="recorded-agent"),
        system=recording.system,
        tools=recording.tools,
    )
    plan = prepare_request(request).plan
    return sum(line.action == "kept" and line.kind in MESSAGES for line in plan.ledger)


def _commands(store: SessionStore, records: Sequence[Record], scene: Scene) -> list[ShellLine]:
    is_folder = store.local_folder is not None
    root = shlex.quote(store.describe()) if is_folder else '"$HOLDFAST_ROOT"'  # no password here
    program, where = _own_command(), f"--root {root}"
    commands = []
    pruned = [each for record in records if isinstance(record, Prune) for each in record.decisions]
    if pruned:
        decision = pruned[0]
        action = {"trim": "trimmed", "clear": "cleared"}[decision.action]
        line = f"{program} show {decision.record} {where}"
        commands.append(ShellLine(f"a tool result that was {action}, whole", line))
    results = (record for record in records if isinstance(record, ToolResult))
    moved = next((result for result in results if result.output_ref), None)
    if moved is not None and moved.output_ref is not None:
        ref = moved.output_ref.sha256[:REF_CHARS]
        line = f"{program} output {ref} --session demo {where}"
        commands.append(ShellLine("a tool result that was moved out, whole", line))
    if scene.compactions:
        newest = scene.compactions[-1].record
        commands.append(
            ShellLine(
                f"the summary of {scene.compactions[-1].messages} cut messages",
                f"{program} show {newest} {where}",
            )
        )
    larger = 10 ** len(str(scene.whole_largest))
    commands += [
        ShellLine("every record, cut or not", f"{program} log demo --all {where}"),
        ShellLine(
            "the request, and what became of each record",
            f"{program} context demo --window {scene.real} --explain {where}",
        ),
        ShellLine(
            "a larger window gets everything back",
            f"{program} context demo --window {larger} {where}",
        ),
        ShellLine("go on yourself; /undo takes a cut back", f"{program} chat demo {where}"),
    ]
    return commands


def _own_command() -> str:
    """Return a command that starts holdfast here, even if it is not on the PATH."""
    if shutil.which("holdfast"):
        return "holdfast"
    beside = os.path.join(os.path.dirname(sys.executable), "holdfast")
    if not os.path.exists(beside):
        return f"{shlex.quote(sys.executable)} -m holdfast"
    near = os.path.relpath(beside)
    return shlex.quote(beside if near.startswith("..") else near)


# For people


def show_report(app: App, found: DemoReport) -> None:
    """Print the tables at the end of the demo."""
    out = app.out
    _show_over_time(app, found)
    out.line()
    out.table(("", ">with Holdfast", ">whole history each time"), _sums(found))
    out.line(f"Cost: {found.priced_as}, {found.price_note}.")
    out.line("Both sides with its prompt cache. No model was asked: sizes are counted here.")
    out.line()
    for line in _lines(found):
        out.line(line)
    if found.facts:
        out.line()
        out.line(Cell("── what was forgotten · all cuts together", "name"))
        out.line("Planted on the way; is it in the last request, word for word?")
        rows = [
            (Cell("yes", "good") if fact.is_kept else Cell("NO", "bad"), fact.what, fact.text)
            for fact in found.facts
        ]
        out.table(("kept", "what", "words"), rows)
    _show_commands(app, found)


def _show_over_time(app: App, found: DemoReport) -> None:
    """Draw each answered request as a column, below the provider's window."""
    out, label = app.out, f"{found.window_real:,}"
    eighths = [round(size / found.window_real * _ROWS * 8) for size in found.sizes]
    out.line()
    out.line(Cell("── over time · each request in the provider's window", "name"))
    out.line(Cell(f"{label} {'─' * len(eighths)}", "bad"))
    for row in reversed(range(_ROWS)):
        blocks = "".join(_EIGHTHS[max(0, min(8, eighth - 8 * row))] for eighth in eighths)
        out.line(f"{'':{len(label)}} {blocks}")
    marks = "".join("✂" if call in found.cuts else " " for call in range(1, len(eighths) + 1))
    out.line(Cell(f"{'':{len(label)}} {marks}", "dim"))


def _sums(found: DemoReport) -> list[Row]:
    over = found.overflow_call
    saved = 1 - found.cost / found.whole_cost if found.whole_cost else 0.0
    stop = f"{over - 1}, then it overflows" if over else f"{found.calls}"
    bad: Tone = "bad" if over else "plain"
    return [
        ("calls answered", Cell(f"{found.calls}", "good"), Cell(stop, bad)),
        (
            f"largest request (window {found.window_real:,})",
            f"{found.largest:,}",
            Cell(f"{found.whole_largest:,}", bad),
        ),
        ("tokens sent", f"{found.tokens_sent:,}", f"{found.whole_sent:,}"),
        (f"tokens sent for {found.summary_calls} summaries", f"{found.tokens_summaries:,}", "0"),
        (
            "read from the cache",
            _share(found.tokens_cached, found.tokens_sent),
            _share(found.whole_cached, found.whole_sent),
        ),
        ("cost by list price", money(found.cost), money(found.whole_cost)),
        ("saved", Cell(f"{saved:.0%}", "good" if saved > 0 else "bad"), ""),
    ]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _lines(found: DemoReport) -> list[str]:
    crash = found.crash
    lost = f"{crash.lost} LOST" if crash.lost else "none lost"
    told = "was told" if crash.call in found.told else "was NOT told"
    twice = f"{len(found.run_twice)} TWICE" if found.run_twice else "each of them once"
    by_code = found.compactions - found.by_model
    return [
        f"Process {crash.pid} was killed with SIGKILL while `{crash.tool}` ran:",
        f"  {crash.acknowledged} records had been acknowledged, {lost};",
        f"  the model {told} that {crash.call} was interrupted;",
        f"  {found.tool_runs} tools ran in all and left a line in a file: {twice}.",
        f"The provider refused {count(found.refused, 'request')} as too large; what was sent "
        "instead fitted.",
        f"{count(found.compactions, 'compaction')}: {found.by_model} with a model's prose, "
        f"{by_code} by code alone. {count(len(found.notes), 'note')} saved before.",
        f"{count(found.offloaded, 'output')} of more than {OFFLOAD_SHARE:.0%} of the budget moved "
        "out: a preview and a ref stay.",
        f"Of {found.messages} messages, {found.messages_whole} are sent whole now. All are in the "
        f"log, {found.results_identical} of",
        f"{count(found.results, 'tool result')} byte for byte as the tool returned them.",
    ]


def _show_commands(app: App, found: DemoReport) -> None:
    out = app.out
    out.line()
    if not found.is_kept:
        out.line("The session was in a temporary folder and is gone. `holdfast demo --keep` leaves")
        out.line("it there, with commands that bring each cut back.")
        out.line("In a browser: `holdfast serve --demo`, then http://127.0.0.1:8484/")
        return
    out.line("Get each cut back (paste them):")
    for command in found.commands:
        out.line(Cell(f"  # {command.what}", "dim"))
        out.line(f"  {command.line}")
    out.line()
    out.line(f"The session stays in {found.root} until you remove it.")
    out.line(f"In a browser: `holdfast serve --root {found.root}`, then")
    out.line("http://127.0.0.1:8484/")
