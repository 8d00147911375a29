"""The loopback enforces what the providers enforce: rules, windows, output caps, bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.prompts import MODEL, PROVIDER, prompts
from tests.testing.sdks import (
    BLOCKING,
    DIALECTS,
    TARGETS,
    WAYS,
    Way,
    ask,
    body_of,
    errors,
    message_of,
    said,
    send,
)

from holdfast.core.dialects.registry import DIALECTS as ALL_DIALECTS
from holdfast.core.dialects.registry import render_body, target
from holdfast.core.models.messages import Message, Prompt, Text, Tool, ToolAnswer, ToolCall
from holdfast.core.tokens.counting import count_prompt
from holdfast.providers.tokenizers import counter_for
from holdfast.testing import Answer, Call, Loopback
from holdfast.testing.loopback.reading import read_request

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

COUNTER = counter_for("gpt-4o")


# Rules of the dialects

_ORPHAN: dict[str, Json] = {
    "anthropic": {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}],
            }
        ]
    },
    "openai-chat": {"messages": [{"role": "tool", "tool_call_id": "a", "content": "x"}]},
    "openai-responses": {
        "input": [{"type": "function_call_output", "call_id": "a", "output": "x"}]
    },
}
_SAID = {
    "anthropic": "unexpected `tool_use_id` found in `tool_result` blocks: a",
    "openai-chat": "messages with role 'tool' must be a response to a preceeding message",
    "openai-responses": "No tool call found for function call output with call_id a",
}


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_broken_rule_is_a_400_in_the_words_of_the_provider(way: Way) -> None:
    """A result that answers no call is refused, streamed or not, and recorded with its rule."""
    module = errors()[way.dialect]
    with Loopback() as loopback:
        with pytest.raises(module.BadRequestError) as caught:
            ask(loopback, way, **_ORPHAN[way.dialect])

        assert _SAID[way.dialect] in message_of(caught.value, way.dialect)
        [received] = loopback.invalid
        assert received.status == 400
        assert received.violations[0].quote == received.said
        assert loopback.answers == ()


@pytest.mark.parametrize(
    ("dialect", "changes", "said_then"),
    [
        ("anthropic", {"max_tokens": None}, "max_tokens: Field required"),
        ("anthropic", {"model": ""}, "model: Field required"),
        (
            "anthropic",
            {"thinking": {"type": "enabled", "budget_tokens": 500}},
            "greater than or equal to 1024",
        ),
        (
            "anthropic",
            {"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5},
            "A maximum of 4 blocks with cache_control may be provided. Found 6.",
        ),
        (
            "openai-chat",
            {"messages": [{"role": "user", "content": "x" * 1_048_577}]},
            "string too long",
        ),
        ("openai-chat", {"messages": []}, "expected a non-empty array"),
        ("openai-responses", {"max_output_tokens": 3}, "max_output_tokens"),
    ],
)
def test_other_rules(dialect: str, changes: Json, said_then: str) -> None:
    """A handful of the rules that the validators know; all of them are tested with those."""
    module = errors()[dialect]
    with Loopback() as loopback:
        with pytest.raises(module.BadRequestError) as caught:
            ask(loopback, Way(dialect), **changes)
        assert said_then in message_of(caught.value, dialect)


def test_an_openai_error_names_the_place() -> None:
    """`param` and `code` are where OpenAI has them."""
    long_id = "call_" + "x" * 40
    prompt = Prompt(
        (
            Message("user", (Text("Go"),)),
            Message("assistant", (ToolCall(long_id, "read", {}),)),
            Message("user", (ToolAnswer(long_id, (Text("x"),)),)),
        ),
        output_tokens=100,
    )
    body = body_of("openai-chat", prompt)
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            call["id"] = long_id
        if message["role"] == "tool":
            message["tool_call_id"] = long_id
    with Loopback() as loopback:
        with pytest.raises(errors()["openai-chat"].BadRequestError) as caught:
            send(loopback, Way("openai-chat"), body)
        assert caught.value.code == "string_above_max_length"
        assert caught.value.param == "messages[1].tool_calls[0].id"
        assert caught.value.type == "invalid_request_error"


def test_a_variant_has_its_own_rules_and_ids() -> None:
    """As Mistral, the loopback makes ids of nine characters and refuses all others."""
    way = Way("openai-chat")
    mistral = target("openai-chat:mistral", provider="mistral", model="mistral-large")
    tool = Tool("read")
    first = Prompt((Message("user", (Text("Go"),)),), "", (tool,), 100)
    with Loopback(
        [Answer("", (Call("read"),)), "done"], variants={"openai-chat": "mistral"}
    ) as loopback:
        [(call_id, _name, _arguments)] = send(loopback, way, render_body(first, mistral)).calls
        assert len(call_id) == 9

        more = Prompt(
            (
                *first.messages,
                Message("assistant", (ToolCall(call_id, "read", {}),)),
                Message("user", (ToolAnswer(call_id, (Text("x"),)),)),
            ),
            "",
            (tool,),
            100,
        )
        body = render_body(more, mistral)
        assert send(loopback, way, body).text == "done"
        body["messages"][1]["tool_calls"][0]["id"] = "call_1"
        body["messages"][2]["tool_call_id"] = "call_1"
        with pytest.raises(errors()["openai-chat"].BadRequestError, match="with a length of 9"):
            send(loopback, way, body)


# The window


@pytest.mark.parametrize("way", BLOCKING, ids=str)
def test_the_window_is_exact(way: Way) -> None:
    """Input and reply together may fill the window to the last token, and no further."""
    prompt = said("word " * 300, system="Be brief.", output=500)
    module = errors()[way.dialect]
    tokens = count_prompt(prompt, counter_for(TARGETS[way.dialect].model))
    with Loopback(limit=tokens + 500) as loopback:
        assert ask(loopback, way, prompt).text
        loopback.rules.limit -= 1
        with pytest.raises(module.BadRequestError) as caught:
            ask(loopback, way, prompt)

        words = message_of(caught.value, way.dialect)
        limit = tokens + 499
        assert {
            "anthropic": f"exceed context limit: {tokens} + 500 > {limit}",
            "openai-chat": f"maximum context length is {limit} tokens. However, you requested "
            f"{tokens + 500} tokens ({tokens} in the messages, 500 in the completion)",
            "openai-responses": "Your input exceeds the context window of this model.",
        }[way.dialect] in words
        if way.dialect != "anthropic":
            assert caught.value.code == "context_length_exceeded"
        fits, over = loopback.requests
        assert (fits.is_over, over.is_over) == (False, True)
        assert loopback.over_limit == (over,)
        assert (over.tokens, over.output_max, over.limit) == (tokens, 500, limit)
        assert loopback.answers == (fits,)


def test_input_alone_over_the_window_has_other_words() -> None:
    """Anthropic and OpenAI tell a prompt that is too long from one that leaves too little room."""
    prompt = said("word " * 300, output=50)
    with Loopback(limit=200) as loopback:
        with pytest.raises(errors()["anthropic"].BadRequestError) as caught:
            ask(loopback, Way("anthropic"), prompt)
        tokens = loopback.requests[0].tokens
        assert (
            message_of(caught.value, "anthropic")
            == f"prompt is too long: {tokens} tokens > 200 maximum"
        )

        body = body_of("openai-chat", prompt)
        del body["max_completion_tokens"]
        with pytest.raises(errors()["openai-chat"].BadRequestError) as caught:
            send(loopback, Way("openai-chat"), body)
        assert f"your messages resulted in {tokens} tokens" in caught.value.body["message"]


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        ("mistral", "Prompt {input} > 200 maximum context length"),
        ("kimi", "exceeded model token limit: 200 (requested: {total})"),
        ("local", "the request exceeds the available context size"),
    ],
)
def test_a_variant_overflows_in_its_own_words(variant: str, words: str) -> None:
    """A host that imitates OpenAI does not speak like OpenAI."""
    body = body_of("openai-chat", said("word " * 300, output=50))
    body["max_tokens"] = body.pop("max_completion_tokens")
    with Loopback(limit=200, variants={"openai-chat": variant}) as loopback:
        with pytest.raises(errors()["openai-chat"].BadRequestError) as caught:
            send(loopback, Way("openai-chat"), body)
        tokens = loopback.requests[0].tokens
        assert words.format(input=tokens, total=tokens + 50) in caught.value.body["message"]


@pytest.mark.parametrize(
    ("dialect", "stop"),
    [("anthropic", "model_context_window_exceeded"), ("openai-responses", "max_output_tokens")],
)
def test_newer_models_find_the_end_of_the_window_themselves(dialect: str, stop: str) -> None:
    """Without a reservation, any cap may be asked for; the reply ends where the window does."""
    prompt = said("word " * 300, output=5_000)
    tokens = count_prompt(prompt, COUNTER)
    with Loopback(["so " * 500], limit=tokens + 40, reserves_output=False) as loopback:
        got = ask(loopback, Way(dialect), prompt)
        assert got.stop == stop
        assert got.usage is not None
        assert got.usage["output_tokens"] == 40
        assert not loopback.over_limit

        loopback.rules.limit = tokens - 1
        with pytest.raises(errors()[dialect].BadRequestError):
            ask(loopback, Way(dialect), prompt)
        assert [one.number for one in loopback.over_limit] == [2]


def test_models_have_windows_of_their_own() -> None:
    """A small summariser beside a large model."""
    prompt = said("word " * 300)
    with Loopback(limits={"gpt-4o-mini": 100}) as loopback:
        assert ask(loopback, Way("openai-chat"), prompt).text
        with pytest.raises(errors()["openai-chat"].BadRequestError):
            ask(loopback, Way("openai-chat"), prompt, model="gpt-4o-mini")
        assert [one.limit for one in loopback.requests] == [200_000, 100]


def test_it_can_count_otherwise_than_we_do() -> None:
    """With a factor, usage and limit are those of a provider whose tokens are smaller."""
    prompt = said("word " * 300, output=100)
    plain = count_prompt(prompt, COUNTER)
    with Loopback(["six words of output, no more"], factor=2.0, limit=2 * plain + 100) as loopback:
        got = ask(loopback, Way("openai-chat"), prompt)
        assert got.usage is not None
        assert got.usage["prompt_tokens"] == 2 * plain
        assert got.usage["completion_tokens"] == 2 * COUNTER.count("six words of output, no more")
        loopback.rules.factor = 2.01
        with pytest.raises(errors()["openai-chat"].BadRequestError):
            ask(loopback, Way("openai-chat"), prompt)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_output_cap_is_exact(dialect: str) -> None:
    """As much output as the model can give may be asked for, and not one token more."""
    with Loopback(output_max=500) as loopback:
        assert ask(loopback, Way(dialect), said("Hi", output=500)).text
        with pytest.raises(errors()[dialect].BadRequestError, match="500"):
            ask(loopback, Way(dialect), said("Hi", output=501))


@pytest.mark.parametrize("way", BLOCKING, ids=str)
def test_bytes_are_another_limit(way: Way) -> None:
    """A body over the limit is a 413 in the provider's shape, whatever its tokens are."""
    with Loopback(body_bytes=2_000) as loopback:
        ask(loopback, way, "x" * 500)
        with pytest.raises(errors()[way.dialect].APIStatusError) as caught:
            ask(loopback, way, "x" * 3_000)

        assert caught.value.status_code == 413
        if way.dialect == "anthropic":
            assert caught.value.body["error"]["type"] == "request_too_large"
        fits, over = loopback.requests
        assert fits.bytes <= 2_000 < over.bytes
        assert [one.rule for one in over.violations] == ["body-bytes"]

        loopback.rules.body_bytes = over.bytes
        ask(loopback, way, "x" * 3_000)
        loopback.rules.body_bytes = over.bytes - 1
        with pytest.raises(errors()[way.dialect].APIStatusError):
            ask(loopback, way, "x" * 3_000)


