"""Policies side by side on one page: what each would cost, lose and have refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.surfaces.cli.inspect.page import document, escape, wide_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.engine.simulation.simulate import Run

_CHARTS: Final[tuple[tuple[str, str, Callable[[Run], float], Callable[[Run], str]], ...]] = (
    (
        "Input cost",
        "Less is better. Requests over the window are refused: such a cost cannot be compared.",
        lambda run: run.cost,
        lambda run: f"${run.cost:,.2f}" + (f", {run.overflows:,} over" if run.overflows else ""),
    ),
    (
        "Recall of what later calls used",
        "More is better.",
        lambda run: run.recall.pooled_share,
        lambda run: f"{run.recall.pooled_share:.1%}",
    ),
    (
        "Recall of what was last seen more than ten steps before",
        "More is better.",
        lambda run: run.recall.far_share,
        lambda run: f"{run.recall.far_share:.1%}",
    ),
    (
        "The user's words in view",
        "More is better.",
        lambda run: run.words_share,
        lambda run: f"{run.words_share:.1%}",
    ),
)


def policy_page(runs: Sequence[Run], about: str, price: str) -> str:
    """Return the page: a chart for each measure, then all figures."""
    charts = "".join(_chart(title, note, runs, value, text) for title, note, value, text in _CHARTS)
    heads = "".join(
        f"<th scope=col{' class=num' if place else ''}>{head}"
        for place, head in enumerate(
            ("policy", "cost", "tokens sent", "cached", "overflows", "invalid", "facts lost")
        )
    )
    rows = "".join(
        f"<tr><td>{escape(run.policy)}<td class=num>${run.cost:,.2f}"
        f"<td class=num>{run.tokens_sent:,}<td class=num>{run.read_share:.1%}"
        f"<td class=num>{run.overflows:,}<td class=num>{run.invalid:,}"
        f"<td class=num>{run.facts_lost:,}"
        for run in runs
    )
    body = (
        f"<h1>Policies compared</h1><p class=dim>{escape(about)}</p>{charts}"
        f"<h2>All figures</h2>{wide_table('All figures', heads, rows)}"
        f"<p class=dim>{escape(price)}</p>"
    )
    return document("Policies compared", body, "holdfast simulate")


def _chart(
    title: str,
    note: str,
    runs: Sequence[Run],
    value: Callable[[Run], float],
    text: Callable[[Run], str],
) -> str:
    top = max((value(run) for run in runs), default=0.0) or 1.0
    rows = "".join(
        f"<tr><td>{escape(run.policy)}<td class=num>{escape(text(run))}"
        f"<td><div class=track><span class=fill style='width:{100 * value(run) / top:.2f}%;"
        f"background:{'#0f766e' if run.policy == 'holdfast' else '#a1a1aa'}'></span></div>"
        for run in runs
    )
    heads = "<th scope=col>policy<th scope=col class=num>found<th scope=col>compared"
    return f"<h2>{escape(title)}</h2><p class=dim>{note}</p>{wide_table(title, heads, rows)}"
