"""Operations on messages: send one, cancel its turn, list those that wait, retry, drop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from holdfast.core.flow.arguments import check_message
from holdfast.core.history.answers import Result
from holdfast.core.limits import MESSAGE_KEY_CHARS_MAX
from holdfast.core.log.records import Assistant, text_of
from holdfast.core.owners import is_wanted, owner_of
from holdfast.core.parameters import PageLimit, SessionName
from holdfast.engine.gateway.gateway import session_key
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.operation import LiveOperation, Operation, run_in_thread
from holdfast.engine.session.opening import follow_continuation
from holdfast.engine.workspace.workspace import MAY_READ
from holdfast.errors import HoldfastError
from holdfast.ports import MESSAGE_STATES, MessageState

if TYPE_CHECKING:
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.ports import QueuedMessage

_WAIT_MAX: Final = 300.0
"""Seconds that a request may wait; proxies end longer ones."""
_OUTBOX: Final = "outbox:"
"""The queues of outgoing messages begin with it; the name of the channel follows."""
_PAGE_MAX: Final = 200
"""Rows of a queue that are read at once."""
_Before = Annotated[int, Meta(ge=1, le=2**62)]
_Number = Annotated[int, Meta(description="The number of the message.", ge=1, le=2**62)]


class InboxMessage(Result, frozen=True):
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


class InboxPage(Result, frozen=True):
    """Messages, the newest first."""

    messages: list[InboxMessage]
    """The messages of this page."""
    counts: dict[str, int]
    """The number of messages in each state."""
    next_before: int | None = None
    """For the next page; null at the end."""


class OutboxPage(Result, frozen=True):
    """Outgoing messages that were set aside, the newest first."""

    messages: list[InboxMessage]
    """The messages of this page."""
    next_before: int | None = None
    """For the next page; null at the end."""


class CancelResult(Result, frozen=True):
    """The result of a cancel."""

    cancelled: bool
    """True if a turn was running."""
    message: int | None = None
    """The message that it was answering."""


class SendMessage(LiveOperation[InboxMessage], frozen=True):
    """Send a message. It is durable when this answers.

    The same `Idempotency-Key` again, with the same body, is the same message, however old it is;
    another body under it is refused.
    """

    title = "Send a message"
    audit = "send"
    right = "write"
    session_key: SessionName
    content: Annotated[
        str | list[dict[str, Any]], Meta(description="The user's words, or blocks as in the log.")
    ]
    extra: Annotated[dict[str, Any] | None, Meta(description="Kept with the words in the log.")] = (
        None
    )
    wait: Annotated[
        float,
        Meta(
            description="Seconds to wait for the answer; with 0 the message is only stored.",
            ge=0,
            le=_WAIT_MAX,
        ),
    ] = 0.0
    idempotency_key: Annotated[
        str,
        Meta(
            description="A key of the message. A message with the same key is stored once.",
            max_length=MESSAGE_KEY_CHARS_MAX,
        ),
    ] = ""

    async def act(self, workspace: CallerWorkspace, gateway: Gateway) -> GivenReply[InboxMessage]:
        key, reason = await run_in_thread(
            lambda: workspace.resolve(self.session_key, to_change=True)
        )
        owner = owner_of((await run_in_thread(workspace.store.header, key)).owner)
        check_message(self.content)
        message = await gateway.submit(
            key,
            self.content,
            message_key=self.idempotency_key or None,
            owner=owner,
            extra=self.extra,
        )
        if self.wait:
            message = await gateway.wait(message.id, self.wait) or message

        def answer() -> GivenReply[InboxMessage]:  # masking may have to load its rules first
            reply = _reply_text(workspace, message) if self.wait else None
            return GivenReply(_show(workspace, message, reply), reason, is_masked=True)

        return await run_in_thread(answer)


class CancelTurn(LiveOperation[CancelResult], frozen=True):
    """Cancel the turn that runs in a session, in whichever process."""

    title = "Cancel the running turn"
    audit = "cancel"
    right = "write"
    session_key: SessionName

    async def act(self, workspace: CallerWorkspace, gateway: Gateway) -> GivenReply[CancelResult]:
        key, reason = await run_in_thread(
            lambda: workspace.resolve(self.session_key, to_change=True)
        )
        dropped = await gateway.cancel(key)
        message = dropped.id if dropped is not None else None
        return GivenReply(CancelResult(cancelled=message is not None, message=message), reason)


class ListInbox(Operation[InboxPage], frozen=True):
    """List messages and their states, the newest first."""

    title = "List messages and their states"
    audit = "list"
    state: Annotated[MessageState | None, Meta(description="Only messages in this state.")] = None
    session: Annotated[
        Annotated[str, Meta(max_length=300)] | None,
        Meta(description="Only messages of this session, `agent/id`."),
    ] = None
    before: Annotated[_Before | None, Meta(description="Only messages before this id.")] = None
    limit: PageLimit = 50

    def answer(self, workspace: CallerWorkspace) -> GivenReply[InboxPage]:
        queues, owner = workspace.store.queues, workspace.owner
        found = queues.messages(
            "inbox",
            owner=owner,
            lane=self.session,
            states=(self.state,) if self.state else (),
            before=self.before,
            limit=self.limit,
        )
        known = queues.counts("inbox", owner=owner)
        page = InboxPage(
            messages=[_show(workspace, message) for message in found],
            counts={str(state): known.get(state, 0) for state in MESSAGE_STATES},
            next_before=found[-1].id if len(found) == self.limit else None,
        )
        return GivenReply(page, MAY_READ, is_masked=True)


class ListOutbox(Operation[OutboxPage], frozen=True):
    """List what a channel such as Telegram did not take: a chat that blocked the bot, say. Each can
    be tried again or dropped, as messages of the inbox can."""

    title = "List outgoing messages that were set aside"
    audit = "list"
    before: Annotated[_Before | None, Meta(description="The `nextBefore` of the page before.")] = (
        None
    )
    limit: PageLimit = 50

    def answer(self, workspace: CallerWorkspace) -> GivenReply[OutboxPage]:
        found: list[QueuedMessage] = []
        before, is_end = self.before, False
        while len(found) < self.limit and not is_end:
            rows = workspace.store.queues.messages(
                owner=workspace.owner, states=("failed",), before=before, limit=_PAGE_MAX
            )
            found += [row for row in rows if row.queue.startswith(_OUTBOX)]
            is_end = len(rows) < _PAGE_MAX
            before = rows[-1].id if rows else before
        shown = found[: self.limit]
        has_more = bool(shown) and (len(found) > len(shown) or not is_end)
        page = OutboxPage(
            messages=[_show(workspace, message) for message in shown],
            next_before=shown[-1].id if has_more else None,
        )
        return GivenReply(page, MAY_READ, is_masked=True)


class _MessageOperation(LiveOperation[InboxMessage], frozen=True, kw_only=True):
    """An operation on one message of the inbox, or of an outbox."""

    message: _Number

    @property
    def target(self) -> str:
        return str(self.message)

    def find(self, workspace: CallerWorkspace) -> QueuedMessage:
        found = workspace.store.queues.message(self.message)
        is_known = found is not None and (found.queue == "inbox" or found.queue.startswith(_OUTBOX))
        if found is None or not is_known or not is_wanted(owner_of(found.owner), workspace.owner):
            raise RequestRefused(
                "not_found",
                "there is no such message here",
                hint="list the inbox for those you may see",
            )
        return found

    def show(self, workspace: CallerWorkspace) -> GivenReply[InboxMessage]:
        return GivenReply(_show(workspace, self.find(workspace)), MAY_READ, is_masked=True)


class ReadInboxMessage(_MessageOperation, frozen=True):
    """Read the state of a message, and the text of its answer."""

    title = "Read a message's state"
    audit = "read"

    def answer(self, workspace: CallerWorkspace) -> GivenReply[InboxMessage]:
        found = self.find(workspace)
        shown = _show(workspace, found, _reply_text(workspace, found))
        return GivenReply(shown, MAY_READ, is_masked=True)


class RetryMessage(_MessageOperation, frozen=True):
    """Try a failed or dropped message again."""

    title = "Try a failed or dropped message again"
    audit = "retry"
    right = "write"

    def answer(self, workspace: CallerWorkspace) -> GivenReply[InboxMessage]:
        found = self.find(workspace)
        if not workspace.store.queues.retry(found.id):
            raise RequestRefused(
                "conflict",
                f"message {found.id} is {found.state}",
                hint="only failed and dropped messages can be tried again",
            )
        return self.show(workspace)

    async def act(self, workspace: CallerWorkspace, gateway: Gateway) -> GivenReply[InboxMessage]:
        found = await run_in_thread(self.answer, workspace)
        gateway.wake()
        return found


class DropMessage(_MessageOperation, frozen=True):
    """Set a message aside: it is not answered."""

    title = "Set a message aside"
    audit = "drop"
    right = "write"
    reason: Annotated[str, Meta(description="The reason, in a sentence.", max_length=500)] = (
        "dropped by a person"
    )

    def answer(self, workspace: CallerWorkspace) -> GivenReply[InboxMessage]:
        found = self.find(workspace)
        if not workspace.store.queues.drop(found.id, self.reason):
            raise RequestRefused(
                "conflict", f"message {found.id} is {found.state}", hint="it is already answered"
            )
        return self.show(workspace)


def _reply_text(workspace: CallerWorkspace, message: QueuedMessage) -> str | None:
    record = (message.result or {}).get("record")
    if not record:
        return None
    store = workspace.store
    try:  # the name of the session may have moved on since
        found = store.find(follow_continuation(store, session_key(message)), record)
    except HoldfastError:
        return None
    return workspace.mask(text_of(found.content)) if isinstance(found, Assistant) else None


def _show(
    workspace: CallerWorkspace, message: QueuedMessage, reply: str | None = None
) -> InboxMessage:
    """A message for a client, with its secrets masked."""
    is_running = message.state == "running"
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
        holder=message.holder if is_running else None,
        since=message.since if is_running else None,
        reason=workspace.mask(message.reason),
        record=(message.result or {}).get("record"),
        reply=reply,
    )
