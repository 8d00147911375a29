"""The pages of what waits: messages of the inbox, calls that wait for a person, and timers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import urlencode

import msgspec

from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.text.cut import cut
from holdfast.engine.operations.approvals import (
    ApproveCall,
    DenyCall,
    ListWaitingCalls,
    session_of_call,
)
from holdfast.engine.operations.approvals import show_waiting as waiting_in
from holdfast.engine.operations.inbox import DropMessage, ListInbox, ListOutbox, RetryMessage
from holdfast.engine.operations.links import LINK_SECONDS, LINK_SECONDS_MIN, LinkCall, RevokeLinks
from holdfast.engine.operations.timers import CancelTimer, ChangeTimer, ListTimers
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.ports import MESSAGE_STATES
from holdfast.surfaces.console.layout import (
    form_route,
    operation_route,
    page_route,
    see_other,
    show,
)
from holdfast.surfaces.http.operations import operate, query_of
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import HttpAnswer, HttpQuery, JsonBody

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.records import Json
    from holdfast.engine.operations.approvals import WaitingCall
    from holdfast.engine.operations.inbox import InboxMessage
    from holdfast.surfaces.http.route import HttpCall

_CALLS: Final = 10
"""Calls on a page."""
_FORM_CHARS: Final = 3_000
"""Of arguments in the list; longer ones have a page of their own."""
_PAGE_CHARS: Final = 30_000
"""Of arguments on that page: escaped, they fit. What is not seen in full is not approved."""
_ROWS_MAX: Final = 16
"""Lines of arguments that are seen at once; the others are reached by scrolling."""
_COLUMNS: Final = 80
"""Letters in a line of them."""


class _Waiting(NamedTuple):
    call: WaitingCall
    key: SessionKey | None
    arguments: str
    rows: int
    is_whole: bool


class ApprovalForm(JsonBody, frozen=True):
    """The arguments as they are sent; those that were shown are those of the call."""

    arguments: Annotated[str, msgspec.Meta(max_length=1_000_000)] = ""
    always: bool = False


class LinkForm(JsonBody, frozen=True):
    """The person who gets a link, and the time that it holds."""

    by: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    hours: Annotated[float, msgspec.Meta(gt=0, le=720)] = LINK_SECONDS / 3_600


class TimerForm(JsonBody, frozen=True):
    """Another time or other words; empty for those that stay."""

    when: Annotated[str, msgspec.Meta(max_length=200)] = ""
    text: Annotated[str, msgspec.Meta(max_length=8_000)] = ""


def show_waiting(call: HttpCall) -> HttpAnswer:
    """The calls that wait, and for whom."""
    asked = ListWaitingCalls(before=call.query.before, limit=_CALLS)
    found = call.workspace.mask(asked.answer(call.workspace).value)
    older = f"/waiting?before={found.next_before}" if found.next_before else ""
    calls = [_line(waiting, _FORM_CHARS) for waiting in found.calls]
    return _show(call, calls, older=older)


def show_one(call: HttpCall) -> HttpAnswer:
    """A call that waits, with long arguments."""
    return _show(call, [_line(each, _PAGE_CHARS) for each in _find(call)])


def _find(call: HttpCall) -> list[WaitingCall]:
    """Return the call in the address, as its reader may see it; nothing where it waits no more."""
    name = call.path["key"]
    session, _ = call.workspace.resolve(session_of_call(call.workspace, "", name))
    waiting = waiting_in(call.store, session)
    return [call.workspace.mask(each) for each in waiting if each.key == name]


def _show(call: HttpCall, calls: list[_Waiting], **more: Any) -> HttpAnswer:
    may_link = call.client.is_operator and call.client.may("admin")
    values: dict[str, Any] = {"older": "", "link": None, "may_link": may_link, **more}
    is_alone = "key" in call.path
    return show(
        call, "waiting.html", "Waiting", here="/waiting", calls=calls, is_alone=is_alone, **values
    )


def _line(call: WaitingCall, most: int) -> _Waiting:
    text = json.dumps(call.arguments, ensure_ascii=False, indent=2)
    rows = min(sum(1 + len(row) // _COLUMNS for row in text.splitlines()), _ROWS_MAX)
    return _Waiting(call, key_in(call.session), cut(text, most).text, rows, len(text) <= most)


async def _approve(call: HttpCall) -> HttpAnswer:
    form: ApprovalForm = call.body
    arguments = _read_arguments(form.arguments) if form.arguments.strip() else None
    if arguments is not None:
        shown = await run_in_thread(_find, call)
        if any(each.arguments == arguments for each in shown):
            arguments = None  # as they are, and with what is masked in them
    await operate(ApproveCall, call, arguments=arguments, always=form.always)
    return see_other("/waiting")


def _read_arguments(text: str) -> Json:
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Problem(
            400,
            "the arguments are not a JSON object",
            hint="go back and correct them; nothing was decided",
        )
    return found


async def _make_link(call: HttpCall) -> HttpAnswer:
    """Make a link and show it, once."""
    form: LinkForm = call.body
    address = call.headers.get("origin", "")
    seconds = max(form.hours * 3_600, LINK_SECONDS_MIN)
    made = await operate(LinkCall, call, by=form.by, seconds=seconds, address=address)
    page = _show(call, [], link=made)
    return HttpAnswer(page.value, 200, page.media_type, {"Cache-Control": "no-store"})


def show_timers(call: HttpCall) -> HttpAnswer:
    """The timers ahead."""
    found = call.workspace.mask(ListTimers().answer(call.workspace).value)
    timers = [(timer, key_in(timer.session)) for timer in found.timers]
    return show(call, "timers.html", "Timers", here="/timers", timers=timers)


async def _change(call: HttpCall) -> HttpAnswer:
    form: TimerForm = call.body
    await operate(ChangeTimer, call, when=form.when.strip() or None, text=form.text or None)
    return see_other("/timers")


class InboxPageQuery(HttpQuery, frozen=True):
    """The messages to show."""

    state: Literal["", "waiting", "running", "answered", "failed", "dropped"] = ""
    session: Annotated[str, msgspec.Meta(max_length=300)] = ""
    before: Annotated[int, msgspec.Meta(ge=1, le=2**62)] | None = None


def show_inbox(call: HttpCall) -> HttpAnswer:
    """Messages and their states."""
    query: InboxPageQuery = call.query
    asked = ListInbox(state=query.state or None, session=query.session or None, before=query.before)
    found = asked.answer(call.workspace).value
    given = {"state": query.state, "session": query.session, "before": found.next_before}
    older = urlencode({name: value for name, value in given.items() if value})
    return show(
        call,
        "inbox.html",
        "Inbox",
        here="/inbox",
        query=query,
        states=("", *MESSAGE_STATES),
        counts=found.counts,
        lines=_message_lines(call, found.messages),
        older=f"/inbox?{older}" if found.next_before else "",
        # What a channel did not take, such as Telegram for a chat that blocked the bot.
        outgoing=_message_lines(call, ListOutbox().answer(call.workspace).value.messages),
    )


class _MessageLine(NamedTuple):
    message: InboxMessage
    key: SessionKey | None
    lease_holder: str
    actions: list[str]


def _message_lines(call: HttpCall, messages: Iterable[InboxMessage]) -> list[_MessageLine]:
    return [_message_line(call, message) for message in messages]


def _message_line(call: HttpCall, message: InboxMessage) -> _MessageLine:
    key = key_in(message.session)
    lease = call.store.leases.current(key) if message.holder and key is not None else None
    actions = ["retry"] if message.state in ("failed", "dropped") else []
    actions += ["drop"] if message.state in ("waiting", "failed", "running") else []
    return _MessageLine(message, key, lease.holder if lease else "", actions)


def key_in(name: str) -> SessionKey | None:
    """Return the session that a message is about."""
    agent, _, session = name.partition("/")
    return SessionKey(agent, session) if is_name(agent) and is_name(session) else None


ROUTES: Final = (
    page_route(
        "GET",
        "/waiting",
        "Waiting",
        show_waiting,
        query=query_of(ListWaitingCalls, ["before"]),
        action="list",
    ),
    page_route("GET", "/waiting/{key}", "A call that waits", show_one, action="read"),
    operation_route("/waiting/{key}/links", LinkCall, _make_link, LinkForm),
    form_route("/waiting/{key}/links/revoke", RevokeLinks, (), lambda _call: "/waiting"),
    operation_route("/waiting/{key}/approve", ApproveCall, _approve, ApprovalForm),
    form_route("/waiting/{key}/deny", DenyCall, ("words",), lambda _call: "/waiting"),
    page_route("GET", "/timers", "Timers", show_timers, action="list"),
    operation_route("/timers/{name}/change", ChangeTimer, _change, TimerForm),
    form_route("/timers/{name}/cancel", CancelTimer, (), lambda _call: "/timers"),
    page_route("GET", "/inbox", "Inbox", show_inbox, query=InboxPageQuery, action="list"),
    form_route("/inbox/{message}/retry", RetryMessage, (), lambda _call: "/inbox"),
    form_route("/inbox/{message}/drop", DropMessage, ("reason",), lambda _call: "/inbox"),
)
