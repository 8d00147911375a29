"""Operations on tool calls that wait for a person: list them, approve one, deny one."""

from __future__ import annotations

import json
import logging
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from holdfast.core.history.answers import Result
from holdfast.core.limits import MESSAGE_KEY_CHARS_MAX
from holdfast.core.log.ids import SessionKey
from holdfast.core.owners import owner_of, owner_text
from holdfast.core.parameters import TEXT_CHARS_MAX, PageLimit
from holdfast.core.secrets.redaction import masks_in
from holdfast.engine.gateway.gateway import resume_session, session_key
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.operation import LiveOperation, Operation, run_in_thread
from holdfast.engine.session.options import SessionOptions
from holdfast.engine.session.session import Session
from holdfast.engine.session.waiting_list import (
    find_entry,
    list_waiting,
    resume_decided,
    resume_name,
    take_down,
)
from holdfast.engine.workspace.workspace import MAY_READ
from holdfast.errors import AccessDenied, HoldfastError, UsageError
from holdfast.providers.models import model

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.records import Json
    from holdfast.core.owners import Owner, OwnerFilter
    from holdfast.core.turn.calls import ParkedCall
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.session.handles.tool_calls import ToolCalls
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.ports import QueuedMessage, SessionStore

log: Final = logging.getLogger(__name__)
CallName = Annotated[
    str,
    Meta(description="The key of the call, as the list has it.", max_length=MESSAGE_KEY_CHARS_MAX),
]


class WaitingCall(Result, frozen=True):
    """A tool call that waits for a person, or was decided about."""

    key: str
    """The key of the call."""
    session: str
    """The session that made it, as `agent/id`."""
    owner: str
    """The owner of the session; empty where it has none."""
    tool: str
    """The name of the tool."""
    arguments: dict[str, Any]
    """Its arguments, in full."""
    reason: str
    """Why it needs approval."""
    approvers: list[str]
    """The names of those who may decide; empty for anyone who may use the session."""
    since: float
    """The time from which it waits, in seconds since 1970."""
    until: float | None
    """The time after which no one may decide; null for never."""
    state: str
    """`parked` while it waits; else what became of it."""
    by: str = ""
    """Who decided; empty while it waits."""


class WaitingCalls(Result, frozen=True):
    """Calls that wait for a person, the newest first."""

    calls: list[WaitingCall]
    """The calls of this page."""
    next_before: int | None = None
    """For the next page; null at the end."""


class ListWaitingCalls(Operation[WaitingCalls], frozen=True):
    """List the tool calls that wait for the approval of a person: what waits for whom, since when,
    with the arguments in full."""

    title = "List the calls that wait for approval"
    audit = "list"
    tool = "approval_list"
    session_key: Annotated[
        str, Meta(description="Only those of this session; all, unless given.", max_length=300)
    ] = ""
    before: Annotated[
        Annotated[int, Meta(ge=1, le=2**62)] | None,
        Meta(description="The `nextBefore` of the page before."),
    ] = None
    limit: PageLimit = 50

    def answer(self, workspace: CallerWorkspace) -> GivenReply[WaitingCalls]:
        if self.session_key:
            key, reason = workspace.resolve(self.session_key)
            calls = show_waiting(workspace.store, key)
            return GivenReply(WaitingCalls(calls=calls), reason)
        agent = workspace.caller.agent
        found = self.page(
            workspace.store,
            workspace.caller.owner if agent else workspace.owner,
            lambda key: not agent or _may_read(workspace, key),
        )
        return GivenReply(found, MAY_READ)

    def page(
        self, store: SessionStore, of: OwnerFilter, may_read: Callable[[SessionKey], bool]
    ) -> WaitingCalls:
        """Return a page of an owner's, of those sessions that may be read."""
        entries = list_waiting(store, of, before=self.before, limit=self.limit)
        opened: dict[SessionKey, ToolCalls | None] = {}
        calls: list[WaitingCall] = []
        for entry in entries:
            key = session_key(entry)
            if key not in opened:
                opened[key] = _open_calls(store, key) if may_read(key) else None
            of_session = opened[key]
            calls += _look(store, entry, of_session) if of_session is not None else []
        more = entries[-1].id if len(entries) == self.limit else None
        return WaitingCalls(calls=calls, next_before=more)


class _Decision(LiveOperation[WaitingCall], frozen=True, kw_only=True):
    """A decision about one call. The session goes on with it where a gateway runs its turns."""

    session_key: Annotated[
        str, Meta(description="Its session; found by the key, unless given.", max_length=300)
    ] = ""
    key: CallName

    @abstractmethod
    def decide(self, calls: ToolCalls, by: str) -> ParkedCall:
        """Store the decision; the first one counts."""

    def answer(self, workspace: CallerWorkspace) -> GivenReply[WaitingCall]:
        by = name_of(workspace)
        try:
            named = session_of_call(workspace, self.session_key, self.key)
            key, reason = workspace.resolve(named, to_change=True)
            return GivenReply(self.settle(workspace.store, key, by), reason)
        except AccessDenied as error:
            raise RequestRefused("not_allowed", str(error), hint=error.hint or "") from error
        except UsageError as error:
            raise RequestRefused(
                "conflict", str(error), code=error.code, hint=error.hint or ""
            ) from error

    @property
    def target(self) -> str:
        return self.session_key or self.key

    def settle(self, store: SessionStore, key: SessionKey, by: str) -> WaitingCall:
        """Decide about a call of a session that was found, in the name of a person."""
        decided = self.decide(calls_of(store, key), by)
        owner = owner_of(store.header(key).owner)
        resume_decided(store, key, self.key, owner)
        return show_call(key, owner, decided)

    async def act(self, workspace: CallerWorkspace, gateway: Gateway) -> GivenReply[WaitingCall]:
        found = await run_in_thread(self.answer, workspace)
        agent, _, session = found.value.session.partition("/")
        name, owner = resume_name(self.key), owner_of(found.value.owner)
        await resume_session(gateway, SessionKey(agent, session), name, owner=owner)
        return found


