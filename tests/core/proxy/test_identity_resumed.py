"""What tells that two histories are one conversation."""

from __future__ import annotations

import pytest

from holdfast.core.log.records import Assistant
from holdfast.core.proxy.identity import can_be_known, is_one_conversation

PROVIDERS_OWN = ("toolu_01A09q90qw90lq917835lq9", "call_Bq7Ld02mkQzp4GxT", "fc_68a1b2c3d4e5f6")
COUNTERS = ("call_12", "functions.read:0", "functions.read_file:17", "tool-call-3", "read_4", "1")


def reply(call_id: str, text: str = "", name: str = "read") -> Assistant:
    call = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return Assistant(content=[{"type": "text", "text": text}, call])


@pytest.mark.parametrize("given", PROVIDERS_OWN)
def test_one_id_that_a_provider_made_is_enough(given: str) -> None:
    """However the client spells it; a different one is of another conversation."""
    spelled = given.replace("_", "").replace("-", "").upper()
    assert is_one_conversation([reply(given)], [reply(spelled)])
    assert not is_one_conversation([reply(given)], [reply(given[:-1] + "z")])
    assert can_be_known([reply(given)])


@pytest.mark.parametrize("given", COUNTERS)
def test_a_counter_tells_nothing(given: str) -> None:
    """Every conversation has the first call, the second…"""
    name = "read_file" if "read_file" in given else "read"
    assert not is_one_conversation([reply(given, name=name)], [reply(given, name=name)])
    assert not can_be_known([reply(given, name=name)])


def test_without_ids_words_decide() -> None:
    """Three equal replies with 200 characters; repeats count once."""
    said = [Assistant(content=f"{number} {'word ' * 20}") for number in range(3)]
    assert is_one_conversation(said, said)
    assert not is_one_conversation(said, said[:2])
    assert not is_one_conversation(said, [said[0]] * 3)
    assert not is_one_conversation(said, [Assistant(content="ok")] * 9)
