"""One turn, from the user's words to the stored reply, as a flow.

The order on disk is the promise: the user's words before the first call, each tool call before it
runs, each result before the next call. A crash anywhere leaves a log from which the next turn
continues: calls that never got a result are answered as interrupted, once, and nothing runs again.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from holdfast.core.flow.arguments import (
    check_argument,
    check_content,
    check_fields,
    check_flag,
    check_message,
    check_optional_text,
    check_text,
    shorten,
)
from holdfast.core.flow.effects import (
    AcquireTurn,
    Append,
    Cancelled,
    Emit,
    FindMessage,
    Now,
    Outcome,
    Read,
    ReadSince,
    SearchMemory,
    Sleep,
    StoredMessage,
)
from holdfast.core.flow.events import (
    Interrupted,
    MemoryRecalled,
    ToolFinished,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    TurnWaiting,
)
from holdfast.core.limits import CONTEXT_CHARS, CONTEXT_CHARS_MAX, MESSAGE_KEY_CHARS_MAX
from holdfast.core.log.ids import place_of
from holdfast.core.log.records import Assistant, InjectedContext, ToolResult, User, text_of
from holdfast.core.log.views import MESSAGE_KEY, key_of
from holdfast.core.outputs.offload import offload_content
from holdfast.core.turn.approvals import begin_calls, settle
from holdfast.core.turn.calls import (
    STARTED,
    calls_of,
    find_parked,
    name_call,
    open_calls,
    outcome_in,
    with_note,
)
from holdfast.core.turn.compact import save_checkpoint
from holdfast.core.turn.meter import tell_fill
from holdfast.core.turn.replies import ask, assistant_record, reply_of
from holdfast.core.turn.run import newest_cut
from holdfast.core.turn.tool_results import (
    KeyedCall,
    append_one,
    close_open_calls,
    error_result,
    interruptions,
    report_secrets,
    run_tools,
    store,
    waits_for_tool,
)
from holdfast.errors import HoldfastError, LogConflict, ToolLoop, TurnInProgress, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.flow.events import Event
    from holdfast.core.log.records import Content, Json, Record
    from holdfast.core.models.messages import ToolCall
    from holdfast.core.models.replies import Reply
    from holdfast.core.turn.calls import ResultSeen
    from holdfast.core.turn.run import RunState


T = TypeVar("T")

_PAUSE_MIN_SECONDS: Final = 0.002
_PAUSE_MAX_SECONDS: Final = 0.03
"""Between two looks at a lease: short after a short turn, and cheap during a long one."""
_PAUSE_SHARE: Final = 0.05
"""Of the time waited so far."""


def hold_turn(flow: Flow[T], wait_seconds: float) -> Flow[T]:
    """Run a flow while no other turn of the session runs, in whichever process.

    Raises `TurnInProgress` where the other turn takes longer than `wait_seconds`. Until the flow
    begins, nothing is stored.
    """
    check_argument("wait", wait_seconds, int | float, "a number of seconds")
    acquire = AcquireTurn(is_queued=wait_seconds > 0)
    busy: TurnInProgress | None = yield acquire
    if busy is not None and wait_seconds > 0:
        yield Emit(TurnWaiting(busy.holder, busy.since, wait_seconds))
    waited = 0.0
    while busy is not None:
        if waited >= wait_seconds:
            raise TurnInProgress(busy.session, busy.holder, busy.since, waited)
        pause = min(max(_PAUSE_MIN_SECONDS, _PAUSE_SHARE * waited), _PAUSE_MAX_SECONDS)
        yield Sleep(min(pause, wait_seconds - waited))
        waited += pause
        busy = yield acquire
    return (yield from flow)


_SAME_CALLS_MAX: Final = 3
_CALLS_WATCHED: Final = 6
"""So many identical calls with identical results, among the first calls after a compaction, mean
that the model is going round in circles."""
_OWN_FIELDS: Final = frozenset((*User.__struct_encode_fields__, "type", MESSAGE_KEY))
"""Fields of a message that a caller's `extra` must not replace."""
_NEWS: Final = "[This is the result of your call of {}, which had none so far.]"
_CANCELLED: Final = "[Cancelled by the user while it ran: the outcome is unknown.]"
_STOPPED: Final = "[Stopped while it ran, not by the user: the outcome is unknown.]"


