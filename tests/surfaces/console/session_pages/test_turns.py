"""The page of turns: each message with what was done for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.log.records import Assistant, Compaction, ToolResult, User
from holdfast.core.log.replay import META
from holdfast.surfaces.console.session_pages.turns import _collect, _fit

if TYPE_CHECKING:
    from holdfast.core.log.records import Json, Record


def asks(ts: float, *names: str, text: str = "") -> Assistant:
    content: list[Json] = [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": name, "name": name, "input": {"q": 1}} for name in names]
    usage = {"input_tokens": 1_000, "output_tokens": 10}
    return Assistant(
        id=f"a{ts}",
        ts=ts,
        content=content,
        usage=usage,
        model="claude-sonnet-5-5",
        provider="anthropic",
    )


def test_a_turn_has_its_calls_tools_times_and_cuts() -> None:
    records: list[Record] = [
        User(id="u1", ts=10.0, content="first"),
        User(id="u2", ts=11.0, content="and more of it"),
        asks(14.0, "look", "fail"),
        ToolResult(id="r1", ts=15.5, tool_use_id="look", content="x" * 1_234),
        ToolResult(id="r2", ts=16.0, tool_use_id="fail", content="no", is_error=True),
        Compaction(id="c1", ts=16.5, summary="so far", tokens_before=90, tokens_after=20),
        asks(20.0, text="done"),
        User(id="u3", ts=100.0, content="second"),
        asks(101.0, "lost", "denied"),
        ToolResult(id="r3", ts=102.0, tool_use_id="denied", content="", refused="never"),
    ]

    first, second = _collect(records, "")

    assert (first.record, first.words, first.end - first.ts) == ("u1", "first", 10.0)
    assert [step.seconds for step in first.steps] == [3.0, 4.0]
    assert first.steps[1].marks == ["compaction 90 → 20 tok"]
    assert "1,000 tok in, 10 out" in first.steps[0].about
    assert first.cost > 0
    look, fail = first.steps[0].tools
    assert (look.record, look.state, look.size, look.seconds) == ("r1", "done", "1,234 chars", 1.5)
    assert fail.state == "failed"
    assert [tool.state for tool in second.steps[0].tools] == ["no result", "refused"]


def test_a_log_that_begins_with_a_reply_has_a_turn_for_it() -> None:
    (turn,) = _collect([asks(5.0, text="hello")], "")

    assert turn.words == "(before the first message)"
    assert len(turn.steps) == 1


def test_words_of_a_program_begin_no_turn() -> None:
    """They stand in a user's place, and no one said them."""
    records: list[Record] = [
        User(id="u1", ts=10.0, content="first"),
        asks(14.0, text="done"),
        User(
            id="u2",
            ts=15.0,
            content="<system-reminder>be brief</system-reminder>",
            extra={META: True},
        ),
        asks(16.0, text="yes"),
    ]

    (turn,) = _collect(records, "")

    assert turn.words == "first"
    assert len(turn.steps) == 2


def test_a_page_has_room_for_its_turns() -> None:
    """The newest that fit, and of one that is too long, the end."""

    def turn(number: int, steps: int) -> list[Record]:
        said: list[Record] = [User(id=f"u{number}", ts=1_000.0 * number, content=f"{number}")]
        return [*said, *(asks(1_000.0 * number + step, "look") for step in range(1, steps + 1))]

    records = [record for number in range(9) for record in turn(number, 12)]
    assert [each.words for each in _fit(_collect(records, ""))] == ["5", "6", "7", "8"]
    (longest,) = _fit(_collect([*records, *turn(9, 80)], ""))
    assert (longest.words, len(longest.steps) - longest.hidden) == ("9", 50)
