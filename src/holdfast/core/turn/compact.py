"""Making room, as a flow: what is to be cut is noted, summarised, checked, and then cut at once.

`project` chooses the cut and makes what code leaves behind; that part cannot fail. A model may add
prose to it. Whatever goes wrong on the way, the part made by code is used, and an event says so.
The boundary moves by one record, appended if nobody else has cut meanwhile; before that nothing
has changed.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.compaction import summary_request
from holdfast.core.extract.carryover import prose_cap
from holdfast.core.failures.classify import Symptoms, classify
from holdfast.core.flow.effects import (
    Append,
    CallModel,
    Cancelled,
    Deny,
    Emit,
    FailedCall,
    Now,
    Read,
    SaveCheckpoint,
)
from holdfast.core.flow.events import (
    CallFailed,
    CallFinished,
    CallStarted,
    CheckpointSaved,
    CompactionFinished,
    CompactionStarted,
    FlushFinished,
    FlushStarted,
    Pruned,
    PruneStarted,
)
from holdfast.core.log.records import MESSAGES, Compaction, Flush, Prune
from holdfast.core.memory import notes
from holdfast.core.models.messages import Message, Prompt, Text
from holdfast.core.models.usage import added_up, read_usage
from holdfast.core.tokens.counting import count_prompt
from holdfast.core.turn.run import Bounds, cost_of, cut_in
from holdfast.errors import CannotFit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.flow.effects import Flow, SavedCheckpoint
    from holdfast.core.flow.events import Reason
    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.replies import Reply
    from holdfast.core.models.window import Window
    from holdfast.core.projection.project import Plan, Pressure
    from holdfast.core.turn.run import Course

_ROUNDS_MAX: Final = 3
"""How often a plan is made anew because somebody else wrote meanwhile."""
_MESSAGES_MIN: Final = 4
"""With so few there is nothing to compact."""
_YIELD_MIN: Final = 0.05
"""What a compaction that was asked for must free."""
_POOR_MAX: Final = 2
_POOR_FORGIVEN: Final = 6
"""After two poor summaries in a row the model is left alone for a few compactions."""
_NOTES_TOKENS: Final = 1_000
_JUDGED_RECORDS: Final = 600
"""A summary is held against the newest of what it replaces; to hold it against a whole long
history would take longer than to make it."""
_PRESSURES: Final[dict[str, Pressure]] = {"asked": "cut", "overflow": "hold"}
"""How a plan is made anew, by why it was made."""
_SUMMARY_ROOM: Final = 0.85
"""Of a summariser's window; the rest is for what its provider adds and we do not see."""


def fit(course: Course, bounds: Bounds, *, is_recovery: bool = False) -> Flow[tuple[Plan, str]]:
    """A request that fits, with everything it decided in the log, and the newest record it has."""
    for round_ in range(_ROUNDS_MAX):
        records: Sequence[Record] = yield Read(course.window.tokens)
        now: float = yield Now()
        # After a refusal only what must go goes: the next step down may not be needed.
        plan = course.plan(records, now, bounds, pressure="hold" if is_recovery else "usual")
        newest = records[-1].id if records else ""
        if not plan.decisions:
            return plan, newest
        made = cut_in(plan)
        if made is None:
            hold = functools.partial(course.plan, records, now, bounds, pressure="hold")
            return (yield from _prune(plan, hold)), newest
        reason = _reason(course, is_recovery=is_recovery, plan=plan, now=now, records=records)
        work = _Work(course, records, now, bounds, reason)
        plan_kept = yield from work.carry_out(plan, made, round_)
        if plan_kept is not None:
            return plan_kept, newest
        # Cut, by us or by somebody else: read again, with whatever was said meanwhile.
    return plan, newest


def compact(
    course: Course, focus: str = "", *, is_preview: bool = False
) -> Flow[CompactionFinished]:
    """Cut now, because somebody asked; says what became of it."""
    records: Sequence[Record] = yield Read(course.window.tokens)
    now: float = yield Now()
    plan = course.plan(records, now, pressure="hold")
    made = cut_in(plan)
    refusal = ""
    if sum(len(unit.parts) for unit in plan.units) <= _MESSAGES_MIN:
        refusal = f"too few messages to compact (need > {_MESSAGES_MIN})"
    elif made is None:
        before = plan.tokens.messages
        plan = course.plan(records, now, pressure="cut")
        made = cut_in(plan)
        if made is None or plan.tokens.messages > (1 - _YIELD_MIN) * before:
            refusal = "nothing would be gained: what may be cut is no larger than what it leaves"
    if refusal or made is None:
        skipped = CompactionFinished("skipped", "asked", refusal)
        yield Emit(skipped)
        return skipped
    if is_preview:
        return _finished("preview", "asked", made, detail="nothing was changed")
    work = _Work(course, records, now, Bounds(), "asked", focus=focus)
    yield from work.carry_out(plan, made, 0)
    assert work.finished is not None
    return work.finished


