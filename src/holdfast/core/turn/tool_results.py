"""Running tool calls, and storing their results in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.flow.effects import (
    Append,
    Deny,
    Emit,
    IsTurnRunning,
    NextToolResult,
    Outcome,
    Read,
    StartTools,
)
from holdfast.core.flow.events import Interrupted, SecretFound, ToolFinished, ToolStarted
from holdfast.core.limits import RESULT_CHARS_MAX
from holdfast.core.log.records import Assistant, ToolResult, ToolUse, User, text_of
from holdfast.core.models.messages import INTERRUPTED, ToolCall, read_blocks
from holdfast.core.outputs.offload import offload_result
from holdfast.core.text.cut import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.records import Content, Json, Record
    from holdfast.core.secrets.found import SecretFinding
    from holdfast.core.turn.run import RunState


def run_tools(run: RunState, calls: Sequence[ToolCall]) -> Flow[list[Outcome]]:
    """Run tools in parallel. Each result is in the log before the model is called again."""
    allowed, outcomes = [], []
    for call in calls:
        denied = yield Emit(ToolStarted(call))
        if isinstance(denied, Deny):
            refusal = f"[Not run: {denied.reason}]"
            outcomes.append(Outcome(call.id, refusal, is_error=True, refused=denied.reason))
            yield from _finish(run, call, outcomes[-1])
        else:
            allowed.append(call)
    done: list[tuple[ToolCall, Outcome]] = []
    while allowed:
        # Where two calls share an id, the second waits: their results could not be told apart.
        by_id = {call.id: call for call in reversed(allowed)}
        yield StartTools(tuple(by_id.values())[::-1])
        for _ in range(len(by_id)):
            outcome: Outcome = yield NextToolResult()
            done.append((by_id[outcome.call_id], outcome))
            yield from _finish(run, *done[-1])
        allowed = [call for call in allowed if by_id[call.id] is not call]
        for call in list(allowed):
            same = next((outcome for other, outcome in done if other == call), None)
            if same is not None:  # an exact repetition: run it once
                yield from _finish(run, call, same)
                allowed.remove(call)
    return outcomes + [outcome for _call, outcome in done]


def close_open_calls(run: RunState) -> Flow[list[ToolResult]]:
    """Store results for calls that were left open: what a request says of them is in the log, and
    stays as it was sent when the real result arrives."""
    left = yield from interruptions(run)
    if left:
        yield Append(left)
        yield Emit(Interrupted(tuple(result.tool_use_id for result in left)))
    return left


def interruptions(run: RunState) -> Flow[list[ToolResult]]:
    """Return results for calls that an earlier run left open; those of a running turn are not."""
    left = open_calls((yield Read(run.window)))
    if left and (yield IsTurnRunning()):
        return []
    return [error_result(call, INTERRUPTED) for call in left]


def error_result(call: ToolCall, text: str) -> ToolResult:
    """Return a result that says why there is no other."""
    return ToolResult(tool_use_id=call.id, name=call.name, content=text, is_error=True)


def store(run: RunState, result: ToolResult) -> Flow[str]:
    """Append a result to the log, after its payload if that is large; returns its record id."""
    result, hidden = run.secret_watch.hide(result)  # before any payload of it is stored
    if run.keeps_outputs:
        pictures = run.settings.target.dialect
        result = yield from offload_result(result, run.output_room(), pictures)
    result = msgspec.structs.replace(
        result, content=_bound_content(result.content), details=_bound_details(result.details)
    )
    stored = yield Append((result,))
    yield from report_secrets(run, stored[0], hidden)
    record: str = stored[0].id
    return record


def open_calls(records: Sequence[Record]) -> list[ToolCall]:
    """The tool calls of the newest assistant message that have no result yet."""
    answered: set[str] = set()
    alone: list[ToolCall] = []
    for record in reversed(records):
        if isinstance(record, ToolResult):
            answered.add(record.tool_use_id)
        elif isinstance(record, ToolUse):
            alone.append(ToolCall(record.tool_use_id, record.name, {}))
        elif isinstance(record, User):
            answered |= _result_ids_in(record)
        elif isinstance(record, Assistant):
            blocks = read_blocks(record.content)
            calls = [block for block in blocks if isinstance(block, ToolCall)]
            return [call for call in (*calls, *alone[::-1]) if call.id not in answered]
    return []


def _finish(run: RunState, call: ToolCall, outcome: Outcome) -> Flow[None]:
    result = ToolResult(
        tool_use_id=outcome.call_id,
        name=call.name,
        content=outcome.content,
        is_error=outcome.is_error,
        refused=outcome.refused,
        details=outcome.details,
    )
    record = yield from store(run, result)
    chars = len(text_of(outcome.content))
    yield Emit(ToolFinished(call, record, outcome.is_error, chars, outcome.seconds))


def _bound_content(content: Content) -> Content:
    """Cut a result down to what a line of the log can hold."""
    if isinstance(content, str):
        return cut(content, RESULT_CHARS_MAX).text
    if not content or _json_size(content) <= RESULT_CHARS_MAX:
        return content
    room = RESULT_CHARS_MAX // len(content)
    return [_bound_block(block, room) for block in content]


def _bound_block(block: Json, room: int) -> Json:
    text = block.get("text")
    if isinstance(text, str):
        return {**block, "text": cut(text, room).text}
    size = _json_size(block)
    if size <= RESULT_CHARS_MAX:
        return block
    note = f"[A block `{block.get('type')}` of {size:,} bytes is too large for the log.]"
    return {"type": "text", "text": cut(note, room).text}


def _bound_details(details: Any) -> Any:
    if details is None or (size := _json_size(details)) <= RESULT_CHARS_MAX:
        return details
    return {"left_out": f"details of {size:,} bytes are too large for the log"}


def _json_size(value: Any) -> int:
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return 0  # the store raises the better error


def _result_ids_in(record: User) -> set[str]:
    """The ids of the calls that a message in a provider's own shape answers."""
    blocks = record.content if isinstance(record.content, list) else []
    return {str(raw.get("tool_use_id")) for raw in blocks if raw.get("type") == "tool_result"}


def append_one(run: RunState, record: Record) -> Flow[str]:
    """Append a record without the secrets that are to have handles; returns its id."""
    record, hidden = run.secret_watch.hide(record)
    stored = yield Append((record,))
    yield from report_secrets(run, stored[0], hidden)
    record_id: str = stored[0].id
    return record_id


def report_secrets(run: RunState, record: Record, hidden: Iterable[SecretFinding]) -> Flow[None]:
    """Emit what was found in a stored record, and what was hidden before it was stored."""
    watch = run.secret_watch
    for finding in watch.take_new((*hidden, *watch.look(record))):
        yield Emit(SecretFound(record.id, record.kind, finding.kind, finding.is_stored))
