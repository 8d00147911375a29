"""Calls that a person has to approve: parked, decided about, run, and told, each once.

A parked call holds nothing: it is a record. Anyone who decides appends a record, and the next run
of the session carries it out. Where no request has gone out meanwhile, the outcome is the result of
the call; where one has, it is news, and what was sent stays as it was.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from holdfast.core.flow.arguments import check_fields, check_flag, check_text, shorten
from holdfast.core.flow.effects import (
    Append,
    Emit,
    JudgeCalls,
    Now,
    Outcome,
    Read,
    ReadSince,
)
from holdfast.core.flow.events import ApprovalAsked
from holdfast.core.log.ids import place_of
from holdfast.core.log.records import CallState
from holdfast.core.models.messages import INTERRUPTED
from holdfast.core.turn.calls import (
    ALLOWED,
    APPROVED,
    DENIED,
    EXPIRED,
    PARKED,
    RUNS_MAX,
    STARTED,
    ParkedCall,
    allowances,
    call_state,
    find_parked,
    name_call,
    open_calls,
)
from holdfast.core.turn.tool_results import KeyedCall, finish_call, run_tools, waits_for_tool
from holdfast.errors import AccessDenied, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.records import Json, Record
    from holdfast.core.turn.calls import ApprovalNeed
    from holdfast.core.turn.run import RunState

_DENIED: Final = "[Not run: {} denied this call{}]"
_EXPIRED: Final = "[Not run: no one approved this call in time.]"
_ELSEWHERE: Final = (
    "[Not run again: this call was started before the conversation was taken back to this point. "
    "Verify its effects.]"
)
_CHANGED: Final = "[{} changed this call before it was run: it was {}.]"
_NEWS: Final = "[This is the outcome of your call of {}, which had waited for approval.]"


def begin_calls(run: RunState, reply: str, calls: Sequence[KeyedCall]) -> Flow[list[KeyedCall]]:
    """Park the calls of a reply that a person has to approve; returns those that may run now.

    What is parked is in the log before any call of the reply starts."""
    asked = [each for each in calls if each.call.name in run.settings.gated]
    if not asked:
        return list(calls)
    needs: list[ApprovalNeed | None] = yield JudgeCalls(tuple(each.call for each in asked))
    allowed = allowances((yield Read(run.window)), run.home)
    now: float = yield Now()
    states: list[CallState] = []
    parked: dict[str, ApprovalNeed] = {}
    for each, need in zip(asked, needs, strict=True):
        if each.call.id in parked:
            continue  # their results could not be told apart
        if need is None or (each.call.name, need.reason) in allowed:
            states.append(call_state(each.call, each.key, reply, STARTED))
            continue
        parked[each.call.id] = need
        until = None if need.seconds is None else now + need.seconds
        more: Any = {"arguments": each.call.arguments, "reason": need.reason, "until": until}
        more["approvers"] = list(need.approvers)
        states.append(call_state(each.call, each.key, reply, PARKED, **more))
    yield Append([run.secret_watch.hide(state)[0] for state in states])
    for state in states:
        if state.state == PARKED:
            call = next(each.call for each in asked if each.key == state.key)
            yield Emit(ApprovalAsked(call, state.key, state.reason, state.until))
    return [each for each in calls if each.call.id not in parked]


def settle(run: RunState) -> Flow[bool]:
    """Run what was approved, tell what was not, and run again what may be.

    Returns True where a call of the newest reply still waits, so that nothing can be asked."""
    yield from _run_left(run, (yield Read(run.window)))
    found = find_parked((yield Read(run.window)), run.home)
    now: float = (yield Now()) if found else 0.0
    ready: list[ParkedCall] = []
    for call in found:
        if call.state == PARKED and not call.is_waiting(now):
            yield Append([call.next(EXPIRED)])
            call = replace(call, states=(*call.states, call.next(EXPIRED)))
        refusal = _refusal_of(call)
        if refusal is not None:
            yield from finish_call(run, _as_run(call), refusal)
        elif call.state in (APPROVED, STARTED) and not waits_for_tool(run, call):
            ready.append(call)
    yield from _run_ready(run, ready)
    left = find_parked((yield Read(run.window)), run.home) if found else []
    return any(
        (call.state == PARKED or waits_for_tool(run, call)) and not call.is_told for call in left
    )


def _run_left(run: RunState, records: Sequence[Record]) -> Flow[None]:
    """Run what an earlier run left open: calls that are safe to run again, with their keys, and
    those that were never started because it died before it asked about them."""
    safe, gated = run.settings.safe_to_retry, run.settings.gated
    left = open_calls(records, run.home)
    new = [KeyedCall(each.call, each.key) for each in left if each.is_new(gated)]
    runs = yield from begin_calls(run, left[0].reply, new) if new else _none()
    again = [each for each in left if each.may_run_again(safe) and not each.is_new(gated)]
    if again:
        yield Append([each.state(STARTED) for each in again])
    runs = [*runs, *(KeyedCall(each.call, each.key) for each in again)]
    if runs:
        yield from run_tools(run, runs)


def _none() -> Flow[list[KeyedCall]]:
    yield from ()
    return []


def _run_ready(run: RunState, ready: Sequence[ParkedCall]) -> Flow[None]:
    """Run approved calls. One whose outcome is unknown is run again only where that is safe."""
    runs: list[ParkedCall] = []
    for call in ready:
        is_safe = call.name in run.settings.safe_to_retry and call.starts < RUNS_MAX
        if call.starts and not is_safe:
            unknown = Outcome(call.call_id, INTERRUPTED, is_error=True, pending=True)
            yield from finish_call(run, _as_run(call), unknown)
        elif not call.starts and (yield from _was_started(call)):
            elsewhere = Outcome(call.call_id, _ELSEWHERE, is_error=True)
            yield from finish_call(run, _as_run(call), elsewhere)
        else:
            runs.append(call)
    if runs:
        yield Append([call.next(STARTED) for call in runs])
        yield from run_tools(run, [_as_run(call) for call in runs])


def _was_started(call: ParkedCall) -> Flow[bool]:
    """Return whether a call was started on a branch that the session has left."""
    written: Sequence[Record] = yield ReadSince(call.reply, every_branch=True)
    states = [record for record in written if isinstance(record, CallState)]
    return any(state.key == call.key and state.state == STARTED for state in states)


def _as_run(call: ParkedCall) -> KeyedCall:
    """Return a call as it is run, with what the model has to know of its result."""
    decided = call.decision
    notes = [_NEWS.format(name_call(call.call))] if call.is_told else []
    if decided is not None and decided.arguments is not None:
        notes.append(_CHANGED.format(_who(decided), name_call(call.call)))
    return KeyedCall(call.call, call.key, " ".join(notes), is_news=call.is_told)


def _refusal_of(call: ParkedCall) -> Outcome | None:
    """Return the outcome of a call that is not run; None for any other."""
    decided = call.decision
    if decided is None or decided.state == APPROVED:
        return None
    words = ""
    text = _EXPIRED
    if decided.state == DENIED:
        words = decided.reason
        text = _DENIED.format(_who(decided), f": {words}" if words else ".")
    refused = words if decided.state == DENIED else None
    return Outcome(call.call_id, text, is_error=True, refused=refused)


def _who(decided: CallState) -> str:
    return f"`{decided.by}`" if decided.by else "A person"


def waiting_calls(run: RunState) -> Flow[list[ParkedCall]]:
    """Return the calls that a person may decide about, oldest first."""
    records = yield Read(run.window)
    now = yield Now()
    return [call for call in find_parked(records, run.home) if call.is_waiting(now)]


def find_call(run: RunState, key: str) -> Flow[ParkedCall | None]:
    """Return a call that was parked on the session's path, whatever became of it."""
    check_text("key", key)
    place = place_of(run.home.session, key)
    if place is None:
        return None
    return _find_call((yield ReadSince(place.reply)), key, run)


