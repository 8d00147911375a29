"""`inspect`: the use of the context in a transcript, and what Holdfast would send instead."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.dialects.registry import target
from holdfast.core.log.records import Compaction
from holdfast.core.projection.inspection import InspectedItem, Inspection, inspect
from holdfast.core.projection.steps import MEANING
from holdfast.core.window import Window
from holdfast.engine.session.prepare import cache_for
from holdfast.engine.workspace.facts import default_dialect
from holdfast.errors import UsageError
from holdfast.providers.known_models.lookup import price_of
from holdfast.surfaces.answers import Cell, Row
from holdfast.surfaces.cli.app import App, Verb
from holdfast.surfaces.cli.conversations import (
    Conversation,
    add_format,
    add_window,
    conversations,
    system_and_tools,
)
from holdfast.surfaces.cli.inspect.discovery import offer_transcripts
from holdfast.surfaces.cli.inspect.overview import by_cost, show_overview
from holdfast.surfaces.cli.inspect.page import page
from holdfast.surfaces.cli.inspect.reports import InspectReport, WindowFit, fit_window
from holdfast.surfaces.cli.inspect.tables import BAR_CHARS, bars
from holdfast.surfaces.formatting import bar, count, local_time
from holdfast.surfaces.pages import page_file

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from holdfast.core.models.totals import PriceFor


WINDOWS = (16_000, 32_000, 64_000, 128_000, 200_000, 1_000_000)
CUT_NOTE = (
    "would send: the first request right after a cut to that window; it grows again with each step"
)
_CHART_CHARS = 72
"""Columns of a chart, in a terminal of 80."""
_CUTS_SHOWN = 12
"""Compactions whose place is told in words; the chart has all."""
_MANY = 5
"""With more conversations than this, each has a line instead of tables."""
_EXAMPLE = """examples:
  holdfast inspect
  holdfast inspect ~/.claude/projects/my-project/session.jsonl
  holdfast inspect my-project --window 32000 --html report.html"""


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        metavar="FILE|FOLDER|SESSION",
        nargs="*",
        help="without one, the newest transcripts of the agents on this machine",
    )
    add_window(parser)
    add_format(parser)
    parser.add_argument(
        "--newest", type=int, metavar="N", help="only the N files that were changed last"
    )
    parser.add_argument(
        "--system", metavar="FILE", help="a file with the system prompt, to include it in the count"
    )
    parser.add_argument(
        "--tools", metavar="FILE", help="a JSON file with the tools, to include them in the count"
    )
    parser.add_argument("--top", type=int, default=10, metavar="N", help="rows in each table (10)")
    parser.add_argument("--html", type=page_file, metavar="FILE", help="write a page with charts")


def _inspect(args: argparse.Namespace, app: App) -> int:
    if args.top < 1:
        raise UsageError(f"--top {args.top} shows nothing", hint="pass 1 or more")
    names = args.what or offer_transcripts(app, args.newest)
    found = [
        each
        for name in names
        for each in conversations(app, name, format_=args.format, newest=args.newest)
    ]
    is_many = len(found) > _MANY
    windows = (args.window,) if args.window else () if is_many else WINDOWS
    reports = []
    with app.out.progress("counting", len(found)) as advance:
        for each in found:
            reports.append(_report(args, each, windows))
            advance(each.name)
    if args.html:
        app.out.write_file(args.html, page(by_cost(reports)))
    if app.out.is_json:
        shown = [_as_json(report) for report in reports]
        app.out.json(shown[0] if len(shown) == 1 and args.what else shown)
        return 0
    for report in () if is_many else reports:
        _show(report, app, args.top)
    if len(reports) > 1:
        show_overview(reports, app)
    return 0


def _report(
    args: argparse.Namespace, found: Conversation, windows: tuple[int, ...]
) -> InspectReport:
    model = args.model or found.model
    system, tools = system_and_tools(args, found)
    aim = target(default_dialect(model), provider=found.provider, model=model)
    cache = cache_for(aim)
    looked = inspect(
        found.records,
        scale=cache.scale,
        system=system,
        tools=tools,
        price_for=_price_for(args.model, model),
        totals=found.totals,
        top=args.top,
    )
    # Ignore the compactions of other tools, to show what Holdfast would keep of the whole.
    whole = [record for record in found.records if not isinstance(record, Compaction)]
    kept = [
        fit_window(whole, Window(size, "asked for"), aim, system=system, tools=tools, cache=cache)
        for size in windows
    ]
    return InspectReport(
        *(found.name, found.source, looked, kept),
        address=found.address,
        folder=found.folder,
        label=found.label,
    )


def _price_for(asked: str | None, fallback: str) -> PriceFor:
    """Price each call by its own model; all by the one that was asked for, if one was."""
    if asked:
        return lambda _model, _provider, at: price_of(asked, at=at)
    return lambda model, provider, at: price_of(model or fallback, provider, at)


def _as_json(report: InspectReport) -> dict[str, Any]:
    looked: dict[str, Any] = msgspec.to_builtins(report.inspection)
    looked["doubled_tokens"] = report.inspection.doubled_tokens
    looked["unseen_static"] = report.inspection.unseen_static
    kept = msgspec.to_builtins(report.kept)
    return {
        "name": report.name,
        "source": report.source,
        "address": report.address,
        "project": report.project,
        "title": report.title,
        "waste": {"what": report.waste[0], "tokens": report.waste[1]},
        **looked,
        "kept": kept,
    }


def _show(report: InspectReport, app: App, top: int) -> None:
    looked, out = report.inspection, app.out
    out.line(f"{report.name} ({report.source})")
    span = (
        f"{local_time(looked.started)} to {local_time(looked.ended)}"
        if looked.started
        else "no times"
    )
    sizes = ((looked.records, "record"), (looked.turns, "turn"), (looked.steps, "step"))
    out.line(", ".join((*(count(number, noun) for number, noun in sizes), span)))
    if looked.models:
        out.line(f"models: {', '.join(looked.models)}")
    if looked.compactions:
        places = ", ".join(f"{calls:,}" for calls in looked.cuts[:_CUTS_SHOWN])
        more = ", …" if looked.cuts[_CUTS_SHOWN:] else ""
        out.line(f"{count(looked.compactions, 'compaction')}, after call {places}{more}")
    out.line(
        f"{looked.tokens:,} tokens in all, counted by {looked.counter}"
        + (f" × {looked.factor:g}" if looked.factor != 1 else "")
    )
    out.line()
    out.table(("tokens by kind", ">tokens", ">share", ""), bars(looked.kinds, looked.tokens))
    _show_groups(report, app, top)
    _show_items(looked, app, top)
    _show_calls(looked, app)
    _show_trouble(looked, app)
    fit_table(app, report.kept)
    if report.kept:
        out.note(CUT_NOTE)
    if looked.biggest:
        where = f" --session '{report.address}'" if report.source != "session" else ""
        out.note(f"see a record in full: holdfast show {looked.biggest[0].record}{where}")
    out.line()


def fit_table(app: App, kept: Sequence[WindowFit]) -> None:
    app.out.table(
        (">window", ">would send", "", ">kept", ">trimmed", ">cleared", ">summarised"),
        list(map(_fit_row, kept)),
    )


def _show_groups(report: InspectReport, app: App, top: int) -> None:
    looked, out = report.inspection, app.out
    out.line()
    if looked.tools:
        out.table(
            ("tool", ">results", ">tokens", ">largest", ">errors", ""),
            [
                (
                    *(group.name, f"{group.count:,}", f"{group.tokens:,}", f"{group.largest:,}"),
                    str(group.errors or ""),
                    Cell(bar(group.tokens / max(looked.tokens, 1), BAR_CHARS), "name"),
                )
                for group in looked.tools[:top]
            ],
        )
        out.line()
    if looked.files:
        out.table(
            ("file", ">times", ">tokens"),
            [(file.name, f"{file.count:,}", f"{file.tokens:,}") for file in looked.files[:top]],
        )
        out.line()


def _show_items(looked: Inspection, app: App, top: int) -> None:
    out = app.out
    turns = sorted(looked.by_turn, key=lambda item: -item.tokens)[:top]
    for title, items in (("biggest records", looked.biggest), ("biggest turns", tuple(turns))):
        if items:
            out.table((title, "what", ">tokens", "says"), [_item_row(item) for item in items])
            out.line()
    if looked.doubles:
        out.table(
            ("same result again", ">copies", ">wasted tokens", "says"),
            [
                (copy.name or "?", str(copy.copies), f"{copy.tokens:,}", copy.says)
                for copy in looked.doubles[:top]
            ],
        )
        out.line()


def _item_row(item: InspectedItem) -> Row:
    return (item.record, f"{item.kind} {item.name}".strip(), f"{item.tokens:,}", item.says)


def _show_calls(looked: Inspection, app: App) -> None:
    out, spent = app.out, looked.spent
    reported = [call.reported for call in looked.calls]
    sizes = [size for size in reported if size is not None]
    if not sizes:
        return
    out.line(f"context at each call, as reported (largest {max(sizes):,} tokens):")
    out.line(skyline(reported))
    if looked.cuts:
        out.line(cut_marks(looked.cuts, len(reported)))
    if looked.unseen_static:
        out.line(f"of it, {looked.unseen_static:,} were in the first request and not in the log")
    share = spent.cached_read / spent.prompt if spent.prompt else 0
    out.line(
        f"{count(spent.calls, 'call')}: {spent.prompt:,} tokens in, "
        f"{share:.1%} of them from the cache; {spent.output:,} out"
    )
    if looked.abandoned_calls:
        words = "on abandoned branches, or for summaries and notes"
        out.line(f"of them, {count(looked.abandoned_calls, 'call')} {words}")
    if spent.unknown:
        out.line(f"of them, {count(spent.unknown, 'call')} reported no usage: in no sum")
    for each in spent.models if len(spent.models) > 1 or spent.unpriced else ():
        cost = "price unknown" if each.cost is None else f"${each.cost:,.2f}"
        out.line(f"  {each.model or 'no model named'}: {count(each.calls, 'call')}, {cost}")
    if spent.cost is not None:
        out.line(f"cost ${spent.cost:,.2f}; without a cache ${spent.without_cache:,.2f}")
        out.note(spent.price)
    out.line()


def skyline(values: Sequence[int | None], width: int = _CHART_CHARS) -> str:
    """Draw numbers as a row of blocks, scaled to the largest; what is not known is a gap."""
    columns = min(len(values), width)
    parts = [
        values[_place(i, columns, len(values)) : _place(i + 1, columns, len(values))]
        for i in range(columns)
    ]
    highest = [max((value for value in part if value is not None), default=None) for part in parts]
    top = max((value for value in highest if value is not None), default=1) or 1
    return "".join(
        "·" if value is None else "▁▂▃▄▅▆▇█"[min(7, value * 8 // (top + 1))] for value in highest
    )


def cut_marks(cuts: Sequence[int], calls: int, width: int = _CHART_CHARS) -> str:
    """Draw a mark below a skyline for each compaction."""
    columns = min(calls, width)
    marked = {min(cut * columns // max(calls, 1), columns - 1) for cut in cuts}
    line = "".join("✂" if place in marked else " " for place in range(columns))
    return f"{line.rstrip()}  compactions"


def _place(column: int, columns: int, values: int) -> int:
    return column * values // columns


def _show_trouble(looked: Inspection, app: App) -> None:
    counts = Counter(repair.flaw for repair in looked.repairs)
    if counts:
        app.out.table(
            ("what is broken", ">times", "what a request would do about it"),
            [(flaw, f"{count:,}", MEANING[flaw]) for flaw, count in counts.most_common()],
        )
        app.out.line()


def _fit_row(fit: WindowFit) -> Row:
    if fit.refusal:
        return (f"{fit.window:,}", Cell("refused", "bad"), fit.refusal, "", "", "", "")
    kinds = ("kept", "trimmed", "cleared", "summarised")
    counts = (fit.actions.get(kind, {}).get("records", 0) for kind in kinds)
    return (
        f"{fit.window:,}",
        f"{fit.tokens:,}",
        Cell(bar(fit.tokens / fit.window, 16), "name"),
        *(f"{count:,}" if count else "" for count in counts),
    )


VERBS = {
    "inspect": Verb(_add_inspect, _inspect, _EXAMPLE),
}
