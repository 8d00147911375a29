"""The loopback answers the real SDKs as the providers do."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.testing.sdks import BLOCKING, DIALECTS, TARGETS, WAYS, Way, ask, body_of, said, send

from holdfast.core.models.messages import (
    Message,
    Prompt,
    Text,
    Thinking,
    Tool,
    ToolAnswer,
    ToolCall,
)
from holdfast.core.tokens.counting import count_prompt
from holdfast.errors import BadSetting
from holdfast.providers.tokenizers import counter_for
from holdfast.testing import Answer, Call, Fault, Loopback
from holdfast.testing.loopback import Asked, Scripted, echo
from holdfast.testing.scripted import ScriptExhausted

READ = Tool("read_file", "Reads a file", {"type": "object", "properties": {"path": {}}})
LONG = "There are two tests for that, and both of them are about the same thing: " * 3
THINKS = {"type": "enabled", "budget_tokens": 1024}
END = {"anthropic": "end_turn", "openai-chat": "stop", "openai-responses": "completed"}
TOOLS = {"anthropic": "tool_use", "openai-chat": "tool_calls", "openai-responses": "completed"}
PROMPT = {
    "anthropic": "input_tokens",
    "openai-chat": "prompt_tokens",
    "openai-responses": "input_tokens",
}
OUTPUT = {
    "anthropic": "output_tokens",
    "openai-chat": "completion_tokens",
    "openai-responses": "output_tokens",
}


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_text_arrives_whole_with_its_usage(way: Way) -> None:
    """What the brain says is what the SDK gives, and the usage is what our counters say."""
    prompt = said("What is tested?", system="Be brief.", tools=(READ,))
    with Loopback([LONG]) as loopback:
        got = ask(loopback, way, prompt)

        assert (got.text, got.calls, got.stop) == (LONG, [], END[way.dialect])
        counter = counter_for(TARGETS[way.dialect].model)
        assert got.usage is not None
        assert got.usage[PROMPT[way.dialect]] == count_prompt(prompt, counter)
        assert got.usage[OUTPUT[way.dialect]] == counter.count(LONG)
        [received] = loopback.requests
        assert (received.status, received.is_streamed) == (200, way.is_streamed)
        assert received.answer == Answer(LONG)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_tool_calls_arrive_with_their_arguments(way: Way) -> None:
    """Several calls beside a text keep their order, ids and arguments."""
    wanted = {"path": 'a "quoted" ünïcode\nname', "lines": [1, 2]}
    calls = (Call("read_file", wanted), Call("read_file", {}, id="mine_2"))
    with Loopback([Answer("Let me look.", calls)]) as loopback:
        got = ask(loopback, way, said("Look", tools=(READ,)))

        assert (got.text, got.stop) == ("Let me look.", TOOLS[way.dialect])
        assert [call[1:] for call in got.calls] == [("read_file", wanted), ("read_file", {})]
        assert got.calls[1][0] == "mine_2"
        assert got.calls[0][0].startswith("toolu_" if way.dialect == "anthropic" else "call_")


@pytest.mark.parametrize("way", BLOCKING, ids=str)
def test_thinking_is_shown_where_it_is_asked_for(way: Way) -> None:
    """Anthropic and Responses show it when they are told to; OpenAI's chat never does."""
    settings: dict[str, dict[str, Any]] = {
        "anthropic": {"thinking": THINKS, "max_tokens": 2000},
        "openai-chat": {},
        "openai-responses": {"model": "gpt-5", "reasoning": {"summary": "auto"}},
    }
    answer = Answer("Two.", thinking="One and one, that must be two.")
    with Loopback([answer, answer]) as loopback:
        quiet = ask(loopback, way)
        loud = ask(loopback, way, **settings[way.dialect])

    assert (quiet.text, quiet.thinking) == ("Two.", "")
    assert loud.text == "Two."
    assert loud.thinking == ("" if way.dialect == "openai-chat" else answer.thinking)


@pytest.mark.parametrize("variant", ["deepseek", "kimi"])
def test_hosts_that_show_their_reasoning(variant: str) -> None:
    """A variant of the chat dialect that takes reasoning back also gives it."""
    way = Way("openai-chat", is_streamed=True)
    with Loopback(
        [Answer("Two.", thinking="One and one.")], variants={"openai-chat": variant}
    ) as loopback:
        assert ask(loopback, way).thinking == "One and one."


