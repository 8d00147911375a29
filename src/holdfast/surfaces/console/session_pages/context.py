"""The pages of the context: what fills the window now, the fate of each record, the request."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from holdfast.core.log.records import InjectedContext
from holdfast.core.projection.ledger import totals
from holdfast.core.projection.steps import MEANING
from holdfast.engine.operations.context import terms_now
from holdfast.engine.workspace.request_preview import read_request
from holdfast.surfaces.console.charts import draw_window
from holdfast.surfaces.console.layout import page_route
from holdfast.surfaces.console.plans import show_session
from holdfast.surfaces.http.route import HttpQuery, NoQuery

if TYPE_CHECKING:
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_LINES: Final = 100
"""Lines of the ledger on a page."""
_LARGEST: Final = 20
"""Records in the list of what takes the room."""
_ADDED: Final = 20
"""Pieces of added context in the list."""
_ADDED_RECORDS: Final = 500
"""Records that are looked at for them."""


class FateQuery(HttpQuery, frozen=True):
    """The lines of the ledger to show."""

    action: Literal[
        "", "kept", "trimmed", "cleared", "summarised", "dropped", "injected", "silent"
    ] = ""
    start: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] | None = None
    """The place of the first line; without it, the newest are shown."""


def show_now(call: HttpCall) -> HttpAnswer:
    """The window as cells, and the records that take the most room."""
    key = call.session()
    terms = terms_now(call.workspace, key)
    found = read_request(call.store, key, terms)
    ledger = found.plan.ledger
    by_tool: Counter[str] = Counter()
    for line in ledger:
        if line.kind == "tool_result" and line.after:
            by_tool[line.name or "unnamed"] += line.after
    largest = sorted(ledger, key=lambda line: -line.after)[:_LARGEST]
    newest_first = islice(call.store.back(key), _ADDED_RECORDS)
    added = [record for record in newest_first if isinstance(record, InjectedContext)]
    return show_session(
        call,
        key,
        "/context",
        "context.html",
        found=found,
        picture=draw_window(key, found.plan, call.workspace.mask),
        # The command knows no settings of this server.
        is_own=terms.base is not None,
        largest=[line for line in largest if line.after],
        by_tool=by_tool.most_common(_LARGEST),
        added=added[:_ADDED],
        fates=totals(found.ledger),
    )


def show_fate(call: HttpCall) -> HttpAnswer:
    """Every record: tokens before and after, what was done, why, and the way back."""
    key, query = call.session(), call.query
    found = read_request(call.store, key, terms_now(call.workspace, key))
    chosen = [line for line in found.ledger if query.action in ("", line.action)]
    newest = max(0, len(chosen) - _LINES)
    start = min(query.start if query.start is not None else newest, max(0, len(chosen) - 1))
    lines = chosen[start : start + _LINES]
    return show_session(
        call,
        key,
        "/context/fate",
        "fate.html",
        action=query.action,
        actions=("", *sorted(totals(found.ledger))),
        lines=lines,
        start=start,
        step=_LINES,
        whole=len(chosen),
        unlisted=found.unlisted,
        repairs=found.plan.repairs[:_LINES],
        meaning=MEANING,
    )


_SESSION: Final = "/s/{agent}/{session}"
ROUTES: Final = tuple(
    page_route("GET", f"{_SESSION}/context{rest}", name, run, query=query, action="context")
    for rest, name, run, query in (
        ("", "Context", show_now, NoQuery),
        ("/fate", "Fate", show_fate, FateQuery),
    )
)
