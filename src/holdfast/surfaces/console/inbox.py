"""The page of the inbox: messages with their states, retry and drop, leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import urlencode

import msgspec

from holdfast.core.log.ids import SessionKey, is_name
from holdfast.engine.operations.inbox import DropMessage, ListInbox, ListOutbox, RetryMessage
from holdfast.ports import MESSAGE_STATES
from holdfast.surfaces.console.html import Html, join, tag
from holdfast.surfaces.console.layout import (
    facts,
    form_route,
    gist,
    moment,
    number,
    page,
    page_route,
    row,
    session_path,
    table,
)
from holdfast.surfaces.console.sessions import select
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from holdfast.engine.operations.inbox import InboxMessage
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_OPEN: Final = ("waiting", "running")


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
    counts = [
        (state, tag("a", number(count), href=f"/inbox?state={state}"))
        for state, count in found.counts.items()
    ]
    body: list[object] = [
        tag("h1", "Inbox"),
        facts(*counts),
        tag(
            "form",
            select("State", "state", ("", *MESSAGE_STATES), query.state, empty="any"),
            tag("label", "Session ", tag("input", name="session", value=query.session)),
            tag("button", "Show"),
            method="get",
            action="/inbox",
            class_="bar",
        ),
    ]
    if found.messages:
        rows = [_message_row(call, message) for message in found.messages]
        heads = ("message", "session", "state", "changed", ">tries", "reason", "actions")
        body.append(table(heads, rows, "Messages, newest first"))
    else:
        body.append(tag("p", "No messages. A message stays here until it is answered."))
    if found.next_before:
        given = {"state": query.state, "session": query.session, "before": found.next_before}
        address = urlencode({name: value for name, value in given.items() if value})
        body.append(tag("p", tag("a", "Older messages", href=f"/inbox?{address}")))
    body.append(_outbox_table(call))
    body.append(tag("p", tag("a", "Health of the store and the server", href="/health")))
    return page("Inbox", *body, here="/inbox")


def _outbox_table(call: HttpCall) -> Html | None:
    """Answers that a channel did not take, such as Telegram for a chat that blocked the bot."""
    found = ListOutbox().answer(call.workspace).value
    if not found.messages:
        return None
    rows = [_message_row(call, message) for message in found.messages]
    heads = ("message", "session", "state", "changed", ">tries", "reason", "actions")
    return tag("section", tag("h2", "Not delivered"), table(heads, rows, "Outgoing, newest first"))


def _message_row(call: HttpCall, message: InboxMessage) -> Html:
    key = key_in(message.session)
    name = gist(call.workspace.mask(message.session), 60)
    state: list[object] = [tag("span", message.state, class_=f"state {message.state}")]
    if message.holder:
        state += [" by ", gist(message.holder, 60), " since ", moment(message.since or 0)]
        holder = call.store.leases.current(key) if key is not None else None
        state.append(f"; the turn's lease is held by {gist(holder.holder, 60)}" if holder else "")
    return row(
        number(message.id),
        tag("a", name, href=session_path(key)) if key is not None else name,
        state,
        moment(message.changed),
        number(message.tries),
        gist(message.reason, 200),
        _actions(message) if call.client.may("write") else "",
        numbers=(4,),
        id=f"m-{message.id}",
    )


def key_in(name: str) -> SessionKey | None:
    """Return the session that a message is about."""
    agent, _, session = name.partition("/")
    return SessionKey(agent, session) if is_name(agent) and is_name(session) else None


def _actions(message: InboxMessage) -> Html:
    actions = []
    if message.state in ("failed", "dropped"):
        actions.append("retry")
    if message.state in ("waiting", "failed", "running"):
        actions.append("drop")
    return join(
        *(
            tag(
                "form",
                tag("input", type="hidden", name="reason", value="dropped by a person")
                if action == "drop"
                else None,
                tag("button", action, class_="quiet", aria_label=f"{action} message {message.id}"),
                method="post",
                action=f"/inbox/{message.id}/{action}",
                class_="inline",
            )
            for action in actions
        )
    )


ROUTES: Final = (
    page_route("GET", "/inbox", "Inbox", show_inbox, query=InboxPageQuery, action="list"),
    form_route("/inbox/{message}/retry", RetryMessage, (), lambda _call: "/inbox"),
    form_route("/inbox/{message}/drop", DropMessage, ("reason",), lambda _call: "/inbox"),
)