class _Work:
    """One compaction."""

    def __init__(
        self,
        course: Course,
        records: Sequence[Record],
        now: float,
        bounds: Bounds,
        reason: Reason,
        focus: str = "",
    ) -> None:
        self._course = course
        self._records = records
        self._now = now
        self._bounds = bounds
        self._reason: Reason = reason
        self._focus = focus
        self._pending: tuple[str, ...] = ()
        self._calls = 0
        self._usages: list[Json] = []
        self._costs: list[float | None] = []
        self._why_extract = ""
        self.finished: CompactionFinished | None = None

    def carry_out(self, plan: Plan, made: Compaction, round_: int) -> Flow[Plan | None]:
        """Note, summarise, commit. None once there is a new boundary; a plan where there is none
        and the request fits as it is."""
        covered = covered_by(made, self._records)
        started = CompactionStarted(
            self._reason,
            made.reason or "",
            made.tokens_before or 0,
            made.covers,
            sum(one.kind in MESSAGES for one in covered),
        )
        denied = yield Emit(started)
        if isinstance(denied, Deny):
            held = yield from self._hold(denied.reason)
            if held is not None or self._reason == "asked":
                return held
        if round_ == 0:
            manner = "manual" if self._reason == "asked" else "auto"
            marked = yield from mark(self._course, f"pre_compact_{manner}")
            plan = self._with_tasks(plan, marked)
        yield from self._flush(covered, made)
        plan = yield from self._with_prose(plan, covered)
        yield from self._commit(plan, round_)
        return None

    def _with_tasks(self, plan: Plan, marked: SavedCheckpoint | None) -> Plan:
        """The plan with what is still to be done in what is left behind."""
        if marked is None or not marked.pending:
            return plan
        self._pending = marked.pending
        again = self._plan(pressure=_PRESSURES.get(self._reason, "usual"))
        return plan if cut_in(again) is None else again

    def _hold(self, why: str) -> Flow[Plan | None]:
        """The request without a cut, where it fits."""
        held = None
        if self._reason != "asked":
            plan = self._plan(pressure="hold")
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
        course = self._course
        decisions: list[Record] = [
            self._signed(made) if one is made else one for one in plan.decisions
        ]
        decisions += course.standing()
        newest = self._records[-1].id if self._records else ""
        is_last = round_ >= _ROUNDS_MAX - 1
        stored = yield Append(decisions, unless_cut=not is_last, since=newest)
        if stored is None:
            detail = "another compaction came first"
            self.finished = CompactionFinished("skipped", self._reason, detail)
        else:
            course.is_pressed = False
            self.finished = self._applied(stored[0])
        yield Emit(self.finished)

    def _signed(self, made: Compaction) -> Compaction:
        """The record, with who wrote it and what that cost."""
        is_model = made.method == "model"
        target, _window = self._summariser()
        return msgspec.structs.replace(
            made,
            model=(target.model or None) if is_model else None,
            usage=added_up(self._usages),
            cost=self._cost(),
            reason="; ".join(filter(None, (made.reason, self._why_extract))),
        )

    def _applied(self, stored: Compaction) -> CompactionFinished:
        return _finished(
            "applied",
            self._reason,
            stored,
            detail=self._why_extract,
            calls=self._calls,
            cost=self._cost(),
        )

    def _cost(self) -> float | None:
        known = [cost for cost in self._costs if cost is not None]
        return sum(known) if known else None

    def _plan(self, **options: Any) -> Plan:
        options["pending"] = self._pending
        return self._course.plan(self._records, self._now, self._bounds, **options)

    # Notes

    def _flush(self, covered: Sequence[Record], made: Compaction) -> Flow[None]:
        """Save what is worth noting before it goes out of sight. It never stands in the way."""
        how = self._course.terms.notes
        if how == "off":
            return
        denied = yield Emit(FlushStarted(made.covers))
        if isinstance(denied, Deny):
            yield Emit(FlushFinished("skipped", detail=f"denied: {denied.reason}"))
            return
        before = notes.flushed(self._records)
        found = [note.text for note in notes.durable(covered, known=before)]
        detail, usage = "", None
        if how == "model":
            asked, detail, usage = yield from self._ask_for_notes(covered, [*before, *found])
            found += asked
        if not found:
            yield Emit(FlushFinished("failed" if detail else "nothing", detail=detail))
            return
        flush = Flush(notes=list(found), trigger="compaction", usage=usage)
        stored = yield Append((flush,))
        yield Emit(FlushFinished("saved", tuple(found), stored[0].id, detail))

    def _ask_for_notes(
        self, covered: Sequence[Record], known: Sequence[str]
    ) -> Flow[tuple[list[str], str, Json | None]]:
        room = self._room(self._course.terms.summary_tokens, "")
        counter = self._course.memory.scale.counter
        parts = summary_request.parts(covered, room_tokens=room, calls_max=1, counter=counter)
        if not parts:
            return [], "", None
        question = notes.ask_for_notes(parts[-1], known=known)
        outcome = yield from self._call(_alone(notes.SYSTEM, question, _NOTES_TOKENS), "notes")
        if isinstance(outcome, FailedCall):
            return [], f"the model could not be asked: {outcome.failure.kind}", None
        return notes.read_notes(outcome, known=known), "", outcome.usage

    # Summaries

    def _with_prose(self, plan: Plan, covered: Sequence[Record]) -> Flow[Plan]:
        """The plan with a model's words in what is left behind, where they are to be had."""
        course = self._course
        if course.terms.summary != "model" or self._reason == "overflow" or not covered:
            return plan
        if course.poor_summaries >= _POOR_MAX and self._reason != "asked":
            course.poor_summaries = (course.poor_summaries + 1) % _POOR_FORGIVEN
            self._why_extract = "made by code: the last summaries were not usable"
            return plan
        text, why = yield from self._summarise(plan, covered)
        if text:
            better = self._plan(prose=text, pressure="cut" if self._reason == "asked" else "usual")
            written = cut_in(better)
            if written is not None and written.method == "model":
                course.poor_summaries = 0
                return better
            why = "it would not fit"
        course.poor_summaries += 1
        self._why_extract = f"made by code: {why}"
        return plan

    def _summarise(self, plan: Plan, covered: Sequence[Record]) -> Flow[tuple[str, str]]:
        """A model's summary, or nothing and why."""
        terms = self._course.terms
        counter = self._course.memory.scale.counter
        _target, window = self._summariser()
        # No more than the carry has room for, where it would be cut again.
        cap = min(
            terms.summary_tokens,
            prose_cap(terms.policy.carry_cap(plan.budget.tokens)),
            window.tokens // 8,
        )
        previous = summary_request.prose_of(self._records)
        previous = summary_request.sections_within(previous, cap, counter)
        recent = covered[-_JUDGED_RECORDS:]
        room = self._room(cap, previous)
        pieces = summary_request.parts(
            covered, room_tokens=room, calls_max=terms.summary_calls, counter=counter
        )
        if not pieces:
            return "", f"a window of {window.tokens:,} tokens leaves no room to summarise in"
        riding = self._riding(cap, sum(map(counter.count, pieces)))
        if riding is not None:
            outcome = yield from self._call(riding, "summary")
            if isinstance(outcome, FailedCall):
                return "", f"the summary call failed: {outcome.failure.kind}"
            verdict = summary_request.judge(
                outcome, covered=recent, previous=previous, cap_tokens=cap, counter=counter
            )
            return verdict.text or "", verdict.reason
        text = previous
        for number, piece in enumerate(pieces, 1):
            asked = summary_request.ask(
                piece,
                previous=text,
                focus=self._focus,
                cap_tokens=cap,
                part=number,
                parts=len(pieces),
            )
            outcome = yield from self._call(
                _alone(summary_request.SYSTEM, asked, 2 * cap), "summary"
            )
            if isinstance(outcome, FailedCall):
                return "", f"the summary call failed: {outcome.failure.kind}"
            verdict = summary_request.judge(
                outcome,
                covered=recent,
                previous=text,
                cap_tokens=cap,
                counter=counter,
                shown=piece,
            )
            if verdict.fault == "unchanged" and number > 1:
                continue  # this piece added nothing to what was made of those before it
            if not verdict.text:
                return "", verdict.reason
            text = verdict.text
        return text, ""

    def _riding(self, cap: int, alone: int) -> Prompt | None:
        """The live conversation with the question at its end: what is cached is not paid again.

        Only where all of it fits with the answer, and where that is cheaper than asking anew.
        """
        course = self._course
        cache = course.cache(self._records, self._now)
        if course.terms.summary_target is not None or cache.is_cold:
            return None
        try:
            plan = self._plan(pressure="hold", output=2 * cap)
        except CannotFit:
            return None
        question = summary_request.ask_riding(focus=self._focus, cap_tokens=cap)
        tokens = plan.tokens.total + course.memory.scale.counter.count(question)
        if plan.decisions or tokens + 2 * cap > _SUMMARY_ROOM * course.window.tokens:
            return None
        if cache.read * tokens > alone:
            return None
        messages = list(plan.prompt.messages)
        last = messages[-1]
        messages[-1] = msgspec.structs.replace(last, blocks=(*last.blocks, Text(question)))
        return msgspec.structs.replace(plan.prompt, messages=tuple(messages))

    def _summariser(self) -> tuple[Target, Window]:
        terms = self._course.terms
        if terms.summary_target is not None:
            return terms.summary_target, terms.summary_window or self._course.window
        return terms.target, self._course.window

    def _room(self, cap: int, previous: str) -> int:
        """What a summariser's request may hold of the conversation."""
        target, window = self._summariser()
        scale = self._course.memory.scale
        fixed = summary_request.overhead(
            previous=previous, focus=self._focus, cap_tokens=cap, counter=scale.counter
        )
        # Its provider counts otherwise than we do; it gets the size that is certain to fit.
        factor = max(1.0, scale.base(target.model).factor)
        return max(0, int((_SUMMARY_ROOM * window.tokens - 2 * cap) / factor) - fixed)

    def _call(self, prompt: Prompt, purpose: Any) -> Flow[Reply | FailedCall]:
        course, (target, window) = self._course, self._summariser()
        scale = course.memory.scale
        tokens = count_prompt(prompt, scale.counter, scale.images)
        room = int(_SUMMARY_ROOM * window.tokens)
        denied = yield Emit(CallStarted(purpose, tokens, room, window.tokens))
        if isinstance(denied, Deny):
            return FailedCall(classify(Symptoms(type="denied", message=denied.reason)))
        before: float = yield Now()
        self._calls += 1
        try:
            outcome: Reply | FailedCall = yield CallModel(
                prompt, target, purpose, course.terms.summary_seconds
            )
        except Cancelled as cancelled:
            cancelled.partial = None  # half a summary is nobody's reply
            raise
        if isinstance(outcome, FailedCall):
            yield Emit(
                CallFailed(purpose, outcome.failure, "give-up", "the part made by code is used")
            )
            return outcome
        after: float = yield Now()
        usage = read_usage(outcome.usage, outcome.provider or target.provider)
        cost = cost_of(usage, course.terms.price_for(target.model))
        self._costs.append(cost)
        if outcome.usage:
            self._usages.append(outcome.usage)
        yield Emit(CallFinished(purpose, tokens, usage, cost, outcome.stop, after - before))
        return outcome


