"""The pages of the context: what fills the window now, the fate of each record, the request."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from holdfast.core.log.records import InjectedContext
from holdfast.core.projection.ledger import totals
from holdfast.core.projection.steps import MEANING
from holdfast.engine.operations.next_request import terms_now
from holdfast.engine.workspace.request_preview import read_request
from holdfast.surfaces.console.charts import legend, pattern_sheet, window_bar
from holdfast.surfaces.console.html import Html, join, tag
from holdfast.surfaces.console.layout import (
    gist,
    moment,
    number,
    page,
    page_route,
    row,
    session_path,
    table,
    tokens,
)
from holdfast.surfaces.console.plans import heading
from holdfast.surfaces.console.sessions import select
from holdfast.surfaces.http.route import HttpQuery, NoQuery

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.projection.ledger import LedgerLine
    from holdfast.core.projection.project import Plan
    from holdfast.engine.workspace.request_preview import RequestFacts, RequestTerms
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_LINES: Final = 100
"""Lines of the ledger on a page."""
_LARGEST: Final = 20
"""Records in the list of what takes the room."""
_ADDED: Final = 20
"""Pieces of added context in the list."""
_ADDED_RECORDS: Final = 500
"""Records that are looked at for them."""
_LABELS: Final = {
    "system": "system prompt",
    "tools": "tool schemas",
    "hidden": "measured by the provider, not in the log",
    "summary": "carry-over summary",
    "context": "injected context",
    "user": "user",
    "program": "added by programs",
    "assistant": "assistant",
    "tool_result": "tool results",
    "other": "other messages",
    "reserve": "reserve for errors of the estimate",
    "reply": "reserved for the reply",
}
_KINDS: Final = {
    "summary": "summary",
    "compaction": "summary",
    "context": "context",
    "user": "user",
    "assistant": "assistant",
    "tool_use": "assistant",
    "tool_result": "tool_result",
}
"""From the kind of a record to the category in the picture."""


class FateQuery(HttpQuery, frozen=True):
    """The lines of the ledger to show."""

    action: Literal[
        "", "kept", "trimmed", "cleared", "summarised", "dropped", "injected", "silent"
    ] = ""
    start: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] | None = None
    """The place of the first line; without it, the newest are shown."""


def categories(plan: Plan) -> list[tuple[str, str, int]]:
    """Return the parts of the window that are used, in the order of the request, as category,
    label and tokens. Their sum is the request and its reserves."""
    sizes: Counter[str] = Counter()
    for line in plan.ledger:
        sizes[line.speaker or _KINDS.get(line.kind, "other")] += line.after
    found = plan.tokens
    sizes["other"] += found.messages - sum(sizes.values())  # what no single record takes
    sizes |= {"system": found.system, "tools": found.tools, "hidden": found.hidden}
    sizes |= {"reply": plan.budget.output_reserve, "reserve": plan.budget.dynamic_reserve}
    return [(kind, label, sizes[kind]) for kind, label in _LABELS.items() if sizes[kind] > 0]


def window_picture(plan: Plan) -> Html:
    """Return the window as a bar with its budget and thresholds, and a legend with the numbers."""
    parts, whole = categories(plan), plan.window.tokens
    budget = plan.budget
    compact = budget.static + plan.limits.compact_at
    marks = [
        (f"compaction at {number(compact)}", compact),
        (f"budget {number(budget.static + budget.tokens)}", budget.static + budget.tokens),
    ]
    free = whole - sum(size for _kind, _label, size in parts)
    shown = [(kind, label, f"{tokens(size)} {size / whole:.1%}") for kind, label, size in parts]
    return join(
        window_bar(parts, plan.window, marks),
        legend(shown),
        tag("p", "Free: ", tag("b", f"{tokens(max(0, free))} {max(0, free) / whole:.1%}")),
    )


def show_now(call: HttpCall) -> HttpAnswer:
    """The window as one bar, and the records that take the most room."""
    key = call.session()
    terms = terms_now(call.workspace, key)
    found = read_request(call.store, key, terms)
    plan = found.plan
    title, top = heading(call, key, "/context")
    used = plan.tokens
    half = plan.window.tokens // 2
    source = call.workspace.mask(plan.window.source)
    return page(
        title,
        top,
        tag("h2", "What fills the window now"),
        tag(
            "p",
            "The next request has ",
            tag("b", tokens(used.total), id="total"),
            f" of {tokens(plan.window.tokens)} ({source}); {used.basis}, by {used.counter}.",
        ),
        pattern_sheet(),
        window_picture(plan),
        tag(
            "p",
            tag(
                "a",
                "The request at half the window",
                href=session_path(key, "/context/what-if", window=half),
            ),
            " · ",
            tag("a", "What was cut last, and why", href=session_path(key, "/compaction")),
            " · ",
            _same_numbers(key, terms),
        ),
        _next_decisions(call, plan),
        _warnings(call, plan),
        _largest(call, key, plan),
        _by_tool(call, plan),
        _recall_table(call, key),
        _fate_sums(key, found),
    )


def _same_numbers(key: SessionKey, terms: RequestTerms) -> Html:
    """The way to the same numbers outside: the command, which knows no settings of this server, or
    the address of the API, which does."""
    if terms.base is None:
        line = f"holdfast context {key.session} --agent {key.agent} --json"
        return tag("code", line, data_copy=True)
    address = f"/v1/sessions/{key.agent}/{key.session}/context"
    return tag("a", f"GET {address}", href=address)


def _next_decisions(call: HttpCall, plan: Plan) -> Html | None:
    if not plan.decisions:
        return None
    said = [f"{record.kind}: {getattr(record, 'reason', '') or ''}" for record in plan.decisions]
    return tag(
        "p",
        "The next turn would first decide: ",
        call.workspace.mask("; ".join(said)),
        class_="notice",
    )


def _warnings(call: HttpCall, plan: Plan) -> Html | None:
    mask = call.workspace.mask
    items = [tag("li", mask(warning)) for warning in plan.warnings]
    return tag("ul", *items, class_="notice") if items else None


def _largest(call: HttpCall, key: SessionKey, plan: Plan) -> Html:
    found = sorted(plan.ledger, key=lambda line: -line.after)[:_LARGEST]
    rows = [
        row(
            _record_link(key, line),
            kind_text(call, line),
            number(line.after),
            f"{line.after / max(1, plan.tokens.total):.1%}",
            line.action,
            numbers=(2, 3),
        )
        for line in found
        if line.after
    ]
    heads = ("record", "what", ">tokens", ">of the request", "fate")
    return table(heads, rows, "What takes the room, the largest first")


def _by_tool(call: HttpCall, plan: Plan) -> Html | None:
    sums: Counter[str] = Counter()
    for line in plan.ledger:
        if line.kind == "tool_result" and line.after:
            sums[line.name or "unnamed"] += line.after
    if not sums:
        return None
    rows = [
        row(gist(call.workspace.mask(name), 80), number(size), numbers=(1,))
        for name, size in sums.most_common(_LARGEST)
    ]
    return table(("tool", ">tokens"), rows, "Results in view, by tool")


def _fate_sums(key: SessionKey, found: RequestFacts) -> Html:
    rows = [
        row(
            tag("a", action, href=session_path(key, "/context/fate", action=action)),
            number(count),
            number(before),
            number(after),
            numbers=(1, 2, 3),
        )
        for action, (count, before, after) in totals(found.ledger).items()
    ]
    return join(
        table(
            ("fate", ">records", ">tokens before", ">tokens after"),
            rows,
            "The fate of every record",
        ),
        _note_unlisted(found),
    )


def _note_unlisted(found: RequestFacts) -> Html | None:
    if not found.unlisted:
        return None
    words = f"{number(found.unlisted)} more records are older, or on other branches."
    return tag("p", words, class_="dim")


def kind_text(call: HttpCall, line: LedgerLine) -> str:
    """Return the kind of a record, and its tool."""
    return gist(call.workspace.mask(f"{line.kind} {line.name}"), 80)


def _recall_table(call: HttpCall, key: SessionKey) -> Html | None:
    """The context that programs added to turns: recalled memory, a checkpoint, other text."""
    found = [
        record
        for record in islice(call.store.back(key), _ADDED_RECORDS)
        if isinstance(record, InjectedContext)
    ][:_ADDED]
    if not found:
        return None
    mask = call.workspace.mask
    rows = [
        row(
            tag("a", record.id, href=session_path(key, f"/records/{record.id}")),
            moment(record.ts),
            gist(mask(record.source or "a program"), 80),
            gist(mask(record.text[:4_000]), 200),
        )
        for record in found
    ]
    return table(
        ("record", "when", "from", "what"), rows, "Recalled and added to turns, newest first"
    )


def _record_link(key: SessionKey, line: LedgerLine) -> object:
    if not line.record or line.record == "(new)":
        return "new"
    return tag("a", line.record, href=session_path(key, f"/records/{line.record}"))


def show_fate(call: HttpCall) -> HttpAnswer:
    """Every record: tokens before and after, what was done, why, and the way back."""
    key, query = call.session(), call.query
    found = read_request(call.store, key, terms_now(call.workspace, key))
    chosen = [line for line in found.ledger if query.action in ("", line.action)]
    newest = max(0, len(chosen) - _LINES)
    start = min(query.start if query.start is not None else newest, max(0, len(chosen) - 1))
    lines = chosen[start : start + _LINES]
    title, top = heading(call, key, "/context/fate")
    heads = ("record", "kind", "fate", ">before", ">after", "why", "way back")
    actions: tuple[str, ...] = ("", *sorted(totals(found.ledger)))
    return page(
        title,
        top,
        tag("h2", "The fate of every record"),
        tag(
            "form",
            select("Fate", "action", actions, query.action, empty="any"),
            tag("button", "Show"),
            method="get",
            action=session_path(key, "/context/fate"),
            class_="bar",
        ),
        tag(
            "p",
            f"{number(start + 1 if lines else 0)} to {number(start + len(lines))} of "
            f"{number(len(chosen))}, oldest first. ",
            _pages(key, query.action, start, len(chosen)),
        ),
        table(heads, [_fate_row(call, key, line) for line in lines], "Ledger"),
        _note_unlisted(found),
        _repairs(call, found.plan),
    )


def _fate_row(call: HttpCall, key: SessionKey, line: LedgerLine) -> Html:
    return row(
        _record_link(key, line),
        kind_text(call, line),
        tag("span", line.action, class_=f"action {line.action}"),
        number(line.before) if line.before else "",
        number(line.after) if line.after else "",
        call.workspace.mask(line.why),
        tag("a", "show original", href=session_path(key, f"/records/{line.record}"))
        if line.back
        else "",
        numbers=(3, 4),
    )


def _pages(key: SessionKey, action: str, start: int, count: int) -> Html:
    found = []
    for label, place in (("Older", start - _LINES), ("Newer", start + _LINES)):
        if (label == "Older" and start > 0) or (label == "Newer" and place < count):
            address = session_path(
                key, "/context/fate", action=action, start=str(max(0, place)) or "0"
            )
            found.append(tag("a", label, href=address))
    return join(*(join(link, " ") for link in found))


def _repairs(call: HttpCall, plan: Plan) -> Html | None:
    if not plan.repairs:
        return None
    rows = [
        row(repair.flaw, repair.record, MEANING[repair.flaw], call.workspace.mask(repair.detail))
        for repair in plan.repairs[:_LINES]
    ]
    return table(
        ("repair", "record", "what was done", "detail"), rows, "Repairs in the outgoing copy"
    )


_SESSION: Final = "/s/{agent}/{session}"
ROUTES: Final = tuple(
    page_route("GET", f"{_SESSION}/context{rest}", name, run, query=query, action="context")
    for rest, name, run, query in (
        ("", "Context", show_now, NoQuery),
        ("/fate", "Fate", show_fate, FateQuery),
    )
)