@pytest.mark.parametrize("way", BLOCKING, ids=str)
def test_a_conversation_with_tools_goes_on(way: Way) -> None:
    """A call comes back with its result in the next request, and the brain sees both."""

    def brain(asked: Asked) -> Answer:
        if not asked.results:
            assert asked.text == "What is in a.txt?"
            assert [tool.name for tool in asked.tools] == ["read_file"]
            return Answer("", (Call("read_file", {"path": "a.txt"}),))
        [result] = asked.results
        call = asked.messages[-2].blocks[-1]
        assert isinstance(call, ToolCall)
        assert (call.id, call.arguments) == (result.call_id, {"path": "a.txt"})
        return Answer(f"It says {result.content[0].text}.")  # type: ignore[union-attr]

    first = said("What is in a.txt?", tools=(READ,))
    with Loopback(brain) as loopback:
        [(call_id, name, arguments)] = ask(loopback, way, first).calls
        more = (
            Message("assistant", (ToolCall(call_id, name, arguments),)),
            Message("user", (ToolAnswer(call_id, (Text("hello"),)),)),
        )
        got = ask(loopback, way, Prompt((*first.messages, *more), "", (READ,), 500))

        assert got.text == "It says hello."
        assert [one.status for one in loopback.requests] == [200, 200]


