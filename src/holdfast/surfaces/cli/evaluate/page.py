"""An evaluation as one HTML page, without scripts or network access: every loss with its cut."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from holdfast.core.evaluation.needs import NEED_KINDS
from holdfast.core.evaluation.report import describe_cut
from holdfast.surfaces.cli.inspect.page import document, escape, wide_table
from holdfast.surfaces.formatting import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.evaluation.baseline import Comparison
    from holdfast.core.evaluation.losses import Loss
    from holdfast.core.evaluation.report import Evaluation, SessionEvaluation

_LOSSES_MAX: Final = 500
"""Losses of a session on the page: more would make a page that no browser likes."""
_STYLE: Final = (
    "<style>.loss{border:1px solid var(--line);border-radius:8px;padding:.7rem .9rem;"
    "margin:.8rem 0}"
    ".loss h3{font-size:1rem;margin:0 0 .4rem;overflow-wrap:anywhere}"
    ".loss dl{display:grid;grid-template-columns:7.5rem 1fr;gap:.15rem .6rem;margin:0;"
    "font-size:.88rem}.loss dt{color:var(--dim)}.loss dd{margin:0;overflow-wrap:anywhere}"
    ".kind{display:inline-block;border:1px solid var(--line);border-radius:4px;padding:0 .4rem;"
    "font-size:.8rem;font-weight:500;margin-right:.5rem}"
    "@media(max-width:480px){.loss dl{grid-template-columns:1fr}.loss dd{margin-bottom:.35rem}}"
    "</style>"
)


def evaluation_page(report: Evaluation, compared: Comparison | None = None) -> str:
    """Return the page: the figures, the losses by kind, and each loss by session."""
    title = "What later replies needed and no longer had"
    figures = report.figures
    about = (
        f"{count(len(report.sessions), 'session')}, {count(figures.calls, 'call')}, "
        f"policy {report.policy}, a window of {report.window:,} tokens"
    )
    body = (
        f"{_STYLE}<h1>{title}</h1><p class=dim>{escape(about)}</p>{_cards(report)}"
        f"{_verdict(compared)}<h2>By kind</h2>{_kinds(report, compared)}"
        f"{_sessions(report)}"
        f"{''.join(_session(each, place) for place, each in enumerate(report.sessions))}"
    )
    return document(title, body, "holdfast evaluate")


def _cards(report: Evaluation) -> str:
    figures = report.figures
    cards = (
        ("losses", f"{len(report.losses):,}"),
        ("input cost", f"${figures.cost:,.2f}"),
        ("read from the cache", f"{figures.read_share:.1%}"),
        ("cuts", f"{figures.cuts:,}"),
        ("overflows", f"{figures.overflows:,}"),
    )
    inner = "".join(
        f"<div class=card><span class=dim>{name}</span><b>{value}</b></div>"
        for name, value in cards
    )
    return f"<div class=cards>{inner}</div>"


def _verdict(compared: Comparison | None) -> str:
    if compared is None:
        return ""
    sessions = count(compared.compared, "session")
    if not compared.worse:
        return f"<p>No worse than the baseline in {sessions}.</p>"
    items = "".join(f"<li>{escape(text)}" for text in compared.worse)
    return f"<h2>Worse than the baseline</h2><p class=dim>{sessions} compared</p><ul>{items}</ul>"


def _kinds(report: Evaluation, compared: Comparison | None) -> str:
    heads = _heads("needed", "different", "lost", *(("baseline",) if compared else ()))
    needed, lost = report.need_counts, report.loss_counts
    rows = "".join(
        f"<tr><td>{kind}<td class=num>{needed[kind]:,}<td class=num>{lost[kind]:,}"
        + (f"<td class=num>{compared.lost_before[kind]:,}" if compared else "")
        for kind in NEED_KINDS
    )
    return wide_table("By kind", heads, rows)


def _sessions(report: Evaluation) -> str:
    if len(report.sessions) == 1:
        return ""
    rows = "".join(
        f"<tr><td><a href='#s{place}'>{escape(each.title or each.name)}</a>"
        f"<td class=num>{each.figures.calls:,}"
        f"<td class=num>{len(each.losses):,}<td class=num>{each.figures.cuts:,}"
        f"<td class=num>{each.figures.overflows:,}<td class=num>${each.figures.cost:,.2f}"
        for place, each in enumerate(report.sessions)
    )
    heads = _heads("session", "calls", "losses", "cuts", "overflows", "cost")
    return f"<h2>Sessions</h2>{wide_table('Sessions', heads, rows)}"


def _session(session: SessionEvaluation, place: int) -> str:
    shown = session.losses[:_LOSSES_MAX]
    losses = "".join(_loss(loss, session.address) for loss in shown)
    more = len(session.losses) - len(shown)
    rest = f"<p class=dim>{more:,} more are not shown.</p>" if more else ""
    return (
        f"<section><h2 id=s{place}>{escape(session.title or session.name)}</h2>"
        f"<p class=dim>{escape(session.name)}</p>"
        f"{losses or '<p class=dim>Nothing was lost.</p>'}{rest}</section>"
    )


def _loss(loss: Loss, address: str) -> str:
    seen = loss.seen
    tool = f" of <code>{escape(seen.tool)}</code>" if seen.tool else ""
    source = (
        f"{escape(seen.kind)} <code>{escape(seen.record)}</code>{tool}, call {seen.call:,}"
        if seen.record
        else "nowhere in the requests"
    )
    command = escape(shlex.join(("holdfast", "show", seen.record, "--session", address)))
    show = f"<dt>To read it<dd><code>{command}</code>" if address and seen.record else ""
    ways = "<br>".join(f"<code>{escape(way)}</code>" for way in loss.ways_back)
    return (
        f"<article class=loss><h3><span class=kind>{loss.kind}</span>{escape(loss.text)}</h3><dl>"
        f"<dt>Last seen<dd>{source}"
        f"<dt>Taken by<dd>{escape(describe_cut(loss))}"
        f"<dt>Needed by<dd><code>{escape(loss.needed_by)}</code>, call {loss.needed_call:,}; "
        f"missing in {count(loss.calls, 'call')}"
        f"<dt>Ways back<dd>{ways}{show}</dl></article>"
    )


def _heads(*names: str) -> str:
    cells: Sequence[str] = [
        f"<th scope=col{' class=num' if place else ''}>{name}" for place, name in enumerate(names)
    ]
    return "".join(cells)
