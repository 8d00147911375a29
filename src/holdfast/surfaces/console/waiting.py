"""The pages of what is ahead: calls that wait for a person, and timers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec

from holdfast.engine.operations.approvals import ApproveCall, DenyCall, ListWaitingCalls
from holdfast.engine.operations.timers import CancelTimer, ChangeTimer, ListTimers
from holdfast.surfaces.console.inbox import key_in
from holdfast.surfaces.console.layout import form_route, page_route, see_other, show
from holdfast.surfaces.http.operations import operate, query_of
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import JsonBody

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.engine.operations.approvals import WaitingCall
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_ROWS_MAX: Final = 16
"""Lines of arguments that are seen at once; the others are reached by scrolling."""

_COLUMNS: Final = 80
"""Letters in a line of them."""


class _Waiting(NamedTuple):
    call: WaitingCall
    key: SessionKey | None
    arguments: str
    rows: int


class ApprovalForm(JsonBody, frozen=True):
    """The arguments as they were shown, and as they are sent."""

    arguments: Annotated[str, msgspec.Meta(max_length=1_000_000)] = ""
    given: Annotated[str, msgspec.Meta(max_length=1_000_000)] = ""
    always: bool = False


class TimerForm(JsonBody, frozen=True):
    """Another time or other words; empty for those that stay."""

    when: Annotated[str, msgspec.Meta(max_length=200)] = ""
    text: Annotated[str, msgspec.Meta(max_length=8_000)] = ""


def show_waiting(call: HttpCall) -> HttpAnswer:
    """The calls that wait, and for whom."""
    asked = ListWaitingCalls(before=call.query.before)
    found = call.workspace.mask(asked.answer(call.workspace).value)
    older = f"/waiting?before={found.next_before}" if found.next_before else ""
    return show(
        call,
        "waiting.html",
        "Waiting",
        here="/waiting",
        calls=[_line(waiting) for waiting in found.calls],
        older=older,
    )


def _line(call: WaitingCall) -> _Waiting:
    text = json.dumps(call.arguments, ensure_ascii=False, indent=2)
    rows = min(sum(1 + len(row) // _COLUMNS for row in text.splitlines()), _ROWS_MAX)
    return _Waiting(call, key_in(call.session), text, rows)


async def _approve(call: HttpCall) -> HttpAnswer:
    form: ApprovalForm = call.body
    arguments = _read_arguments(form.arguments) if form.arguments.strip() else None
    if arguments is not None and form.given and arguments == _read_arguments(form.given):
        arguments = None
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
            "the arguments are not an object of JSON",
            hint="go back and correct them; nothing was decided",
        )
    return found


def show_timers(call: HttpCall) -> HttpAnswer:
    """The timers ahead."""
    found = call.workspace.mask(ListTimers().answer(call.workspace).value)
    timers = [(timer, key_in(timer.session)) for timer in found.timers]
    return show(call, "timers.html", "Timers", here="/timers", timers=timers)


async def _change(call: HttpCall) -> HttpAnswer:
    form: TimerForm = call.body
    await operate(ChangeTimer, call, when=form.when.strip() or None, text=form.text or None)
    return see_other("/timers")


ROUTES: Final = (
    page_route(
        "GET",
        "/waiting",
        "Waiting",
        show_waiting,
        query=query_of(ListWaitingCalls, ["before"]),
        action="list",
    ),
    page_route(
        "POST",
        "/waiting/{key}/approve",
        ApproveCall.title,
        _approve,
        body=ApprovalForm,
        operation=ApproveCall,
    ),
    form_route("/waiting/{key}/deny", DenyCall, ("words",), lambda _call: "/waiting"),
    page_route("GET", "/timers", "Timers", show_timers, action="list"),
    page_route(
        "POST",
        "/timers/{name}/change",
        ChangeTimer.title,
        _change,
        body=TimerForm,
        operation=ChangeTimer,
    ),
    form_route("/timers/{name}/cancel", CancelTimer, (), lambda _call: "/timers"),
)
