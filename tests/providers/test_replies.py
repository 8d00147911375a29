"""Reading replies: what the log gets, whatever the client returned and however it came."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.providers.wire_replies import (
    DIALECTS,
    Said,
    answers,
    anthropic_body,
    body_of,
    chat_body,
    events_of,
    responses_body,
)

from holdfast.core.dialects.common.reading import ReplyFailed, arguments
from holdfast.core.dialects.registry import target
from holdfast.core.limits import NESTING_MAX
from holdfast.core.log.records import Assistant, Record, ToolResult, User, decode, encode
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.window import Window
from holdfast.engine.session.prepare import prepare_request
from holdfast.errors import BadSetting
from holdfast.providers.replies import Accumulator, partial_of, read_reply, read_reply_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from holdfast.core.models.dialects import Target
    from holdfast.core.models.replies import Delta, Reply

Json = dict[str, Any]

LOOKS = Said("Let me look.", "I shall look.", (("call_0", "read_file", {"path": "a.py"}),))


def to(name: str, **settings: Any) -> Target:
    return target(name, provider="acme", model="thinker-1", thinking=True, **settings)


def like(reply: Reply) -> Reply:
    """A reply without what differs by how it came."""
    return msgspec.structs.replace(reply, raw=None)


# Whole replies


def test_anthropic_content_is_the_logs() -> None:
    """A message's blocks are stored as they came, thinking with its signature."""
    redacted = {"type": "redacted_thinking", "data": "c2VhbGVk"}
    body = anthropic_body(LOOKS)
    body["content"].insert(1, redacted)

    reply = read_reply(body, to("anthropic"))

    assert reply.content == body["content"]
    assert (reply.stop, reply.stop_reason) == ("tools", "tool_use")
    assert (reply.provider, reply.model) == ("acme", "thinker-1")
    assert reply.raw_usage == body["usage"]
    assert [call.arguments for call in reply.calls] == [{"path": "a.py"}]


def test_chat_reply_becomes_blocks() -> None:
    """Reasoning, words and calls of a completion are blocks in that order."""
    reply = read_reply(chat_body(LOOKS), to("openai-chat:kimi"))

    assert reply.content == [
        {"type": "thinking", "thinking": "Let me look."},
        {"type": "text", "text": "I shall look."},
        {"type": "tool_use", "id": "call_0", "name": "read_file", "input": {"path": "a.py"}},
    ]
    assert (reply.stop, reply.stop_reason) == ("tools", "tool_calls")


def test_reasoning_item_is_kept_whole() -> None:
    """A reasoning item of the Responses API is stored with everything it needs to go back."""
    reply = read_reply(responses_body(LOOKS), to("openai-responses"))

    assert reply.content[0] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Let me look."}],
        "encrypted_content": "c2VhbGVk",
    }


def test_what_nobody_knows_is_kept() -> None:
    """Blocks of a server's tools stay as they are, in each dialect."""
    served = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    body = {**anthropic_body(LOOKS), "content": [served]}
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed"}

    assert read_reply(body, to("anthropic")).content == [served]
    assert read_reply({"output": [item]}, to("openai-responses")).content == [item]
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    found = {"candidates": [{"content": {"parts": [code]}, "finishReason": "STOP"}]}
    assert read_reply(found, to("gemini")).content == [{"type": "executableCode", **code}]


def test_arguments_that_are_nested_too_deeply_become_text() -> None:
    """The log takes so many levels; a tool can refuse the text."""
    text = '{"a":' * (NESTING_MAX + 1) + "1" + "}" * (NESTING_MAX + 1)
    assert arguments(text) == text
    assert arguments(json.loads(text)) == text
    fine = '{"a":' * NESTING_MAX + "1" + "}" * NESTING_MAX
    assert arguments(fine) == arguments(json.loads(fine)) == json.loads(fine)


def test_arguments_that_are_no_json_stay_text() -> None:
    """Broken arguments are kept as they were written, and read as something a tool can refuse."""
    body = chat_body(LOOKS)
    body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"path": a.py}'

    reply = read_reply(body, to("openai-chat"))

    assert reply.content[-1]["input"] == '{"path": a.py}'
    assert reply.calls[0].arguments == {"value": '{"path": a.py}'}


