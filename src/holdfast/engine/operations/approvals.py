"""Operations on tool calls that wait for a person: list them, approve one, deny one."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from holdfast.core.history.answers import Result
from holdfast.core.limits import MESSAGE_KEY_CHARS_MAX
from holdfast.core.owners import owner_of, owner_text
from holdfast.core.parameters import TEXT_CHARS_MAX, SessionName
from holdfast.engine.gateway.gateway import resume_session
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.operation import LiveOperation, Operation, run_in_thread
from holdfast.engine.session.options import SessionOptions
from holdfast.engine.session.session import Session
from holdfast.errors import UsageError
from holdfast.providers.models import model

if TYPE_CHECKING:
    from holdfast.core.history.access import Caller
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.turn.calls import ParkedCall
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.session.handles.tool_calls import ToolCalls
    from holdfast.engine.workspace.workspace import CallerWorkspace

_CallName = Annotated[
    str,
    Meta(description="The key of the call, as the list has it.", max_length=MESSAGE_KEY_CHARS_MAX),
]


class WaitingCall(Result, frozen=True):
    """A tool call that waits for a person, or was decided about."""

    key: str
    """The key of the call."""
    tool: str
    """The name of the tool."""
    arguments: dict[str, Any]
    """Its arguments, in full."""
    reason: str
    """Why it needs approval."""
    since: float
    """The time from which it waits, in seconds since 1970."""
    until: float | None
    """The time after which nobody may decide; null for never."""
    state: str
    """`parked` while it waits; else what became of it."""
    by: str = ""
    """Who decided; empty while it waits."""


class WaitingCalls(Result, frozen=True):
    """The calls of a session that wait for a person, oldest first."""

    calls: list[WaitingCall]
    """The calls."""


class ListWaitingCalls(Operation[WaitingCalls], frozen=True):
    """List the tool calls of a session that wait for the approval of a person, with their
    arguments."""

    title = "List the calls that wait for approval"
    audit = "read"
    session_key: SessionName

    def answer(self, workspace: CallerWorkspace) -> GivenReply[WaitingCalls]:
        key, reason = workspace.resolve(self.session_key)
        waiting = _calls_of(workspace, key).waiting()
        return GivenReply(WaitingCalls(calls=[_row(call) for call in waiting]), reason)


class _Decision(LiveOperation[WaitingCall], frozen=True, kw_only=True):
    """A decision about one call. The session goes on with it where a gateway runs its turns."""

    session_key: SessionName
    key: _CallName

    @abstractmethod
    def decide(self, calls: ToolCalls, by: str) -> ParkedCall:
        """Store the decision; the first one counts."""

    def answer(self, workspace: CallerWorkspace) -> GivenReply[WaitingCall]:
        key, reason = workspace.resolve(self.session_key, to_change=True)
        try:
            decided = self.decide(_calls_of(workspace, key), _name_of(workspace.caller))
        except UsageError as error:
            raise RequestRefused(
                "conflict", str(error), code=error.code, hint=error.hint or ""
            ) from error
        return GivenReply(_row(decided), reason)

    async def act(self, workspace: CallerWorkspace, gateway: Gateway) -> GivenReply[WaitingCall]:
        found = await run_in_thread(self.answer, workspace)
        key, _reason = await run_in_thread(workspace.resolve, self.session_key)
        owner = owner_of((await run_in_thread(workspace.store.header, key)).owner)
        await resume_session(gateway, key, f"call {self.key}", owner=owner)
        return found


class ApproveCall(_Decision, frozen=True):
    """Approve a tool call that waits. It runs when its session goes on; the first decision
    counts."""

    title = "Approve a call that waits"
    audit = "approve"
    right = "write"
    arguments: Annotated[
        dict[str, Any] | None, Meta(description="Other arguments to run it with.")
    ] = None
    always: Annotated[
        bool,
        Meta(description="Later calls of the tool in this session need none for the same reason."),
    ] = False

    def decide(self, calls: ToolCalls, by: str) -> ParkedCall:
        return calls.approve(self.key, by=by, arguments=self.arguments, always=self.always)


class DenyCall(_Decision, frozen=True):
    """Deny a tool call that waits, with words for the model; the first decision counts."""

    title = "Deny a call that waits"
    audit = "approve"
    right = "write"
    words: Annotated[str, Meta(description="Words for the model.", max_length=TEXT_CHARS_MAX)] = ""

    def decide(self, calls: ToolCalls, by: str) -> ParkedCall:
        return calls.deny(self.key, self.words, by=by)


def _calls_of(workspace: CallerWorkspace, key: SessionKey) -> ToolCalls:
    """The calls of a session, for decisions that need no model."""
    session = Session(workspace.store, key, model("offline"), SessionOptions(notes="off"))
    return session.calls


def _name_of(caller: Caller) -> str:
    return owner_text(caller.owner) or caller.agent or "operator"


def _row(call: ParkedCall) -> WaitingCall:
    decided = call.decision
    return WaitingCall(
        key=call.key,
        tool=call.name,
        arguments=call.arguments,
        reason=call.reason,
        since=call.since,
        until=call.until,
        state=call.state,
        by=decided.by if decided is not None else "",
    )
