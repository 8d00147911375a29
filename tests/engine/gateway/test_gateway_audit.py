"""The counts of a process tell what providers reported about prompts."""

from __future__ import annotations

from holdfast.core.flow.events import EpochBegun, TroubleNoticed, TurnStarted
from holdfast.core.models.replies import ReasoningReport
from holdfast.engine.gateway.gateway import PromptAudit


def test_each_report_is_counted_by_its_reason() -> None:
    audit = PromptAudit()
    blocks = (
        ReasoningReport("messages.1.content.0", "prefix_binding_mismatch"),
        ReasoningReport("messages.3.content.0", "prefix_binding_mismatch"),
        ReasoningReport("messages.5.content.0", "prefix_binding_mismatch", is_dropped=False),
    )
    for event in (
        TurnStarted("a"),
        EpochBegun("b", "tools", "the tools were changed", 0),
        TroubleNoticed("reasoning-dropped", "in words", blocks),
        TroubleNoticed("cache-missed", "tools_changed"),
        TroubleNoticed("cache-missed", "tools_changed"),
    ):
        audit.take(event)
    assert audit.epochs == {"tools": 1}
    assert audit.reasoning == {
        ("dropped", "prefix_binding_mismatch"): 2,
        ("allowed", "prefix_binding_mismatch"): 1,
    }
    assert audit.cache_misses == {"tools_changed": 2}
