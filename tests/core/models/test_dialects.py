"""The facts about dialects: names, call ids both ways, and whose thinking goes back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.prompts import NAMES, call_ids

from holdfast.core.dialects.registry import DIALECTS, VARIANTS, find_variant, target
from holdfast.core.models.dialects import CallIds, DialectVariant, accepts_call_id, wire_name
from holdfast.core.models.messages import Thinking, ToolCall, read_blocks
from holdfast.errors import BadSetting

EVERY = [find_variant(name) for name in NAMES]


def _full_name(one: DialectVariant) -> str:
    return one.full_name


def test_every_dialect_is_found_by_its_full_name() -> None:
    """`name` and `name:variant` lead to the dialect that calls itself so."""
    for name in NAMES:
        assert find_variant(find_variant(name).full_name) is find_variant(name)
    assert find_variant("anthropic") is find_variant("anthropic", "anthropic")
    assert find_variant("openai-chat", "mistral") is find_variant("openai-chat:mistral")
    assert {one.name for one in EVERY} == set(DIALECTS) == set(VARIANTS)


@pytest.mark.parametrize(
    ("name", "variant", "said", "hint"),
    [
        ("antropic", "", "no dialect `antropic`", "did you mean `anthropic`?"),
        ("x", "", "no dialect `x`", "dialects: anthropic, openai-chat, openai-responses, gemini"),
        ("openai-chat", "mistrall", "no variant `mistrall`", "did you mean `mistral`?"),
        ("gemini:kimi", "", "the dialect `gemini` has no variant `kimi`", "variants: gemini"),
    ],
)
def test_unknown_name_says_what_there_is(name: str, variant: str, said: str, hint: str) -> None:
    """A wrong name gets the nearest right one, or all of them."""
    with pytest.raises(BadSetting, match=re.escape(said)) as caught:
        find_variant(name, variant)
    assert caught.value.hint is not None
    assert hint in caught.value.hint


@pytest.mark.parametrize("one", EVERY, ids=_full_name)
@given(ids=st.lists(call_ids(), max_size=12))
def test_call_ids_are_valid_unique_and_reversible(one: DialectVariant, ids: list[str]) -> None:
    """Every id gets one that the dialect accepts, no two the same, and each leads back."""
    mapped = CallIds.of(ids, one)
    wires = [mapped.wire(call_id) for call_id in dict.fromkeys(ids)]
    assert len(set(wires)) == len(wires)
    assert all(accepts_call_id(wire, one) for wire in wires)
    assert [mapped.log(wire) for wire in wires] == list(dict.fromkeys(ids))


@pytest.mark.parametrize("one", EVERY, ids=_full_name)
@given(ids=st.lists(call_ids(), max_size=12), count=st.integers(0, 12))
def test_later_ids_leave_earlier_ones_alone(
    one: DialectVariant, ids: list[str], count: int
) -> None:
    """A longer conversation maps its beginning as the shorter one did."""
    short, long = CallIds.of(ids[:count], one), CallIds.of(ids, one)
    assert {call_id: long.wire(call_id) for call_id in short.to_wire} == short.to_wire


@pytest.mark.parametrize("one", EVERY, ids=_full_name)
def test_made_id_that_is_taken_is_made_again(one: DialectVariant) -> None:
    """A real id that looks like a made one, before or after it, costs nobody their id."""
    made = CallIds.of(["no good\n"], one).wire("no good\n")
    first = CallIds.of([made, "no good\n"], one)
    assert first.wire(made) == made
    assert first.wire("no good\n") != made
    later = CallIds.of(["no good\n", made], one)
    assert later.wire("no good\n") == made
    assert later.wire(made) != made
    assert later.log(later.wire(made)) == made


def test_valid_ids_stay_as_they_are() -> None:
    """What a dialect accepts is sent unchanged; a new id from a reply is its own."""
    kept = {
        "anthropic": "toolu_01-A",
        "openai-chat": "call_" + "a" * 35,
        "openai-chat:mistral": "aB3dE6gH9",
        "openai-chat:kimi": "functions.read_file:12",
        "openai-responses": "call_" + "a" * 59,
        "gemini": "anything-goes|here",
    }
    for name, call_id in kept.items():
        assert CallIds.of([call_id], find_variant(name)).wire(call_id) == call_id
    assert CallIds.of([], find_variant("anthropic")).log("toolu_new") == "toolu_new"


def test_mistral_ids_are_nine_letters_or_digits() -> None:
    """Whatever the id was."""
    mapped = CallIds.of(
        [f"call_{number}" for number in range(2_000)], find_variant("openai-chat:mistral")
    )
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", wire) for wire in mapped.to_log)
    assert len(mapped.to_log) == 2_000


@given(name=st.text(max_size=300))
def test_tool_names_of_history_are_safe(name: str) -> None:
    """Any name a log may hold becomes one that the API takes; a good one is kept."""
    for one in EVERY:
        wire = wire_name(name, one)
        assert re.fullmatch("[a-zA-Z0-9_-]+", wire)
        assert len(wire) <= one.tool_name_chars
        if one.name == "gemini":
            assert re.match("[a-zA-Z_]", wire)
    assert wire_name("read_file", find_variant("gemini")) == "read_file"


WHOLE: dict[str, dict[str, Any]] = {
    "anthropic": {"text": "Hm.", "signature": "c2ln"},
    "openai-chat:kimi": {"text": "Hm."},
    "openai-chat:deepseek": {"text": "Hm."},
    "openai-responses": {"item": {"id": "rs_1", "encrypted_content": "gAAA"}},
    "gemini": {"text": "Hm."},
}


@pytest.mark.parametrize("name", WHOLE)
def test_thinking_goes_back_only_to_the_model_that_made_it(name: str) -> None:
    """Same provider and same model, both known; anything else stays at home."""
    thinking = Thinking(**WHOLE[name], provider="p", model="m")
    assert target(name, provider="p", model="m").takes_back(thinking)
    assert not target(name, provider="p", model="n").takes_back(thinking)
    assert not target(name, provider="q", model="m").takes_back(thinking)
    nobody = Thinking(**WHOLE[name])
    assert not target(name).takes_back(nobody)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("anthropic", {"text": "Hm."}),
        ("anthropic", {"signature": "c2ln"}),
        ("anthropic", {"text": "Hm.", "signature": "not base64!"}),
        ("anthropic", {"text": "H\ud800m.", "signature": "c2ln"}),
        ("openai-chat", {"text": "Hm."}),
        ("openai-chat:mistral", {"text": "Hm."}),
        ("openai-responses", {"item": {"id": "rs_1"}}),
        ("openai-responses", {"item": {"encrypted_content": "gAAA"}}),
        ("openai-responses", {"text": "Hm.", "signature": "c2ln"}),
        ("gemini", {"redacted": "secret"}),
    ],
)
def test_thinking_that_the_api_could_not_read_stays_at_home(
    name: str, fields: dict[str, Any]
) -> None:
    """Unsigned, emptied or without its content: the provider would refuse it."""
    thinking = Thinking(**fields, provider="p", model="m")
    assert not target(name, provider="p", model="m").takes_back(thinking)


def test_signature_of_a_call_goes_back_only_to_the_model_that_made_it() -> None:
    """As thinking does; a garbled one goes to nobody."""
    gemini = target("gemini", provider="google", model="gemini-3-pro")
    block = {"type": "tool_use", "id": "a", "name": "read", "thought_signature": "c2ln"}
    for provider, model, signature in (
        ("google", "gemini-3-pro", "c2ln"),
        ("google", "gemini-3-flash", ""),
        ("", "", ""),
    ):
        (call,) = read_blocks([block], provider=provider, model=model)
        assert isinstance(call, ToolCall)
        assert gemini.signature_of(call) == signature
    garbled = ToolCall("a", "read", {}, "[REDACTED]", "google", "gemini-3-pro")
    assert gemini.signature_of(garbled) == ""


def test_call_without_a_signature_does_not_say_who_made_it() -> None:
    """Two equal calls of two models are equal."""
    block = {"type": "tool_use", "id": "a", "name": "read"}
    assert read_blocks([block], provider="p", model="m") == read_blocks([block])
