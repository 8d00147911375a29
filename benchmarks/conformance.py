"""Figures of the carry-over in `compaction-conformance-kit`, without a model.

    pip install -r benchmarks/requirements-conformance.txt
    .venv/bin/python benchmarks/conformance.py

The kit plants rules, facts and goals in a session, compacts it five times in a row within 10, 20
and 30 % of its characters, and looks for them. Nothing here knows what it plants.
Figures: docs/benchmarks/story.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compaction_kit.benchmark import budget_benchmark_to_markdown, run_budget_benchmark
from compaction_kit.compacted import CompactedContext

from holdfast import Assistant, ToolResult, User
from holdfast.context import carry_over
from holdfast.tokens import counter_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compaction_kit.session import Turn

    from holdfast import Record


class Narrative:
    """A carry-over as the kit wants a compactor: it gets the turns, later its own last text."""

    name = "holdfast"

    def compact(
        self, turns: Sequence[Turn], round_num: int = 1, budget_chars: int | None = None
    ) -> CompactedContext:
        before = turns[0].text if round_num > 1 else ""
        records = [] if before else [_record(turn, place) for place, turn in enumerate(turns)]
        chars = budget_chars or 2_400
        low, high, text = 0, chars, ""
        while low < high:
            cap = (low + high + 1) // 2
            made = carry_over(
                records, cap_tokens=cap, counter=counter_for("claude"), previous=before or None
            ).text
            if len(made) <= chars:
                low, text = cap, made
            else:
                high = cap - 1
        return CompactedContext(text, self.name, round_num)


def _record(turn: Turn, place: int) -> Record:
    match turn.role:
        case "assistant":
            return Assistant(id=f"{place}", content=turn.text)
        case "tool":
            return ToolResult(id=f"{place}", tool_use_id=f"call-{place}", content=turn.text)
        case _:
            return User(id=f"{place}", content=turn.text)


if __name__ == "__main__":
    print(budget_benchmark_to_markdown(run_budget_benchmark({Narrative.name: Narrative})))
