"""`BoundedInput`: what a model gets is within the window, valid, and otherwise untouched."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.support import peers

from holdfast.errors import CannotFit
from holdfast.integrations.openai_agents import BoundedInput

WINDOW = 25_000


def turn(number: int, result: str = "result " * 600) -> list[dict[str, Any]]:
    call = f"call_{number}"
    return [
        {"role": "user", "content": f"question {number} " + "words " * 100},
        {"type": "reasoning", "id": f"rs_{number}", "summary": []},
        {"type": "function_call", "call_id": call, "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": call, "output": result},
        {"id": f"m{number}", "type": "message", "role": "assistant", "content": f"done {number}"},
    ]


def history(turns: int) -> list[dict[str, Any]]:
    return [item for number in range(turns) for item in turn(number)]


def check_pairs(items: list[dict[str, Any]]) -> None:
    """Every call has its output behind it, every output its call, and reasoning its call."""
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    assert calls == outputs
    assert len(set(calls)) == len(calls)
    for place, item in enumerate(items):
        if item.get("type") == "reasoning":
            assert items[place + 1]["type"] == "function_call"


def test_long_history_fits_and_its_newest_items_are_untouched() -> None:
    items = [*history(300), {"role": "user", "content": "And now?"}]
    bounded = BoundedInput(window=WINDOW)
    sent = bounded.fit(items)
    assert bounded.plan is not None
    assert bounded.plan.tokens.total <= WINDOW
    assert len(json.dumps(items)) > 14 * 4 * WINDOW / 2
    check_pairs(sent)
    assert sent[0]["role"] == "user"
    assert sent[-3:] == items[-3:]
    assert "question 299" in json.dumps(sent)


def test_prefix_stays_the_same_until_the_next_cut() -> None:
    bounded = BoundedInput(window=WINDOW)
    items = [*history(100), {"role": "user", "content": "And now?"}]
    before = bounded.fit(items)
    same = 0
    for number in range(100, 110):
        items += [*turn(number)[1:], {"role": "user", "content": f"next {number}"}]
        sent = bounded.fit(items)
        check_pairs(sent)
        same += sent[: len(before)] == before
        before = sent
    assert same >= 7


def test_short_history_is_passed_on_as_it_is() -> None:
    items = [*history(3), {"role": "user", "content": "And now?"}]
    assert BoundedInput(window=200_000).fit(items) == items
    assert BoundedInput(window=200_000).fit([]) == []


@pytest.mark.parametrize("is_last", [False, True])
def test_huge_result_is_shortened_and_keeps_its_call(is_last: bool) -> None:
    items = turn(1, result="x y z " * 70_000)[:4]
    items += [] if is_last else [{"role": "user", "content": "And now?"}]
    bounded = BoundedInput(window=WINDOW)
    sent = bounded.fit(items)
    check_pairs(sent)
    assert len(json.dumps(sent)) < 4 * WINDOW
    assert "question 1" in json.dumps(sent)


def test_huge_message_is_shortened() -> None:
    sent = BoundedInput(window=WINDOW).fit([{"role": "user", "content": "word " * 80_000}])
    assert len(json.dumps(sent)) < 4 * WINDOW


def test_two_conversations_at_once_do_not_disturb_each_other() -> None:
    bounded = BoundedInput(window=WINDOW)
    first = [{"role": "user", "content": "one"}, *history(60), {"role": "user", "content": "?"}]
    second = [{"role": "user", "content": "two"}, *history(60), {"role": "user", "content": "?"}]
    sent = bounded.fit(first)
    bounded.fit(second)
    assert bounded.fit(first) == sent


def test_edited_history_is_cut_again() -> None:
    bounded = BoundedInput(window=WINDOW)
    items = [*history(60), {"role": "user", "content": "?"}]
    bounded.fit(items)
    edited = [items[0], *items[5:]]
    check_pairs(bounded.fit(edited))
    assert bounded.plan is not None
    assert bounded.plan.tokens.total <= WINDOW


def test_call_without_a_result_is_answered() -> None:
    items = [*history(60), *turn(60)[:3], {"role": "user", "content": "?"}]
    check_pairs(BoundedInput(window=WINDOW).fit(items))


def test_prompt_that_leaves_no_room_says_so() -> None:
    with pytest.raises(CannotFit):
        BoundedInput(window=WINDOW).fit(history(2), system="word " * 40_000)


def test_model_of_a_run_gets_the_bounded_input() -> None:
    peers.needs("openai-agents")
    from agents import Agent, RunConfig, Runner, SQLiteSession
    from agents.testing import ScriptedModel, assistant_message

    model = ScriptedModel([[assistant_message("ok")]])
    bounded = BoundedInput(window=WINDOW)

    async def main() -> None:
        session = SQLiteSession("s")
        await session.add_items(history(300))
        agent = Agent(name="helper", model=model, instructions="Be brief.")
        config = RunConfig(call_model_input_filter=bounded)
        await Runner.run(agent, "And now?", session=session, run_config=config)
        session.close()

    asyncio.run(main())
    (call,) = model.calls
    assert len(json.dumps(call.input)) < 4 * WINDOW
    assert call.input[-1]["content"] == "And now?"
    check_pairs(call.input)
    assert bounded.plan is not None
    assert bounded.plan.prompt.system == "Be brief."