def decide(
    run: RunState,
    key: str,
    state: str,
    *,
    by: str = "",
    words: str = "",
    arguments: Json | None = None,
    always: bool = False,
) -> Flow[ParkedCall]:
    """Store what a person decided about a parked call; returns the call as it is then.

    The first decision counts: a second one changes nothing, and returns the first."""
    for name, value in (("key", key), ("by", by), ("words", words)):
        check_text(name, value)
    check_fields("arguments", arguments)
    check_flag("always", always)
    place = place_of(run.home.session, key)
    if place is None:
        raise UsageError(
            f"`{shorten(key)}` is the key of no call of this session",
            hint="nothing was stored; open the session in which the call was made",
        )
    while True:
        records: Sequence[Record] = yield ReadSince(place.reply)
        call = _find_call(records, key, run)
        if call is None:
            raise UsageError(
                f"the call `{key}` does not wait for a decision on the session's path",
                hint="nothing was stored; it needed no approval, or was taken back by a rewind",
            )
        if not call.may_decide(by):
            raise AccessDenied(
                f"{shorten(by) if by else 'an unnamed caller'} may not decide about the call of "
                f"`{call.name}`",
                hint=f"it waits for {' or '.join(f'`{name}`' for name in call.approvers)}; "
                "nothing was stored",
            )
        if call.decision is not None:
            return call
        now = yield Now()
        if not call.is_waiting(now):
            raise UsageError(
                f"the call of `{call.name}` expired: no one decided in time",
                hint="nothing was stored; ask the model to call it again",
            )
        decided: list[CallState] = [
            call.next(state, by=by, reason=words, arguments=arguments, is_told=call.is_told)
        ]
        if always and state == APPROVED:
            decided.append(call.next(ALLOWED, by=by, reason=call.reason))
        decided = [run.secret_watch.hide(state)[0] for state in decided]
        stored = yield Append(decided, unless=partial(_is_decided, key, run))
        if stored is not None:
            return replace(call, states=(*call.states, stored[0]))


def _find_call(records: Sequence[Record], key: str, run: RunState) -> ParkedCall | None:
    """Return a call that was parked, also one that has its result."""
    states = [rec for rec in records if isinstance(rec, CallState) and rec.key == key]
    return next(iter(find_parked(states, run.home)), None)


def _is_decided(key: str, run: RunState, records: Sequence[Record]) -> bool:
    """Return whether another decided about a call meanwhile."""
    call = _find_call(records, key, run)
    return call is not None and call.decision is not None