# Laws

TAKEN = [target(name, provider=PROVIDER, model=MODEL) for name in ALL_DIALECTS]


@given(prompt=prompts(), to=st.sampled_from(TAKEN))
def test_whatever_we_render_can_be_heard(prompt: Prompt, to: Any) -> None:
    """Reading a rendered prompt gives its system text, tools and messages back."""
    heard = read_request(to.dialect.name, render_body(prompt, to)).prompt

    assert heard.system.strip() == prompt.system.strip()
    assert [tool.name for tool in heard.tools] == [tool.name for tool in prompt.tools]
    assert [message.role for message in heard.messages] == [one.role for one in prompt.messages]
    assert heard.output_tokens in (prompt.output_tokens, max(16, prompt.output_tokens), 4_096)
    for ours, theirs in zip(prompt.messages, heard.messages, strict=True):
        for kind in (ToolCall, ToolAnswer):
            count = sum(isinstance(block, kind) for block in ours.blocks)
            assert sum(isinstance(block, kind) for block in theirs.blocks) == count


@given(prompt=prompts())
def test_the_beginning_of_a_conversation_keeps_its_digests(prompt: Prompt) -> None:
    """What later requests repeat is known again by its digests, in every dialect."""
    longer = Prompt(
        (*prompt.messages, Message("assistant", (Text("So."),)), Message("user", (Text("And?"),))),
        prompt.system,
        prompt.tools,
        prompt.output_tokens,
    )
    for to in TAKEN:
        short, long = (
            read_request(to.dialect.name, render_body(one, to)).chain() for one in (prompt, longer)
        )
        assert long[: len(short)] == short
        assert len(set(long)) == len(long)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("role", "content", "type", "text", "tool_use_id", "input", "messages"),
                    *("tool_calls", "function", "arguments", "output", "source", "data", "system"),
                    *("parts", "functionCall", "functionResponse", "inlineData", "thought"),
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    body=st.dictionaries(
        st.sampled_from(
            (
                *("messages", "input", "system", "tools", "model", "max_tokens"),
                *("contents", "systemInstruction", "generationConfig"),
            )
        ),
        _JSON,
    ),
    dialect=st.sampled_from([known.name for known in ALL_DIALECTS.values()]),
)
def test_any_body_can_be_heard_and_weighed(body: Json, dialect: str) -> None:
    """Nonsense is counted like anything else: no request ends in a server's exception."""
    heard = read_request(dialect, body)

    sums = heard.weigh(COUNTER)
    assert sums == sorted(sums)
    assert len(heard.chain()) == len(sums) == len(heard.pieces)
    assert heard.prompt.messages is not None
