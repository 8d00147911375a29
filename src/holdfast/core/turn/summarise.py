"""The model calls of one compaction, as flows: for its summary and for its notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.compaction import summary_request
from holdfast.core.failures.classify import Symptoms, classify
from holdfast.core.flow.effects import CallModel, Cancelled, Deny, Emit, FailedCall, Now
from holdfast.core.flow.events import CallFailed, CallFinished, CallStarted
from holdfast.core.memory import notes
from holdfast.core.models.messages import Message, Prompt, Text
from holdfast.core.models.prices import cost_of
from holdfast.core.models.usage import add_up, read_usage
from holdfast.core.narrative.carryover import prose_cap
from holdfast.core.tokens.counting import count_prompt
from holdfast.core.turn.run import without_refused
from holdfast.errors import CannotFit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.flow.events import Purpose
    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.replies import Reply
    from holdfast.core.projection.project import Plan
    from holdfast.core.turn.run import RunState
    from holdfast.core.window import Window

_NOTES_TOKENS: Final = 1_000
"""The longest list of notes; more would not be noted but copied."""
_CHECKED_RECORDS: Final = 600
"""A summary is checked against the newest records that it replaces; to check it against a whole
long history would take longer than to write it."""
_WINDOW_SHARE: Final = 0.85
"""Of a summariser's window; the rest is for what its provider adds and we do not see."""
_SUMMARY_WINDOW_PART: Final = 8
"""A summary takes at most this part of its summariser's window."""


