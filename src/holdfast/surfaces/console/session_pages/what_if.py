"""The page of what would be sent under other terms, beside today's. Nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core.models.prices import cost_of
from holdfast.core.models.usage import Usage
from holdfast.core.projection.ledger import totals
from holdfast.engine.operations.context import ReadRequest, terms_now
from holdfast.providers.known_models.lookup import price_of
from holdfast.surfaces.console.charts import draw_window
from holdfast.surfaces.console.layout import page_route
from holdfast.surfaces.console.plans import show_session, try_request
from holdfast.surfaces.console.records import IN_VIEW
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
    pairs = (("Today", before), ("What if", after))
    problems = [f"{name}: {found}" for name, found in pairs if isinstance(found, str)]
    compared: dict[str, Any] = {}
    if not isinstance(before, str) and not isinstance(after, str):
        compared = _compare(call, key, before, after)
    return show_session(
        call,
        key,
        "/context/what-if",
        "what_if.html",
        fields=_fields(now, before, query),
        problems=problems,
        changes_max=_CHANGES,
        **compared,
    )


def _terms(call: HttpCall, key: SessionKey, query: Any) -> RequestTerms:
    given = {name: value for name in _THRESHOLDS if (value := getattr(query, name)) is not None}
    asked = {name: getattr(query, name) for name in _ASKED}
    found = ReadRequest(session_key=str(key), **asked).terms(call.workspace, key)
    floor = min(found.floor, query.window or found.floor)  # a window that is asked for is meant
    return replace(found, floor=floor, policy=replace(found.policy, **given))


def _fields(
    now: RequestTerms, before: RequestFacts | str, query: Any
) -> list[tuple[str, str, str, str]]:
    """The fields of the form: label, name, value, and what stands there today."""
    today = now.window if isinstance(before, str) else before.plan.window
    names = dict(
        zip(_Thresholds.__struct_fields__, _Thresholds.__struct_encode_fields__, strict=True)
    )
    window = str(today.tokens) if today else "the model's"
    return [
        ("Window in tokens", "window", _field_value(query.window), window),
        ("Model", "model", _field_value(query.model), "the same"),
        ("Idle seconds", "idle", _field_value(query.idle), "0"),
        *(
            (
                f"Policy: {name}",
                names[name],
                _field_value(getattr(query, name)),
                f"{getattr(now.policy, name):g}",
            )
            for name in _THRESHOLDS
        ),
    ]


def _field_value(value: float | str | None) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value or "")


def _compare(
    call: HttpCall, key: SessionKey, before: RequestFacts, after: RequestFacts
) -> dict[str, Any]:
    """Both requests, and the records that have another fate, those that are forgotten first."""
    first, second = totals(before.ledger), totals(after.ledger)
    mask = call.workspace.mask
    # A plan for a larger window may name more records.
    known = {line.record: line.action for line in before.ledger}
    changed = [
        (known.get(line.record, "summarised"), line)
        for line in after.ledger
        if line.record and line.action != known.get(line.record, "summarised")
    ]
    changed.sort(key=lambda pair: pair[1].action in IN_VIEW)
    return {
        "today": before,
        "other": after,
        "costs": [_cost(before.plan), _cost(after.plan)],
        "actions": [
            (action, first.get(action, (0,))[0], second.get(action, (0,))[0])
            for action in dict.fromkeys((*first, *second))
        ],
        "pictures": [draw_window(key, found.plan, mask) for found in (before, after)],
        "changes": changed,
        "forgotten": sum(line.action not in IN_VIEW for _old, line in changed),
    }


def _cost(plan: Plan) -> str:
    dollars = cost_of(Usage(plan.tokens.total), price_of(plan.target.model, plan.target.provider))
    return "no price known" if dollars is None else money(dollars)


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
