"""A summary written ahead, as a flow of its own: while a session waits for its tools or its user.

The draft is kept, and belongs to the cut that needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.flow.effects import Emit, Now, Read
from holdfast.core.flow.events import BackgroundSummary
from holdfast.core.log.records import MESSAGES, Assistant
from holdfast.core.turn.calls import open_calls
from holdfast.core.turn.compact import records_covered_by
from holdfast.core.turn.run import (
    POOR_SUMMARIES_MAX,
    RunState,
    SummaryDraft,
    cut_in,
    is_true_of,
    newest_cut,
)
from holdfast.core.turn.summarise import Summariser
from holdfast.errors import CannotFit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.records import Record
    from holdfast.core.projection.project import Plan
    from holdfast.core.projection.view import ProjectionCache


_CLOCK_SECONDS: Final = 1.0
"""Two clocks, of the log and of the timer, differ by less."""
_COLD_SHARE: Final = 0.8
"""Of the time for which a provider keeps a prompt cached. A wait that has lasted as long mostly
goes on until the cache is cold, and until then the summary is made from the cached prompt."""


def is_draft_due(run: RunState) -> bool:
    """True if the view is so full that the summary for its next cut should be written now."""
    policy = run.policy
    return _may_draft(run) and run.view_tokens >= policy.draft_at(run.budget_tokens or 0)


def cold_draft_delay(run: RunState) -> float | None:
    """Seconds after a reply at which the summary for a cut on a cold cache should be written; None
    where the view is too small for such a cut, or no cache can go cold."""
    lifetime = _cache_lifetime(run)
    if lifetime is None or not _may_draft(run):
        return None
    is_large = run.view_tokens > run.policy.cold_cut * (run.budget_tokens or 0)
    return _COLD_SHARE * lifetime if is_large else None


def _may_draft(run: RunState) -> bool:
    summary = run.options.summarising
    if not summary.ahead or summary.writer != "model" or run.budget_tokens is None:
        return False
    return not run.drafts.is_running and run.poor_summaries < POOR_SUMMARIES_MAX


def _cache_lifetime(run: RunState) -> float | None:
    """Seconds for which the provider keeps a prompt cached; None where it does not, or for ever."""
    return run.lifetime.seconds if run.lifetime is not None else None


def run_beside(run: RunState, make_cache: Callable[[], ProjectionCache]) -> RunState:
    """A run with the same settings, limits and drafts, whose plans leave nothing to the turns'."""
    other = RunState(run.settings, make_cache)
    other.drafts, other.lifetime = run.drafts, run.lifetime
    other.ceiling, other.output_cap = run.ceiling, run.output_cap
    other.learn_window(run.window.tokens, run.window.source)
    return other


def draft_summary(run: RunState) -> Flow[None]:
    """Write a draft where the next cut has none, in a run of its own (`run_beside`)."""
    records = whole_steps((yield Read(run.window)))
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
    yield from _write_draft(run, records, now, plan)


def draft_before_cold(run: RunState) -> Flow[None]:
    """Write a draft for the cut that comes if the user, or a tool, lets the prompt cache go cold.

    Where a turn has begun meanwhile, or a newer reply has made the cache last longer, nothing is
    written.
    """
    records = yield Read(run.window)
    now: float = yield Now()
    if not is_long_wait(run, records, now):
        return
    records = whole_steps(records)
    try:
        plan = run.plan(records, now + (_cache_lifetime(run) or 0.0))
    except CannotFit:
        return
    made = cut_in(plan)
    drafts = run.drafts
    if made is None or made.covers is None:
        return
    if drafts.draft is not None and is_true_of(drafts.draft, records, made.covers[1]):
        return
    if drafts.begin(newest_cut(records)):
        yield from _write_draft(run, records, now, plan)


def is_long_wait(run: RunState, records: Sequence[Record], now: float) -> bool:
    """True if a session waits for its user or its tools, and most of the lifetime of the cached
    prompt is over."""
    lifetime, idle = _cache_lifetime(run), run.prompt_cache(records, now).idle_seconds
    if lifetime is None or idle is None or idle < _COLD_SHARE * lifetime - _CLOCK_SECONDS:
        return False
    newest = next((rec for rec in reversed(records) if rec.kind in MESSAGES), None)
    return isinstance(newest, Assistant) or bool(open_calls(records))


def _write_draft(run: RunState, records: Sequence[Record], now: float, plan: Plan) -> Flow[None]:
    """Have the model summarise what a plan cuts."""
    drafts, made = run.drafts, cut_in(plan)
    covered = records_covered_by(made, records) if made is not None else []
    if not covered:
        return
    start = records.index(covered[0])
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
        drafts.draft = SummaryDraft(text, records[-1].id, newest_cut(records))
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
