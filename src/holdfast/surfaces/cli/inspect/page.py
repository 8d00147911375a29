"""An inspection as one HTML page with charts, without scripts or network access."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Final

from holdfast.core.secrets.plain_reading import plain_reading
from holdfast.surfaces.cli.inspect.index_page import index_part
from holdfast.surfaces.formatting import count, local_time, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.projection.inspection import Group, Inspection
    from holdfast.surfaces.cli.inspect.reports import InspectReport, WindowFit

_COLOURS = {
    "system prompt": "#64748b",
    "tool schemas": "#94a3b8",
    "user": "#16a34a",
    "added by programs": "#65a30d",
    "assistant": "#2563eb",
    "thinking": "#7c3aed",
    "tool calls": "#0891b2",
    "tool results": "#ea580c",
    "images": "#db2777",
    "other": "#a16207",
}
_ACTIONS = {
    "kept": "#2563eb",
    "trimmed": "#0891b2",
    "cleared": "#ea580c",
    "summarised": "#a1a1aa",
    "dropped": "#dc2626",
    "injected": "#16a34a",
}
_PARTS_MAX: Final = 100
"""Conversations with a part of their own: more would make a page that no browser likes."""
_STYLE = """
:root { color-scheme: light dark; --ink: #18181b; --dim: #5f5f68; --line: #e4e4e7; --back: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #f4f4f5; --dim: #a1a1aa; --line: #3f3f46; --back: #18181b; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
       max-width: 960px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 2.5rem 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.dim { color: var(--dim); }
.num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th { text-align: left; color: var(--dim); font-weight: 500; }
th.num { text-align: right; }
td, th { padding: .28rem .6rem .28rem 0; border-bottom: 1px solid var(--line);
         vertical-align: top; }
td { overflow-wrap: anywhere; } .says { color: var(--dim); }
.wide { overflow-x: auto; } .wide:focus-visible { outline: 2px solid #2563eb; }
.day { white-space: nowrap; } code { font-size: .85em; overflow-wrap: anywhere; }
a { color: inherit; } section { border-top: 1px solid var(--line); margin-top: 2.5rem; }
.track { background: var(--line); border-radius: 3px; min-width: 140px; height: .75rem; }
.fill { display: block; height: .75rem; border-radius: 3px; }
.legend span { display: inline-block; margin-right: 1rem; white-space: nowrap; font-size: .85rem; }
.legend i { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px;
            margin-right: .35rem; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--dim); font-size: 11px; }
.cards { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0; }
.card { border: 1px solid var(--line); border-radius: 8px; padding: .6rem .9rem; min-width: 120px; }
.card b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
@media (max-width: 600px) {
  .index tr { display: flex; flex-wrap: wrap; gap: 0 .8rem; padding: .5rem 0;
              border-bottom: 1px solid var(--line); }
  .index tr:first-child, .index td:empty { display: none; }
  .index td { border: 0; padding: 0; color: var(--dim); }
  .index td:last-child { order: -1; flex-basis: 100%; color: inherit; }
  .index [data-unit]::after { content: " " attr(data-unit); }
  td:not(.num) { min-width: 7.5rem; } .index td, td:has(.track) { min-width: 0; }
  .track { min-width: 50px; } svg { overflow: visible; } svg text { font-size: 28px; }
}
"""


def escape(text: str) -> str:
    """Return a text for a page, without the colours and controls of a terminal."""
    reading = plain_reading(text) if "\x1b" in text else None
    return html.escape(printable(reading.text if reading is not None else text, " "))


def page(reports: Sequence[InspectReport]) -> str:
    """Return the page for one or several conversations."""
    title = reports[0].name if len(reports) == 1 else f"{len(reports)} conversations"
    shown = reports[:_PARTS_MAX]
    body = "\n".join(
        _report(report, place, f", conversation {place + 1:,}" if len(reports) > 1 else "")
        for place, report in enumerate(shown)
    )
    if len(reports) > 1:
        body = index_part(reports, len(shown), escape) + body
    return document(f"{title}: where the context went", body, "holdfast inspect")


def document(title: str, body: str, maker: str) -> str:
    """Return a whole page that needs nothing else."""
    return (
        "<!doctype html>\n<html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
        f"<body><main>{body}</main>"
        f"<footer class=dim>Made by {maker}.</footer></body></html>\n"
    )


def _report(report: InspectReport, place: int, whose: str) -> str:
    """Return the part of one conversation; `whose` ends the labels of its tables, because screen
    readers list them by label."""
    looked = report.inspection
    title = escape(report.title or report.name)
    parts = [
        f"<h1 id=c{place}>{title}</h1>",
        f"<div class=dim>{escape(_about(report))}</div>",
        _cards(looked),
        "<h2>Tokens by kind</h2>",
        _stack(
            [(kind.name, kind.tokens, _COLOURS[kind.name]) for kind in looked.kinds if kind.tokens]
        ),
        _calls(looked),
        _models(looked, whose),
        _windows(report, whose),
        _groups("Tools", ("tool", "results"), looked.tools, looked.tokens, whose),
        _groups("Files", ("file", "times"), looked.files, looked.tokens, whose),
        _items(report, whose),
    ]
    return "<section>" + "\n".join(parts) + "</section>"


def _windows(report: InspectReport, whose: str) -> str:
    if not report.kept:
        return ""
    note = "The first request right after a cut to each window; it grows again with each step."
    return f"<h2>What Holdfast would send</h2><p class=dim>{note}</p>{_fits(report.kept, whose)}"


def _models(looked: Inspection, whose: str) -> str:
    """Show the cost by model, and the calls of unknown cost."""
    spent = looked.spent
    if not spent.models:
        return ""
    rows = "".join(
        f"<tr><td>{escape(each.model or 'no model named')}<td class=num>{each.calls:,}"
        f"<td class=num>{each.prompt:,}<td class=num>{each.output:,}<td class=num>"
        + ("unknown" if each.cost is None else f"${each.cost:,.2f}")
        for each in spent.models
    )
    heads = "".join(
        f"<th scope=col{'' if place == 0 else ' class=num'}>{head}"
        for place, head in enumerate(("model", "calls", "tokens in", "out", "cost"))
    )
    gap = f"{count(spent.unknown, 'call')} without a reported usage." if spent.unknown else ""
    return (
        f"<h2>Cost by model</h2>{wide_table(f'Cost by model{whose}', heads, rows)}"
        f"<p class=dim>{escape(spent.price)}. {gap}</p>"
    )


def wide_table(name: str, heads: str, rows: str) -> str:
    """Return a table that scrolls by itself where the screen is narrow.

    `name` is its label, which no other table of the page has.
    """
    label = html.escape(name, quote=True)
    return (
        f"<div class=wide tabindex=0 role=region aria-label='{label}'>"
        f"<table><tr>{heads}{rows}</table></div>"
    )


def _about(report: InspectReport) -> str:
    looked = report.inspection
    span = f", {local_time(looked.started)} to {local_time(looked.ended)}" if looked.started else ""
    models = f", {', '.join(looked.models)}" if looked.models else ""
    project = f", {report.folder}" if report.folder else ""
    return f"{report.name}, {report.source}{span}{models}{project}"


def _cards(looked: Inspection) -> str:
    cards = [
        ("tokens in all", f"{looked.tokens:,}"),
        ("turns", f"{looked.turns:,}"),
        ("compactions", f"{looked.compactions:,}"),
        ("steps", f"{looked.steps:,}"),
        ("doubled tokens", f"{looked.doubled_tokens:,}"),
        ("repairs", f"{len(looked.repairs):,}"),
    ]
    if looked.spent.cost is not None:
        cards.append(("cost", f"${looked.spent.cost:,.2f}"))
    inner = "".join(
        f"<div class=card><span class=dim>{escape(name)}</span><b>{escape(value)}</b></div>"
        for name, value in cards
    )
    return f"<div class=cards>{inner}</div>"


def _stack(shares: Sequence[tuple[str, int, str]]) -> str:
    """Draw a bar of several colours with a legend; without tokens, say so."""
    total = sum(tokens for _name, tokens, _colour in shares)
    if not total:
        return "<p class=dim>No tokens.</p>"
    left, rects, legend = 0.0, [], []
    for name, tokens, colour in shares:
        width = 1000 * tokens / total
        words = f"{name}: {tokens:,} tokens, {tokens / total:.1%}"
        rects.append(
            f"<rect x={left:.2f} y=0 width={width:.2f} height=34 fill='{colour}'>"
            f"<title>{escape(words)}</title></rect>"
        )
        legend.append(
            f"<span><i style='background:{colour}'></i>{escape(name)} {tokens:,} "
            f"({tokens / total:.1%})</span>"
        )
        left += width
    said = ", ".join(f"{name} {tokens / total:.0%}" for name, tokens, _colour in shares)
    picture = (
        f"<svg viewBox='0 0 1000 34' role=img aria-label='{escape(said)}'>{''.join(rects)}</svg>"
    )
    return f"{picture}<div class=legend>{''.join(legend)}</div>"


def _calls(looked: Inspection) -> str:
    """Draw the context at each call: as reported, and the whole history as we count it."""
    if len(looked.calls) < 2:
        return ""
    reported = [call.reported for call in looked.calls]
    known = [size for size in reported if size is not None]
    seen = [call.seen for call in looked.calls]
    top = max(*known, *seen, 1)
    lines = [_line(seen, top, "#a1a1aa", "the whole history, never cut")]
    lines += [
        f"<line x1={x:.1f} x2={x:.1f} y1=16 y2=220 stroke='#7c3aed' stroke-width=2 "
        f"stroke-dasharray='5 4'><title>compaction after call {cut:,}</title></line>"
        for cut in looked.cuts
        for x in [1000 * min(cut, len(seen) - 1) / (len(seen) - 1)]
    ]
    if known:
        lines.append(_line(reported, top, "#ea580c", "reported by the provider"))
    marks = "".join(
        f"<line x1=0 x2=1000 y1={y} y2={y} stroke='#8884' />"
        f"<text x=4 y={y - 4}>{top * (220 - y) // 200:,}</text>"
        for y in (20, 70, 120, 170)
    )
    legend = "<span><i style='background:#a1a1aa'></i>the whole history, never cut</span>"
    if looked.cuts:
        legend += "<span><i style='background:#7c3aed'></i>compaction</span>"
    if known:
        legend += "<span><i style='background:#ea580c'></i>as the provider reported it</span>"
    said = (
        f"{len(seen):,} calls, the largest with {max(known, default=0):,} reported tokens, "
        f"{count(len(looked.cuts), 'compaction')}"
    )
    return (
        "<h2>Context at each call</h2>"
        f"<svg viewBox='0 0 1000 230' role=img aria-label='{said}'>{marks}{''.join(lines)}"
        f"<text x=1000 y=228 text-anchor=end>{len(looked.calls):,} calls</text></svg>"
        f"<div class=legend>{legend}</div>"
    )


def _line(values: Sequence[int | None], top: int, colour: str, name: str) -> str:
    """Draw a line that is broken where a value is not known."""
    last = max(len(values) - 1, 1)
    pieces: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{1000 * place / last:.1f},{220 - 200 * value / top:.1f}")
    return "".join(
        f"<polyline points='{' '.join(points if len(points) > 1 else points * 2)}' fill=none "
        f"stroke='{colour}' stroke-width=2 stroke-linecap=round>"
        f"<title>{escape(name)}</title></polyline>"
        for points in pieces
        if points
    )


def _fits(fits: Iterable[WindowFit], whose: str) -> str:
    rows = []
    for fit in fits:
        if fit.refusal:
            rows.append(f"<tr><td class=num>{fit.window:,}<td colspan=2>{escape(fit.refusal)}")
            continue
        counts = ", ".join(f"{sums['records']:,} {action}" for action, sums in fit.actions.items())
        shares = [
            (action, sums["after"], _ACTIONS[action])
            for action, sums in fit.actions.items()
            if sums["after"]
        ]
        fills = _fills(shares, fit.window)
        rows.append(
            f"<tr><td class=num>{fit.window:,}<td class=num>{fit.tokens:,}"
            f"<td>{fills}<div class=says>{escape(counts)}</div>"
        )
    heads = "<th scope=col class=num>window<th scope=col class=num>would send<th scope=col>of it"
    return wide_table(f"What Holdfast would send{whose}", heads, "".join(rows))


def _fills(shares: Sequence[tuple[str, int, str]], whole: int) -> str:
    inner = "".join(
        f"<span class=fill style='float:left;width:{100 * tokens / whole:.3f}%;"
        f"background:{colour}' title='{escape(name)} {tokens:,}'></span>"
        for name, tokens, colour in shares
    )
    return f"<div class=track>{inner}</div>"


def _groups(
    title: str, heads: tuple[str, str], groups: Sequence[Group], total: int, whose: str
) -> str:
    if not groups:
        return ""
    rows = "".join(
        f"<tr><td>{escape(group.name)}<td class=num>{group.count:,}<td class=num>{group.tokens:,}"
        f"<td class=num>{group.largest:,}<td>"
        + _fills([(group.name, group.tokens, "#ea580c")], max(total, 1))
        for group in groups[:20]
    )
    names = "".join(
        f"<th scope=col{'' if place == 0 else ' class=num'}>{escape(head)}"
        for place, head in enumerate((*heads, "tokens", "largest"))
    )
    return f"<h2>{escape(title)}</h2>" + wide_table(
        title + whose, f"{names}<th scope=col>share", rows
    )


def _items(report: InspectReport, whose: str) -> str:
    looked = report.inspection
    turns = sorted(looked.by_turn, key=lambda item: -item.tokens)[:10]
    tables = []
    for title, items in (("Biggest records", looked.biggest), ("Biggest turns", turns)):
        rows = "".join(
            f"<tr><td><code>{escape(item.record)}</code>"
            f"<td>{escape(f'{item.kind} {item.name}'.strip())}"
            f"<td class=num>{item.tokens:,}<td class=says>{escape(item.says)}"
            for item in items
        )
        heads = (
            "<th scope=col>record<th scope=col>what<th scope=col class=num>tokens<th scope=col>says"
        )
        tables.append(f"<h2>{title}</h2>" + wide_table(title + whose, heads, rows))
    if looked.biggest:
        where = f" --session '{report.address}'" if report.source != "session" else ""
        command = f"holdfast show {looked.biggest[0].record}{where}"
        tables.append(f"<p class=dim>A record in full: <code>{escape(command)}</code></p>")
    if looked.doubles:
        rows = "".join(
            f"<tr><td>{escape(item.name or '?')}<td class=num>{item.copies}"
            f"<td class=num>{item.tokens:,}<td class=says>{escape(item.says)}"
            for item in looked.doubles[:10]
        )
        heads = (
            "<th scope=col>tool<th scope=col class=num>copies"
            "<th scope=col class=num>wasted tokens<th scope=col>says"
        )
        tables.append(
            "<h2>The same result again</h2>" + wide_table(f"Repeated results{whose}", heads, rows)
        )
    return "".join(tables)