def test_signed_thinking_goes_back_unchanged_or_not_at_all() -> None:
    """Thinking as it came is taken back; a changed one is refused, another model's left out."""
    import anthropic

    way = Way("anthropic")
    with Loopback(lambda asked: Answer("Yes.", thinking="Hm, hm.")) as loopback:
        block = ask(loopback, way, thinking=THINKS, max_tokens=2000).raw.content[0]

        def again(thinking: str, **changes: Any) -> None:
            said_before = {"type": "thinking", "thinking": thinking, "signature": block.signature}
            messages = [
                {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": [said_before, {"type": "text", "text": "Yes."}]},
                {"role": "user", "content": "Really?"},
            ]
            body = body_of(way, said("Hello"), thinking=THINKS, max_tokens=2000)
            send(loopback, way, {**body, "messages": messages, **changes})

        again("Hm, hm.")
        with pytest.raises(anthropic.BadRequestError, match="cannot be modified"):
            again("Hm, ha.")
        again("Hm, hm.", model="claude-opus-4-1")
        assert loopback.reasoning.dropped == {"model_binding_mismatch": 1}


def test_foreign_signatures_are_looked_at_only_where_that_is_asked_for() -> None:
    """Thinking of a recorded session passes by default and is refused by a strict loopback."""
    foreign = Thinking("Long ago.", "Zm9yZWlnbg==", provider="anthropic", model="claude-opus-4-5")
    prompt = Prompt(
        (
            Message("user", (Text("Hello"),)),
            Message("assistant", (foreign, Text("Yes."))),
            Message("user", (Text("Really?"),)),
        ),
        output_tokens=4_000,
    )
    body = body_of("anthropic", prompt, thinking=THINKS)
    body["messages"][1]["content"].insert(
        0, {"type": "thinking", "thinking": foreign.text, "signature": foreign.signature}
    )
    for is_strict, status in ((False, 200), (True, 400)):
        with Loopback(checks_foreign_signatures=is_strict) as loopback:
            assert _post(loopback, "/v1/messages", body)[0] == status


@pytest.mark.parametrize("way", BLOCKING, ids=str)
def test_a_reply_ends_where_the_room_for_it_does(way: Way) -> None:
    """Text over the output cap is cut there, and the reply says that it was."""
    with Loopback([LONG], counter=counter_for("gpt-4o")) as loopback:
        got = ask(loopback, way, said("Talk", output=20))

    assert got.text
    assert LONG.startswith(got.text)
    assert got.usage is not None
    assert got.usage[OUTPUT[way.dialect]] == 20
    assert got.stop in ("max_tokens", "length", "max_output_tokens")


def test_calls_that_do_not_fit_are_left_out() -> None:
    """The last calls go first: what is left of an answer is a whole call or none."""
    calls = tuple(Call("read_file", {"path": f"file-{n}.txt"}) for n in range(4))
    with Loopback([Answer("I read.", calls)]) as loopback:
        got = ask(loopback, Way("anthropic"), said("Go", output=50, tools=(READ,)))

    assert 0 < len(got.calls) < 4
    assert got.stop == "max_tokens"
    assert [call[2] for call in got.calls] == [call.arguments for call in calls[: len(got.calls)]]


def test_thinking_can_take_all_the_room() -> None:
    """A model that thinks for too long says nothing."""
    with Loopback([Answer("Yes.", thinking="So I wonder. " * 2_000)]) as loopback:
        got = ask(loopback, Way("anthropic"), thinking=THINKS, max_tokens=1025)

    assert (got.text, got.stop) == ("", "max_tokens")
    assert got.thinking
    assert got.usage is not None
    assert got.usage["output_tokens"] <= 1025


def test_the_same_request_gets_the_same_answer() -> None:
    """Two loopbacks answer a request alike, down to the ids of calls; another gets other ids."""
    way = Way("anthropic")

    def ids(text: str) -> list[tuple[str, str, Any]]:
        with Loopback([Answer("", (Call("read_file"),))]) as loopback:
            return ask(loopback, way, said(text, tools=(READ,))).calls

    assert ids("Hello") == ids("Hello") != ids("Goodbye")


def test_the_default_brain_repeats_what_it_heard() -> None:
    """Without a script there is still an answer that shows what came in."""
    with Loopback() as loopback:
        assert ask(loopback, Way("openai-chat"), "Good morning").text == "You said: Good morning"


def test_a_script_can_compute_and_must_not_run_out() -> None:
    """Lines are answers, texts or functions; a request after the last is an error that shows."""
    import openai

    way = Way("openai-chat")
    script = Scripted(["one", Answer("two"), lambda asked: f"three: {asked.text}"])
    loopback = Loopback(script)
    loopback.__enter__()
    texts = [ask(loopback, way, str(n)).text for n in range(3)]
    assert texts == ["one", "two", "three: 2"]
    assert script.remaining == 0
    with pytest.raises(openai.InternalServerError, match="request 4 came after the last of 3"):
        ask(loopback, way)
    with pytest.raises(ScriptExhausted, match="request 4"):
        loopback.__exit__(None)

    with Loopback(Scripted(["one"], then=echo)) as loopback:
        assert [ask(loopback, way).text for _ in range(2)] == ["one", "You said: Hello"]


def test_what_the_brain_raises_reaches_the_test() -> None:
    """An assertion in a brain does not end in a server's thread."""

    def brain(asked: Asked) -> Answer:
        assert asked.system == "Be brief.", "no system text"
        return Answer("fine")

    with pytest.raises(AssertionError, match="no system text"), Loopback(brain) as loopback:
        assert _post(loopback, "/v1/messages", body_of("anthropic", said("Hi")))[0] == 500

    with Loopback(brain) as loopback:
        _post(loopback, "/v1/messages", body_of("anthropic", said("Hi")))
        loopback.errors.clear()  # expected, so it is not raised


@pytest.mark.parametrize("dialect", ["anthropic", "openai-responses"])
def test_tokens_can_be_counted_without_an_answer(dialect: str) -> None:
    """The counting endpoints say what a request would take, and never call the brain."""
    prompt = said("How long is this?", system="Be brief.", tools=(READ,))
    with Loopback([]) as loopback:
        body = body_of(dialect, prompt)
        if dialect == "anthropic":
            import anthropic

            body.pop("max_tokens")
            with anthropic.Anthropic(api_key="any", base_url=loopback.url) as client:
                counted = client.messages.count_tokens(**body).input_tokens
        else:
            status, found = _post(loopback, "/v1/responses/input_tokens", body)
            assert status == 200
            counted = found["input_tokens"]

        assert counted == count_prompt(prompt, counter_for(TARGETS[dialect].model))
        [received] = loopback.requests
        assert received.only_counts
        assert not received.is_answered
        assert loopback.count(dialect, body) == counted


def test_every_request_is_recorded() -> None:
    """Headers, body, sizes, addresses that nobody serves, bodies that are none."""
    with Loopback() as loopback:
        ask(loopback, Way("openai-chat"), "Hello")
        assert _post(loopback, "/v1/nothing", {})[0] == 404
        assert _post(loopback, "/v1/messages", b"{not json")[0] == 400
        assert _post(loopback, "/v1/messages", b"[1]")[0] == 400
        assert _post(loopback, "/v1/messages", b'{"a": NaN}')[0] == 400
        assert _post(loopback, "/v1/messages", b"[" * 100_000)[0] == 400

        first, nowhere, broken, *_odd = loopback.requests
        assert [one.number for one in loopback.requests] == [1, 2, 3, 4, 5, 6]
        assert first.headers["authorization"] == "Bearer any"
        assert first.body["messages"] == [{"role": "user", "content": "Hello"}]
        assert first.path == "/v1/chat/completions"
        assert nowhere.dialect is None
        assert "not valid JSON" in broken.said
        assert [one.number for one in loopback.invalid] == [3, 4, 5, 6]


def test_a_key_is_asked_for_where_there_is_one() -> None:
    """With a key, only that key is let in, however the SDK sends it."""
    import anthropic
    import openai

    with Loopback(api_key="any") as loopback:
        assert all(ask(loopback, Way(dialect)).text for dialect in DIALECTS)
    with Loopback(api_key="other") as loopback:
        for dialect, error in (
            ("anthropic", anthropic.AuthenticationError),
            ("openai-chat", openai.AuthenticationError),
        ):
            with pytest.raises(error, match="invalid x-api-key"):
                ask(loopback, Way(dialect))


def test_many_clients_at_once() -> None:
    """Requests from many threads are all answered, each with its own, and all are recorded."""
    body = body_of("anthropic", said("x"))

    def call(number: int) -> str:
        mine = {**body, "messages": [{"role": "user", "content": f"number {number}"}]}
        return str(_post(loopback, "/v1/messages", mine)[1]["content"][0]["text"])

    with Loopback() as loopback, ThreadPoolExecutor(16) as pool:
        texts = list(pool.map(call, range(64)))

        assert texts == [f"You said: number {number}" for number in range(64)]
        assert sorted(one.number for one in loopback.requests) == list(range(1, 65))


def test_closing_ends_what_hangs() -> None:
    """A request that hangs for ever does not keep the loopback from closing."""
    body = json.dumps(body_of("anthropic", said("x"))).encode()
    with Loopback() as loopback, ThreadPoolExecutor(1) as pool:
        loopback.fail_next(Fault.hang(3_600))
        waiting = pool.submit(_post, loopback, "/v1/messages", body)
        assert loopback.wait_for(1)
        loopback.__exit__(None)
        with pytest.raises(OSError, match=r"closed|reset|aborted"):
            waiting.result(timeout=20)
        # Nobody listens there any more.
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(loopback.url.rpartition(":")[2])), 5)