@pytest.mark.parametrize(
    ("dialect", "body", "stop", "reason"),
    [
        ("anthropic", {"stop_reason": "end_turn"}, "end", "end_turn"),
        ("anthropic", {"stop_reason": "stop_sequence"}, "end", "stop_sequence"),
        ("anthropic", {"stop_reason": "max_tokens"}, "length", "max_tokens"),
        (
            "anthropic",
            {"stop_reason": "model_context_window_exceeded"},
            "window",
            "model_context_window_exceeded",
        ),
        ("anthropic", {"stop_reason": "refusal"}, "refusal", "refusal"),
        ("anthropic", {"stop_reason": "pause_turn"}, "other", "pause_turn"),
        ("openai-chat", {"finish_reason": "stop"}, "end", "stop"),
        ("openai-chat", {"finish_reason": "length"}, "length", "length"),
        ("openai-chat", {"finish_reason": "content_filter"}, "refusal", "content_filter"),
        ("openai-chat", {"finish_reason": "model_length"}, "window", "model_length"),
        ("openai-chat", {"finish_reason": "overheated"}, "other", "overheated"),
        ("openai-responses", {"status": "completed"}, "end", "completed"),
        (
            "openai-responses",
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "length",
            "max_output_tokens",
        ),
        (
            "openai-responses",
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "refusal",
            "content_filter",
        ),
        ("openai-responses", {"status": "cancelled"}, "cancelled", "cancelled"),
        ("gemini", {"finishReason": "STOP"}, "end", "STOP"),
        ("gemini", {"finishReason": "MAX_TOKENS"}, "length", "MAX_TOKENS"),
        ("gemini", {"finishReason": "SAFETY"}, "refusal", "SAFETY"),
        ("gemini", {"finishReason": "MALFORMED_FUNCTION_CALL"}, "other", "MALFORMED_FUNCTION_CALL"),
    ],
)
def test_endings(dialect: str, body: Json, stop: str, reason: str) -> None:
    """Every provider's word for why it stopped is kept, and means one of ours."""
    said = body_of(Said("", "Hm.", ()), dialect)
    place = {"openai-chat": "choices", "gemini": "candidates"}.get(dialect)
    (said[place][0] if place else said).update(body)

    reply = read_reply(said, to(dialect))

    assert (reply.stop, reply.stop_reason) == (stop, reason)
    assert reply.text == "Hm."


def test_calls_and_endings_agree() -> None:
    """A host that says `stop` beside calls wants tools; one that says so without calls is done."""
    body = chat_body(LOOKS)
    body["choices"][0]["finish_reason"] = "stop"
    assert read_reply(body, to("openai-chat")).stop == "tools"

    body = chat_body(Said("", "Done.", ()))
    body["choices"][0]["finish_reason"] = "tool_calls"
    assert read_reply(body, to("openai-chat")).stop == "end"


def test_refusals_are_words() -> None:
    """A refusal beside the content is text that people see, and the reason it ended."""
    message = {"role": "assistant", "content": None, "refusal": "I won't."}
    chat = {"choices": [{"message": message, "finish_reason": "stop"}]}
    part = {"type": "refusal", "refusal": "I won't."}
    item = {"type": "message", "role": "assistant", "content": [part]}

    for reply in (
        read_reply(chat, to("openai-chat")),
        read_reply({"status": "completed", "output": [item]}, to("openai-responses")),
    ):
        assert (reply.text, reply.stop) == ("I won't.", "refusal")

    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
    reply = read_reply(blocked, to("gemini"))
    assert (reply.content, reply.stop, reply.stop_reason) == ([], "refusal", "PROHIBITED_CONTENT")


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("anthropic", {"type": "message", "content": [], "stop_reason": "end_turn"}),
        ("openai-chat", {"choices": []}),
        ("openai-chat", {"choices": [{"message": None, "finish_reason": "stop"}]}),
        ("openai-responses", {"object": "response", "status": "completed", "output": []}),
        ("gemini", {"candidates": [{"finishReason": "STOP"}]}),
    ],
)
def test_empty_replies_are_replies(dialect: str, body: Json) -> None:
    """A reply with nothing in it is read as that; what to make of it is not decided here."""
    reply = read_reply(body, to(dialect))

    assert (reply.content, reply.stop) == ([], "end")


