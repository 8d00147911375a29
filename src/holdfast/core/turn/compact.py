"""Compaction as a flow: what is about to be cut is noted and summarised, then cut in one step.

`project` chooses the cut and makes the carry-over by code; that part cannot fail. A model may add a
summary to it. If anything goes wrong on the way, the carry-over is used alone, and an event says
so. The boundary moves with one record, which is appended only if no other writer has cut
meanwhile; before that nothing has changed.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.flow.arguments import check_flag, check_text
from holdfast.core.flow.effects import Append, Deny, Emit, Now, Read, SaveCheckpoint, Sleep
from holdfast.core.flow.events import (
    BackgroundSummary,
    CheckpointSaved,
    CompactionFinished,
    CompactionStarted,
    Pruned,
    PruneStarted,
)
from holdfast.core.log.records import MESSAGES, Compaction, Prune, Undo, User
from holdfast.core.log.replay import Boundaries
from holdfast.core.models.usage import add_up
from holdfast.core.projection.view import turn_records
from holdfast.core.turn.epochs import account_for
from holdfast.core.turn.flush import NoteFlush
from holdfast.core.turn.run import POOR_SUMMARIES_MAX, Bounds, cut_in, is_true_of
from holdfast.core.turn.summarise import Summariser
from holdfast.core.turn.tool_results import close_open_calls
from holdfast.core.window import ANY_WINDOW, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.flow.effects import Flow, SavedCheckpoint
    from holdfast.core.flow.events import Reason
    from holdfast.core.log.records import Record
    from holdfast.core.projection.project import Plan
    from holdfast.core.projection.request import Pressure
    from holdfast.core.turn.run import RunState

_CONTINUE: Final = User(content="[Continue.]", extra={"meta": True, "injected": "continue"})
"""Stands where the provider wants a message of the user and there is none."""
_ROUNDS_MAX: Final = 3
"""The most plans for one request, where other writers cut the view meanwhile."""
_MESSAGES_MIN: Final = 4
"""With so few messages there is nothing to compact."""
_POOR_FORGIVEN: Final = 6
"""After unusable summaries in a row, the compactions up to this one do not ask the model."""
_DRAFT_PAUSE_SECONDS: Final = 0.05
"""Between two looks at a summary that is being written ahead."""
_PRESSURES: Final[dict[str, Pressure]] = {"asked": "cut", "overflow": "hold"}
"""The pressure to plan with again, by the reason for the compaction."""


def fit(run: RunState, bounds: Bounds, *, is_recovery: bool = False) -> Flow[tuple[Plan, str]]:
    """A request that fits, with all its decisions in the log, and the newest record it contains."""
    yield from close_open_calls(run)
    if run.is_checkpoint_asked:
        run.is_checkpoint_asked = False
        yield from save_checkpoint(run, "asked")
    if run.asked_cut is not None:
        focus, run.asked_cut = run.asked_cut, None
        yield from compact(run, focus)
    for round_ in range(_ROUNDS_MAX):
        records: Sequence[Record] = yield Read(run.window)
        now: float = yield Now()
        # After a refusal only as much goes as must: a further step down may not be needed.
        plan = run.plan(records, now, bounds, pressure="hold" if is_recovery else "usual")
        newest = records[-1].id if records else ""
        made = cut_in(plan)
        if made is None:
            if plan.decisions:
                hold = functools.partial(run.plan, records, now, bounds, pressure="hold")
                yield from _prune(plan, hold)
                records = yield Read(run.window)
                plan = run.plan(records, now, bounds, pressure="hold")
            if plan.lacks_question:
                # What is sent is in the log, so that the next request begins with it.
                yield Append((_CONTINUE,))
                records = yield Read(run.window)
                newest = records[-1].id
                plan = run.plan(records, now, bounds, pressure="hold")
            if (yield from account_for(records, plan)):
                records = yield Read(run.window)
                newest = records[-1].id
                plan = run.plan(records, now, bounds, pressure="hold")
            if not is_recovery:
                flush = _CompactionRun(run, records, now, bounds, "full").flush
                if flush.is_due(plan):
                    yield from flush.save_early()
            return plan, newest
        reason = _reason(run, is_recovery=is_recovery, plan=plan, now=now, records=records)
        work = _CompactionRun(run, records, now, bounds, reason)
        uncut = yield from work.carry_out(plan, made, round_)
        if uncut is not None:
            records = yield Read(run.window)
            if (yield from account_for(records, uncut)):
                records = yield Read(run.window)
                newest = records[-1].id
                uncut = run.plan(records, now, bounds, pressure="hold")
            return uncut, newest
        # The view was cut, by us or another writer: read again, with everything said meanwhile.
    return plan, newest


def compact(
    run: RunState, focus: str = "", *, is_preview: bool = False
) -> Flow[CompactionFinished]:
    """Cut now because the caller asked for it."""
    check_text("focus", focus)
    check_flag("preview", is_preview)
    records: Sequence[Record] = yield Read(run.window)
    now: float = yield Now()
    plan = run.plan(records, now, pressure="cut")
    made = cut_in(plan)
    refusal = why_not_to_compact(plan)
    if refusal or made is None:
        skipped = CompactionFinished("skipped", "asked", refusal)
        yield Emit(skipped)
        return skipped
    if is_preview:
        return _finish_event("preview", "asked", made, plan, detail="nothing was changed")
    work = _CompactionRun(run, records, now, Bounds(), "asked", focus=focus)
    yield from work.carry_out(plan, made, 0)
    assert work.finished is not None
    return work.finished


def why_not_to_compact(plan: Plan) -> str:
    """Return the reason against a cut that was asked for; empty where there is none. The plan is
    one that cuts where it can."""
    if sum(len(unit.parts) for unit in plan.units) <= _MESSAGES_MIN:
        return f"too few messages to compact (need > {_MESSAGES_MIN})"
    if cut_in(plan) is None:
        return (
            f"nothing would be gained: of {plan.tokens_before:,} tokens in view, nearly all are "
            "the user's own words and protected steps, which stay"
        )
    return ""


class _CompactionRun:
    """One compaction, from its start event to its finish event."""

    def __init__(
        self,
        run: RunState,
        records: Sequence[Record],
        now: float,
        bounds: Bounds,
        reason: Reason,
        focus: str = "",
    ) -> None:
        self._run = run
        self._records = records
        self._now = now
        self._bounds = bounds
        self._reason: Reason = reason
        self._pending: tuple[str, ...] = ()
        self._why_extract = ""
        self._focus = focus
        self._summariser = Summariser(
            run, records, now, focus, lambda output: self._plan("hold", output=output)
        )
        self.flush = NoteFlush(run, records, self._summariser)
        self.finished: CompactionFinished | None = None

    def carry_out(self, plan: Plan, made: Compaction, round_: int) -> Flow[Plan | None]:
        """Save notes, summarise, commit. Returns None once there is a new boundary, or the plan
        to use if there is none and the request fits as it is."""
        covered = records_covered_by(made, self._records)
        started = CompactionStarted(
            self._reason,
            made.reason or "",
            made.tokens_before or 0,
            made.covers,
            sum(record.kind in MESSAGES for record in covered),
            plan.protected_cut,
        )
        denied = yield Emit(started)
        if isinstance(denied, Deny):
            held = yield from self._hold(denied.reason)
            if held is not None or self._reason == "asked":
                return held
        if round_ == 0:
            manner = "manual" if self._reason == "asked" else "auto"
            saved = yield from save_checkpoint(self._run, f"pre_compact_{manner}")
            plan = self._with_tasks(plan, saved)
        yield from self.flush.save_before_cut(covered)
        plan = yield from self._with_summary(plan, covered)
        yield from self._commit(plan, round_)
        return None

    def _with_tasks(self, plan: Plan, saved: SavedCheckpoint | None) -> Plan:
        """The plan with the open tasks in its carry-over."""
        if saved is None or not saved.pending:
            return plan
        self._pending = saved.pending
        again = self._plan(_PRESSURES.get(self._reason, "usual"))
        return plan if cut_in(again) is None else again

    def _hold(self, why: str) -> Flow[Plan | None]:
        """The request without a cut, if it fits."""
        held = None
        if self._reason != "asked":
            plan = self._plan("hold")
            if cut_in(plan) is None:
                held = plan
                if plan.decisions:
                    yield from _prune(plan)
        if held is not None or self._reason == "asked":
            self.finished = CompactionFinished("skipped", self._reason, f"denied: {why}")
            yield Emit(self.finished)
        return held

    def _commit(self, plan: Plan, round_: int) -> Flow[None]:
        made = cut_in(plan)
        assert made is not None
        run = self._run
        decisions: list[Record] = [
            self._sign(made) if record is made else record for record in plan.decisions
        ]
        decisions += run.boundary_records(self._records, turn_records(made))
        newest = self._records[-1].id if self._records else ""
        is_last = round_ >= _ROUNDS_MAX - 1
        stored = yield Append(
            decisions, unless=None if is_last else functools.partial(was_cut, newest)
        )
        if stored is None:
            detail = "another compaction came first"
            self.finished = CompactionFinished("skipped", self._reason, detail)
        else:
            calls, cost = self._cost()
            run.must_cut = False
            run.drafts.settle()
            self.finished = _finish_event(
                "applied",
                self._reason,
                stored[0],
                plan,
                detail=self._why_extract,
                calls=calls,
                cost=cost,
            )
        yield Emit(self.finished)

    def _sign(self, made: Compaction) -> Compaction:
        """The record with the model that wrote it and its cost."""
        is_model = made.method == "model"
        return msgspec.structs.replace(
            made,
            model=(self._summariser.target.model or None) if is_model else None,
            usage=add_up([*self._run.drafts.usages, *filter(None, [self._summariser.usage])]),
            cost=self._cost()[1],
            reason="; ".join(filter(None, (made.reason, self._why_extract))),
        )

    def _cost(self) -> tuple[int, float | None]:
        """The model calls of this compaction and their cost, with those of drafts."""
        drafts, own = self._run.drafts, self._summariser
        known = [*drafts.costs, *([own.cost] if own.cost is not None else [])]
        return drafts.calls + own.calls, sum(known) if known else None

    def _plan(self, pressure: Pressure, *, prose: str = "", output: int | None = None) -> Plan:
        return self._run.plan(
            self._records,
            self._now,
            self._bounds,
            pressure=pressure,
            prose=prose,
            pending=self._pending,
            output=output,
        )

    def _with_summary(self, plan: Plan, covered: Sequence[Record]) -> Flow[Plan]:
        """The plan with a model's summary beside its carry-over, if one can be had."""
        run = self._run
        if run.options.summarising.writer != "model" or not covered:
            return plan
        drafted = yield from self._with_draft()
        if drafted is not None or self._reason == "overflow":
            return drafted or plan
        if run.poor_summaries >= POOR_SUMMARIES_MAX and self._reason != "asked":
            run.poor_summaries = (run.poor_summaries + 1) % _POOR_FORGIVEN
            self._why_extract = "made by code: the last summaries were not usable"
            return plan
        text, why = yield from self._summariser.summarise(plan, covered)
        if text:
            better = self._plan_with(text)
            if better is not None:
                run.poor_summaries = 0
                return better
            why = "it would not fit"
        run.poor_summaries += 1
        self._why_extract = f"made by code: {why}"
        return plan

    def _with_draft(self) -> Flow[Plan | None]:
        """The plan with the summary that was written ahead, if it is still true."""
        drafts, waited = self._run.drafts, 0.0
        if self._focus:
            return None  # a draft does not know what the user asks for
        # What is left of a call takes no longer than a call of our own.
        while drafts.is_running and self._reason != "overflow":
            yield Sleep(_DRAFT_PAUSE_SECONDS)
            waited += _DRAFT_PAUSE_SECONDS
            if waited >= self._run.options.limits.summary_seconds:
                drafts.is_running = False  # its writer is gone, or too slow to wait for
        draft = drafts.draft
        if draft is None:
            return None
        plan = self._plan_with(draft.text)
        made = cut_in(plan) if plan is not None else None
        last = made.covers[1] if made is not None and made.covers is not None else ""
        if is_true_of(draft, self._records, last):
            yield Emit(BackgroundSummary("used", record=draft.last))
            return plan
        why = "it would not fit" if made is None else "the view has changed too much since then"
        yield Emit(BackgroundSummary("dropped", why, record=draft.last))
        drafts.draft = None
        return None

    def _plan_with(self, prose: str) -> Plan | None:
        """The cut with a model's summary; None where that does not fit."""
        plan = self._plan(_PRESSURES.get(self._reason, "usual"), prose=prose)
        made = cut_in(plan)
        return plan if made is not None and made.method == "model" else None


