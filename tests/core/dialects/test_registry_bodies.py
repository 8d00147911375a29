"""Laws of every dialect: what is rendered is valid, repeatable, and keeps its beginning."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.prompts import conversation, name_of, prompts, targets
from tests.strategies import ODD_VALUES, json_values

from holdfast.core.dialects.registry import DIALECTS, find_dialect, render_body, validate_body
from holdfast.core.models.dialects import CallIds, Target
from holdfast.core.models.messages import Message, Prompt, Text, ToolAnswer, ToolCall

EVERY = targets()
LISTS = {
    "anthropic": "messages",
    "openai-chat": "messages",
    "openai-responses": "input",
    "gemini": "contents",
}


@pytest.mark.parametrize("target", EVERY, ids=name_of)
def test_conversation_made_by_hand_is_valid_everywhere(target: Target) -> None:
    """Foreign ids, foreign thinking, pictures and errors: no provider has anything to refuse."""
    assert validate_body(render_body(conversation(), target), target) == []


@pytest.mark.parametrize("target", EVERY, ids=name_of)
def test_blank_text_is_left_out_wherever_it_stands(target: Target) -> None:
    """A prompt promises to have none; where one got through, no provider sees it."""
    blank = Text(" \n")
    prompt = Prompt(
        (
            Message("user", (blank, Text("go"))),
            Message("assistant", (blank, ToolCall("a", "read", {}))),
            Message("user", (ToolAnswer("a", (blank,)), blank)),
            Message("assistant", (blank,)),
            Message("user", (Text("go"), blank)),
        )
    )
    request = render_body(prompt, target)
    assert validate_body(request, target) == []
    assert blank.text not in _strings(request)


def _beginning(prompt: Prompt, data: st.DataObject) -> Prompt:
    """A prompt's first messages, up to one of the user's."""
    count = data.draw(st.integers(0, len(prompt.messages) // 2)) * 2 + 1
    return msgspec.structs.replace(prompt, messages=prompt.messages[:count])


@given(prompt=prompts())
def test_whatever_is_rendered_is_valid(prompt: Prompt) -> None:
    """Every prompt that keeps its promises becomes a request that breaks no rule, anywhere."""
    broken = {name_of(one): validate_body(render_body(prompt, one), one) for one in EVERY}
    assert {name: found for name, found in broken.items() if found} == {}


@given(prompt=prompts())
def test_rendering_twice_gives_the_same_bytes(prompt: Prompt) -> None:
    """And leaves the prompt as it was."""
    again = copy.deepcopy(prompt)
    for target in EVERY:
        first, second = render_body(prompt, target), render_body(copy.deepcopy(again), target)
        assert msgspec.json.encode(first) == msgspec.json.encode(second), name_of(target)
    assert prompt == again


@given(prompt=prompts(), data=st.data())
def test_added_messages_leave_the_beginning_alone(prompt: Prompt, data: st.DataObject) -> None:
    """The shorter conversation's messages begin the longer one's, byte by byte but for marks."""
    short = _beginning(prompt, data)
    for target in EVERY:
        name = LISTS[target.dialect.name]
        long_list, short_list = (
            [msgspec.json.encode(_unmarked(item)) for item in render_body(one, target)[name]]
            for one in (prompt, short)
        )
        assert long_list[: len(short_list)] == short_list, name_of(target)


@given(prompt=prompts(), data=st.data())
def test_added_messages_leave_the_head_alone(prompt: Prompt, data: st.DataObject) -> None:
    """Tools and system stand before the messages and do not change with them."""
    short = _beginning(prompt, data)
    for target in EVERY:
        body = render_body(prompt, target)
        assert _head(body, prompt, target) == _head(render_body(short, target), prompt, target)
        assert list(body)[-1] == LISTS[target.dialect.name]


def _head(body: dict[str, Any], prompt: Prompt, target: Target) -> dict[str, Any]:
    # Anthropic cannot begin to think amid a turn, so that setting follows the last turn.
    changing = {*LISTS.values(), "thinking"}
    if target.variant == "bedrock" and not prompt.tools:
        changing |= {"tools", "tool_choice"}  # the stand-in comes with the first call
    return {name: _unmarked(value) for name, value in body.items() if name not in changing}


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(one) for name, one in value.items() if name != "cache_control"}
    return [_unmarked(one) for one in value] if isinstance(value, list) else value


@given(prompt=prompts())
def test_every_call_can_be_traced_from_the_wire_to_the_log(prompt: Prompt) -> None:
    """The ids in a request lead back to the ids of the log, all of them, each to its own."""
    logged = [
        block.id
        for message in prompt.messages
        for block in message.blocks
        if isinstance(block, ToolCall)
    ]
    for target in EVERY:
        ids = CallIds.of_prompt(prompt, target.dialect)
        assert [ids.log(ids.wire(call_id)) for call_id in logged] == logged
        if target.variant != "vertex":  # which matches calls by name and order
            sent = set(_strings(render_body(prompt, target)))
            assert {ids.wire(call_id) for call_id in logged} <= sent, name_of(target)


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = list(value.values()) if isinstance(value, dict) else value
    return [one for item in inner for one in _strings(item)] if isinstance(inner, list) else []


@given(request=json_values(max_leaves=20))
def test_validator_never_raises_on_any_json(request: Any) -> None:
    """What is no request at all is a violation, not a crash."""
    assert all(validate_body(request, target) for target in EVERY)


DAMAGE = (*ODD_VALUES, "\ud800", {1: 2}, b"x", "tool_use", "tool", "function_call", "reasoning")


@given(prompt=prompts(max_turns=2), data=st.data())
def test_validator_never_raises_on_a_damaged_request(prompt: Prompt, data: st.DataObject) -> None:
    """Any value of a real request may be anything."""
    target = data.draw(st.sampled_from(EVERY))
    request = copy.deepcopy(render_body(prompt, target))
    for _ in range(data.draw(st.integers(1, 3))):
        spot: Any = request
        while isinstance(spot, dict | list) and spot:
            keys = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
            key = data.draw(st.sampled_from(keys))
            if data.draw(st.booleans()):
                spot[key] = data.draw(st.sampled_from(DAMAGE))
                break
            spot = spot[key]
    validate_body(request, target)


@pytest.mark.parametrize("target", EVERY, ids=name_of)
def test_validator_survives_what_json_cannot_hold(target: Target) -> None:
    """Cycles, depth and foreign objects are said to be no JSON."""
    cycle: dict[str, Any] = {}
    cycle["messages"] = cycle["input"] = cycle["contents"] = [cycle, "\ud800"]
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    for request in (cycle, {"messages": deep, "input": deep, "contents": deep}, {"x": object()}):
        assert "request-shape" in {one.rule for one in validate_body(request, target)}


RULES = {name: find_dialect(known.name).rules for name, known in DIALECTS.items()}
PAGE = (Path(__file__).parents[3] / "docs" / "dialects.md").read_text("utf-8")


def test_every_rule_is_documented_in_its_words() -> None:
    """The page has each dialect's rules in their order, with quote and source, and no others."""
    sections = PAGE.split("## Rules")[1].split("\n### ")[1:]
    for section, rules in zip(sections, RULES.values(), strict=True):
        rows = re.findall(r"^\| `([\w-]+)` \| (.*?) \| (.*?) \|$", section, re.MULTILINE)
        assert rows == [(rule.id, _blanked(rule.quote), rule.seen) for rule in rules]


def _blanked(quote: str) -> str:
    return re.sub(r"\{\w+\}", "…", quote).replace("{{", "{").replace("}}", "}")


def test_every_variant_is_documented_with_its_limits() -> None:
    """The table of limits has the numbers of the code."""
    lines = PAGE.split("## Limits")[1].split("## Rules")[0].splitlines()
    for one in {target.dialect for target in EVERY}:
        row = next(line for line in lines if line.startswith(f"| `{one.full_name}` |"))
        cells = [cell.strip() for cell in row.split("|")]
        limits = (one.body_bytes, one.image_bytes, one.string_chars, one.tools_max)
        assert (cells[2], cells[4], cells[6], cells[7]) == tuple(
            f"{limit:,}" if limit else "–" for limit in limits
        )
        assert cells[3] == f"{one.images_max:,}"
        assert cells[9] == f"`{one.call_id_pattern}` ≤ {one.call_id_chars}"


def test_every_dialect_has_rules() -> None:
    """The tables cover the same dialects."""
    assert set(DIALECTS) == set(LISTS)
    assert all(rule.seen for rules in RULES.values() for rule in rules)
