"""What a policy protects stays in the request as long as no cut is forced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conversations import said
from tests.support.runs import examples

from holdfast.core.log.records import Assistant, Compaction, ToolResult, User
from holdfast.core.models.dialects import target
from holdfast.core.models.window import Window
from holdfast.core.projection.policy import Policy, PromptCache
from holdfast.core.projection.project import project
from holdfast.core.projection.request import ProjectionRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.projection.project import Plan

COLD = PromptCache(idle_seconds=9_999.0)
FILLER = "It went as expected and nothing is left to do here. "


def step(number: int, tool: str, size: int, mark: str = "") -> list[Record]:
    call = {"type": "tool_use", "id": f"c{number}", "name": tool, "input": {"n": number}}
    content = f"{mark} {FILLER * size}"
    return [Assistant(content=[call]), ToolResult(tool_use_id=f"c{number}", content=content)]


def plan_of(records: Sequence[Record], window: int, **policy: Any) -> Plan:
    return project(
        ProjectionRequest(
            records,
            Window(window),
            target("anthropic"),
            policy=Policy(**policy),
            prompt_cache=COLD,
            floor=1_000,
        )
    )


def is_cut(plan: Plan) -> bool:
    return any(isinstance(made, Compaction) for made in plan.decisions)


@examples(30)
@given(
    sizes=st.lists(st.integers(40, 200), min_size=6, max_size=24),
    before=st.booleans(),
    denied=st.integers(0, 23),
    share=st.floats(0.45, 0.85),
)
def test_a_cold_cut_leaves_what_is_protected(
    sizes: list[int], before: bool, denied: int, share: float
) -> None:
    """Text before the first user message, results of denied tools, and the newest steps."""
    records: list[Record] = []
    marks = ["newest-0", "newest-1", "newest-2"]
    if before:
        records += step(99, "read_file", 20, "before-the-first")
        marks.append("before-the-first")
    records.append(User(content="Begin."))
    for number, size in enumerate(sizes):
        left = len(sizes) - number
        mark = f"newest-{3 - left}" if left <= 3 else ""
        tool = "keep_this" if number == denied else "look"
        records += step(number, tool, size, f"{mark} denied-tool" if tool == "keep_this" else mark)
    if denied < len(sizes):
        marks.append("denied-tool")
    records.append(User(content="And now?"))
    whole = plan_of(said(records), 10_000_000).tokens.messages
    window = max(16_000, int(whole / share / 0.6))
    plan = plan_of(said(records), window, deny=("keep_*",))
    if plan.tokens_before > Policy().compact * plan.budget.tokens:
        return  # a forced cut
    sent = repr(plan.prompt.messages)
    assert [mark for mark in marks if mark not in sent] == []


@pytest.mark.parametrize("tool", ["look", "keep_this"])
def test_a_cold_cut_is_made_up_to_what_is_protected(tool: str) -> None:
    """The case above does cut, and a denied result stops it."""
    records: list[Record] = [User(content="Begin.")]
    for number in range(20):
        records += step(number, tool if number == 10 else "look", 60)
        records.append(Assistant(content=FILLER * 60))
    plan = plan_of(said(records), 80_000, deny=("keep_*",), trim_after=99, clear_after=99)
    assert is_cut(plan)
    assert len(plan.units_kept) < 30
    assert ("'c10'" in repr(plan.prompt.messages)) == (tool == "keep_this")


def test_a_forced_cut_says_that_it_took_what_is_protected() -> None:
    """Where nothing else fits, protected steps go, and the reason of the cut says so."""
    records: list[Record] = [User(content="Begin.")]
    for number in range(20):
        records += step(number, "keep_this", 80)
    plan = plan_of(said(records), 16_000, deny=("keep_*",))
    made = next(made for made in plan.decisions if isinstance(made, Compaction))
    assert "protected" in (made.reason or "")
