"""A prompt is within the limit of its program, and the newest words are in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.text.cut import size
from holdfast.errors import BadSetting
from holdfast.providers.command_line.programs import CLAUDE, CODEX
from holdfast.providers.command_line.prompts import AgentRequest, first_prompt, shorten_newest

if TYPE_CHECKING:
    from holdfast.providers.command_line.programs import AgentProgram

TEXTS = st.text(st.sampled_from("ab é漢\n<"), max_size=60).map(lambda text: text * 40)


@given(TEXTS, TEXTS, TEXTS, st.integers(0, 6_000), st.sampled_from([CLAUDE, CODEX]))
@examples(150)
def test_a_prompt_is_within_the_limit(
    system: str, newest: str, history: str, most: int, program: AgentProgram
) -> None:
    """For every size of its parts: the newest words are whole where they fit."""
    small = replace(program, prompt_max=most)
    messages = [
        {"role": "user", "content": history},
        {"role": "assistant", "content": [{"type": "text", "text": "</conversation_history>" * 9}]},
        {"role": "user", "content": [{"type": "text", "text": newest}]},
    ]
    request = AgentRequest.read({"system": system, "messages": messages}, "claude")
    try:
        text = first_prompt(
            small,
            request,
            request.retell,
            chars=12_000,
            most=small.prompt_max,
            has_system=bool(system.strip()),
        )
    except BadSetting:
        assert size(system, small.prompt_unit) + 40 > most / 2
        return
    assert size(text, small.prompt_unit) <= most
    room = most - size(system, small.prompt_unit) - 40
    if size(newest, small.prompt_unit) <= room and "<" not in newest:
        assert newest in text
    assert size(shorten_newest(newest, most, small.prompt_unit), small.prompt_unit) <= most


def test_pictures_and_results_are_told_as_text() -> None:
    blocks = [
        {"type": "text", "text": "Look:"},
        {"type": "image", "source": {"type": "base64", "data": "aaaa"}},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "3"}]},
    ]
    read = AgentRequest.read({"messages": [{"role": "user", "content": blocks}]}, "codex")
    assert read.newest == "Look:\n\n[image: not passed on to a command line]\n\nTool result: 3"


def test_a_system_prompt_that_leaves_no_room_is_refused() -> None:
    small = replace(CODEX, prompt_max=100)
    request = AgentRequest("s" * 60, "Hello.", [])
    with pytest.raises(BadSetting, match="the system prompt has"):
        first_prompt(
            small, request, request.retell, chars=50, most=small.prompt_max, has_system=True
        )