def turn(
    run: RunState, content: Content, *, key: str | None = None, extra: Json | None = None
) -> Flow[Reply]:
    """Store the user's message and answer it; with a key, once, no matter who repeats it."""
    message = _user_record(content, key=key, extra=extra)
    stored = yield from _find_stored(run, message)
    if stored is None:
        yield from _add_user(run, message, runs_again=True)
    elif stored.answer is not None:
        reply = reply_of(stored.answer)
        yield Emit(TurnFinished(reply, 0))
        return reply
    else:
        yield from close_open_calls(run, runs_again=True, waits=True)
        yield Emit(TurnStarted(stored.record))
    return (yield from answer(run))


def emit(event: Event) -> Flow[None]:
    """Emit one event."""
    yield Emit(event)


def add_user(
    run: RunState,
    content: Content,
    name: str | None = None,
    *,
    key: str | None = None,
    extra: Json | None = None,
) -> Flow[str]:
    """Store the user's message, after results for calls that an earlier run left open; with a
    key, once, no matter who repeats it."""
    message = _user_record(content, name, key=key, extra=extra)
    stored = yield from _find_stored(run, message)
    return (yield from _add_user(run, message)) if stored is None else stored.record


def _find_stored(run: RunState, message: User) -> Flow[StoredMessage | None]:
    key = key_of(run.vault.mask_record(message))
    return (yield FindMessage(key)) if key else None


def _add_user(run: RunState, message: User, *, runs_again: bool = False) -> Flow[str]:
    message, hidden = run.secret_watch.hide(message)
    content, key = message.content, key_of(message)
    if run.keeps_outputs:
        content = yield from offload_content(content, "", run.settings.target.dialect)
    interrupted = yield from interruptions(run, runs_again=runs_again)
    hits = yield from _search_memory(run, content)
    message = msgspec.structs.replace(message, content=content)
    stored = yield Append((*interrupted, *hits, message), unless_key=key)
    if stored is None:  # another process stored it a moment ago
        first: StoredMessage = yield FindMessage(key)
        return first.record
    for record in stored[len(interrupted) : -1]:
        yield Emit(MemoryRecalled(record.id, len(text_of(record.content))))
    if interrupted:
        yield Emit(Interrupted(tuple(result.tool_use_id for result in interrupted)))
    yield from report_secrets(run, stored[-1], hidden)
    said: str = stored[-1].id
    yield Emit(TurnStarted(said))
    return said


def _user_record(
    content: Content, name: str | None = None, *, key: str | None, extra: Json | None
) -> User:
    """The record of a message; raises where it cannot be stored as it is."""
    check_message(content)
    check_optional_text("name", name)
    check_optional_text("key", key)
    check_fields("extra", extra)
    if key is not None and not 0 < len(key) <= MESSAGE_KEY_CHARS_MAX:
        raise UsageError(
            f"`key` cannot be {shorten(key)}",
            hint=f"pass 1 to {MESSAGE_KEY_CHARS_MAX} characters, the same ones for a retry",
        )
    taken = _OWN_FIELDS & (extra or {}).keys()
    if taken:
        raise UsageError(
            f"`extra` cannot have the field `{min(taken)}`: a message has one of its own",
            hint="choose another name",
        )
    fields = {**(extra or {}), **({MESSAGE_KEY: key} if key else {})}
    return User(content=content, name=name, extra=fields)


def _search_memory(run: RunState, content: Content) -> Flow[list[User]]:
    """The memory's hits as a record of their own before the user's message. There they stay, so
    that the prefix stays the same, and they are not mistaken for something the user said."""
    query = text_of(content)
    if not run.searches_memory or not query.strip():
        return []
    block: str = yield SearchMemory(query)
    return [User(content=block, extra={"meta": True, "injected": "memory"})] if block else []


def inject_context(run: RunState, text: str, source: str) -> Flow[str]:
    """Store context for the model, before the user's next message; returns its record id."""
    check_text("text", text)
    check_text("source", source)
    if not text.strip():
        raise UsageError("the injected context is empty", hint="pass a text")
    if len(text) > CONTEXT_CHARS_MAX:
        raise UsageError(
            f"injected context of {len(text):,} characters is too long",
            hint=f"pass at most {CONTEXT_CHARS_MAX:,}; a request shows {CONTEXT_CHARS:,} of it",
        )
    record = InjectedContext(text=text, source=" ".join(source.split()))
    return (yield from append_one(run, record))


