"""Running tool calls, and storing their results in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
from holdfast.core.turn.calls import APPROVED, PARKED, find_parked, open_calls, with_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.ids import CallKey
    from holdfast.core.log.records import Content, Json, Record
    from holdfast.core.models.messages import ToolCall
    from holdfast.core.secrets.found import SecretFinding
    from holdfast.core.turn.calls import ParkedCall, UnansweredCall
    from holdfast.core.turn.run import RunState


WAITING: Final = (
    "[This call waits for the approval of a person. It has not run; its outcome follows.]"
)
NOT_HERE: Final = (
    "[Not run here: this call waits for approval in the session that this one was copied from.]"
)


class KeyedCall(msgspec.Struct, frozen=True):
    """A call that is run, with its key."""

    call: ToolCall
    key: CallKey
    note: str = ""
    """A line about the result, for the model."""
    is_news: bool = False
    """True where a request has gone out without the result."""


def run_tools(run: RunState, calls: Sequence[KeyedCall]) -> Flow[list[Outcome]]:
    """Run calls in parallel. Each result is in the log before the model is called again."""
    allowed, outcomes = [], []
    for each in calls:
        denied = yield Emit(ToolStarted(each.call))
        if isinstance(denied, Deny):
            refusal = f"[Not run: {denied.reason}]"
            outcomes.append(Outcome(each.call.id, refusal, is_error=True, refused=denied.reason))
            yield from finish_call(run, each, outcomes[-1])
        else:
            allowed.append(each)
    done: list[tuple[ToolCall, Outcome]] = []
    while allowed:
        # Where two calls share an id, the second waits: their results could not be told apart.
        by_id = {each.call.id: each for each in reversed(allowed)}
        started = tuple(by_id.values())[::-1]
        yield StartTools(tuple(each.call for each in started), tuple(each.key for each in started))
        for _ in range(len(by_id)):
            outcome: Outcome = yield NextToolResult()
            finished = by_id[outcome.call_id]
            done.append((finished.call, outcome))
            yield from finish_call(run, finished, outcome)
        allowed = [each for each in allowed if each not in started]
        for each in list(allowed):
            same = next((outcome for other, outcome in done if other == each.call), None)
            if same is not None:  # an exact repetition: run it once
                yield from finish_call(run, each, same)
                allowed.remove(each)
    return outcomes + [outcome for _call, outcome in done]


def close_open_calls(
    run: RunState, *, runs_again: bool = False, waits: bool = False
) -> Flow[list[ToolResult]]:
    """Store results for calls that were left open: what a request says of them is in the log, and
    stays as it was sent when the real result arrives. Where the caller `runs_again` what may be,
    those stay open, and where it `waits` for approvals, parked calls do."""
    left = yield from interruptions(run, runs_again=runs_again)
    left = [result for result in left if not (waits and result.content == WAITING)]
    if left:
        yield Append(left)
        yield Emit(Interrupted(tuple(result.tool_use_id for result in left)))
    return left


def interruptions(run: RunState, *, runs_again: bool = False) -> Flow[list[ToolResult]]:
    """Return results for calls that an earlier run left open; those of a running turn are not. A
    parked call gets one that says so, unless it was decided about and the caller `runs_again` what
    may run."""
    left = open_calls((yield Read(run.window)), run.home)
    if left and (yield IsTurnRunning()):
        return []
    safe = run.settings.safe_to_retry if runs_again else frozenset()
    gated = run.settings.gated if runs_again else frozenset()
    waiting = {call.call_id: call for call in find_parked((yield Read(run.window)), run.home)}
    carried_out = {
        call.call_id
        for call in waiting.values()
        if runs_again and call.state != PARKED and not waits_for_tool(run, call)
    }
    return [
        error_result(each.call, _text_for(each, waiting.get(each.call.id)))
        for each in left
        if not each.may_run_again(safe)
        and not each.is_new(gated)
        and each.call.id not in carried_out
    ]


def _text_for(each: UnansweredCall, parked: ParkedCall | None) -> str:
    """Return what stands in the place of a result."""
    if parked is not None:
        return WAITING
    return NOT_HERE if PARKED in each.states else INTERRUPTED


def waits_for_tool(run: RunState, call: ParkedCall) -> bool:
    """Return whether a call was approved, and this process does not have its tool: it is left to
    one that has."""
    has_tool = any(tool.name == call.name for tool in run.settings.tools)
    return call.state == APPROVED and not has_tool


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


def finish_call(run: RunState, each: KeyedCall, outcome: Outcome) -> Flow[None]:
    """Store the outcome of a call: as its result, or as news where a request has gone out."""
    call = each.call
    result = ToolResult(
        tool_use_id=outcome.call_id,
        name=call.name,
        content=with_note(each.note, outcome.content) if each.note else outcome.content,
        key=each.key if each.is_news else None,
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
