"""One reply of the model, as a flow: fit a request, send it, recover from refusals, store it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.failures.classify import Symptoms, classify, classify_finish
from holdfast.core.flow.effects import Append, CallModel, Deny, Emit, FailedCall, Now, Sleep
from holdfast.core.flow.events import (
    CallFailed,
    CallFinished,
    CallStarted,
    TroubleNoticed,
    TurnFinished,
    WindowLearned,
)
from holdfast.core.log.records import Assistant
from holdfast.core.models.prices import cost_of
from holdfast.core.models.replies import Reply
from holdfast.core.models.usage import read_usage
from holdfast.core.tokens.calibration import Prediction, margin, was_cut
from holdfast.core.turn.compact import fit
from holdfast.core.turn.recovery import Recovery, final_error
from holdfast.core.turn.refusals import apply, end_turn, refusal_reply, take_back
from holdfast.core.turn.tool_results import append_one
from holdfast.errors import CallDenied, CannotFit, ModelError

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.dialects.prefix import SentRequest
    from holdfast.core.flow.effects import Flow
    from holdfast.core.models.usage import Usage
    from holdfast.core.projection.project import Plan
    from holdfast.core.turn.run import RunState

REASONING_FIELD: Final = "reasoning_report"
"""The field of a reply's record for the reasoning that its provider did not accept as it was."""
CACHE_MISS_FIELD: Final = "cache_miss"
"""The field for the change that kept its request from the prompt cache."""
_FULL: Final = 0.99
"""Share of the window from which an empty reply counts as an overflow."""


class PreparedCalls:
    """Requests that the caller sends itself, one reply after the other."""

    def __init__(self, run: RunState, classify_error: Callable[[object], FailedCall]) -> None:
        self._run = run
        self._classify = classify_error
        self._recovery: Recovery | None = None
        self._plan: Plan | None = None

    def prepare(self, failed: object = None) -> Flow[Plan]:
        """The next request; after a failure, one that is smaller in the refused dimension."""
        run = self._run
        run.is_own_loop = True
        if failed is None or self._recovery is None or self._plan is None:
            self._recovery = Recovery(run)
        else:
            failure = self._classify(failed)
            refusal = yield from _recover(self._recovery, self._plan, failure)
            if refusal is not None:
                plan, self._recovery, self._plan = self._plan, None, None
                yield Emit(TurnFinished(refusal, 1))
                why = "the refusal is stored as the reply"
                raise final_error(failure, plan, why) from failure.error
        plan, _seen = yield from _fit(run, self._recovery)
        self._plan = plan
        return plan

    def record(self, reply: Reply) -> Flow[Reply]:
        """Store the reply to the prepared request."""
        plan, target = self._plan, self._run.settings.target
        usage = read_usage(reply.raw_usage, reply.provider or target.provider)
        yield from _learn(self._run, self._recovery, usage)
        self._recovery = self._plan = None
        if plan is not None:
            yield from _report_troubles(self._run, reply, usage, plan)
        sent = plan.origin if plan is not None else None
        if reply.stop == "refusal" and plan is not None:
            reply = yield from end_turn(plan, reply.stop_reason or reply.stop, reply)
        else:
            reply = yield from _store(self._run, reply, target.provider, target.model, sent)
        if not reply.calls:
            yield Emit(TurnFinished(reply, 1))
        return reply


def ask(run: RunState) -> Flow[tuple[Reply, str]]:
    """Get and store one reply to the log as it is; also returns the newest record it has seen.

    Every request is checked before it is sent; after a refusal, the next one is measurably smaller.
    """
    recovery = Recovery(run)
    if run.recalled_window:
        run.recalled_window = False
        yield Emit(WindowLearned(run.window.tokens, run.settings.window.tokens, run.window.source))
    while True:
        plan, newest = yield from _fit(run, recovery)
        outcome = yield from _send(run, plan, recovery.attempt)
        if isinstance(outcome, Reply):
            target = plan.target
            usage = read_usage(outcome.raw_usage, outcome.provider or target.provider)
            yield from _learn(run, recovery, usage)
            if outcome.stop == "refusal":
                why = outcome.stop_reason or outcome.stop
                return (yield from end_turn(plan, why, outcome)), newest
            stored = yield from _store(run, outcome, target.provider, target.model, plan.origin)
            return stored, newest
        refusal = yield from _recover(recovery, plan, outcome)
        if refusal is not None:
            return refusal, newest


