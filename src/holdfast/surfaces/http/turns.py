"""Routes of turns: send a message, wait for its answer, cancel, and the inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from holdfast.core.flow.arguments import check_message
from holdfast.core.log.records import Assistant, text_of
from holdfast.core.owners import is_wanted, owner_of
from holdfast.engine.gateway.gateway import session_key
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.engine.session.opening import follow_continuation
from holdfast.errors import HoldfastError
from holdfast.ports import MESSAGE_STATES, MessageState
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import Given, HttpAnswer, HttpQuery, JsonBody, Route

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.owners import Owner
    from holdfast.ports import QueuedMessage
    from holdfast.surfaces.http.route import HttpCall

_WAIT_MAX: Final = 300.0
"""Seconds that a request may wait; proxies end longer ones."""
_KEY: Final = "idempotency-key"
_OUTBOX: Final = "outbox:"
"""The queues of outgoing messages begin with it; the name of the channel follows."""
_PAGE_MAX: Final = 200
"""Messages on the largest page."""


class SendQuery(HttpQuery, frozen=True):
    """The wait for the answer."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=_WAIT_MAX)] = 0.0
    """Seconds; with 0 the message is only taken."""


class MessageBody(JsonBody, frozen=True):
    """A message to a session."""

    content: str | list[dict[str, Any]]
    """The user's words, or blocks as in the log."""
    extra: dict[str, Any] | None = None
    """Kept with the words in the log."""


class InboxMessage(Given, frozen=True, rename="camel"):
    """A message in the inbox."""

    id: int
    """The number of the message."""
    queue: str
    """`inbox`, or the outbox of a channel."""
    key: str
    """The key it was sent with; the same key is kept once."""
    session: str
    """Its session, as `agent/id`."""
    owner: str
    """Its owner; empty where it has none."""
    state: MessageState
    """The state it is in."""
    tries: int
    """Tries with an outcome, and the one that runs."""
    lost_claims: int
    """Claims without an outcome: the process ended that worked on it."""
    created: float
    """The time it came, in seconds since 1970."""
    changed: float
    """The time of its last change, in seconds since 1970."""
    due: float
    """Not tried before this time, in seconds since 1970."""
    holder: str | None = None
    """The process that works on it."""
    since: float | None = None
    """The time of the claim, in seconds since 1970."""
    reason: str = ""
    """The reason of the last failure, in a sentence."""
    record: str | None = None
    """The record of the answer."""
    reply: str | None = None
    """The text of the answer, where it was waited for."""


class InboxQuery(HttpQuery, frozen=True):
    """The messages to list."""

    state: MessageState | None = None
    """Only messages in this state."""
    session: Annotated[str, msgspec.Meta(max_length=300)] | None = None
    """As `agent/id`."""
    before: Annotated[int, msgspec.Meta(ge=1, le=2**62)] | None = None
    """Only messages before this id."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=_PAGE_MAX)] = 50
    """The largest number of messages on the page."""


class InboxPage(Given, frozen=True):
    """Messages, the newest first."""

    messages: list[InboxMessage]
    """The messages of this page."""
    counts: dict[str, int]
    """The number of messages in each state."""
    next_before: int | None = None
    """For the next page; null at the end."""


class OutboxQuery(HttpQuery, frozen=True):
    """A page of outgoing messages."""

    before: Annotated[int, msgspec.Meta(ge=1, le=2**62)] | None = None
    """The `nextBefore` of the page before."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=_PAGE_MAX)] = 50
    """The largest number of messages on the page."""


class OutboxPage(Given, frozen=True, rename="camel"):
    """Outgoing messages that were set aside, the newest first."""

    messages: list[InboxMessage]
    """The messages of this page."""
    next_before: int | None = None
    """For the next page; null at the end."""


class CancelResult(Given, frozen=True):
    """The result of a cancel."""

    cancelled: bool
    """True if a turn was running."""
    message: int | None = None
    """The message that it was answering."""


class DropBody(JsonBody, frozen=True):
    """Why a message is set aside."""

    reason: Annotated[str, msgspec.Meta(max_length=500)] = "dropped by a person"
    """The reason, in a sentence."""


async def send_message(call: HttpCall) -> HttpAnswer:
    """The message is durable when this answers. The same `Idempotency-Key` again, with the same
    body, is the same message, however old it is; another body under it is refused."""
    key, owner = await run_in_thread(_session_and_owner, call)
    body: MessageBody = call.body
    check_message(body.content)
    message = await call.gateway.submit(
        key,
        body.content,
        message_key=call.headers.get(_KEY) or None,
        owner=owner,
        extra=body.extra,
    )
    if call.query.wait:
        message = await call.gateway.wait(message.id, call.query.wait) or message

    def answer() -> InboxMessage:  # in a thread: masking may have to load its rules first
        return show(message, call, _reply_text(call, message) if call.query.wait else None)

    shown = await run_in_thread(answer)
    return HttpAnswer(shown, 200 if message.state == "answered" else 202)


def _session_and_owner(call: HttpCall) -> tuple[SessionKey, Owner]:
    key = call.session(to_change=True)
    return key, owner_of(call.store.header(key).owner)


def _reply_text(call: HttpCall, message: QueuedMessage) -> str | None:
    record = (message.result or {}).get("record")
    if not record:
        return None
    try:
        found = call.store.find(_current(call, message), record)
    except HoldfastError:
        return None
    return call.workspace.mask(text_of(found.content)) if isinstance(found, Assistant) else None


