"""The page of what would be sent under other terms, beside today's. Nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core.models.prices import cost_of
from holdfast.core.models.usage import Usage
from holdfast.core.projection.ledger import totals
from holdfast.engine.operations.next_request import ReadRequest, terms_now
from holdfast.providers.known_models.lookup import price_of
from holdfast.surfaces.console.charts import pattern_sheet
from holdfast.surfaces.console.html import Html, tag
from holdfast.surfaces.console.layout import (
    number,
    page,
    page_route,
    row,
    session_path,
    table,
)
from holdfast.surfaces.console.plans import heading, try_request
from holdfast.surfaces.console.records import IN_VIEW
from holdfast.surfaces.console.session_pages.context import kind_text, window_picture
from holdfast.surfaces.formatting import money
from holdfast.surfaces.http.operations import query_of
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.projection.project import Plan
    from holdfast.engine.workspace.request_preview import RequestFacts, RequestTerms
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_CHANGES: Final = 60
"""Records in the list of those with another fate."""
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_THRESHOLDS: Final = ("compact", "keep", "cold_prune", "cold_cut")


class _Thresholds(HttpQuery, frozen=True):
    """The thresholds to try; what is left out is as it is today."""

    compact: Share | None = None
    keep: Share | None = None
    cold_prune: Share | None = None
    cold_cut: Share | None = None


_ASKED: Final = ("window", "model", "idle")
WhatIfQuery: Final = query_of(ReadRequest, _ASKED, _Thresholds)


def show_what_if(call: HttpCall) -> HttpAnswer:
    """Today's request beside one under other terms."""
    key, query = call.session(), call.query
    now = terms_now(call.workspace, key)
    other = _terms(call, key, query)
    before = try_request(call.store, key, now)
    after = try_request(call.store, key, other)
    title, top = heading(call, key, "/context/what-if")
    body: list[object] = [top, tag("h2", "What if"), _form(key, now, before, query)]
    for name, found in (("Today", before), ("What if", after)):
        if isinstance(found, str):
            body.append(tag("p", call.workspace.mask(f"{name}: {found}"), class_="problem"))
    if not isinstance(before, str) and not isinstance(after, str):
        body.append(_compare(before, after))
        body.append(pattern_sheet())
        body.append(tag("h3", "Today"))
        body.append(window_picture(before.plan))
        body.append(tag("h3", "What if"))
        body.append(window_picture(after.plan))
        body.append(_changes(call, key, before, after))
    return page(title, *body)


def _terms(call: HttpCall, key: SessionKey, query: Any) -> RequestTerms:
    given = {name: value for name in _THRESHOLDS if (value := getattr(query, name)) is not None}
    asked = {name: getattr(query, name) for name in _ASKED}
    found = ReadRequest(session_key=str(key), **asked).terms(call.workspace, key)
    floor = min(found.floor, query.window or found.floor)  # a window that is asked for is meant
    return replace(found, floor=floor, policy=replace(found.policy, **given))


def _form(key: SessionKey, now: RequestTerms, before: RequestFacts | str, query: Any) -> Html:
    today = now.window if isinstance(before, str) else before.plan.window
    fields = [
        tag(
            "label",
            label,
            " ",
            tag("input", name=name, value=_field_value(value), placeholder=hint, size=10),
        )
        for label, name, value, hint in (
            (
                "Window in tokens",
                "window",
                query.window,
                str(today.tokens) if today else "the model's",
            ),
            ("Model", "model", query.model, "the same"),
            ("Idle seconds", "idle", query.idle, "0"),
            *(
                (
                    f"Policy: {name}",
                    _Thresholds.__struct_encode_fields__[_Thresholds.__struct_fields__.index(name)],
                    getattr(query, name),
                    f"{getattr(now.policy, name):g}",
                )
                for name in _THRESHOLDS
            ),
        )
    ]
    return tag(
        "form",
        *fields,
        tag("button", "Try it"),
        method="get",
        action=session_path(key, "/context/what-if"),
        class_="bar",
    )


def _field_value(value: float | str | None) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value or "")


def _compare(today: RequestFacts, other: RequestFacts) -> Html:
    first, second = totals(today.ledger), totals(other.ledger)
    before, after = today.plan, other.plan
    rows = [
        _pair("window", before.window.tokens, after.window.tokens),
        _pair("next request", before.tokens.total, after.tokens.total, id="compare-total"),
        _pair("budget for messages", before.budget.tokens, after.budget.tokens),
        row(
            "input at the list price, nothing cached",
            _cost(before),
            _cost(after),
            "",
            numbers=(1, 2, 3),
        ),
    ]
    rows += [
        _pair(f"records {action}", first.get(action, (0,))[0], second.get(action, (0,))[0])
        for action in dict.fromkeys((*first, *second))
    ]
    return table(("", ">today", ">what if", ">difference"), rows, "Beside today's")


def _pair(name: str, before: int, after: int, id: str | None = None) -> Html:  # noqa: A002
    change = after - before
    return row(
        name,
        number(before),
        number(after),
        f"{change:+,}".replace(",", "\u202f") if change else "same",
        numbers=(1, 2, 3),
        id=id,
    )


def _cost(plan: Plan) -> str:
    dollars = cost_of(Usage(plan.tokens.total), price_of(plan.target.model, plan.target.provider))
    return "no price known" if dollars is None else money(dollars)


def _changes(call: HttpCall, key: SessionKey, before: RequestFacts, after: RequestFacts) -> Html:
    """Records that have another fate; a plan for a larger window may name more records."""
    known = {line.record: line.action for line in before.ledger}
    found = [
        (known.get(line.record, "summarised"), line)
        for line in after.ledger
        if line.record and line.action != known.get(line.record, "summarised")
    ]
    forgotten = [pair for pair in found if pair[1].action not in IN_VIEW]
    rest = [pair for pair in found if pair[1].action in IN_VIEW]
    rows = [
        row(
            tag("a", line.record, href=session_path(key, f"/records/{line.record}"))
            if line.record != "(new)"
            else "new",
            kind_text(call, line),
            old,
            line.action,
            number(line.before),
            number(line.after),
            numbers=(4, 5),
        )
        for old, line in (forgotten + rest)[:_CHANGES]
    ]
    if not rows:
        return tag("p", "Every record has the same fate.")
    caption = f"{number(len(found))} records with another fate, {number(len(forgotten))} forgotten"
    return table(("record", "kind", "today", "what if", ">before", ">after"), rows, caption)


ROUTES: Final = (
    page_route(
        "GET",
        "/s/{agent}/{session}/context/what-if",
        "What if",
        show_what_if,
        query=WhatIfQuery,
        action="context",
    ),
)