def assistant_record(
    reply: Reply, provider: str, model: str, sent: SentRequest | None = None
) -> Assistant:
    """A reply as a record. It has the name by which the model was called: thinking is given back
    only to the model that produced it, and providers answer with longer names."""
    served = reply.model if model and reply.model not in ("", model) else ""
    reported = {
        "served_model": served,
        REASONING_FIELD: msgspec.to_builtins(reply.reasoning),
        CACHE_MISS_FIELD: reply.cache_miss,
    }
    return Assistant(
        content=reply.content,
        provider=provider or reply.provider or None,
        model=model or reply.model or None,
        usage=reply.raw_usage,
        stop_reason=reply.stop_reason or None,
        sent=sent.to_json() if sent is not None else None,
        extra={**reply.extra, **{name: value for name, value in reported.items() if value}},
    )


def reply_of(record: Assistant) -> Reply:
    """A stored reply, as its caller got it or would have got it."""
    content = record.content
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    return Reply(
        content=blocks,
        stop_reason=record.stop_reason or "",
        raw_usage=record.usage,
        provider=record.provider or "",
        model=record.model or "",
        record=record.id,
    )


def _fit(run: RunState, recovery: Recovery) -> Flow[tuple[Plan, str]]:
    """The next request that may be sent."""
    try:
        plan, newest = yield from fit(run, recovery.bounds, is_recovery=recovery.is_under_way)
        recovery.admit(plan)
    except CannotFit as error:
        yield from take_back(recovery.repair_records)
        raise recovery.error_for(error) from error
    except ModelError:
        yield from take_back(recovery.repair_records)
        raise
    return plan, newest


def _recover(recovery: Recovery, plan: Plan, failed: FailedCall) -> Flow[Reply | None]:
    """Learn from a failure, wait or repair where that helps, or give up with one clear error.

    Returns the reply where the refusal itself is one: the provider's policy ended the turn."""
    failed = recovery.judge(plan, failed)
    found = recovery.take(plan, failed)
    yield Emit(CallFailed("turn", failed.failure, found.step, found.detail, found.seconds))
    if found.step == "give-up":
        yield from take_back(recovery.repair_records)
        raise final_error(failed, plan, found.detail) from failed.error
    if found.step == "end-turn":
        refusal = refusal_reply(failed.failure)
        return (yield from end_turn(plan, refusal.stop_reason, refusal))
    if found.step == "wait":
        yield Sleep(found.seconds)
    if found.repair is not None:
        # Stored before the next request: no later one tries the same again.
        made = yield from apply(plan, found.repair, recovery.repair_records)
        if found.repair.brings_back:
            recovery.repair_records.clear()
        if found.repair.step != "drop-field":  # that one names what was refused
            recovery.repair_records.append(made)
    return None


def _send(run: RunState, plan: Plan, attempt: int) -> Flow[Reply | FailedCall]:
    budget = plan.budget
    started = CallStarted("turn", plan.tokens.total, budget.tokens, plan.window.tokens, attempt)
    denied = yield Emit(started)
    if isinstance(denied, Deny):
        raise CallDenied(
            f"a listener denied the call: {denied.reason}",
            hint="change the listener that returns `Deny` for `CallStarted`",
        )
    before = yield Now()
    run.last_sent = plan.origin
    outcome: Reply | FailedCall = yield CallModel(plan.prompt, plan.target)
    if isinstance(outcome, FailedCall):
        return outcome
    after = yield Now()
    usage = read_usage(outcome.raw_usage, outcome.provider or plan.target.provider)
    overflow = _silent_overflow(outcome, usage, plan)
    if overflow is not None:
        return overflow
    cost = cost_of(usage, run.settings.price)
    yield Emit(CallFinished("turn", plan.tokens.total, usage, cost, outcome.stop, after - before))
    yield from _report_troubles(run, outcome, usage, plan)
    return outcome


