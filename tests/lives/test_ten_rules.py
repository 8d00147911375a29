"""Ten rules of providers about reasoning and caches, and the tests that hold them."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.lives.lives import Life, Resume, Say
from tests.lives.living import Living, Provider, client_for
from tests.lives.oracle import read_request

from holdfast import Session, model
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("anthropic")
pytest.importorskip("openai")
pytest.importorskip("google.genai")

ROOT = Path(__file__).parents[2]
HERE = "tests/lives/test_ten_rules.py"
PREFIX = "tests/core/dialects/test_prefix.py"
LIVES = "tests/lives/test_lives.py"
RULES: dict[str, tuple[str, ...]] = {
    "reasoning goes back only behind the values that produced it": (
        f"{PREFIX}::test_reasoning_behind_its_own_prefix_is_proven",
        f"{PREFIX}::test_a_change_ends_the_reasoning_behind_it",
    ),
    "that holds for every account": (
        f"{HERE}::test_what_is_sent_does_not_depend_on_the_account",
        "tests/testing/test_loopback_binding.py"
        "::test_a_changed_prefix_is_refused_by_the_newest_for_every_account",
    ),
    "reasoning is left out from one end, and no call is parted from its result": (
        f"{PREFIX}::test_reasoning_goes_back_as_one_chain",
        "tests/core/projection/test_steps.py::test_messages_of_any_log_are_sound",
    ),
    "what is new is a message at the end, and stays": (
        f"{LIVES}::test_requests_only_grow_and_reasoning_goes_back",
        "tests/engine/session/test_sent.py"
        "::test_injected_context_comes_before_the_next_message_and_keeps_its_place",
        "tests/core/turn/test_epochs.py::test_tools_that_are_added_begin_no_epoch",
    ),
    "what must shrink shrinks before it is sent the first time": (
        f"{HERE}::test_an_output_is_as_small_in_its_first_request_as_in_every_later_one",
        "tests/engine/session/test_offloading.py"
        "::test_a_large_output_is_a_preview_for_the_model_and_whole_in_the_store",
    ),
    "unknown blocks and fields go back as they came, and no field is null": (
        "tests/engine/session/test_unknown_blocks.py::test_what_nobody_knows_goes_back_as_it_came",
        "tests/engine/session/test_unknown_blocks.py"
        "::test_fields_that_nobody_knows_go_back_to_their_host",
        f"{HERE}::test_no_field_of_a_request_is_null",
    ),
    "who summarises leaves out all bound reasoning of the turns that are kept": (
        f"{HERE}::test_no_bound_reasoning_from_before_a_cut_is_sent_behind_it",
        f"{LIVES}::test_a_client_that_keeps_its_own_thinking_is_served_after_a_cut",
    ),
    "that a session had to drop is stored with it": (
        f"{HERE}::test_reasoning_that_was_refused_is_not_tried_again_after_a_restart",
        "tests/core/turn/test_epochs.py::test_refused_reasoning_is_not_sent_again",
    ),
    "OpenAI with tools: the Responses API, stateless, with all items": (
        "tests/core/models/test_generation.py::test_which_api_and_which_parameter",
        f"{HERE}::test_the_responses_api_is_asked_for_its_reasoning_and_keeps_nothing",
    ),
    "the cache lifetime follows the pauses": (
        "tests/core/models/test_pace.py::test_the_choice_is_near_the_best_fixed_lifetime",
        "tests/engine/session/test_session_pace.py::test_the_lifetime_follows_the_pauses",
    ),
}


def test_every_rule_has_tests_that_exist() -> None:
    assert len(RULES) == 10
    for named in RULES.values():
        for test in named:
            file, _, name = test.partition("::")
            assert re.search(rf"^def {name}\(", (ROOT / file).read_text("utf-8"), re.M), test


DIALECTS = ("anthropic", "openai-responses", "openai-chat", "gemini")
LONG = tuple(Say(40, ((900,), (900,))) for _ in range(8))


def _lived(life: Life, surface: Any = "engine", **rules: Any) -> Provider:
    living = Living(life, surface)
    for name, value in rules.items():
        setattr(living.provider.loopback.rules, name, value)
    assert living.run() == []
    return living.provider


def _bodies(provider: Provider) -> list[Any]:
    return [one.received.body for one in provider.sent if not one.is_side]


def test_what_is_sent_does_not_depend_on_the_account() -> None:
    """With an account of before the check, the same blocks go back, and none fails it."""
    life = Life("anthropic", 1, 16_000, streams=False, thinking=True, steps=LONG)
    new, old = _lived(life), _lived(life, is_old_account=True)
    assert [len(one.received.reasoning.valid) for one in new.sent] == [
        len(one.received.reasoning.valid) for one in old.sent
    ]
    assert old.loopback.reasoning.allowed == 0
    assert old.loopback.reasoning.valid > 10


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_output_is_as_small_in_its_first_request_as_in_every_later_one(dialect: str) -> None:
    steps = (Say(5, ((30_000,),)), Say(5), Resume(), Say(5))
    bodies = _bodies(_lived(Life(dialect, 0, 200_000, streams=False, thinking=False, steps=steps)))
    grown = [read_request(dialect, body)[1] for body in bodies]
    assert len(grown) == 4
    for before, after in pairwise(grown):
        assert after[: len(before)] == before
    assert len(str(grown[1])) < 60_000, "30,000 words were sent whole"


def _values(value: Any) -> Iterator[Any]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        yield from _values(item)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_field_of_a_request_is_null(dialect: str) -> None:
    """Replies of the SDKs have fields that are not set; what is stored and sent has none."""
    steps = (Say(5, ((5,),)), Say(5))
    life = Life(dialect, 0, 200_000, streams=False, thinking=True, steps=steps)
    for surface in ("engine", "own loop"):
        for body in _bodies(_lived(life, surface)):
            messages = body.get("messages") or body.get("input") or body.get("contents")
            # In Chat Completions, the content of a message with calls alone is null by the page.
            said = [{**one, "content": one.get("content") or ""} for one in messages]
            assert None not in _values(said)


@pytest.mark.parametrize("dialect", ["anthropic", "openai-responses"])
def test_no_bound_reasoning_from_before_a_cut_is_sent_behind_it(dialect: str) -> None:
    """Each block in a request was made in the epoch of the request."""
    sent = _lived(Life(dialect, 0, 16_000, streams=False, thinking=True, steps=LONG)).sent
    made = {one.received.number: one.epochs for one in sent}
    assert len({one.epochs for one in sent}) >= 3
    for one in sent:
        assert {made[number] for number in one.received.reasoning.valid} <= {one.epochs}


def test_reasoning_that_was_refused_is_not_tried_again_after_a_restart() -> None:
    """One refusal, one call without it; another process asks once."""
    provider = Provider(Life("anthropic", 0, 200_000, streams=False, thinking=True, steps=()))
    Provider.current = provider
    client = client_for("anthropic", is_async=False)
    refusal = (
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
        "different conversation."
    )
    with MemoryStore() as store:
        for fault in (None, refusal, None):
            if fault:
                provider.loopback.fail_next(Fault.http(400, fault))
            whom = model("anthropic:claude-fable-5-2", client=client, thinking=True)
            with Session.open("s", model=whom, store=store) as session:
                session.say("Go on.")
    asked = provider.loopback.requests
    assert [one.status for one in asked] == [200, 400, 200, 200]
    thinking = [str(one.body["messages"]).count("'thinking'") for one in asked]
    assert thinking[1] > 0
    assert thinking[2] == 0
    assert asked[3].reasoning.valid == (asked[2].number,), "only what was made since goes back"


def test_the_responses_api_is_asked_for_its_reasoning_and_keeps_nothing() -> None:
    steps = (Say(5, ((5,), (5,))), Say(5))
    provider = _lived(
        Life("openai-responses", 0, 200_000, streams=False, thinking=False, steps=steps)
    )
    bodies = _bodies(provider)
    assert len(bodies) == 4
    for body in bodies:
        assert body["store"] is False
        assert "reasoning.encrypted_content" in body["include"]
    kinds = [item.get("type", "message") for item in bodies[-1]["input"]]
    assert kinds.count("reasoning") == kinds.count("function_call") + 1
