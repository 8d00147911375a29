"""One turn, from the user's words to the stored reply, as a flow.

The order on disk is the promise: the user's words before the first call, each tool call before it
runs, each result before the next call. A crash anywhere leaves a log from which the next turn goes
on: calls that never got a result are answered as interrupted, once, and nothing is run again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.failures.classify import Symptoms, classify, classify_finish
from holdfast.core.flow.effects import (
    Append,
    CallModel,
    Cancelled,
    Deny,
    Emit,
    FailedCall,
    Now,
    Outcome,
    Read,
    SearchMemory,
    Sleep,
)
from holdfast.core.flow.events import (
    CallFailed,
    CallFinished,
    CallStarted,
    Interrupted,
    MemoryRecalled,
    TroubleNoticed,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    WindowLearned,
)
from holdfast.core.log.records import Assistant, Compaction, ToolResult, User, text_of
from holdfast.core.models.messages import INTERRUPTED, ToolCall
from holdfast.core.models.replies import Reply
from holdfast.core.models.usage import read_usage
from holdfast.core.outputs.offload import moved_out
from holdfast.core.tokens.calibration import Prediction, margin, was_cut
from holdfast.core.turn import tool_results
from holdfast.core.turn.compact import fit, mark
from holdfast.core.turn.recovery import Recovery, gave_up
from holdfast.core.turn.run import cost_of
from holdfast.errors import CallDenied, CannotFit, HoldfastError, ToolLoop, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.flow.events import Event
    from holdfast.core.log.records import Content, Record
    from holdfast.core.models.usage import Usage
    from holdfast.core.projection.project import Plan
    from holdfast.core.turn.recovery import Remedy
    from holdfast.core.turn.run import Course

_SAME_CALLS_MAX: Final = 3
_CALLS_WATCHED: Final = 6
"""Identical calls with identical results right after a compaction: the model has lost its way."""
_CANCELLED: Final = "[Cancelled by the user while it ran: the outcome is unknown.]"


def turn(course: Course, content: Content) -> Flow[Reply]:
    """Store what the user says and answer it."""
    yield from add_user(course, content)
    return (yield from answer(course))


def tell(event: Event) -> Flow[None]:
    """Say what happened to those who listen."""
    yield Emit(event)


def add_user(course: Course, content: Content, name: str | None = None) -> Flow[str]:
    """Store what the user says; with it, that calls of an earlier run were interrupted."""
    if not content or (isinstance(content, str) and not content.strip()):
        raise UsageError("nothing was said", hint="give a text, or blocks with something in them")
    content = course.vault.sealed_value(content)
    if course.keeps_outputs:
        content = yield from moved_out(content)
    left = yield from _interruptions(course)
    recalled = yield from _recalled(course, content)
    said = User(content=content, name=name)
    stored = yield Append((*left, *recalled, said))
    for one in stored[len(left) : -1]:
        yield Emit(MemoryRecalled(one.id, len(text_of(one.content))))
    if left:
        yield Emit(Interrupted(tuple(one.tool_use_id for one in left)))
    record: str = stored[-1].id
    yield Emit(TurnStarted(record))
    return record


def _recalled(course: Course, content: Content) -> Flow[list[User]]:
    """What memory has on it, as a record of its own before the user's words: it stays where it
    was put, so that the prefix stays the same, and nobody takes it for something said."""
    query = text_of(content)
    if not course.recalls or not query.strip():
        return []
    block: str = yield SearchMemory(query)
    return [User(content=block, extra={"meta": True, "injected": "memory"})] if block else []


def resume(course: Course) -> Flow[Reply | None]:
    """Answer a turn that an earlier run left unanswered; None where there is none."""
    left = yield from _interruptions(course)
    if left:
        yield Append(left)
        yield Emit(Interrupted(tuple(one.tool_use_id for one in left)))
    records = yield Read(course.window.tokens)
    if not is_unanswered(records):
        return None
    return (yield from answer(course))


def answer(course: Course) -> Flow[Reply]:
    """Ask the model, run its tools, and ask again, until it has nothing more to do."""
    return (yield from _to_its_end(course, _answer(course)))


def answer_once(course: Course) -> Flow[Reply]:
    """One reply, for callers who run the tools themselves."""
    return (yield from _to_its_end(course, _answer_once(course)))


def _to_its_end(course: Course, flow: Flow[Reply]) -> Flow[Reply]:
    """However a turn ends, the session is sound and everybody knows."""
    try:
        reply = yield from flow
        if course.terms.checkpoints == "turns" and not reply.calls:
            yield from mark(course, "query_complete")
        return reply
    except Cancelled as cancelled:
        yield from _leave(course, cancelled)
        raise
    except HoldfastError as error:
        yield Emit(TurnFailed(str(error)))
        raise


def _answer(course: Course) -> Flow[Reply]:
    loops = _Loops((yield Read(course.window.tokens)))
    for steps in range(1, course.terms.steps + 1):
        reply, seen = yield from ask(course)
        records = yield Read(course.window.tokens)
        loops.look(records)
        if reply.calls:
            loops.add(reply.calls, (yield from tool_results.run(course, reply.calls)))
        elif not _was_said_since(records, seen):
            yield Emit(TurnFinished(reply, steps))
            return reply
    reply = msgspec.structs.replace(reply, stop="steps")
    yield Emit(TurnFinished(reply, course.terms.steps))
    return reply


def _answer_once(course: Course) -> Flow[Reply]:
    reply, _seen = yield from ask(course)
    if not reply.calls:
        yield Emit(TurnFinished(reply, 1))
    return reply


def add_result(
    course: Course, call_id: str, content: Content, *, is_error: bool = False, details: Any = None
) -> Flow[str]:
    """Store what a tool returned that the caller ran."""
    result = ToolResult(tool_use_id=call_id, content=content, is_error=is_error, details=details)
    return (yield from tool_results.store(course, result))


class Guard:
    """Requests that somebody else sends, one answer after the other."""

    def __init__(self, course: Course, named: Callable[[object], FailedCall]) -> None:
        self._course = course
        self._named = named
        self._recovery: Recovery | None = None
        self._plan: Plan | None = None

    def prepare(self, failed: object = None) -> Flow[Plan]:
        """The next request; after a failure, one that is smaller in the way that was wrong."""
        course = self._course
        if failed is None or self._recovery is None or self._plan is None:
            self._recovery = Recovery(course)
        else:
            yield from recover(course, self._recovery, self._plan, self._named(failed))
        plan, _seen = yield from _fitted(course, self._recovery)
        self._plan = plan
        return plan

    def record(self, reply: Reply) -> Flow[Reply]:
        """Store the reply to it."""
        plan, target = self._plan, self._course.terms.target
        if self._recovery is not None:
            self._recovery.succeeded()
        self._recovery = self._plan = None
        if plan is not None:
            usage = read_usage(reply.usage, reply.provider or target.provider)
            yield from _notice(self._course, reply, usage, plan)
        stored = yield Append((assistant(reply, target.provider, target.model),))
        kept = msgspec.structs.replace(reply, record=stored[0].id)
        if not kept.calls:
            yield Emit(TurnFinished(kept, 1))
        return kept


# One answer


def ask(course: Course) -> Flow[tuple[Reply, str]]:
    """One reply to the log as it stands, in the log; with it, the newest record it has seen.

    Checked before every call; a refusal is answered by a request that is measurably smaller.
    """
    recovery = Recovery(course)
    while True:
        plan, newest = yield from _fitted(course, recovery)
        outcome = yield from _send(course, plan, recovery.attempt)
        if isinstance(outcome, Reply):
            recovery.succeeded()
            return (yield from _keep(plan, outcome)), newest
        yield from recover(course, recovery, plan, outcome)


def _fitted(course: Course, recovery: Recovery) -> Flow[tuple[Plan, str]]:
    """The next request that may be sent."""
    try:
        plan, newest = yield from fit(course, recovery.bounds, is_recovery=recovery.is_under_way)
    except CannotFit as error:
        raise recovery.exhausted(error) from error
    recovery.admit(plan)
    return plan, newest


def recover(course: Course, recovery: Recovery, plan: Plan, failed: FailedCall) -> Flow[None]:
    """Learn from a failure, wait where that helps, or give up with one clear error."""
    found = recovery.take(plan, failed)
    yield Emit(CallFailed("turn", failed.failure, found.step, found.detail, found.seconds))
    yield from _learn(course, found)
    if found.step == "give-up":
        raise gave_up(failed, plan, found.detail) from failed.error
    if found.step == "wait":
        yield Sleep(found.seconds)


def _send(course: Course, plan: Plan, attempt: int) -> Flow[Reply | FailedCall]:
    budget = plan.budget
    started = CallStarted("turn", plan.tokens.total, budget.tokens, plan.window.tokens, attempt)
    denied = yield Emit(started)
    if isinstance(denied, Deny):
        raise CallDenied(f"the call was denied: {denied.reason}", hint="ask whoever listens")
    before = yield Now()
    outcome: Reply | FailedCall = yield CallModel(plan.prompt, plan.target)
    if isinstance(outcome, FailedCall):
        return outcome
    after = yield Now()
    usage = read_usage(outcome.usage, outcome.provider or plan.target.provider)
    hollow = _hollow(outcome, usage, plan)
    if hollow is not None:
        return hollow
    cost = cost_of(usage, course.terms.price)
    finished = CallFinished("turn", plan.tokens.total, usage, cost, outcome.stop, after - before)
    yield Emit(finished)
    yield from _notice(course, outcome, usage, plan)
    return outcome


def _notice(course: Course, reply: Reply, usage: Usage | None, plan: Plan) -> Flow[None]:
    for trouble in _troubles(reply, usage, plan):
        yield Emit(trouble)
        if trouble.kind in ("over-window", "window-stop"):
            course.press(plan.tokens.total)


def _keep(plan: Plan, reply: Reply) -> Flow[Reply]:
    """Put a reply into the log."""
    stored = yield Append((assistant(reply, plan.target.provider, plan.target.model),))
    return msgspec.structs.replace(reply, record=stored[0].id)


def assistant(reply: Reply, provider: str, model: str) -> Assistant:
    """A reply as a record. It goes by the name the model was asked by: thinking is given back only
    to the model that made it, and providers answer with longer names."""
    served = reply.model if model and reply.model not in ("", model) else ""
    return Assistant(
        content=reply.content,
        provider=provider or reply.provider or None,
        model=model or reply.model or None,
        usage=reply.usage,
        stop_reason=reply.stop_reason or None,
        extra={"served_model": served} if served else {},
    )


def _learn(course: Course, found: Remedy) -> Flow[None]:
    if found.learned is None:
        return
    before = course.window.tokens
    if course.learn_window(found.learned, "said by the provider"):
        record = course.window_record()
        assert record is not None
        yield Append((record,))
        yield Emit(WindowLearned(found.learned, before, "said by the provider"))


def _hollow(reply: Reply, usage: Usage | None, plan: Plan) -> FailedCall | None:
    """A reply that succeeded with nothing in it because the window was full."""
    if reply.content and (reply.text.strip() or reply.calls):
        return None
    is_full = usage is not None and usage.prompt >= 0.99 * plan.window.tokens
    if not (reply.stop == "window" or (reply.stop == "length" and is_full)):
        return None
    found = classify_finish(reply.stop_reason or reply.stop, is_empty=True)
    if found is None:
        found = classify(Symptoms(status=200, message=reply.stop_reason))
    return FailedCall(msgspec.structs.replace(found, kind="silent_overflow", action="shrink_input"))


def _troubles(reply: Reply, usage: Usage | None, plan: Plan) -> list[TroubleNoticed]:
    """What is wrong with a call that succeeded."""
    found = []
    if reply.stop == "window":
        detail = "the reply was cut off where the window was full"
        found.append(TroubleNoticed("window-stop", detail))
    if not reply.text.strip() and not reply.calls:
        detail = f"nothing was said; it ended with `{reply.stop_reason or reply.stop}`"
        found.append(TroubleNoticed("empty-reply", detail))
    if usage is None:
        if reply.usage:
            detail = "the reported usage has no sizes in it; ours are used"
            found.append(TroubleNoticed("zero-usage", detail))
        return found
    expected = plan.tokens.total
    if usage.prompt > plan.window.tokens:
        found.append(
            TroubleNoticed(
                "over-window",
                f"{usage.prompt:,} tokens of input were reported, and the window is "
                f"{plan.window.tokens:,} ({plan.window.source}): it is larger, or what was sent "
                "was cut",
            )
        )
    if was_cut(Prediction(expected, margin(expected), True), usage):
        detail = (
            f"{usage.prompt:,} tokens of input were reported and about {expected:,} were sent: "
            "the server seems to have dropped the beginning"
        )
        found.append(TroubleNoticed("cut-silently", detail))
    return found


# Leaving and looking


def _leave(course: Course, cancelled: Cancelled) -> Flow[None]:
    """Leave a sound session behind: what was said so far, and what was running."""
    partial = cancelled.partial
    if partial is not None and partial.text.strip():
        target = course.terms.target
        yield Append((assistant(partial, target.provider, target.model),))
    records = yield Read(course.window.tokens)
    running = tool_results.unanswered(records)
    if running:
        yield Append([_result(call, _CANCELLED) for call in running])
    yield Emit(TurnCancelled(tuple(call.id for call in running)))


def _interruptions(course: Course) -> Flow[list[ToolResult]]:
    records = yield Read(course.window.tokens)
    left = [call for call in tool_results.unanswered(records) if call.id not in course.running]
    return [_result(call, INTERRUPTED) for call in left]


def _result(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(tool_use_id=call.id, name=call.name, content=text, is_error=True)


def is_unanswered(records: Sequence[Record]) -> bool:
    """Whether the newest message waits for a reply."""
    for record in reversed(records):
        if isinstance(record, User | ToolResult):
            return True
        if isinstance(record, Assistant):
            return False
    return False


def _was_said_since(records: Sequence[Record], seen: str) -> bool:
    """Whether somebody spoke while the model was answering something older."""
    for record in reversed(records):
        if record.id == seen:
            return False
        if isinstance(record, User):
            return True
    return False


def _newest_compaction(records: Sequence[Record]) -> str:
    return next((one.id for one in reversed(records) if isinstance(one, Compaction)), "")


class _Loops:
    """Notices a model that goes round in circles because a compaction made it forget."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._compaction = _newest_compaction(records)
        self._watched = 0
        self._seen: dict[str, int] = {}

    def look(self, records: Sequence[Record]) -> None:
        """Watch the next calls where a compaction came during this turn."""
        newest = _newest_compaction(records)
        if newest != self._compaction:
            self._watched = _CALLS_WATCHED
            self._seen.clear()
        self._compaction = newest

    def add(self, calls: Iterable[ToolCall], outcomes: Iterable[Outcome]) -> None:
        by_id = {outcome.call_id: outcome for outcome in outcomes}
        counted: set[str] = set()
        for call in calls:
            if self._watched <= 0:
                return
            self._watched -= 1
            outcome = by_id.get(call.id)
            said = (call.name, call.arguments, outcome and outcome.content)
            key = json.dumps(said, sort_keys=True, default=str)
            if key in counted:
                continue  # said twice in one breath is no circle
            counted.add(key)
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._seen[key] >= _SAME_CALLS_MAX:
                raise ToolLoop(
                    f"`{call.name}` was called {_SAME_CALLS_MAX} times after a compaction with "
                    "the same arguments and the same result",
                    hint="tell the model what it already has, or undo the compaction",
                )
