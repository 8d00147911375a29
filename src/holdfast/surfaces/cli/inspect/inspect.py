"""`inspect`: the use of the context in a transcript, and what Holdfast would send instead."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.log.records import Compaction
from holdfast.core.models.dialects import target
from holdfast.core.models.window import Window
from holdfast.core.projection.inspection import KINDS, Group, InspectedItem, Inspection, inspect
from holdfast.core.projection.steps import MEANING
from holdfast.engine.session.prepare import cache_for
from holdfast.errors import UsageError
from holdfast.providers.known_models.lookup import price_of
from holdfast.surfaces.answers import Cell, Row
from holdfast.surfaces.cli.app import App, Verb
from holdfast.surfaces.cli.conversations import (
    Conversation,
    add_window,
    conversations,
    system_and_tools,
)
from holdfast.surfaces.cli.inspect.page import page
from holdfast.surfaces.cli.inspect.reports import InspectReport, WindowFit, fit_window
from holdfast.surfaces.formatting import bar, local_time
from holdfast.surfaces.request_preview import default_dialect

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from holdfast.core.models.spending import PriceFor


WINDOWS = (16_000, 32_000, 64_000, 128_000, 200_000, 1_000_000)
_MANY = 5
"""With more conversations than this, each has a line instead of tables."""
_BAR_CHARS = 32
"""A bar leaves room for the figures in a terminal of 80 columns."""
_EXAMPLE = """examples:
  holdfast inspect ~/.claude/projects/my-project/session.jsonl
  holdfast inspect my-project --window 32000 --html report.html"""


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="FILE|FOLDER|SESSION", nargs="+")
    add_window(parser)
    parser.add_argument(
        "--system", metavar="FILE", help="a file with the system prompt, to include it in the count"
    )
    parser.add_argument(
        "--tools", metavar="FILE", help="a JSON file with the tools, to include them in the count"
    )
    parser.add_argument("--top", type=int, default=10, metavar="N", help="rows in each table (10)")
    parser.add_argument("--html", metavar="FILE", help="write a page with charts")


def _inspect(args: argparse.Namespace, app: App) -> int:
    if args.top < 1:
        raise UsageError(f"--top {args.top} shows nothing", hint="pass 1 or more")
    found = [each for name in args.what for each in conversations(app, name)]
    is_many = len(found) > _MANY
    windows = (args.window,) if args.window else () if is_many else WINDOWS
    reports = []
    with app.out.progress("counting", len(found)) as advance:
        for each in found:
            reports.append(_report(args, each, windows))
            advance(each.name)
    if args.html:
        _write_page(args.html, reports, app)
    if app.out.is_json:
        shown = [_as_json(report) for report in reports]
        app.out.json(shown[0] if len(shown) == 1 else shown)
        return 0
    for report in () if is_many else reports:
        _show(report, app, args.top)
    if len(reports) > 1:
        _show_all(reports, app)
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
        top=args.top,
    )
    # Ignore the compactions of other tools, to show what Holdfast would keep of the whole.
    whole = [record for record in found.records if not isinstance(record, Compaction)]
    kept = [
        fit_window(whole, Window(size, "asked for"), aim, system=system, tools=tools, cache=cache)
        for size in windows
    ]
    return InspectReport(found.name, found.source, looked, kept)


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
    return {"name": report.name, "source": report.source, **looked, "kept": kept}


def _write_page(path: str, reports: list[InspectReport], app: App) -> None:
    try:
        Path(path).write_text(app.out.mask(page(reports)), "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write `{path}`: {error}", hint="choose another file") from error
    app.out.note(f"wrote {path}")


def _show(report: InspectReport, app: App, top: int) -> None:
    looked, out = report.inspection, app.out
    out.line(f"{report.name} ({report.source})")
    span = (
        f"{local_time(looked.started)} to {local_time(looked.ended)}"
        if looked.started
        else "no times"
    )
    out.line(f"{looked.records:,} records, {looked.turns:,} turns, {looked.steps:,} steps, {span}")
    if looked.models:
        out.line(f"models: {', '.join(looked.models)}")
    out.line(
        f"{looked.tokens:,} tokens in all, counted by {looked.counter}"
        + (f" × {looked.factor:g}" if looked.factor != 1 else "")
    )
    out.line()
    out.table(("tokens by kind", ">tokens", ">share", ""), _bars(looked.kinds, looked.tokens))
    _show_groups(report, app, top)
    _show_items(looked, app, top)
    _show_calls(looked, app)
    _show_trouble(looked, app)
    fit_table(app, report.kept)
    out.line()


def fit_table(app: App, kept: Sequence[WindowFit]) -> None:
    app.out.table(
        (">window", ">would send", "", ">kept", ">trimmed", ">cleared", ">summarised"),
        list(map(_fit_row, kept)),
    )


def _bars(groups: tuple[Group, ...], total: int) -> list[Row]:
    return [
        (
            group.name,
            f"{group.tokens:,}",
            f"{group.tokens / total:.1%}" if total else "",
            Cell(bar(group.tokens / total if total else 0, _BAR_CHARS), "name"),
        )
        for group in groups
        if group.tokens
    ]


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
                    Cell(bar(group.tokens / max(looked.tokens, 1), _BAR_CHARS), "name"),
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
    reported = [call.reported for call in looked.calls if call.reported is not None]
    if not reported:
        return
    out.line(f"context at each call, as reported (largest {max(reported):,} tokens):")
    out.line(skyline(reported))
    if looked.unseen_static:
        out.line(f"of it, {looked.unseen_static:,} were in the first request and not in the log")
    share = spent.cached_read / spent.prompt if spent.prompt else 0
    out.line(
        f"{spent.calls:,} calls: {spent.prompt:,} tokens in, {share:.1%} of them from the cache; "
        f"{spent.output:,} out"
    )
    if spent.cost is not None:
        out.line(f"cost ${spent.cost:,.2f}; without a cache ${spent.without_cache:,.2f}")
        out.note(spent.price)
    out.line()


def skyline(values: list[int], width: int = 72) -> str:
    """Draw numbers as a row of blocks, scaled to the largest."""
    if len(values) > width:
        step = len(values) / width
        values = [max(values[int(i * step) : int((i + 1) * step) or 1]) for i in range(width)]
    top = max(max(values), 1)
    return "".join("▁▂▃▄▅▆▇█"[min(7, value * 8 // (top + 1))] for value in values)


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


def _show_all(reports: list[InspectReport], app: App) -> None:
    """Show many conversations in one table, with their totals."""
    looked = [report.inspection for report in reports]
    total = sum(each.tokens for each in looked)
    kinds = [
        Group(name, sum(each.kinds[place].tokens for each in looked))
        for place, name in enumerate(KINDS)
    ]
    app.out.table(("all, by kind", ">tokens", ">share", ""), _bars(tuple(kinds), total))
    app.out.line()
    rows: list[Row] = [
        (
            report.name,
            f"{report.inspection.turns:,}",
            f"{report.inspection.steps:,}",
            f"{report.inspection.tokens:,}",
            Cell(bar(report.inspection.tokens / max(total, 1), 16), "name"),
            f"{_results_share(report.inspection):.0%}",
            f"{report.inspection.doubled_tokens:,}",
            f"${report.inspection.spent.cost:,.2f}" if report.inspection.spent.cost else "",
        )
        for report in sorted(reports, key=lambda report: -report.inspection.tokens)
    ]
    heads = (">turns", ">steps", ">tokens", "", ">tool results", ">doubled", ">cost")
    app.out.table(("conversation", *heads), rows)
    spent = [each.spent.cost for each in looked if each.spent.cost is not None]
    paid = f", ${sum(spent):,.2f} as far as it was reported" if spent else ""
    app.out.line(f"{len(reports):,} conversations, {total:,} tokens{paid}")


def _results_share(looked: Inspection) -> float:
    results = next(kind.tokens for kind in looked.kinds if kind.name == "tool results")
    return results / looked.tokens if looked.tokens else 0.0


VERBS = {
    "inspect": Verb(_add_inspect, _inspect, _EXAMPLE),
}