def pending_context(records: Sequence[Record]) -> list[InjectedContext]:
    """The context that still waits for a user message, oldest first."""
    waiting: list[InjectedContext] = []
    for record in reversed(records):
        if isinstance(record, User | Assistant | ToolResult):
            break
        if isinstance(record, InjectedContext) and not record.is_meter:
            waiting.append(record)
    return waiting[::-1]


def resume(run: RunState) -> Flow[Reply | None]:
    """Answer a turn that an earlier run left unanswered; None if there is none."""
    yield from close_open_calls(run, runs_again=True, waits=True)
    records = yield Read(run.window)
    if not is_unanswered(records) and not open_calls(records, run.home):
        left = find_parked(records, run.home)
        now = (yield Now()) if left else 0.0
        if all(call.is_waiting(now) or waits_for_tool(run, call) for call in left):
            return None
    return (yield from answer(run))


def answer(run: RunState) -> Flow[Reply]:
    """Call the model, run its tools, and call it again, until it asks for no more tools."""
    return (yield from _to_its_end(run, _answer(run)))


def answer_once(run: RunState) -> Flow[Reply]:
    """Get one reply, for callers who run the tools themselves."""
    run.is_own_loop = True
    yield from tell_fill(run)
    return (yield from _to_its_end(run, _answer_once(run)))


def _to_its_end(run: RunState, flow: Flow[Reply]) -> Flow[Reply]:
    """Leave the session sound however the turn ends, and emit how it did."""
    try:
        reply = yield from flow
        if run.options.checkpoints == "turns" and not reply.calls:
            yield from save_checkpoint(run, "query_complete")
        return reply
    except Cancelled as cancelled:
        yield from _leave(run, cancelled)
        raise
    except HoldfastError as error:
        yield Emit(TurnFailed(str(error)))
        raise


def _answer(run: RunState) -> Flow[Reply]:
    if (yield from settle(run)):
        return (yield from _wait_for_approval(run, 0))
    loops = _LoopWatch((yield Read(run.window)))
    for steps in range(1, run.options.limits.steps + 1):
        yield from tell_fill(run)
        reply, seen = yield from ask(run)
        records = yield Read(run.window)
        loops.look(records)
        if reply.calls:
            keyed = calls_of(reply.content, reply.record, run.home)
            calls = [KeyedCall(call, key) for call, key in keyed]
            runs = yield from begin_calls(run, reply.record, calls)
            loops.add(reply.calls, (yield from run_tools(run, runs)))
            if len(runs) < len(calls):
                if not _has_user_message_since((yield Read(run.window)), seen):
                    return (yield from _wait_for_approval(run, steps))
                yield from close_open_calls(run)
        elif not _has_user_message_since(records, seen):
            yield Emit(TurnFinished(reply, steps))
            return reply
    reply = msgspec.structs.replace(reply, stop="steps")
    yield Emit(TurnFinished(reply, run.options.limits.steps))
    return reply


def _wait_for_approval(run: RunState, steps: int) -> Flow[Reply]:
    """End the turn: a call of its newest reply waits for a person."""
    records = yield Read(run.window)
    newest = next(record for record in reversed(records) if isinstance(record, Assistant))
    reply = msgspec.structs.replace(reply_of(newest), stop="approval")
    yield Emit(TurnFinished(reply, steps))
    return reply


def _answer_once(run: RunState) -> Flow[Reply]:
    reply, _seen = yield from ask(run)
    if not reply.calls:
        yield Emit(TurnFinished(reply, 1))
    return reply


def add_result(
    run: RunState, call_id: str, content: Content, *, is_error: bool = False, details: Any = None
) -> Flow[str]:
    """Store the result of a tool that the caller ran. Raises `UsageError` where the model waits for
    no result of this call: it would be stored, and the model would read that the call failed."""
    check_text("call_id", call_id)
    check_content(content)
    check_flag("is_error", is_error)
    records = yield Read(run.window)
    waiting = [found.call for found in open_calls(records, run.home)]
    if call_id not in {call.id for call in waiting}:
        has_result = any(
            isinstance(record, ToolResult) and record.tool_use_id == call_id for record in records
        )
        known = ", ".join(f"`{call.id}` ({call.name})" for call in waiting) or "none"
        raise UsageError(
            f"the call `{call_id}` has a result already"
            if has_result
            else f"the model waits for no result of a call `{call_id}`",
            hint=f"nothing was stored; open calls: {known}",
        )
    result = ToolResult(tool_use_id=call_id, content=content, is_error=is_error, details=details)
    return (yield from store(run, result))