def test_a_client_that_goes_away_is_no_error() -> None:
    """A cancelled call leaves the loopback sound for the next one."""

    async def cancel() -> None:
        import anthropic

        async with anthropic.AsyncAnthropic(
            api_key="any", base_url=loopback.url, max_retries=0
        ) as client:
            body = body_of("anthropic", said("x"))
            task = asyncio.create_task(client.messages.create(**body))
            await asyncio.to_thread(loopback.wait_for, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with Loopback() as loopback:
        loopback.fail_next(Fault.hang(3_600))
        asyncio.run(cancel())
        assert ask(loopback, Way("anthropic")).text == "You said: Hello"
        assert loopback.errors == []


def test_wait_for_gives_up() -> None:
    """Waiting for a request that never comes says so."""
    with Loopback() as loopback:
        assert not loopback.wait_for(1, seconds=0.01)


@pytest.mark.parametrize(
    "settings",
    [
        {"limit": 0},
        {"limits": {"small": 0}},
        {"factor": 0.0},
        {"variants": {"openai-chat": "mistrel"}},
        {"variants": {"gemini": "bedrock"}},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    """A loopback that could not be right is not started."""
    with pytest.raises(BadSetting):
        Loopback(**settings)


def _post(loopback: Loopback, path: str, body: Any) -> tuple[int, Any]:
    """A request without any SDK."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(loopback.url + path, data)
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