def _report_troubles(run: RunState, reply: Reply, usage: Usage | None, plan: Plan) -> Flow[None]:
    for trouble in _troubles(reply, usage, plan):
        yield Emit(trouble)
        if trouble.kind in ("over-window", "window-stop"):
            run.force_cut(plan.tokens.total)


def _store(
    run: RunState, reply: Reply, provider: str, model: str, sent: SentRequest | None
) -> Flow[Reply]:
    """Append a reply to the log; returns it with its record id and the provider that was called."""
    record = yield from append_one(run, assistant_record(reply, provider, model, sent))
    return msgspec.structs.replace(reply, record=record, provider=reply.provider or provider)


def _learn(run: RunState, recovery: Recovery | None, usage: Usage | None) -> Flow[None]:
    """Learn from a request that was answered, and from the refusals before it.

    A stated window is believed once a smaller request was answered: a server that refuses
    everything has a number for each request."""
    if usage is not None:
        run.answered = max(run.answered, usage.prompt)
    if recovery is None:
        return
    guessed, before = recovery.learn_ceiling(), run.window.tokens
    stated = recovery.stated_window()
    found, source = stated or guessed, "said by the provider" if stated else "from refused sizes"
    if found is not None and run.learn_window(found, source):
        record = run.window_record()
        assert record is not None
        yield Append((record,))
        yield Emit(WindowLearned(found, before, run.window.source))


def _silent_overflow(reply: Reply, usage: Usage | None, plan: Plan) -> FailedCall | None:
    """The failure behind a reply that is empty because the window was full."""
    if reply.content and (reply.text.strip() or reply.calls):
        return None
    is_full = usage is not None and usage.prompt >= _FULL * plan.window.tokens
    if not (reply.stop == "window" or (reply.stop == "length" and is_full)):
        return None
    found = classify_finish(reply.stop_reason or reply.stop)
    if found is None:
        found = classify(Symptoms(status=200, message=reply.stop_reason))
    return FailedCall(msgspec.structs.replace(found, kind="silent_overflow", action="shrink_input"))


def _troubles(reply: Reply, usage: Usage | None, plan: Plan) -> list[TroubleNoticed]:
    """Everything that looks wrong about a call that succeeded."""
    found = _reported(reply)
    if reply.stop == "window":
        detail = "the reply was cut off because the window was full"
        found.append(TroubleNoticed("window-stop", detail))
    if not reply.text.strip() and not reply.calls:
        detail = f"the reply is empty; it ended with `{reply.stop_reason or reply.stop}`"
        found.append(TroubleNoticed("empty-reply", detail))
    if usage is None:
        if reply.raw_usage:
            detail = "the reported usage has no sizes; our own estimate is used"
            found.append(TroubleNoticed("zero-usage", detail))
        return found
    expected = plan.tokens.total
    if usage.prompt > plan.window.tokens:
        found.append(
            TroubleNoticed(
                "over-window",
                f"the provider reported {usage.prompt:,} input tokens, and the window is "
                f"{plan.window.tokens:,} ({plan.window.source}): the window is larger, or the "
                "request was cut",
            )
        )
    if was_cut(Prediction(expected, margin(expected), True), usage):
        detail = (
            f"the provider reported {usage.prompt:,} input tokens, and about {expected:,} were "
            "sent: the server seems to have dropped the beginning"
        )
        found.append(TroubleNoticed("cut-silently", detail))
    return found


def _reported(reply: Reply) -> list[TroubleNoticed]:
    """Everything that the provider itself says is not as it was."""
    found = []
    if reply.reasoning:
        dropped = sum(block.is_dropped for block in reply.reasoning)
        allowed = len(reply.reasoning) - dropped
        counts = [f"{dropped} dropped"] * bool(dropped) + [f"{allowed} only allowed"] * bool(
            allowed
        )
        reasons = ", ".join(dict.fromkeys(block.reason for block in reply.reasoning))
        detail = (
            f"blocks of earlier reasoning: {' and '.join(counts)}, "
            f"the first at {reply.reasoning[0].path}: {reasons}"
        )
        found.append(TroubleNoticed("reasoning-dropped", detail, reply.reasoning))
    if reply.cache_miss:
        found.append(TroubleNoticed("cache-missed", reply.cache_miss))
    return found
