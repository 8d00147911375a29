"""The page of the bill: the cost of the newest sessions, its causes, and what could be spared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec

from holdfast.core.inspection.bill import BilledSession
from holdfast.core.log.ids import SessionKey
from holdfast.core.owners import owner_of
from holdfast.engine.operations.sessions import FindSessions
from holdfast.surfaces.bill import HABITS, breaks_text, cost_text, make_bill, parts_of
from holdfast.surfaces.console.layout import page_route, show
from holdfast.surfaces.console.session_pages.reports import inspect_session, read_for_page
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from holdfast.core.inspection.inspect import Inspection
    from holdfast.engine.operations.sessions import SessionRow
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_SESSIONS: Final = 25
"""Sessions that a page adds up."""
_RECORDS_MAX: Final = 6_000
"""Records that it counts for them: a page is there within seconds."""
_DAYS: Final = 31
"""The last days that it shows."""


class BillQuery(HttpQuery, frozen=True):
    """The place to go on from."""

    cursor: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


class _Line(NamedTuple):
    info: SessionRow
    key: SessionKey
    looked: Inspection | None
    """None where there was no room for it."""


def show_bill(call: HttpCall) -> HttpAnswer:
    """The bill of the newest sessions, by day, model, agent and owner, with its habits."""
    found = FindSessions(cursor=call.query.cursor, limit=_SESSIONS).answer(call.workspace).value
    lines = _inspect(call, found.sessions)
    counted = [
        BilledSession(line.looked, agent=line.info.agent, owner=owner_of(line.info.owner))
        for line in lines
        if line.looked is not None
    ]
    bill = make_bill(counted)
    return show(
        call,
        "bill.html",
        "Bill",
        here="/bill",
        bill=bill,
        cost=cost_text(bill),
        breaks=breaks_text(bill),
        days=bill.by_day[-_DAYS:],
        parts=parts_of(bill),
        habits=HABITS,
        lines=sorted(lines, key=_cost, reverse=True),
        left_out=len(lines) - len(counted),
        older=f"/bill?cursor={found.next_cursor}" if found.next_cursor else "",
    )


def _inspect(call: HttpCall, infos: list[SessionRow]) -> list[_Line]:
    left = _RECORDS_MAX
    lines = []
    for info in infos:
        key = SessionKey(info.agent, info.id)
        looked = None
        if info.records <= left:
            left -= info.records
            records = read_for_page(call, key)
            looked = inspect_session(call, key, records) if records else None
        lines.append(_Line(info, key, looked))
    return lines


def _cost(line: _Line) -> tuple[float, int]:
    if line.looked is None:
        return 0.0, 0
    return line.looked.spent.cost or 0.0, line.looked.spent.prompt


ROUTES: Final = (page_route("GET", "/bill", "Bill", show_bill, query=BillQuery, action="list"),)
