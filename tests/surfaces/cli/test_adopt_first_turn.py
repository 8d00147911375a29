"""The first turn of an import: what it will cut is said before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.log.records import Assistant, ToolResult, User
from holdfast.surfaces.cli.adopt import first_turn_notice

if TYPE_CHECKING:
    from holdfast.core.log.records import Record

MODEL = "claude-sonnet-4-5"


def talk(steps: int, words: int) -> list[Record]:
    records: list[Record] = [User(content="Read the logs.", ts=1.0)]
    for step in range(steps):
        call = {"type": "tool_use", "id": f"t{step}", "name": "read", "input": {"n": step}}
        records.append(Assistant(content=[call], model=MODEL, ts=2.0 + step))
        text = " ".join(f"word{number}" for number in range(words))
        records.append(ToolResult(tool_use_id=f"t{step}", content=f"{step} {text}", ts=2.0 + step))
    return [*records, Assistant(content="Done.", model=MODEL, ts=3.0 + steps)]


def test_the_first_turn_is_told_with_its_reason() -> None:
    """A small session is left alone; a cold cache and a full window have reasons of their own."""
    assert first_turn_notice(talk(3, 20), now=1e9) == ""
    full = talk(60, 2_000)
    cold = first_turn_notice(full, now=1e9)
    assert "will cut the view" in cold or "will shorten" in cold
    assert "the limit is 85%" in cold or "the cache went cold" in cold
    assert MODEL in cold
    smaller = talk(56, 600)
    assert "the cache went cold" in first_turn_notice(smaller, now=1e9)
    assert first_turn_notice(smaller, now=100.0) == ""


def test_records_without_a_model_are_counted_by_what_is_known() -> None:
    """No model, no time, no answer: nothing is guessed, and nothing fails."""
    words = " ".join(f"word{number}" for number in range(50_000))
    assert "an unknown model" in first_turn_notice([User(content=words)], now=1.0)
    assert first_turn_notice([], now=1.0) == ""
