"""A real session whose tools have names that nobody has heard of is told as well."""

from __future__ import annotations

from benchmarks import story
from tests.shared_data import need_data

from holdfast import Assistant
from holdfast.records import tool_calls

WINDOW = 64_000
STATEMENTS = 3.0
"""Percent of the statements of the real summary that a name may cost."""
PROBES = 1


def _share(hits: list[int]) -> float:
    return 100 * hits[0] / hits[1]


def _names(cut: story.Cut) -> set[str]:
    replies = [record for record in cut.past if isinstance(record, Assistant)]
    return {str(call["name"]) for reply in replies for call in tool_calls(reply.content)}


def test_renamed_tools_cost_neither_statements_nor_probes() -> None:
    cut = next(
        cut
        for cut in story.read_cuts(need_data())
        if cut.questions and story.half_of(cut.name) == "tuned"
    )
    cap = story.caps()[f"{cut.name} {WINDOW} 1"]
    changed = story.renamed(cut)
    assert not _names(cut) & _names(changed)
    plain, other = (
        story.measure(one, story.request_after(one, WINDOW, 1, cap=cap).text).hits
        for one in (cut, changed)
    )
    assert plain["probes"][0] - other["probes"][0] <= PROBES
    assert _share(plain["statements"]) - _share(other["statements"]) <= STATEMENTS
