"""Replays of sessions as they run: what a session would send, and what it did send.

`Holdfast` of `policies` has the whole transcript at hand at every call. A session has the records
from its newest boundary on, and adds the open tasks, the running summary and, where there is one,
a model's summary to a cut; so does `SessionReplay`. `RecordedCuts` makes no decision: it shows the
cuts that the log has, of Holdfast or of the agent that the transcript is from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from holdfast.core.checkpoint.capture import capture_state
from holdfast.core.log.records import Compaction, Prune, Record
from holdfast.core.projection.policy import POLICIES, Policy
from holdfast.core.projection.project import project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.sizes import Scale
from holdfast.core.projection.units import messages_of
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.turn.compact import records_covered_by
from holdfast.core.turn.run import cut_in
from holdfast.core.window import ANY_WINDOW
from holdfast.engine.simulation.policies import (
    ClearResults,
    Compact,
    DoNothing,
    KeepTurns,
    PolicyRequest,
    TrimTokens,
    filler,
    injected_text,
    report_usage,
    request_of_plan,
    size_sent,
)
from holdfast.errors import CannotFit

if TYPE_CHECKING:
    from holdfast.core.checkpoint.state import State
    from holdfast.core.projection.project import Plan
    from holdfast.engine.simulation.policies import Course, Plays, Terms
    from holdfast.engine.simulation.transcripts import ReplayCall, Transcript

Summarise: TypeAlias = Callable[[Sequence[Record], str], str]
"""Returns a summary of the records that a cut takes, given the text of the cut before; an empty
text for none."""

REPLAYED: Final = "decision-"
"""Begins the ids of decisions that a replay made, and that no log has."""


class SessionReplay(msgspec.Struct, frozen=True):
    """A Holdfast session with a policy, and with summaries where a function makes them."""

    policy: Policy = Policy()
    """The thresholds of the projection."""
    summarise: Summarise | None = None
    """Makes the summaries; without it, cuts have the carry-over alone."""
    name: str = "holdfast"
    """The name of the policy in a report."""

    def start(self, transcript: Transcript, terms: Terms) -> Course:
        return _SessionCourse(transcript, terms, self)


class RecordedCuts(msgspec.Struct, frozen=True):
    """The requests as the log's own compactions and prunes made them."""

    name: str = "recorded"
    """The name of the policy in a report."""

    def start(self, transcript: Transcript, terms: Terms) -> Course:
        del terms
        return _RecordedCourse(transcript)


class _SessionCourse:
    def __init__(self, transcript: Transcript, terms: Terms, replay: SessionReplay) -> None:
        self._transcript = transcript
        self._terms = terms
        self._replay = replay
        self._cache = ProjectionCache(Scale(transcript.counter))
        self._system = filler(transcript, terms.static)
        self._rules = terms.rules
        self._log: list[Record] = []
        self._since: list[Record] = []
        """Records since the last cut, which the side files have not read."""
        self._read = 0
        self._sent = 0
        """The size of the last request; the reply to it reports that."""
        self._decided = 0
        self._state: State | None = None

    def request(self, call: ReplayCall, *, idle: float | None) -> PolicyRequest:
        fresh = self._transcript.records[self._read : call.records]
        fresh, self._sent = report_usage(fresh, self._sent), 0
        self._log += fresh
        self._since += fresh
        self._read = call.records
        try:
            self._rules = call.rules or self._terms.rules
            plan = self._plan(idle)
            made = cut_in(plan)
            if made is not None:
                plan = self._with_side_files(plan, made, idle)
        except CannotFit:
            return PolicyRequest([], is_refused=True)
        decisions = [self._sign(decision, call.at) for decision in plan.decisions]
        self._log += decisions
        self._forget_cut_records(decisions)
        request = request_of_plan(plan, self._transcript, decisions)
        self._sent = size_sent(request, self._terms)
        return request

    def _plan(self, idle: float | None, prose: str = "", pending: Sequence[str] = ()) -> Plan:
        terms = self._terms
        request = ProjectionRequest(
            self._log,
            terms.window,
            self._transcript.target,
            system=self._system,
            output_tokens=terms.output,
            policy=self._replay.policy,
            prompt_cache=self._rules.state(idle),
            floor=0,
            prose=prose,
            pending=pending,
        )
        return project(request, self._cache)

    def _with_side_files(self, plan: Plan, made: Compaction, idle: float | None) -> Plan:
        """Plan the cut again with the open tasks and a summary, as a session does."""
        self._state = capture_state(
            self._since, session="replay", trigger="replay", now=0.0, previous=self._state
        )
        prose = ""
        if self._replay.summarise is not None:
            covered = records_covered_by(made, self._log)
            before = next((rec for rec in reversed(self._log) if isinstance(rec, Compaction)), None)
            prose = self._replay.summarise(covered, before.summary if before else "")
        if not prose and not self._state.pending_tasks:
            return plan
        again = self._plan(idle, prose, self._state.pending_tasks)
        return plan if cut_in(again) is None else again

    def _sign(self, decision: Record, now: float) -> Record:
        self._decided += 1
        return msgspec.structs.replace(decision, id=f"{REPLAYED}{self._decided}", ts=now)

    def _forget_cut_records(self, decisions: Sequence[Record]) -> None:
        """Keep what a session reads after a cut: the records from its boundary on."""
        made = next((rec for rec in decisions if isinstance(rec, Compaction)), None)
        if made is None:
            return
        self._since = self._since[-1:]
        log = self._log
        kept = (at for at in range(len(log) - 1, -1, -1) if log[at].id == made.first_kept)
        start = len(log) - len(decisions)
        self._log = log[next(kept, start) if made.first_kept is not None else start :]


class _RecordedCourse:
    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._cache = ProjectionCache(Scale(transcript.counter))
        self._log: list[Record] = []

    def request(self, call: ReplayCall, *, idle: float | None) -> PolicyRequest:
        del idle
        transcript = self._transcript
        fresh = transcript.source[len(self._log) : transcript.places[call.records]]
        self._log += fresh
        view = self._cache.read(self._log, ANY_WINDOW, transcript.target)
        units = [*view.opening, *(self._cache.shown(unit, view.forms) for unit in view.units)]
        messages = messages_of(units)
        decisions = [rec for rec in fresh if isinstance(rec, Compaction | Prune)]
        cuts = sum(isinstance(item, Compaction) for item in decisions)
        return PolicyRequest(
            [transcript.piece(block) for message in messages for block in message.blocks],
            injected=injected_text(messages),
            cuts=cuts,
            prunes=len(decisions) - cuts,
            decisions=decisions,
        )


NAMED_POLICIES: Final[dict[str, Callable[[], Plays]]] = {
    "holdfast": SessionReplay,
    **{name: partial(SessionReplay, policy, name=name) for name, policy in POLICIES.items()},
    "recorded": RecordedCuts,
    "nothing": DoNothing,
    "last": KeepTurns,
    "trim": TrimTokens,
    "clear": ClearResults,
    "compact": Compact,
}
"""The policies that a session can be replayed under by name."""