def _current(call: HttpCall, message: QueuedMessage) -> Any:
    """The session in which a message was answered: its name may have moved on since."""
    return follow_continuation(call.store, session_key(message))


async def cancel_turn(call: HttpCall) -> HttpAnswer:
    key = await run_in_thread(call.session, to_change=True)
    dropped = await call.gateway.cancel(key)
    return HttpAnswer(
        CancelResult(dropped is not None, dropped.id if dropped is not None else None)
    )


def show(message: QueuedMessage, call: HttpCall, reply: str | None = None) -> InboxMessage:
    """A message for a client, with its secrets masked."""
    return InboxMessage(
        id=message.id,
        queue=message.queue,
        key=message.key,
        session=message.session,
        owner=message.owner,
        state=message.state,
        tries=message.tries,
        lost_claims=message.lost_claims,
        created=message.created,
        changed=message.changed,
        due=message.due,
        holder=message.holder if message.state == "running" else None,
        since=message.since if message.state == "running" else None,
        reason=call.workspace.mask(message.reason),
        record=(message.result or {}).get("record"),
        reply=reply,
    )


def list_inbox(call: HttpCall) -> HttpAnswer:
    query: InboxQuery = call.query
    queues = call.store.queues
    states = (query.state,) if query.state else ()
    found = queues.messages(
        "inbox",
        owner=call.owner,
        lane=query.session,
        states=states,
        before=query.before,
        limit=query.limit,
    )
    before = found[-1].id if len(found) == query.limit else None
    known = queues.counts("inbox", owner=call.owner)
    counts = {str(state): known.get(state, 0) for state in MESSAGE_STATES}
    return HttpAnswer(InboxPage([show(message, call) for message in found], counts, before))


def list_outbox(call: HttpCall) -> HttpAnswer:
    """Lists what a channel such as Telegram did not take: a chat that blocked the bot, say. Each
    can be tried again or dropped, as messages of the inbox can."""
    query: OutboxQuery = call.query
    found: list[QueuedMessage] = []
    before, is_end = query.before, False
    while len(found) < query.limit and not is_end:
        rows = call.store.queues.messages(
            owner=call.owner, states=("failed",), before=before, limit=_PAGE_MAX
        )
        found += [row for row in rows if row.queue.startswith(_OUTBOX)]
        is_end = len(rows) < _PAGE_MAX
        before = rows[-1].id if rows else before
    shown = found[: query.limit]
    has_more = len(found) > len(shown) or not is_end
    return HttpAnswer(
        OutboxPage(
            [show(message, call) for message in shown], shown[-1].id if has_more and shown else None
        )
    )


def _message(call: HttpCall) -> HttpAnswer:
    found = _find(call)
    return HttpAnswer(show(found, call, _reply_text(call, found)))


def retry_message(call: HttpCall) -> HttpAnswer:
    found = _find(call)
    if not call.store.queues.retry(found.id):
        raise Problem(
            409,
            f"message {found.id} is {found.state}",
            hint="only failed and dropped messages can be tried again",
        )
    call.gateway.wake()
    return HttpAnswer(show(_find(call), call))


def drop_message(call: HttpCall) -> HttpAnswer:
    found = _find(call)
    if not call.store.queues.drop(found.id, call.body.reason):
        raise Problem(409, f"message {found.id} is {found.state}", hint="it is done already")
    return HttpAnswer(show(_find(call), call))


def _find(call: HttpCall) -> QueuedMessage:
    text = call.path["message"]
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0
    found = call.store.queues.message(number) if number else None
    is_known = found is not None and (found.queue == "inbox" or found.queue.startswith(_OUTBOX))
    if found is None or not is_known or not is_wanted(owner_of(found.owner), call.owner):
        raise Problem(
            404, "there is no such message here", hint="GET /v1/inbox lists those that you may see"
        )
    return found


_SESSION: Final = "/v1/sessions/{agent}/{session}"
ROUTES: Final = (
    Route(
        "POST",
        f"{_SESSION}/messages",
        "Send a message",
        send_message,
        InboxMessage,
        scope="write",
        query=SendQuery,
        body=MessageBody,
        status=202,
        other_status=200,
        action="send",
        problems=(409,),
    ),
    Route(
        "POST",
        f"{_SESSION}/cancel",
        "Cancel the running turn",
        cancel_turn,
        CancelResult,
        scope="write",
        action="cancel",
    ),
    Route(
        "GET",
        "/v1/inbox",
        "List messages and their states",
        list_inbox,
        InboxPage,
        query=InboxQuery,
        action="list",
    ),
    Route(
        "GET",
        "/v1/outbox",
        "List outgoing messages that were set aside",
        list_outbox,
        OutboxPage,
        query=OutboxQuery,
        action="list",
    ),
    Route(
        "GET",
        "/v1/inbox/{message}",
        "Read a message's state",
        _message,
        InboxMessage,
        action="read",
    ),
    Route(
        "POST",
        "/v1/inbox/{message}/retry",
        "Try a failed or dropped message again",
        retry_message,
        InboxMessage,
        scope="write",
        action="retry",
        problems=(409,),
    ),
    Route(
        "POST",
        "/v1/inbox/{message}/drop",
        "Set a message aside",
        drop_message,
        InboxMessage,
        scope="write",
        body=DropBody,
        action="drop",
        problems=(409,),
    ),
)
