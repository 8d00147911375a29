"""The metrics of a process show what providers reported about prompts."""

from __future__ import annotations

from holdfast.core.flow.events import EpochBegun, TroubleNoticed
from holdfast.core.models.replies import ReasoningReport
from holdfast.engine.gateway.gateway import PromptAudit
from holdfast.surfaces.http.metrics import audit_lines


def test_reports_are_counters_with_the_reason_as_a_label() -> None:
    """A provider's word cannot end its label."""
    audit = PromptAudit()
    audit.take(EpochBegun("r", "system", "the system prompt was changed", 2))
    audit.take(
        TroubleNoticed("reasoning-dropped", "in words", (ReasoningReport("p", 'pre"fix\n_x'),))
    )
    audit.take(TroubleNoticed("cache-missed", "tools_changed"))
    assert [one for one in audit_lines(audit) if not one.startswith("#")] == [
        'holdfast_epochs_total{cause="system"} 1',
        'holdfast_reasoning_blocks_total{state="dropped",reason="prefix_x"} 1',
        'holdfast_cache_misses_total{reason="tools_changed"} 1',
    ]