def test_first_of_several_choices() -> None:
    """Of several choices the first is the reply, in a stream too."""
    body = chat_body(Said("", "one", ()))
    body["choices"].append({"index": 1, "message": {"content": "two"}, "finish_reason": "stop"})
    events = events_of(Said("", "one", ()), "openai-chat", 9)
    other = {"index": 1, "delta": {"content": "two"}, "finish_reason": None}
    events.insert(1, {"choices": [other]})

    assert read_reply(body, to("openai-chat")).text == "one"
    assert read_reply(events, to("openai-chat")).text == "one"


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "gemini"])
def test_half_a_call_is_no_call(dialect: str) -> None:
    """Where the output cap cut a call in two, it is not there; what was said before it is."""
    body = body_of(LOOKS, dialect)
    match dialect.partition(":")[0]:
        case "anthropic":
            body["stop_reason"] = "max_tokens"
        case "openai-chat":
            body["choices"][0]["finish_reason"] = "length"
            calls = body["choices"][0]["message"]["tool_calls"]
            calls[0]["function"]["arguments"] = '{"path": "a.p'
        case "openai-responses":
            body["status"] = "incomplete"
            body["incomplete_details"] = {"reason": "max_output_tokens"}
            body["output"][-1].update({"arguments": '{"path": "a.p', "status": "incomplete"})

    reply = read_reply(body, to(dialect))

    assert reply.calls == ()
    assert (reply.text, reply.stop) == ("I shall look.", "length")


def test_calls_get_ids_of_their_own() -> None:
    """Hosts that give calls no id, or all the same one, cannot make two calls into one."""
    body = chat_body(Said("", "", (("", "a", {}), ("same", "b", {}), ("same", "c", {}))))

    ids = [call.id for call in read_reply(body, to("openai-chat:local")).calls]

    assert len(set(ids)) == 3
    assert all(ids)
    assert ids[1] == "same"


def test_mistrals_thinking_is_thinking() -> None:
    """Content in parts is read part by part, and a list of thoughts is one."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm, "}, {"text": "so."}]}
    message = {"content": [thought, {"type": "text", "text": "Yes."}]}

    reply = read_reply({"choices": [{"message": message}]}, to("openai-chat:mistral"))

    assert reply.content == [
        {"type": "thinking", "thinking": "Hm, so."},
        {"type": "text", "text": "Yes."},
    ]


# What a client may return


@pytest.mark.parametrize("dialect", DIALECTS)
def test_json_text_reads_like_its_object(dialect: str) -> None:
    """A reply as JSON text, as bytes and as an object are one reply."""
    body = body_of(LOOKS, dialect)

    read = [
        read_reply(raw, to(dialect)) for raw in (body, json.dumps(body), json.dumps(body).encode())
    ]

    assert like(read[0]) == like(read[1]) == like(read[2])


def test_sdk_objects_read_like_their_json() -> None:
    """The objects of the real SDKs give the reply their JSON gives, with what they do not know."""
    import anthropic.types
    import openai.types.chat
    import openai.types.responses

    message = anthropic.types.Message.model_validate(anthropic_body(LOOKS))
    completion = openai.types.chat.ChatCompletion.construct(**chat_body(LOOKS))
    response = openai.types.responses.Response.construct(**responses_body(LOOKS))

    for raw, dialect in (
        (message, "anthropic"),
        (completion, "openai-chat:deepseek"),
        (response, "openai-responses"),
    ):
        reply = read_reply(raw, to(dialect))
        assert like(reply) == like(read_reply(body_of(LOOKS, dialect), to(dialect)))
        assert reply.raw is raw


def test_plain_text_is_the_answer() -> None:
    """A function that just returns words is understood, even where the words are JSON."""
    for said in ("Hello.", '{"a": 1}', "[1, 2]"):
        assert read_reply(said, to("anthropic")).text == said


@pytest.mark.parametrize("raw", [None, 7, {}, {"choices": []}, object()])
def test_what_is_no_reply_is_refused(raw: object) -> None:
    """Something else than a reply of the dialect is said to be that, with what to return."""
    with pytest.raises(BadSetting, match="not a reply of the dialect `anthropic`") as caught:
        read_reply(raw, to("anthropic"))
    assert "stream" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}),
        ("openai-chat", {"error": {"message": "Busy", "code": 529}}),
        ("openai-responses", {"status": "failed", "error": {"code": "x", "message": "Busy"}}),
        ("gemini", {"error": {"code": 503, "message": "Busy", "status": "UNAVAILABLE"}}),
    ],
)
def test_an_error_in_the_place_of_a_reply_is_raised(dialect: str, body: Json) -> None:
    """Hosts that answer 200 with an error do not get it stored as an answer."""
    with pytest.raises(ReplyFailed, match="Busy") as caught:
        read_reply(body, to(dialect))
    assert caught.value.body == body


# Streams


@given(answers(), st.sampled_from(DIALECTS), st.integers(1, 40))
def test_a_stream_is_the_reply_it_streams(said: Said, dialect: str, size: int) -> None:
    """Cut anywhere, a stream gives the reply that comes without one, and tells all of its text."""
    heard: list[Delta] = []

    streamed = read_reply(iter(events_of(said, dialect, size)), to(dialect), heard.append)

    assert like(streamed) == like(read_reply(body_of(said, dialect), to(dialect)))
    assert "".join(one.text for one in heard if one.kind == "text") == said.text
    assert "".join(one.text for one in heard if one.kind == "thinking") == said.thinking
    assert [one.text for one in heard if one.kind == "call"] == [call[1] for call in said.calls]


@given(answers(), st.sampled_from(DIALECTS), st.integers(1, 40), st.data())
def test_a_broken_stream_leaves_what_came(
    said: Said, dialect: str, size: int, data: st.DataObject
) -> None:
    """After any number of events: the words that came, whole calls only, and an error."""
    events = events_of(said, dialect, size)
    ends = 2 if dialect.startswith("openai-chat") else 1
    count = data.draw(st.integers(0, len(events) - ends))
    heard: list[Delta] = []

    with pytest.raises(ReplyFailed, match="ended before") as caught:
        read_reply(iter(events[:count]), to(dialect), heard.append)

    partial = partial_of(caught.value)
    assert partial is not None
    assert partial.stop == "other"
    assert partial.text == "".join(one.text for one in heard if one.kind == "text")
    assert all(call in whole for call, whole in _pairs(partial, said))


def _pairs(partial: Reply, said: Said) -> Iterator[tuple[Any, list[Any]]]:
    whole = [(name, given) for _id, name, given in said.calls]
    for call in partial.calls:
        yield (call.name, call.arguments), whole


def test_what_a_listener_raises_closes_the_stream() -> None:
    """An exception of the listener ends the stream, is raised on, and carries what came."""
    closed: list[bool] = []

    def events() -> Iterator[Json]:
        try:
            yield from events_of(LOOKS, "anthropic", 4)
        finally:
            closed.append(True)

    def on_delta(delta: Delta) -> None:
        if delta.kind == "text":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        read_reply(events(), to("anthropic"), on_delta)

    assert closed == [True]
    partial = partial_of(caught.value)
    assert partial is not None
    assert partial.text == "I sh"


def test_an_error_event_is_raised_with_what_came() -> None:
    """An error amid a stream is an exception that says what the provider said."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    events = [*events_of(LOOKS, "anthropic", 100)[:8], error]

    with pytest.raises(ReplyFailed, match="Overloaded") as caught:
        read_reply(events, to("anthropic"))

    assert caught.value.type == "overloaded_error"
    partial = partial_of(caught.value)
    assert partial is not None
    assert partial.content[0]["type"] == "thinking"


