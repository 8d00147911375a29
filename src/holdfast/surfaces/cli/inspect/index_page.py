"""The first part of a page about many conversations: totals, charts over time, and links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.surfaces.cli.inspect.overview import cost_cell, model_cell, sum_reports
from holdfast.surfaces.formatting import local_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.surfaces.cli.inspect.overview import Totals
    from holdfast.surfaces.cli.inspect.reports import InspectReport

_DAYS_MAX: Final = 120
"""Bars that can be told apart on a page; longer spans are drawn by their last days."""


def index_part(reports: Sequence[InspectReport], linked: int, escape: Callable[[str], str]) -> str:
    """Return the index; the first `linked` conversations have a part of their own below."""
    totals = sum_reports(reports)
    cards = (
        ("conversations", f"{totals.conversations:,}"),
        ("calls", f"{totals.calls:,}"),
        ("cost", f"${totals.cost:,.2f}"),
        ("tokens of conversation", f"{totals.tokens:,}"),
        ("tokens billed, in", f"{totals.prompt:,}"),
        ("tokens billed, out", f"{totals.output:,}"),
        ("compactions", f"{totals.compactions:,}"),
    )
    inner = "".join(
        f"<div class=card><span class=dim>{name}</span><b>{value}</b></div>"
        for name, value in cards
    )
    rows = "".join(
        _row(report, place < linked, place, escape) for place, report in enumerate(reports)
    )
    heads = (
        "<tr><th scope=col class=num>cost<th scope=col class=num>calls<th scope=col class=num>cuts"
        "<th scope=col>date<th scope=col>project<th scope=col>model"
        "<th scope=col>biggest waste<th scope=col>first words"
    )
    return (
        f"<h1>Where the context went</h1><p class=dim>{escape(totals.cost_text)}. "
        "Each call at the list price of its own model and day.</p>"
        f"<div class=cards>{inner}</div>{_days(totals)}"
        "<h2>Conversations, the dearest first</h2>"
        f"<div class=wide tabindex=0 role=region aria-label='Conversations'>"
        f"<table class=index>{heads}{rows}</table></div>"
    )


def _row(report: InspectReport, is_linked: bool, place: int, escape: Callable[[str], str]) -> str:
    looked = report.inspection
    waste, tokens = report.waste
    title = escape(report.title or report.name)
    calls = looked.spent.calls
    words = f"<a href='#c{place}'>{title}</a>" if is_linked else title
    return (
        f"<tr><td class=num>{escape(cost_cell(report))}"
        f"<td class=num data-unit={'call' if calls == 1 else 'calls'}>{calls:,}"
        f"<td class=num data-unit={'cut' if looked.compactions == 1 else 'cuts'}>"
        f"{looked.compactions or ''}"
        f"<td class=day>{local_time(looked.started)[:10] if looked.started else ''}"
        f"<td>{escape(report.project)}<td>{escape(model_cell(report))}"
        f"<td>{f'{tokens:,} {escape(waste)}' if tokens else ''}<td>{words}"
    )


def _days(totals: Totals) -> str:
    """Draw the cost and the calls of each day."""
    days = totals.by_day[-_DAYS_MAX:]
    if len(days) < 2:
        return ""
    charts = (
        ("Cost by day", [(day, dollars, f"${dollars:,.2f}") for day, dollars, _ in days]),
        ("Calls by day", [(day, float(calls), f"{calls:,} calls") for day, _, calls in days]),
    )
    drawn = "".join(
        _chart(title, values) for title, values in charts if any(v for _, v, _ in values)
    )
    if totals.cost_without_day < 0.005:
        return drawn
    words = "on abandoned branches, and for summaries and notes: in no bar"
    return f"{drawn}<p class=dim>${totals.cost_without_day:,.2f} {words}.</p>"


def _chart(title: str, values: Sequence[tuple[str, float, str]]) -> str:
    top = max(value for _, value, _ in values) or 1.0
    highest = max(values, key=lambda each: each[1])
    width = 1000 / len(values)
    drawn = "".join(
        f"<rect x={place * width + 0.1 * width:.2f} y={120 - 100 * value / top:.2f} "
        f"width={0.8 * width:.2f} height={100 * value / top:.2f} fill='#ea580c'>"
        f"<title>{day}: {words}</title></rect>"
        for place, (day, value, words) in enumerate(values)
    )
    said = f"{title}: from {values[0][0]} to {values[-1][0]}, most on {highest[0]} ({highest[2]})"
    return (
        f"<h2>{title}</h2><svg viewBox='0 0 1000 122' role=img aria-label='{said}'>"
        f"<line x1=0 x2=1000 y1=120 y2=120 stroke='#8888' />{drawn}</svg>"
        f"<p class=dim>Days with calls from {values[0][0]} to {values[-1][0]}; "
        f"most on {highest[0]}: {highest[2]}.</p>"
    )
