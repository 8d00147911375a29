"""A summary written ahead, as a flow of its own: while a session waits for its tools or its user,
a model summarises what the next cut will take.

The flow reads the log and calls a model. It appends nothing and holds no lease, so a turn neither
waits for it nor sees any of it before a cut takes the draft.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.flow.effects import Emit, Now, Read
from holdfast.core.flow.events import BackgroundSummary
from holdfast.core.log.records import Assistant
from holdfast.core.turn.drafts import SummaryDraft, is_true_of, newest_cut
from holdfast.core.turn.run import POOR_SUMMARIES_MAX, RunState, cut_in
from holdfast.core.turn.summarise import Summariser
from holdfast.core.turn.tool_results import open_calls
from holdfast.errors import CannotFit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.records import Record
    from holdfast.core.projection.view import ProjectionCache


def is_draft_due(run: RunState) -> bool:
    """True if the view is so full that the summary for its next cut should be written now."""
    options, budget = run.options, run.budget_tokens
    if not options.background_summary or options.summary != "model" or budget is None:
        return False
    if run.drafts.is_running or run.poor_summaries >= POOR_SUMMARIES_MAX:
        return False
    return run.view_tokens >= options.policy.draft_at(options.policy.working_budget(budget))


def run_beside(run: RunState, cache: ProjectionCache) -> RunState:
    """A run with the same settings, limits and drafts, whose plans leave nothing to the turns'."""
    other = RunState(run.settings, cache)
    other.drafts = run.drafts
    other.ceiling, other.output_cap = run.ceiling, run.output_cap
    other.learn_window(run.window.tokens, run.window.source)
    return other


def draft_summary(run: RunState) -> Flow[None]:
    """Write a draft where the next cut has none, in a run of its own (`run_beside`)."""
    records = whole_steps((yield Read(run.window.tokens)))
    drafts, boundary = run.drafts, newest_cut(records)
    if drafts.draft is not None and _is_current(drafts.draft, records, boundary):
        return
    if not drafts.begin(boundary):
        return
    now: float = yield Now()
    try:
        plan = run.plan(records, now, pressure="cut")
    except CannotFit:
        return
    made = cut_in(plan)
    if made is None or made.covers is None:
        return
    start = next(place for place, rec in enumerate(records) if rec.id == made.covers[0])
    summariser = Summariser(
        run,
        records,
        now,
        "",
        lambda output: run.plan(records, now, pressure="hold", output=output),
        "draft",
    )
    try:
        text, why = yield from summariser.summarise(plan, records[start:])
    finally:
        drafts.charge(summariser.calls, summariser.usage, summariser.cost)
    if text:
        drafts.draft = SummaryDraft(text, records[-1].id, boundary)
    yield Emit(
        BackgroundSummary(
            "ready" if text else "failed", why, summariser.calls, summariser.cost, records[-1].id
        )
    )


def _is_current(draft: SummaryDraft, records: Sequence[Record], boundary: str) -> bool:
    """True if the next cut can be expected to take a draft."""
    return draft.boundary == boundary and is_true_of(draft, records, draft.last)


def whole_steps(records: Sequence[Record]) -> Sequence[Record]:
    """The records without a step in flight, whose results are not known yet."""
    if not open_calls(records):
        return records
    places = range(len(records) - 1, -1, -1)
    newest = next(place for place in places if isinstance(records[place], Assistant))
    return records[:newest]
