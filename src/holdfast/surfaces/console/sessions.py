"""The page of sessions: search, filter, sort."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args
from urllib.parse import urlencode

import msgspec

from holdfast.core.log.ids import SessionKey
from holdfast.engine.operations.sessions import CreateSession, FindSessions, cursor_after
from holdfast.surfaces.console.layout import page_route, see_other, session_path, show
from holdfast.surfaces.console.plans import cost_text, facts_of, running_message
from holdfast.surfaces.http.operations import body_of, operate, query_of
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.core.window import Window
    from holdfast.engine.operations.sessions import SessionRow
    from holdfast.ports import QueuedMessage
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_PAGE_SESSIONS: Final = 25
"""Rows on a page."""
_LOOK_SESSIONS: Final = 100
"""Sessions that are read at once where a filter or another order looks among them."""
_LOOK_SESSIONS_MAX: Final = 1_000
"""Sessions that one page looks at; the link to the older ones goes on after them."""
_FAILED_MESSAGES: Final = 1_000
"""Failed messages that are counted for their sessions."""
_ASKED: Final = ("agent", "owner", "label", "q", "cursor")


_State = Literal["", "idle", "running", "waiting", "failed", "damaged"]
_Order = Literal["active", "cost", "window", "records"]


class _ListOrder(HttpQuery, frozen=True):
    """The sessions to show, and their order."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = _PAGE_SESSIONS
    state: _State = ""
    sort: _Order = "active"
    start: Annotated[int, msgspec.Meta(ge=0, le=_LOOK_SESSIONS_MAX)] = 0
    """The place of the first row in another order than by time."""


SessionListQuery: Final = query_of(FindSessions, _ASKED, _ListOrder)


class _Line(msgspec.Struct, frozen=True):
    info: SessionRow
    key: SessionKey
    model: str
    share: float
    used: int
    window: Window
    cost: float
    cost_text: str
    compactions: int
    failed: int
    running: QueuedMessage | None


def show_sessions(call: HttpCall) -> HttpAnswer:
    """A row for each session: its state, the use of its window, its cost, its compactions."""
    query = call.query
    lines, following = _find_lines(call, query)
    given = msgspec.to_builtins(query) | following
    kept = {name: value for name, value in given.items() if value not in (None, "", 0)}
    return show(
        call,
        "sessions.html",
        "Sessions",
        here="/sessions",
        query=query,
        lines=lines,
        is_plain=not (query.q or query.cursor or query.state or query.agent or query.owner),
        is_operator=call.client.is_operator,
        states=get_args(_State),
        orders=get_args(_Order),
        following=f"/sessions?{urlencode(kept)}" if following else "",
        is_same_order=bool(following.get("start")),
    )


def _find_lines(call: HttpCall, query: Any) -> tuple[list[_Line], Json]:
    """Return the sessions of a page, and what is different in the address of the next one.

    With a filter, pages are read until one is full. Another order than by time is that of the
    sessions that a page looks at.
    """
    failed = _count_failed(call)
    is_ordered = query.sort != "active"
    step = _LOOK_SESSIONS if is_ordered or query.state else query.limit
    chosen: list[SessionRow] = []
    cursor, looked = query.cursor, 0
    while looked < _LOOK_SESSIONS_MAX:
        given = {name: getattr(query, name) for name in _ASKED} | {"cursor": cursor}
        found = FindSessions(**given, limit=step).answer(call.workspace).value
        looked += step
        for info in found.sessions:
            if query.state and query.state not in _states(info, failed):
                continue
            chosen.append(info)
            if len(chosen) == query.limit and not is_ordered and query.state:
                return _lines(call, chosen, failed), {"cursor": cursor_after(info)}
        cursor = found.next_cursor or ""
        if not cursor or not (query.state or is_ordered):
            break
    if is_ordered:
        chosen.sort(key=lambda info: -_place(call, info, query.sort))
        end = query.start + query.limit
        if end < len(chosen):
            return _lines(call, chosen[query.start : end], failed), {"start": end}
        chosen = chosen[query.start :]
    return _lines(call, chosen, failed), {"cursor": cursor, "start": 0} if cursor else {}


def _lines(call: HttpCall, infos: list[SessionRow], failed: dict[str, int]) -> list[_Line]:
    """Return what only the rows of a page need."""
    return [_line(call, info, failed) for info in infos]


def _count_failed(call: HttpCall) -> dict[str, int]:
    found: dict[str, int] = {}
    for message in call.store.queues.messages(
        "inbox", owner=call.owner, states=("failed",), limit=_FAILED_MESSAGES
    ):
        found[message.session] = found.get(message.session, 0) + 1
    return found


def _line(call: HttpCall, info: SessionRow, failed: dict[str, int]) -> _Line:
    key = SessionKey(info.agent, info.id)
    found = facts_of(call, key)
    last = found.last
    return _Line(
        info=info,
        key=key,
        model=call.workspace.mask(last.model),
        share=last.share,
        used=last.size,
        window=last.context_window,
        cost=found.spent.cost or 0.0,
        cost_text=cost_text(found.spent),
        compactions=found.totals.compactions,
        failed=failed.get(str(key), 0),
        running=running_message(call, key) if info.state == "running" else None,
    )


def _states(info: SessionRow, failed: dict[str, int]) -> list[str]:
    return [
        info.state,
        *(["failed"] if failed.get(f"{info.agent}/{info.id}") else []),
        *(["damaged"] if info.damaged else []),
    ]


def _place(call: HttpCall, info: SessionRow, sort: str) -> float:
    if sort == "records":
        return float(info.records)
    line = _line(call, info, {})
    return line.cost if sort == "cost" else line.share


async def make_session(call: HttpCall) -> HttpAnswer:
    """Make a session, and show it."""
    made: SessionRow = await operate(CreateSession, call)
    return see_other(session_path(SessionKey(made.agent, made.id)))


_NewSessionForm: Final = body_of(CreateSession, ("agent", "id", "label", "owner"))
ROUTES: Final = (
    page_route(
        "GET", "/sessions", "Sessions", show_sessions, query=SessionListQuery, action="list"
    ),
    page_route("POST", "/new", "Make a session", make_session, body=_NewSessionForm),
)