def test_async_streams_read_alike() -> None:
    """An asynchronous stream, awaited or not, gives the same reply and is closed."""
    closed: list[bool] = []

    async def events() -> AsyncIterator[Json]:
        try:
            for event in events_of(LOOKS, "anthropic", 3):
                yield event
        finally:
            closed.append(True)

    async def opened() -> AsyncIterator[Json]:
        return events()

    async def read() -> list[Reply]:
        return [
            await read_reply_async(events(), to("anthropic")),
            await read_reply_async(opened(), to("anthropic")),
            await read_reply_async(anthropic_body(LOOKS), to("anthropic")),
        ]

    first, second, third = asyncio.run(read())
    assert like(first) == like(second) == like(third)
    assert closed == [True, True]


def test_a_stream_behind_a_context_is_opened() -> None:
    """The SDKs' streaming helpers, which have to be entered, can be returned as they are."""

    class Helper:
        def __enter__(self) -> list[Json]:
            return events_of(LOOKS, "anthropic", 5)

        def __exit__(self, *about: object) -> None:
            left.append(True)

    left: list[bool] = []
    assert read_reply(Helper(), to("anthropic")).text == "I shall look."
    assert left == [True]


def test_events_of_a_later_time_do_no_harm() -> None:
    """Unknown events are passed over, unknown deltas are added to their block."""
    events = events_of(Said("", "Yes.", ()), "anthropic", 9)
    events.insert(2, {"type": "novel_event", "index": 0})
    events.insert(
        3, {"type": "content_block_delta", "index": 0, "delta": {"type": "x", "mood": "a"}}
    )
    events.insert(
        4, {"type": "content_block_delta", "index": 0, "delta": {"type": "x", "mood": "b"}}
    )

    assert read_reply(events, to("anthropic")).content == [
        {"type": "text", "text": "Yes.", "mood": "ab"}
    ]


