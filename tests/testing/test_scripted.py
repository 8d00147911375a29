"""The scripted model: says what is written, remembers what it was asked, refuses the too long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.core.dialects.registry import target
from holdfast.core.models.replies import Delta, Reply
from holdfast.providers.failures import name_failure
from holdfast.providers.offline.measuring import PromptTooLong
from holdfast.providers.replies import partial_of
from holdfast.testing import ScriptedModel, calls
from holdfast.testing.scripted import ScriptExhausted

if TYPE_CHECKING:
    from holdfast.core.models.replies import Reply as _Reply

REQUEST: dict[str, Any] = {"messages": [{"role": "user", "content": "Well?"}]}


def test_says_its_lines_in_order() -> None:
    """Texts, replies, functions of the request and exceptions, each once."""
    model = ScriptedModel(
        [
            "one",
            Reply(content=[{"type": "text", "text": "two"}], stop="length"),
            lambda request: f"three: {len(request['messages'])}",
            TimeoutError("slow"),
            lambda _request: ValueError("made"),
        ]
    )

    assert model.send(REQUEST).text == "one"
    assert model.send(REQUEST).stop == "length"
    assert model.send(REQUEST).text == "three: 1"
    with pytest.raises(TimeoutError, match="slow"):
        model.send(REQUEST)
    with pytest.raises(ValueError, match="made"):
        model.send(REQUEST)
    with pytest.raises(ScriptExhausted, match="request 6"):
        model.send(REQUEST)


def test_otherwise_answers_when_the_script_has_ended() -> None:
    """A last answer can be given for ever."""
    model = ScriptedModel(["once"], otherwise="again")
    assert [model.send(REQUEST).text for _ in range(3)] == ["once", "again", "again"]


def test_remembers_requests_as_they_were() -> None:
    """What the caller does to a request later does not change what is remembered."""
    model = ScriptedModel(otherwise="yes")
    request = {"messages": [{"role": "user", "content": "Well?"}]}
    model.send(request)
    request["messages"].append({"role": "user", "content": "More"})

    assert model.requests == [REQUEST]


def test_limit_is_refused_in_the_providers_words() -> None:
    """A request over the limit raises what classification takes for an overflow, with numbers."""
    model = ScriptedModel(["still here"], limit=100)

    with pytest.raises(PromptTooLong) as caught:
        model.send({"messages": [{"role": "user", "content": "word " * 400}]})

    failure = name_failure(caught.value)
    assert (failure.kind, failure.limit) == ("context_overflow", 100)
    assert failure.input == model.refused[0] > 100
    assert model.send(REQUEST).text == "still here"


def test_tells_its_text_in_pieces() -> None:
    """A listener hears pieces, and names of tools; what it raises leaves what was told."""
    reply = calls(("call_1", "read", {"path": "x"}), text="A text of some length, told slowly.")
    heard: list[Delta] = []

    assert ScriptedModel([reply]).send(REQUEST, heard.append).calls[0].arguments == {"path": "x"}
    assert len(heard) == 4
    assert heard[-1] == Delta("call", "read")

    def stop(delta: Delta) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        ScriptedModel([reply]).send(REQUEST, stop)
    partial = partial_of(caught.value)
    assert partial is not None
    assert partial.text == "A text of some l"
    assert partial.calls == ()


@pytest.mark.parametrize("name", ["anthropic", "openai-chat", "openai-responses", "gemini"])
def test_usage_is_spelled_as_the_dialect_does(name: str) -> None:
    """What is reported can be read back, and grows with what is sent."""
    model = ScriptedModel(otherwise="yes", target=target(name, provider="p", model="m"))
    small = model.send(REQUEST).usage
    large = model.send({"messages": [{"role": "user", "content": "a b " * 99}]}).usage

    assert small is not None
    assert large is not None
    assert 0 < small.prompt < large.prompt
    assert small.output


def test_only_a_shared_beginning_is_read_from_the_cache() -> None:
    """What a cache would have had: the same beginning, not the same words further on."""
    model = ScriptedModel(otherwise="yes")
    long = {"role": "user", "content": "a b c " * 1_500}
    other = {"role": "user", "content": "c b a " * 1_500}

    def read(*messages: Any) -> int:
        usage = model.send({"messages": list(messages)}).usage
        assert usage is not None
        return usage.cached_read

    assert read(long) == 0
    first = read(long, other)
    assert first > 1_024
    assert read(long, other, long) > first
    assert read(other, long) == 0


def test_awaited_it_is_the_same_script() -> None:
    """Both sides share one script and one list of requests."""
    model = ScriptedModel(["one", "two"])

    async def first() -> _Reply:
        return await model.as_async().send(REQUEST)

    assert asyncio.run(first()).text == "one"
    assert model.send(REQUEST).text == "two"
    assert len(model.requests) == 2
