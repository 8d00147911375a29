"""Tool calls carried out, and their results as they go into the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.flow.effects import Append, Deny, Emit, NextToolResult, Outcome, StartTools
from holdfast.core.flow.events import ToolFinished, ToolStarted
from holdfast.core.limits import RESULT_CHARS_MAX
from holdfast.core.log.records import Assistant, ToolResult, ToolUse, User, text_of
from holdfast.core.models.messages import ToolCall, read_blocks
from holdfast.core.outputs.offload import offloaded
from holdfast.core.text.cut import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.records import Content, Json, Record
    from holdfast.core.turn.run import Course


def run(course: Course, calls: Sequence[ToolCall]) -> Flow[list[Outcome]]:
    """Run tools side by side; each result is in the log before anything else is asked."""
    ids = {call.id for call in calls}
    course.running |= ids
    try:
        return (yield from _run_allowed(course, calls))
    finally:
        course.running -= ids


def store(course: Course, result: ToolResult) -> Flow[str]:
    """Put a result into the log, its payload first where it is large; returns its record."""
    result = course.vault.sealed(result)  # before a payload of it goes anywhere
    if course.keeps_outputs:
        result = yield from offloaded(result, course.output_room())
    bounded = msgspec.structs.replace(
        result, content=_bounded(result.content), details=_bounded_details(result.details)
    )
    stored = yield Append((bounded,))
    record: str = stored[0].id
    return record


def unanswered(records: Sequence[Record]) -> list[ToolCall]:
    """The calls of the newest assistant message that have no result yet."""
    answered: set[str] = set()
    alone: list[ToolCall] = []
    for record in reversed(records):
        if isinstance(record, ToolResult):
            answered.add(record.tool_use_id)
        elif isinstance(record, ToolUse):
            alone.append(ToolCall(record.tool_use_id, record.name, {}))
        elif isinstance(record, User):
            answered |= _results_in(record)
        elif isinstance(record, Assistant):
            blocks = read_blocks(record.content)
            calls = [block for block in blocks if isinstance(block, ToolCall)]
            return [call for call in (*calls, *alone[::-1]) if call.id not in answered]
    return []


def _run_allowed(course: Course, calls: Sequence[ToolCall]) -> Flow[list[Outcome]]:
    allowed, outcomes = [], []
    for call in calls:
        denied = yield Emit(ToolStarted(call))
        if isinstance(denied, Deny):
            refusal = f"[Not run: {denied.reason}]"
            outcomes.append(Outcome(call.id, refusal, is_error=True))
            yield from _finish(course, call, outcomes[-1])
        else:
            allowed.append(call)
    done: list[tuple[ToolCall, Outcome]] = []
    while allowed:
        # Where an id was given out twice, the second call waits: its result would be anybody's.
        by_id = {call.id: call for call in reversed(allowed)}
        yield StartTools(tuple(by_id.values())[::-1])
        for _ in range(len(by_id)):
            outcome: Outcome = yield NextToolResult()
            done.append((by_id[outcome.call_id], outcome))
            yield from _finish(course, *done[-1])
        allowed = [call for call in allowed if by_id[call.id] is not call]
        for call in list(allowed):
            same = next((outcome for one, outcome in done if one == call), None)
            if same is not None:  # said twice, meant once
                yield from _finish(course, call, same)
                allowed.remove(call)
    return outcomes + [outcome for _call, outcome in done]


def _finish(course: Course, call: ToolCall, outcome: Outcome) -> Flow[None]:
    result = ToolResult(
        tool_use_id=outcome.call_id,
        name=call.name,
        content=outcome.content,
        is_error=outcome.is_error,
        details=outcome.details,
    )
    record = yield from store(course, result)
    chars = len(text_of(outcome.content))
    yield Emit(ToolFinished(call, record, outcome.is_error, chars, outcome.seconds))


def _bounded(content: Content) -> Content:
    """A result that a line of the log can hold."""
    if isinstance(content, str):
        return cut(content, RESULT_CHARS_MAX).text
    if not content or _encoded_size(content) <= RESULT_CHARS_MAX:
        return content
    room = RESULT_CHARS_MAX // len(content)
    return [_bounded_block(block, room) for block in content]


def _bounded_block(block: Json, room: int) -> Json:
    text = block.get("text")
    if isinstance(text, str):
        return {**block, "text": cut(text, room).text}
    size = _encoded_size(block)
    if size <= RESULT_CHARS_MAX:
        return block
    said = f"[A block `{block.get('type')}` of {size:,} bytes is too large for the log.]"
    return {"type": "text", "text": cut(said, room).text}


def _bounded_details(details: Any) -> Any:
    if details is None or (size := _encoded_size(details)) <= RESULT_CHARS_MAX:
        return details
    return {"left_out": f"details of {size:,} bytes are too large for the log"}


def _encoded_size(value: Any) -> int:
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return 0  # the store says better what is wrong with it


def _results_in(record: User) -> set[str]:
    """The calls that a message in a provider's own shape answers."""
    blocks = record.content if isinstance(record.content, list) else []
    return {str(one.get("tool_use_id")) for one in blocks if one.get("type") == "tool_result"}