_DELIVERY_TRIES: Final = 5
"""Writers that may come between the look at a call and its result."""


def deliver(
    run: RunState, key: str, content: Content, *, is_error: bool = False, details: Any = None
) -> Flow[str]:
    """Store the result of a call by its key, once; returns the record of the result.

    It is the result of the call where no request has gone out without it, and news to the model
    where one has. Raises `UsageError` where the call is not on the session's path."""
    check_text("key", key)
    check_content(content)
    check_flag("is_error", is_error)
    place = place_of(run.home.session, key)
    if place is None:
        raise UsageError(
            f"`{shorten(key)}` is the key of no call of this session",
            hint="nothing was stored; open the session in which the call was made",
        )
    for _ in range(_DELIVERY_TRIES):
        records = yield ReadSince(place.reply)
        made = getattr(records[0], "content", None) if records else None
        calls = calls_of(made, place.reply, run.home)
        call = next((call for call, known in calls if known == key), None)
        if call is None:
            raise UsageError(
                f"the call `{key}` is not on the session's path",
                hint="nothing was stored; it was taken back by a rewind, or erased",
            )
        seen = outcome_in(records, place.reply, call.id, key)
        if seen.result:
            return seen.result
        result = ToolResult(
            tool_use_id=call.id,
            name=call.name,
            content=with_note(_NEWS.format(name_call(call)), content) if seen.is_told else content,
            is_error=is_error,
            details=details,
            key=key if seen.is_told else None,
        )
        record = yield from store(
            run, result, partial(_has_changed, seen, place.reply, call.id, key)
        )
        if record:
            yield Emit(ToolFinished(call, record, is_error, len(text_of(content)), 0.0))
            return record
    raise LogConflict(run.home.session, place.reply, "", "several")


def _has_changed(
    seen: ResultSeen, reply: str, call_id: str, key: str, records: Sequence[Record]
) -> bool:
    """Return whether records say more of a call's result than was seen."""
    now = outcome_in(records, reply, call_id, key)
    return bool(now.result) or (now.is_told and not seen.is_told)


def _leave(run: RunState, cancelled: Cancelled) -> Flow[None]:
    """Leave a sound session behind: the partial reply, and results for running tools."""
    partial = cancelled.partial
    if partial is not None and partial.text.strip():
        target = run.settings.target
        sent = run.last_sent
        yield from append_one(run, assistant_record(partial, target.provider, target.model, sent))
    records = yield Read(run.window)
    parked = {call.key: call for call in find_parked(records, run.home)}
    idle = {key for key, call in parked.items() if call.state != STARTED}
    running = [found.call for found in open_calls(records, run.home) if found.key not in idle]
    text = _CANCELLED if cancelled.is_by_user else _STOPPED
    left = [error_result(call, text) for call in running]
    left += [
        msgspec.structs.replace(error_result(call.call, text), key=call.key)
        for call in parked.values()
        if call.state == STARTED and call.is_told
    ]
    if left:
        yield Append(left)
    yield Emit(TurnCancelled(tuple(call.id for call in running)))


def is_unanswered(records: Sequence[Record]) -> bool:
    """True if the newest message waits for a reply."""
    for record in reversed(records):
        if isinstance(record, User | ToolResult):
            return True
        if isinstance(record, Assistant):
            return False
    return False


def _has_user_message_since(records: Sequence[Record], seen: str) -> bool:
    """True if a user message arrived while the model was answering an older one."""
    for record in reversed(records):
        if record.id == seen:
            return False
        if isinstance(record, User):
            return True
    return False


class _LoopWatch:
    """Notices a model that goes round in circles because a compaction made it forget."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._compaction = newest_cut(records)
        self._watched = 0
        self._seen: dict[str, int] = {}

    def look(self, records: Sequence[Record]) -> None:
        """Watch the next calls if a compaction happened during this turn."""
        newest = newest_cut(records)
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
                continue  # two equal calls in one reply are no loop
            counted.add(key)
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._seen[key] >= _SAME_CALLS_MAX:
                raise ToolLoop(
                    f"`{call.name}` was called {_SAME_CALLS_MAX} times after a compaction with "
                    "the same arguments and the same result",
                    hint="tell the model what it already has, or undo the compaction",
                )
