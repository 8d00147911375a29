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
from holdfast.core.log.records import ToolResult, text_of
from holdfast.core.models.messages import INTERRUPTED
from holdfast.core.outputs.offload import offload_result
from holdfast.core.text.cut import cut
from holdfast.core.turn.calls import STARTED, open_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.ids import CallKey
    from holdfast.core.log.records import Content, Json, Record
    from holdfast.core.models.messages import ToolCall
    from holdfast.core.secrets.found import SecretFinding
    from holdfast.core.turn.run import RunState


def run_tools(run: RunState, calls: Sequence[tuple[ToolCall, CallKey]]) -> Flow[list[Outcome]]:
    """Run calls, each with its key, in parallel. Each result is in the log before the model is
    called again."""
    allowed, outcomes = [], []
    for call, key in calls:
        denied = yield Emit(ToolStarted(call))
        if isinstance(denied, Deny):
            refusal = f"[Not run: {denied.reason}]"
            outcomes.append(Outcome(call.id, refusal, is_error=True, refused=denied.reason))
            yield from _finish(run, call, outcomes[-1])
        else:
            allowed.append((call, key))
    done: list[tuple[ToolCall, Outcome]] = []
    while allowed:
        # Where two calls share an id, the second waits: their results could not be told apart.
        by_id = {pair[0].id: pair for pair in reversed(allowed)}
        started = tuple(by_id.values())[::-1]
        yield StartTools(tuple(call for call, _ in started), tuple(key for _, key in started))
        for _ in range(len(by_id)):
            outcome: Outcome = yield NextToolResult()
            done.append((by_id[outcome.call_id][0], outcome))
            yield from _finish(run, *done[-1])
        allowed = [pair for pair in allowed if pair not in started]
        for pair in list(allowed):
            same = next((outcome for other, outcome in done if other == pair[0]), None)
            if same is not None:  # an exact repetition: run it once
                yield from _finish(run, pair[0], same)
                allowed.remove(pair)
    return outcomes + [outcome for _call, outcome in done]


def run_again(run: RunState) -> Flow[None]:
    """Run the calls again that a run left open and that may be: with the same keys, so that whoever
    carries an effect out knows it again."""
    found = open_calls((yield Read(run.window)), run.home)
    again = [each for each in found if each.may_run_again(run.settings.safe_to_retry)]
    if again:
        yield Append([each.state(STARTED) for each in again])
        yield from run_tools(run, [(each.call, each.key) for each in again])


def close_open_calls(run: RunState, *, runs_again: bool = False) -> Flow[list[ToolResult]]:
    """Store results for calls that were left open: what a request says of them is in the log, and
    stays as it was sent when the real result arrives. Where the caller `runs_again` what may be,
    those stay open."""
    left = yield from interruptions(run, runs_again=runs_again)
    if left:
        yield Append(left)
        yield Emit(Interrupted(tuple(result.tool_use_id for result in left)))
    return left


def interruptions(run: RunState, *, runs_again: bool = False) -> Flow[list[ToolResult]]:
    """Return results for calls that an earlier run left open; those of a running turn are not."""
    left = open_calls((yield Read(run.window)), run.home)
    if left and (yield IsTurnRunning()):
        return []
    safe = run.settings.safe_to_retry if runs_again else frozenset()
    return [error_result(each.call, INTERRUPTED) for each in left if not each.may_run_again(safe)]


def error_result(call: ToolCall, text: str) -> ToolResult:
    """Return a result that says why there is no other yet."""
    return ToolResult(
        tool_use_id=call.id, name=call.name, content=text, is_error=True, pending=True
    )


def store(
    run: RunState, result: ToolResult, unless: Callable[[Sequence[Record]], bool] | None = None
) -> Flow[str]:
    """Append a result to the log, after its payload if that is large; returns its record id, which
    is empty where `unless` says so of the records at hand."""
    result, hidden = run.secret_watch.hide(result)  # before any payload of it is stored
    if run.keeps_outputs:
        pictures = run.settings.target.dialect
        result = yield from offload_result(result, run.output_room(), pictures)
    result = msgspec.structs.replace(
        result, content=_bound_content(result.content), details=_bound_details(result.details)
    )
    stored = yield Append((result,), unless=unless)
    if stored is None:
        return ""
    yield from report_secrets(run, stored[0], hidden)
    record: str = stored[0].id
    return record


def _finish(run: RunState, call: ToolCall, outcome: Outcome) -> Flow[None]:
    result = ToolResult(
        tool_use_id=outcome.call_id,
        name=call.name,
        content=outcome.content,
        is_error=outcome.is_error,
        refused=outcome.refused,
        details=outcome.details,
        pending=outcome.pending,
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
