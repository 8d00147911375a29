"""Saving notes as a flow: before a cut, and earlier once the view passes the policy's threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holdfast.core.flow.effects import Append, Deny, Emit
from holdfast.core.flow.events import FlushFinished, FlushStarted
from holdfast.core.log.records import Compaction, Flush
from holdfast.core.memory import notes
from holdfast.core.turn.run import without_refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.flow.events import FlushTrigger
    from holdfast.core.log.records import Record
    from holdfast.core.projection.project import Plan
    from holdfast.core.turn.run import RunState
    from holdfast.core.turn.summarise import Summariser


class NoteFlush:
    """Finds what is worth noting in the records of a view, and saves it once."""

    def __init__(self, run: RunState, records: Sequence[Record], summariser: Summariser) -> None:
        self._run = run
        self._records = records
        self._summariser = summariser

    def is_due(self, plan: Plan) -> bool:
        """Return whether the view passed the threshold, for the first time since the last cut."""
        policy = self._run.policy
        threshold = policy.flush_at(plan.budget.tokens)
        if self._run.options.notes == "off" or plan.tokens.messages < threshold:
            return False
        boundary, is_done = _last_cut(self._records)
        return not is_done and self._run.flush_tried != boundary

    def save_early(self) -> Flow[None]:
        """Save notes while everything is in view: what is worth noting should not depend on the
        moment of a cut."""
        run = self._run
        run.flush_tried, _is_done = _last_cut(self._records)
        if (yield from self._save(self._records, "threshold")):
            run.flushed_to = self._records[-1].id

    def save_before_cut(self, covered: Sequence[Record]) -> Flow[None]:
        """Save notes from what goes out of view, where they were not yet looked for."""
        ends = (
            place
            for place, record in enumerate(self._records)
            if _is_early(record) or record.id == self._run.flushed_to
        )
        read = {record.id for record in self._records[: max(ends, default=-1) + 1]}
        yield from self._save([rec for rec in covered if rec.id not in read], "compaction")

    def _save(self, covered: Sequence[Record], trigger: FlushTrigger) -> Flow[bool]:
        """Save what is worth noting; returns whether everything was read. A failure never stops
        the turn."""
        covered = without_refused(self._run, covered, self._records)
        if self._run.options.notes == "off" or not covered:
            return False
        denied = yield Emit(FlushStarted((covered[0].id, covered[-1].id), trigger))
        if isinstance(denied, Deny):
            why = f"denied: {denied.reason}"
            yield Emit(FlushFinished("skipped", detail=why, trigger=trigger))
            return False
        before = notes.saved_notes(self._records)
        found, detail, usage = yield from self._summariser.ask_for_notes(covered, before)
        if not found:
            outcome: Literal["failed", "nothing"] = "failed" if detail else "nothing"
            yield Emit(FlushFinished(outcome, detail=detail, trigger=trigger))
            return not detail
        flush = Flush(notes=list(found), trigger=trigger, usage=usage)
        stored = yield Append((flush,))
        yield Emit(FlushFinished("saved", tuple(found), stored[0].id, detail, trigger))
        return not detail


def _is_early(record: Record) -> bool:
    return isinstance(record, Flush) and record.trigger == "threshold"


def _last_cut(records: Sequence[Record]) -> tuple[str, bool]:
    """The newest boundary, and whether notes were saved at the threshold since then."""
    is_done = False
    for record in reversed(records):
        if isinstance(record, Compaction):
            return record.id, is_done
        is_done = is_done or _is_early(record)
    return "", is_done
