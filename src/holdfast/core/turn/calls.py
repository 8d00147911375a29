"""The tool calls of a session whose last word was not said, read from its log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.ids import CallKey, call_key
from holdfast.core.log.records import Assistant, CallState, ToolResult, ToolUse, User
from holdfast.core.models.messages import INTERRUPTED, ToolCall, read_blocks
from holdfast.core.text.cut import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Content, Record

STARTED: Final = "started"
_RUNS_MAX: Final = 3
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


class UnansweredCall(msgspec.Struct, frozen=True):
    """A call of the newest reply that has no result yet."""

    call: ToolCall
    key: CallKey
    reply: str
    is_own: bool
    """True if this session made it."""
    starts: int
    """The number of times it was started, as far as the log says."""

    def state(self, state: str) -> CallState:
        """Return the record of a new state."""
        return CallState(
            key=self.key, state=state, call=self.call.id, reply=self.reply, name=self.call.name
        )

    def may_run_again(self, safe: frozenset[str]) -> bool:
        """Return whether it may be run again, where the tools in `safe` may."""
        return self.is_own and self.call.name in safe and self.starts < _RUNS_MAX


def open_calls(records: Sequence[Record], home: SessionCalls = NO_HOME) -> list[UnansweredCall]:
    """Return the tool calls of the newest assistant message that have no result yet."""
    answered: set[str] = set()
    alone: list[ToolCall] = []
    starts: dict[str, int] = {}
    for record in reversed(records):
        if isinstance(record, ToolResult):
            answered.add(record.tool_use_id)
        elif isinstance(record, CallState):
            starts[record.key] = starts.get(record.key, 1) + (record.state == STARTED)
        elif isinstance(record, ToolUse):
            alone.append(ToolCall(record.tool_use_id, record.name, {}))
        elif isinstance(record, User):
            answered |= _result_ids_in(record)
        elif isinstance(record, Assistant):
            made = home.owns(record)
            keyed = calls_of(record.content, record.id, home)
            calls = [
                UnansweredCall(call, key, record.id, made, starts.get(key, 1))
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
            if record.key == key:
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