class Summariser:
    """Asks a model for the summary and the notes of one compaction, and adds up the cost."""

    def __init__(
        self,
        run: RunState,
        records: Sequence[Record],
        now: float,
        focus: str,
        hold: Callable[[int], Plan],
        purpose: Purpose = "summary",
    ) -> None:
        """`hold` projects the view as it is, with a reserve for a reply of some tokens."""
        self._purpose: Purpose = purpose
        self._run = run
        self._records = records
        self._now = now
        self._focus = focus
        self._hold = hold
        self._usages: list[Json] = []
        self._costs: list[float | None] = []
        self.calls = 0

    @property
    def target(self) -> Target:
        settings = self._run.settings
        return settings.summary_target or settings.target

    @property
    def window(self) -> Window:
        settings = self._run.settings
        if settings.summary_target is None:
            return self._run.window
        return settings.summary_window or self._run.window

    @property
    def usage(self) -> Json | None:
        return add_up(self._usages)

    @property
    def cost(self) -> float | None:
        """In dollars; None where no cost is known."""
        known = [cost for cost in self._costs if cost is not None]
        return sum(known) if known else None

    def ask_for_notes(
        self, covered: Sequence[Record], known: Sequence[str]
    ) -> Flow[tuple[list[str], str, Json | None]]:
        """Notes beyond those that are `known`, the reason if there are none, and the usage."""
        covered = without_refused(self._run, covered, self._records)
        room = self._room(_NOTES_TOKENS, "\n".join(known))
        counter = self._run.cache.scale.counter
        digests = self._run.cache.scale.digests(covered)
        parts = summary_request.parts(digests, room_tokens=room, calls_max=1, counter=counter)
        if not parts:
            return [], "", None
        question = notes.ask_for_notes(parts[-1], known=known)
        prompt = _single_question(notes.SYSTEM, question, _NOTES_TOKENS)
        outcome = yield from self._call(prompt, "notes")
        if isinstance(outcome, FailedCall):
            return [], f"the model could not be asked: {outcome.failure.kind}", None
        return notes.read_notes(outcome, known=known), "", outcome.raw_usage

    def summarise(self, plan: Plan, covered: Sequence[Record]) -> Flow[tuple[str, str]]:
        """A model's summary, or an empty string and the reason."""
        limits, window = self._run.options.limits, self.window
        covered = without_refused(self._run, covered, self._records)
        counter = self._run.cache.scale.counter
        # No longer than the carry-over has room for, or it would be cut again.
        cap = min(
            limits.summary_tokens,
            prose_cap(self._run.policy.carry_cap(plan.budget.tokens)),
            window.tokens // _SUMMARY_WINDOW_PART,
        )
        previous = summary_request.prose_of(self._records)
        previous = summary_request.sections_within(previous, cap, counter)
        recent = covered[-_CHECKED_RECORDS:]
        pieces = summary_request.parts(
            self._run.cache.scale.digests(covered),
            room_tokens=self._room(cap, previous),
            calls_max=limits.summary_calls,
            counter=counter,
            texts=self._run.cache.scale.texts,
        )
        if not pieces:
            return "", f"a window of {window.tokens:,} tokens leaves no room to summarise in"
        riding = self._riding_prompt(cap, sum(map(counter.count, pieces)))
        if riding is not None:
            outcome = yield from self._call(riding, self._purpose)
            if isinstance(outcome, FailedCall):
                return "", f"the summary call failed: {outcome.failure.kind}"
            verdict = summary_request.judge(
                outcome, covered=recent, previous=previous, cap_tokens=cap, counter=counter
            )
            return verdict.text or "", verdict.reason
        text = previous
        for number, piece in enumerate(pieces, 1):
            question = summary_request.ask(
                piece,
                previous=text,
                focus=self._focus,
                cap_tokens=cap,
                part=number,
                parts=len(pieces),
            )
            prompt = _single_question(summary_request.SYSTEM, question, 2 * cap)
            outcome = yield from self._call(prompt, self._purpose)
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
                continue  # this piece added nothing to the summary of those before it
            if not verdict.text:
                return "", verdict.reason
            text = verdict.text
        return text, ""

    def _riding_prompt(self, cap: int, alone: int) -> Prompt | None:
        """The live conversation with the question at its end, so that its cached prefix is reused.

        None unless all of it fits together with the answer, and costs less than `alone`, the
        tokens of asking separately.
        """
        run = self._run
        prompt_cache = run.prompt_cache(self._records, self._now)
        if run.settings.summary_target is not None or prompt_cache.is_cold:
            return None
        try:
            plan = self._hold(2 * cap)
        except CannotFit:
            return None
        question = summary_request.ask_riding(focus=self._focus, cap_tokens=cap)
        tokens = plan.tokens.total + run.cache.scale.counter.count(question)
        if plan.decisions or tokens + 2 * cap > _WINDOW_SHARE * run.window.tokens:
            return None
        if prompt_cache.read * tokens > alone:
            return None
        messages = list(plan.prompt.messages)
        last = messages[-1]
        messages[-1] = msgspec.structs.replace(last, blocks=(*last.blocks, Text(question)))
        return msgspec.structs.replace(plan.prompt, messages=tuple(messages))

    def _room(self, cap: int, previous: str) -> int:
        """The tokens of narrative that one request to the summariser may hold."""
        scale = self._run.cache.scale
        fixed = summary_request.overhead(
            previous=previous, focus=self._focus, cap_tokens=cap, counter=scale.counter
        )
        # Its provider counts differently; it gets the size that is certain to fit.
        factor = max(1.0, scale.base(self.target.model).factor)
        return max(0, int((_WINDOW_SHARE * self.window.tokens - 2 * cap) / factor) - fixed)

    def _call(self, prompt: Prompt, purpose: Purpose) -> Flow[Reply | FailedCall]:
        run, target, window = self._run, self.target, self.window
        scale = run.cache.scale
        tokens = count_prompt(prompt, scale.counter, scale.images)
        room = int(_WINDOW_SHARE * window.tokens)
        denied = yield Emit(CallStarted(purpose, tokens, room, window.tokens))
        if isinstance(denied, Deny):
            return FailedCall(classify(Symptoms(type="denied", message=denied.reason)))
        before: float = yield Now()
        self.calls += 1
        try:
            outcome: Reply | FailedCall = yield CallModel(
                prompt, target, purpose, run.options.limits.summary_seconds
            )
        except Cancelled as cancelled:
            cancelled.partial = None  # half a summary is not a reply to the user
            raise
        if isinstance(outcome, FailedCall):
            detail = (
                "the cut asks for a summary again"
                if purpose == "draft"
                else "the summary is made without a model"
            )
            yield Emit(CallFailed(purpose, outcome.failure, "give-up", detail))
            return outcome
        after: float = yield Now()
        usage = read_usage(outcome.raw_usage, outcome.provider or target.provider)
        cost = cost_of(usage, run.settings.price_for(target.model, target.provider))
        self._costs.append(cost)
        if outcome.raw_usage:
            self._usages.append(outcome.raw_usage)
        yield Emit(CallFinished(purpose, tokens, usage, cost, outcome.stop, after - before))
        return outcome


def _single_question(system: str, text: str, output: int) -> Prompt:
    """A prompt of one message, apart from the conversation."""
    message = Message("user", (Text(text),))
    return Prompt(messages=(message,), system=system, output_tokens=output)