class ApproveCall(_Decision, frozen=True):
    """Approve a tool call that waits. It runs when its session goes on; the first decision
    counts."""

    title = "Approve a call that waits"
    audit = "approve"
    tool = "approval_approve"
    right = "write"
    arguments: Annotated[
        dict[str, Any] | None, Meta(description="Other arguments to run it with.")
    ] = None
    always: Annotated[
        bool,
        Meta(description="Later calls of the tool in this session need none for the same reason."),
    ] = False

    def decide(self, calls: ToolCalls, by: str) -> ParkedCall:
        if self.arguments is not None:
            _check_masks(calls.find(self.key), self.arguments)
        return calls.approve(self.key, by=by, arguments=self.arguments, always=self.always)


class DenyCall(_Decision, frozen=True):
    """Deny a tool call that waits, with words for the model; the first decision counts."""

    title = "Deny a call that waits"
    audit = "approve"
    tool = "approval_deny"
    right = "write"
    words: Annotated[str, Meta(description="Words for the model.", max_length=TEXT_CHARS_MAX)] = ""

    def decide(self, calls: ToolCalls, by: str) -> ParkedCall:
        return calls.deny(self.key, self.words, by=by)


def _check_masks(call: ParkedCall | None, arguments: Json) -> None:
    """Refuse arguments with a mask in the place of a secret: they were copied from what a door
    showed, and the call would run with the mask."""
    known = _masks(call.arguments) if call is not None else 0
    if _masks(arguments) > known:
        raise UsageError(
            "the arguments have a masked secret, and the call would run with the mask",
            hint="approve it as it is, or write the value; nothing was stored",
        )


def _masks(value: Json) -> int:
    return masks_in(json.dumps(value, ensure_ascii=False))


def session_of_call(workspace: CallerWorkspace, session: str, key: str) -> str:
    """Return the session of a call, unless it is given. Raises `RequestRefused`."""
    if session:
        return session
    of = workspace.caller.owner if workspace.caller.agent else workspace.owner
    try:
        return find_entry(workspace.store, of, key).session
    except UsageError as error:
        raise RequestRefused("not_found", str(error), hint=error.hint or "") from error


def calls_of(store: SessionStore, key: SessionKey) -> ToolCalls:
    """Return the calls of a session, for decisions that need no model."""
    return Session(store, key, model("offline"), SessionOptions(notes="off")).calls


def show_waiting(store: SessionStore, key: SessionKey) -> list[WaitingCall]:
    """Return the calls of a session that wait, the newest first."""
    owner = owner_of(store.header(key).owner)
    return [show_call(key, owner, call) for call in reversed(calls_of(store, key).waiting())]


def show_call(key: SessionKey, owner: Owner, call: ParkedCall) -> WaitingCall:
    """Return a call for a client."""
    decided = call.decision
    return WaitingCall(
        key=call.key,
        session=str(key),
        owner=owner_text(owner),
        tool=call.name,
        arguments=call.arguments,
        reason=call.reason,
        approvers=list(call.approvers),
        since=call.since,
        until=call.until,
        state=call.state,
        by=decided.by if decided is not None else "",
    )


def _open_calls(store: SessionStore, key: SessionKey) -> ToolCalls | None:
    """Return the calls of a session; None where it is in the trash, or damaged."""
    try:
        return calls_of(store, key)
    except HoldfastError as error:
        log.warning("the calls of %s cannot be listed: %s", key, error)
        return None


def _look(store: SessionStore, entry: QueuedMessage, calls: ToolCalls) -> list[WaitingCall]:
    """Return the call of an entry if it waits. One that is decided is taken off the list; one that
    a rewind took back stays, and is shown again where that is undone."""
    try:
        call = calls.find(entry.key)
    except HoldfastError as error:
        log.warning("a call of %s cannot be listed: %s", entry.session, error)
        return []
    if call is None:
        return []
    if call.is_waiting(time.time()):
        return [show_call(session_key(entry), owner_of(entry.owner), call)]
    take_down(store, entry)
    return []


def _may_read(workspace: CallerWorkspace, key: SessionKey) -> bool:
    try:
        workspace.resolve(str(key))
    except RequestRefused:
        return False
    return True


def name_of(workspace: CallerWorkspace) -> str:
    """Return the name of the person who decides. A model is none."""
    if workspace.person:
        return workspace.person
    if workspace.caller.agent:
        raise RequestRefused(
            "not_allowed",
            "only a person may decide about a call, and this client is an agent",
            hint="decide with `holdfast approvals` or in the console; for a client that asks its "
            "person, start it with `holdfast mcp --approver NAME`",
        )
    return owner_text(workspace.caller.owner) or "operator"