def save_checkpoint(run: RunState, trigger: str) -> Flow[SavedCheckpoint | None]:
    """Store a checkpoint, unless checkpoints are off. A failure never stops the turn."""
    if run.options.checkpoints == "off":
        return None
    saved: SavedCheckpoint | None = yield SaveCheckpoint(trigger)
    if saved is not None:
        yield Emit(CheckpointSaved(saved.record, trigger))
    return saved


def records_covered_by(made: Compaction, records: Sequence[Record]) -> list[Record]:
    """The records that a compaction cuts; none where it shortens what the one before left."""
    boundaries = Boundaries(ANY_WINDOW if made.window is None else Window(made.window))
    before = next((record for record in reversed(records) if boundaries.is_one(record)), None)
    if made.covers is None or made.covers == _stands_for(before):
        return []
    first, last = made.covers
    places = {record.id: place for place, record in enumerate(records)}
    if first not in places or last not in places:
        return []
    return list(records[places[first] : places[last] + 1])


def _stands_for(cut: Record | None) -> tuple[str, str] | None:
    if not isinstance(cut, Compaction):
        return None
    return cut.covers or (cut.id, cut.id)


def _prune(plan: Plan, hold: Callable[[], Plan] | None = None) -> Flow[Plan]:
    """Append a plan's prune decisions. If that is denied, use the request as it was, if it fits."""
    made = next(record for record in plan.decisions if isinstance(record, Prune))
    actions = [decision.action for decision in made.decisions]
    started = PruneStarted(
        trimmed=actions.count("trim"),
        cleared=actions.count("clear"),
        tokens_before=plan.tokens_before,
        tokens_after=plan.tokens.messages,
        reason=made.reason or "",
    )
    denied = yield Emit(started)
    if isinstance(denied, Deny) and hold is not None:
        other = hold()
        if cut_in(other) is None:
            if other.decisions:
                yield from _prune(other)
            return other
    stored = yield Append(plan.decisions)
    record = next(made.id for made in stored if isinstance(made, Prune))
    yield Emit(
        Pruned(
            record=record,
            trimmed=started.trimmed,
            cleared=started.cleared,
            tokens_before=started.tokens_before,
            tokens_after=started.tokens_after,
            reason=started.reason,
        )
    )
    return plan


def _reason(
    run: RunState, *, is_recovery: bool, plan: Plan, now: float, records: Sequence[Record]
) -> Reason:
    if is_recovery:
        return "overflow"
    policy = run.policy
    is_full = plan.tokens_before > policy.full_at(plan.budget.tokens)
    return "cold" if not is_full and run.prompt_cache(records, now).is_cold else "full"


def _finish_event(
    outcome: Literal["applied", "preview"],
    reason: Reason,
    made: Compaction,
    plan: Plan,
    *,
    detail: str,
    calls: int = 0,
    cost: float | None = None,
) -> CompactionFinished:
    return CompactionFinished(
        outcome,
        reason,
        detail,
        method=made.method,
        record=made.id,
        covers=made.covers,
        tokens_before=made.tokens_before or 0,
        tokens_after=made.tokens_after or 0,
        summary=made.summary,
        calls=calls,
        cost=cost,
        protected=plan.protected_cut,
    )


def was_cut(since: str, records: Sequence[Record]) -> bool:
    """Return whether a record after `since` changed the view before it."""
    for record in reversed(records):
        if record.id == since:
            return False
        if isinstance(record, Compaction | Undo):
            return True
    return bool(since)  # the record is not on the path any more