def test_hosts_without_an_index_still_make_two_calls() -> None:
    """Calls that come whole, without an index or all with index 0, stay apart."""

    def chunk(**call: Any) -> Json:
        return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}

    def function(name: str) -> Json:
        return {"name": name, "arguments": "{}"}

    for index in ({}, {"index": 0}):
        accumulator = Accumulator(to("openai-chat"))
        accumulator.take(chunk(id="a", function=function("one"), **index))
        accumulator.take(chunk(id="b", function=function("two"), **index))
        accumulator.take({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
        assert [call.name for call in accumulator.finish().calls] == ["one", "two"]


def test_responses_without_a_last_output_are_put_together() -> None:
    """A host that leaves the output of its last event empty has said it all before."""
    events = events_of(LOOKS, "openai-responses", 5)
    events[-1] = {**events[-1], "response": {**events[-1]["response"], "output": []}}

    assert like(read_reply(events, to("openai-responses"))) == like(
        read_reply(responses_body(LOOKS), to("openai-responses"))
    )


# From the reply to the next request


@given(answers(), st.sampled_from(DIALECTS), st.booleans())
def test_what_was_read_goes_back_as_it_came(said: Said, dialect: str, streams: bool) -> None:
    """A reply that was read, stored, projected and rendered for its model is what it was.

    The request is judged on the way: thinking with its signature, calls with their ids and
    arguments stand where their provider wants them.
    """
    whom = to(dialect)
    raw: Any = events_of(said, dialect, 7) if streams else body_of(said, dialect)
    reply = read_reply(raw, whom)
    stored = decode(
        encode(Assistant(content=reply.content, provider=reply.provider, model=reply.model))
    )
    assert isinstance(stored, Assistant)
    records: list[Record] = [User(content="Go on."), stored]
    records += [ToolResult(tool_use_id=call.id, content="ok") for call in reply.calls]
    records += [] if reply.calls else [User(content="And now?")]

    request = prepare_request(ProjectionRequest(records, Window(64_000), whom)).request

    assert _sent(request, dialect) == _expected(said, dialect)


def _sent(request: Json, dialect: str) -> Any:
    """What the request has in the place of the reply."""
    match dialect.partition(":")[0]:
        case "anthropic":
            blocks = request["messages"][1]["content"]
            return [
                {name: one for name, one in block.items() if name != "cache_control"}
                for block in blocks
            ]
        case "openai-chat":
            message = request["messages"][1]
            calls = [
                (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
                for call in message.get("tool_calls", ())
            ]
            return (message["reasoning_content"], message["content"], calls)
        case "openai-responses":
            return [
                {name: one for name, one in item.items() if name not in ("id", "status")}
                for item in request["input"][1:]
                if item["type"] != "function_call_output" and item.get("role") != "user"
            ]
        case _:
            return request["contents"][1]["parts"]


def _expected(said: Said, dialect: str) -> Any:
    match dialect.partition(":")[0]:
        case "anthropic":
            return anthropic_body(said)["content"]
        case "openai-chat":
            return (said.thinking or " ", said.text, list(said.calls))
        case "openai-responses":
            return [_item(item) for item in responses_body(said)["output"]]
        case _:
            return body_of(said, dialect)["candidates"][0]["content"]["parts"]


def _item(item: Json) -> Json:
    match item["type"]:
        case "message":
            return {"type": "message", "role": "assistant", "content": item["content"][0]["text"]}
        case "reasoning":
            names = ("type", "summary", "encrypted_content")
            return {name: item[name] for name in names}
        case _:
            arguments = json.dumps(json.loads(item["arguments"]), separators=(",", ":"))
            call = {"type": "function_call", "call_id": item["call_id"], "name": item["name"]}
            read = msgspec.json.encode(json.loads(arguments)).decode()
            return {**call, "arguments": read}


def test_usage_is_read_from_what_was_stored() -> None:
    """What each provider reported can be read by the meter, cached parts included."""
    sizes = {
        dialect: read_reply(body_of(LOOKS, dialect), to(dialect)).usage for dialect in DIALECTS
    }
    assert {found.prompt for found in sizes.values() if found} == {13}
    assert {found.output for found in sizes.values() if found} == {7}