def mark(course: Course, trigger: str) -> Flow[SavedCheckpoint | None]:
    """Store what the session is doing, before it goes out of sight. It never stands in the way."""
    if course.terms.checkpoints == "off":
        return None
    marked: SavedCheckpoint | None = yield SaveCheckpoint(trigger)
    if marked is not None:
        yield Emit(CheckpointSaved(marked.record, trigger))
    return marked


def covered_by(made: Compaction, records: Sequence[Record]) -> list[Record]:
    """The records that a compaction cuts."""
    if made.covers is None:
        return []
    first, last = made.covers
    places = {record.id: place for place, record in enumerate(records)}
    if first not in places or last not in places:
        return []
    return list(records[places[first] : places[last] + 1])


def _alone(system: str, text: str, output: int) -> Prompt:
    """A question that stands for itself."""
    message = Message("user", (Text(text),))
    return Prompt(messages=(message,), system=system, output_tokens=output)


def _prune(plan: Plan, held: Callable[[], Plan] | None = None) -> Flow[Plan]:
    """Put down what is shown shorter; where that is denied, the request as it was, if it fits."""
    made = next(one for one in plan.decisions if isinstance(one, Prune))
    actions = [one.action for one in made.decisions]
    about: dict[str, Any] = {
        "trimmed": actions.count("trim"),
        "cleared": actions.count("clear"),
        "tokens_before": plan.tokens_before,
        "tokens_after": plan.tokens.messages,
        "reason": made.reason or "",
    }
    denied = yield Emit(PruneStarted(**about))
    if isinstance(denied, Deny) and held is not None:
        other = held()
        if cut_in(other) is None:
            if other.decisions:
                yield from _prune(other)
            return other
    stored = yield Append(plan.decisions)
    record = next(one.id for one in stored if isinstance(one, Prune))
    yield Emit(Pruned(record=record, **about))
    return plan


def _reason(
    course: Course, *, is_recovery: bool, plan: Plan, now: float, records: Sequence[Record]
) -> Reason:
    if is_recovery:
        return "overflow"
    working = course.terms.policy.working_budget(plan.budget.tokens)
    is_full = plan.tokens_before > course.terms.policy.compact * working
    return "cold" if not is_full and course.cache(records, now).is_cold else "full"


def _finished(outcome: Any, reason: Reason, made: Compaction, **more: Any) -> CompactionFinished:
    return CompactionFinished(
        outcome,
        reason,
        method=made.method,
        record=made.id,
        covers=made.covers,
        tokens_before=made.tokens_before or 0,
        tokens_after=made.tokens_after or 0,
        summary=made.summary,
        **more,
    )
