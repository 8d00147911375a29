"""The tool calls of a session whose last word was not said, read from its log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core.log.ids import CallKey, call_key, place_of
from holdfast.core.log.records import (
    Assistant,
    CallState,
    Compaction,
    ToolResult,
    ToolUse,
    User,
)
from holdfast.core.models.messages import INTERRUPTED, ToolCall, read_blocks
from holdfast.core.text.cut import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Content, Json, Record

STARTED: Final = "started"
PARKED: Final = "parked"
APPROVED: Final = "approved"
DENIED: Final = "denied"
EXPIRED: Final = "expired"
WITHDRAWN: Final = "withdrawn"
ALLOWED: Final = "allowed"
RUNS_MAX: Final = 3
"""A call that is safe to run again is run so often at most: it may be what ends the process."""
_SHOWN_CHARS: Final = 2_000
"""Of the arguments of a call, where its result comes as news."""


class SessionCalls(msgspec.Struct, frozen=True):
    """The session whose calls are meant, and which of the calls in its log it made itself."""

    session: str = ""
    """The session, as `agent/id`."""
    copied_to: str = ""
    """The last record that was copied from another session."""
    created: float = 0.0
    """The time of its header; older records were copied."""

    def key(self, reply: str, place: int) -> CallKey:
        """Return the key of the call at a place of a reply."""
        return call_key(self.session, reply, place)

    def owns(self, reply: Assistant) -> bool:
        """Return whether a reply was made in this session, and was not copied or imported."""
        return reply.sent is not None and reply.id > self.copied_to and reply.ts >= self.created


NO_HOME: Final = SessionCalls()
"""For a look at calls that says nothing about their keys."""


def call_state(call: ToolCall, key: str, reply: str, state: str, **fields: Any) -> CallState:
    """Return the record of a new state of a call."""
    return CallState(key=key, state=state, call=call.id, reply=reply, name=call.name, **fields)


class UnansweredCall(msgspec.Struct, frozen=True):
    """A call of the newest reply that has no result yet."""

    call: ToolCall
    key: CallKey
    reply: str
    is_own: bool
    """True if this session made it."""
    starts: int
    """The number of times it was started, as far as the log says."""
    states: tuple[str, ...] = ()
    """Its states, the newest first."""

    def state(self, state: str) -> CallState:
        """Return the record of a new state."""
        return call_state(self.call, self.key, self.reply, state)

    def is_new(self, gated: frozenset[str]) -> bool:
        """Return whether it was never started, where tools in `gated` are asked about before."""
        return self.is_own and self.call.name in gated and not self.states

    def may_run_again(self, safe: frozenset[str]) -> bool:
        """Return whether it may be run again, where the tools in `safe` may."""
        is_free = self.is_own and PARKED not in self.states
        return is_free and self.call.name in safe and self.starts < RUNS_MAX


def open_calls(records: Sequence[Record], home: SessionCalls = NO_HOME) -> list[UnansweredCall]:
    """Return the tool calls of the newest assistant message that have no result yet."""
    answered: set[str] = set()
    alone: list[ToolCall] = []
    starts: dict[str, int] = {}
    states: dict[tuple[str, str], tuple[str, ...]] = {}
    for record in reversed(records):
        if isinstance(record, ToolResult):
            answered.add(record.tool_use_id)
        elif isinstance(record, CallState):
            starts[record.key] = starts.get(record.key, 1) + (record.state == STARTED)
            about = record.reply, record.call
            states[about] = (*states.get(about, ()), record.state)
        elif isinstance(record, ToolUse):
            alone.append(ToolCall(record.tool_use_id, record.name, {}))
        elif isinstance(record, User):
            answered |= _result_ids_in(record)
        elif isinstance(record, Assistant):
            made = home.owns(record)
            keyed = calls_of(record.content, record.id, home)
            calls = [
                UnansweredCall(
                    call,
                    key,
                    record.id,
                    made,
                    starts.get(key, 1),
                    states.get((record.id, call.id), ()),
                )
                for call, key in keyed
            ]
            calls += [
                UnansweredCall(call, home.key(record.id, place), record.id, False, 1)
                for place, call in enumerate(reversed(alone), len(calls))
            ]
            return [found for found in calls if found.call.id not in answered]
    return []


def calls_of(content: Content, reply: str, home: SessionCalls) -> list[tuple[ToolCall, CallKey]]:
    """Return the calls of a reply with their keys."""
    calls = [block for block in read_blocks(content) if isinstance(block, ToolCall)]
    return [(call, home.key(reply, place)) for place, call in enumerate(calls)]


class ApprovalNeed(msgspec.Struct, frozen=True):
    """A person has to approve a call before it runs."""

    reason: str
    """Why, for that person."""
    seconds: float | None = None
    """The time in which it may be approved."""
    approvers: tuple[str, ...] = ()
    """The names of those who may decide; empty for anyone who may use the session."""


class ParkedCall(msgspec.Struct, frozen=True):
    """A call that waits for the approval of a person, or was decided about and has no result."""

    key: CallKey
    """The key of the call, by which it is approved or denied."""
    name: str
    """The name of the tool."""
    arguments: Json
    """Its arguments, as the model gave them."""
    reason: str
    """Why it needs approval."""
    since: float
    """The time it was parked, in seconds since 1970."""
    until: float | None
    """The time after which no one may approve it."""
    reply: str
    """The record of the reply that made it."""
    call_id: str
    """The id of the call in that reply."""
    approvers: tuple[str, ...] = ()
    """The names of those who may decide; empty for anyone who may use the session."""
    is_told: bool = False
    """True where a request has gone out with something else in the place of its result."""
    states: tuple[CallState, ...] = ()
    """Its states since it was parked."""

    @property
    def state(self) -> str:
        """The newest state."""
        return self.states[-1].state

    @property
    def decision(self) -> CallState | None:
        """The record of what was decided; None while it waits."""
        return next((state for state in self.states if state.state in _DECISIONS), None)

    @property
    def call(self) -> ToolCall:
        """The call with the arguments that it is run with."""
        decided = self.decision
        changed = decided.arguments if decided is not None else None
        given = self.arguments if changed is None else changed
        return ToolCall(self.call_id, self.name, given)

    @property
    def starts(self) -> int:
        """The number of times it was started."""
        return sum(state.state == STARTED for state in self.states)

    def may_decide(self, name: str) -> bool:
        """Return whether the one of this name is among those who may decide."""
        return not self.approvers or name in self.approvers

    def is_waiting(self, now: float) -> bool:
        """Return whether a person may still decide about it."""
        return self.state == PARKED and (self.until is None or now < self.until)

    def next(self, state: str, **fields: Any) -> CallState:
        """Return the record of a new state."""
        return call_state(self.call, self.key, self.reply, state, **fields)


_DECISIONS: Final = (APPROVED, DENIED, EXPIRED, WITHDRAWN)


def find_parked(records: Sequence[Record], home: SessionCalls) -> list[ParkedCall]:
    """Return the calls of a session that were parked and have no result yet, oldest first. Those of
    the session that it was copied from are not its own."""
    found: dict[str, ParkedCall] = {}
    if CallState not in set(map(type, records)):
        return []
    newest = ""
    for record in records:
        # By exact type: to ask a struct's class for its instances takes several times as long.
        kind = type(record)
        if kind is CallState:
            _take_state(found, record, newest, home)  # type: ignore[arg-type]
        elif kind is ToolResult and found:
            _take_answer(found, record)  # type: ignore[arg-type]
        elif kind is Assistant or kind is Compaction:
            newest = record.id if kind is Assistant else newest
            for call in list(found.values()):
                if call.reply != record.id and not call.is_told:
                    found[call.key] = replace(call, is_told=True)
    return list(found.values())


def _take_state(
    found: dict[str, ParkedCall], record: CallState, newest: str, home: SessionCalls
) -> None:
    known = found.get(record.key)
    if record.state == PARKED and known is None and place_of(home.session, record.key):
        found[record.key] = ParkedCall(
            CallKey(record.key),
            record.name,
            record.arguments or {},
            record.reason,
            record.ts,
            record.until,
            record.reply,
            record.call,
            tuple(record.approvers),
            is_told=record.is_told or record.reply != newest,
            states=(record,),
        )
    elif known is not None and (
        record.state == STARTED or (record.state in _DECISIONS and known.decision is None)
    ):  # the first decision counts
        found[record.key] = replace(known, states=(*known.states, record))


def _take_answer(found: dict[str, ParkedCall], record: ToolResult) -> None:
    if record.key is not None:
        found.pop(record.key, None)
        return
    for call in list(found.values()):
        if call.call_id != record.tool_use_id or call.is_told:
            continue
        if stands_in(record) and call.state != STARTED:
            found[call.key] = replace(call, is_told=True)
        else:  # its result, or that its outcome is unknown
            found.pop(call.key)


def allowances(records: Sequence[Record], home: SessionCalls) -> dict[tuple[str, str], CallState]:
    """Return the tools that need no more approval in this session, each with the reason for which
    they would need it."""
    return {
        (record.name, record.reason): record
        for record in records
        if type(record) is CallState
        and record.state == ALLOWED
        and place_of(home.session, record.key)
    }


def lasting_states(records: Sequence[Record], home: SessionCalls) -> list[CallState]:
    """Return the records to repeat behind a cut: the states of calls that wait, and the approvals
    that hold for later calls."""
    kept = list(allowances(records, home).values())
    for call in find_parked(records, home):
        kept += [replace(state, is_told=True) for state in call.states]
    return [replace(state, id="", parent=None, more=None) for state in kept]


def stands_in(record: ToolResult) -> bool:
    """Return whether a result only stands in the place of one that was not known."""
    return record.pending or record.content == INTERRUPTED


class ResultSeen(msgspec.Struct, frozen=True):
    """The result of one call, as far as the log has it."""

    result: str = ""
    """The record of its result; empty where there is none."""
    is_told: bool = False
    """True where a request may have gone out without it."""


def outcome_in(records: Sequence[Record], reply: str, call_id: str, key: str) -> ResultSeen:
    """Return what records say of the result of a call, as far as they go."""
    is_open = is_told = False  # a later reply may use the same id for another call
    for record in records:
        if isinstance(record, Assistant):
            is_told = is_told or is_open
            is_open = record.id == reply
        elif isinstance(record, ToolResult):
            if record.key == key and not record.pending:
                return ResultSeen(record.id, is_told=True)
            if is_open and record.key is None and record.tool_use_id == call_id:
                if not stands_in(record):
                    return ResultSeen(record.id, is_told)
                is_told = True
    return ResultSeen(is_told=is_told)


def with_note(note: str, content: Content) -> Content:
    """Return the content of a result behind a line about it, which every reader then has."""
    if isinstance(content, list):
        return [{"type": "text", "text": note}, *content]
    return f"{note}\n{content}" if content else note


def name_call(call: ToolCall) -> str:
    """Return a call in a sentence: its tool and its arguments."""
    given = json.dumps(call.arguments, ensure_ascii=False, default=str)
    return f"`{call.name}` with {cut(given, _SHOWN_CHARS).text}"


def _result_ids_in(record: User) -> set[str]:
    """The ids of the calls that a message in a provider's own shape answers."""
    blocks = record.content if isinstance(record.content, list) else []
    return {str(raw.get("tool_use_id")) for raw in blocks if raw.get("type") == "tool_result"}
