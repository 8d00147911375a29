"""The page of the inbox: messages with their states, retry and drop, leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple
from urllib.parse import urlencode

import msgspec

from holdfast.core.log.ids import SessionKey, is_name
from holdfast.engine.operations.inbox import DropMessage, ListInbox, ListOutbox, RetryMessage
from holdfast.ports import MESSAGE_STATES
from holdfast.surfaces.console.layout import form_route, page_route, show
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.engine.operations.inbox import InboxMessage
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall


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
        lines=_lines(call, found.messages),
        older=f"/inbox?{older}" if found.next_before else "",
        # What a channel did not take, such as Telegram for a chat that blocked the bot.
        outgoing=_lines(call, ListOutbox().answer(call.workspace).value.messages),
    )


class _Line(NamedTuple):
    message: InboxMessage
    key: SessionKey | None
    lease_holder: str
    actions: list[str]


def _lines(call: HttpCall, messages: Iterable[InboxMessage]) -> list[_Line]:
    return [_line(call, message) for message in messages]


def _line(call: HttpCall, message: InboxMessage) -> _Line:
    key = key_in(message.session)
    lease = call.store.leases.current(key) if message.holder and key is not None else None
    actions = ["retry"] if message.state in ("failed", "dropped") else []
    actions += ["drop"] if message.state in ("waiting", "failed", "running") else []
    return _Line(message, key, lease.holder if lease else "", actions)


def key_in(name: str) -> SessionKey | None:
    """Return the session that a message is about."""
    agent, _, session = name.partition("/")
    return SessionKey(agent, session) if is_name(agent) and is_name(session) else None


ROUTES: Final = (
    page_route("GET", "/inbox", "Inbox", show_inbox, query=InboxPageQuery, action="list"),
    form_route("/inbox/{message}/retry", RetryMessage, (), lambda _call: "/inbox"),
    form_route("/inbox/{message}/drop", DropMessage, ("reason",), lambda _call: "/inbox"),
)
