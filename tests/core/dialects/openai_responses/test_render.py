"""The Responses API: how requests are written, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.prompts import MODEL, PROVIDER, conversation, png
from tests.providers.cases import Case, Json, case_id, to, with_, without

from holdfast.core.dialects.openai_responses.render import ENCRYPTED
from holdfast.core.dialects.openai_responses.rules import RULES
from holdfast.core.dialects.openai_responses.validate import validate
from holdfast.core.dialects.registry import render_body as render
from holdfast.core.dialects.registry import target
from holdfast.core.models.messages import Message, Prompt, Text, Thinking, ToolAnswer, ToolCall

PLAIN = to("openai-responses", provider=PROVIDER, model=MODEL)
THINKING = to("openai-responses", provider=PROVIDER, model=MODEL, thinking=True)
CAPPED = to("openai-responses", output_max=4_096)


def message(role: str, content: Any = "go", **more: Any) -> Json:
    return {"type": "message", "role": role, "content": content, **more}


def call(call_id: str, **more: Any) -> Json:
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": "read",
        "arguments": "{}",
        **more,
    }


def output(call_id: str, content: Any = "done") -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": content}


def reasoning(number: int = 1, **more: Any) -> Json:
    return {
        "type": "reasoning",
        "id": f"rs_{number}",
        "summary": [],
        "encrypted_content": f"gAAA{number}",
        **more,
    }


def picture(data: str, kind: str = "image/png") -> Json:
    return {
        "type": "input_image",
        "image_url": f"data:{kind};base64,{data}",
        "detail": "auto",
    }


def request(*items: Any, **more: Any) -> Json:
    return {"store": False, "input": list(items), **more}


def declared(name: str) -> Json:
    return {"type": "function", "name": name, "parameters": {}}


PAIR = request(message("user"), call("a"), call("b"), output("a"), output("b"))
REASONED = request(message("user"), reasoning(), call("a", id="fc_1"), output("a"))
LONG = "x" * 10_485_761

CASES = [
    Case("request-shape", None, PAIR, "", "Invalid type for 'request'"),
    Case("request-shape", request(), PAIR, "input"),
    Case("request-shape", request(1), PAIR, "input.0"),
    Case("request-shape", request({"type": 1}), PAIR, "input.0.type"),
    Case("request-shape", request(message("user", "")), {"input": "hi"}, "input.0.content"),
    Case(
        "valid-unicode",
        request(message("user", "\udc00")),
        request(message("user", "😀")),
        "input.0.content",
        "lone leading surrogate",
    ),
    Case(
        "body-bytes",
        request(*(message("user", LONG[:-1]) for _ in range(5))),
        request(*(message("user", LONG[:-1]) for _ in range(4))),
        "",
        "> 50000000 bytes",
    ),
    Case(
        "call-has-output",
        without(PAIR, "input.4"),
        PAIR,
        "input.2",
        "No tool output found for function call b.",
    ),
    Case(
        "output-has-call",
        with_(PAIR, "input.5", output("c")),
        PAIR,
        "input.5",
        "No tool call found for function call output with call_id c.",
    ),
    Case(
        "output-has-call",
        request(output("a"), call("a")),
        PAIR,
        "input.0",
    ),
    Case(
        "reasoning-has-follower",
        request(message("user"), reasoning(), message("user")),
        request(message("user"), reasoning(), message("assistant"), message("user")),
        "input.1",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    ),
    Case("reasoning-has-follower", request(message("user"), reasoning()), PAIR, "input.1"),
    Case(
        "call-has-reasoning",
        without(REASONED, "input.1"),
        REASONED,
        "input.1",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item",
    ),
    Case(
        "message-has-reasoning",
        request(message("user"), message("assistant", id="msg_1"), message("user")),
        request(message("user"), reasoning(), message("assistant", id="msg_1"), message("user")),
        "input.1",
        "Item 'msg_1' of type 'message' was provided without",
    ),
    Case(
        "encrypted-content-verified",
        with_(REASONED, "input.1.encrypted_content", ""),
        REASONED,
        "input.1",
        "could not be verified. (invalid_encrypted_content)",
    ),
    Case(
        "encrypted-content-own-id",
        with_(REASONED, "input.2", reasoning(2, encrypted_content="gAAA1")) | {},
        with_(with_(REASONED, "input.2", reasoning(2)), "input.3", message("assistant")),
        "input.2",
        "item_id did not match the target item id.",
    ),
    Case("reasoning-needs-id", without(REASONED, "input.1.id"), REASONED, "input.1", "input.1.id"),
    Case(
        "reasoning-not-stored",
        without(REASONED, "input.1.encrypted_content"),
        without(REASONED, "input.1.encrypted_content") | {"store": True},
        "input.1",
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
    ),
    Case(
        "server-chain",
        PAIR | {"previous_response_id": "resp_1"},
        PAIR,
        "previous_response_id",
        "due to Zero Data Retention.",
    ),
    Case(
        "call-id-length",
        request(call("x" * 65), output("x" * 65)),
        request(call("x" * 64), output("x" * 64)),
        "input.0.call_id",
        "Invalid 'input[0].call_id': string too long. Expected a string with maximum length 64,",
    ),
    Case(
        "item-ids-unique",
        request(reasoning(), call("a"), output("a"), reasoning(), call("b"), output("b")),
        request(reasoning(), call("a"), output("a"), reasoning(2), call("b"), output("b")),
        "input.3",
        "Duplicate item found with id rs_1.",
    ),
    Case(
        "string-length",
        request(message("user", LONG)),
        request(message("user", LONG[:-1])),
        "input.0.content",
        "maximum length 10485760,",
    ),
    Case(
        "tools-max",
        request(message("user"), tools=[declared(f"t{n}") for n in range(129)]),
        request(message("user"), tools=[declared(f"t{n}") for n in range(128)]),
        "tools",
        "maximum length 128, but got an array with length 129",
    ),
    Case(
        "tool-name",
        request(message("user"), tools=[declared("fs.read")]),
        request(message("user"), tools=[declared("fs_read")]),
        "tools.0.name",
        "Invalid 'tools[0].name'",
    ),
    Case("tool-name", with_(PAIR, "input.1.name", ""), PAIR, "input.1.name"),
    Case(
        "output-tokens-min",
        request(message("user"), max_output_tokens=15),
        request(message("user"), max_output_tokens=16),
        "max_output_tokens",
        "Expected a value >= 16, but got 15 instead.",
    ),
    Case(
        "output-tokens-max",
        request(message("user"), max_output_tokens=4_097),
        request(message("user"), max_output_tokens=4_096),
        "max_output_tokens",
        "4097",
        CAPPED,
    ),
    Case(
        "images-max",
        request(message("user", [picture(png())] * 501)),
        request(message("user", [picture(png())] * 500)),
        "input.0.content.500",
    ),
    Case(
        "image-data",
        request(message("user", [picture("bm8gcGljdHVyZQ==")])),
        request(message("user", [picture(png())])),
        "input.0.content.0",
    ),
    Case(
        "image-type",
        with_(PAIR, "input.3", output("a", [picture("PHN2Zz4=", "image/svg+xml")])),
        with_(PAIR, "input.3", output("a", [picture(png())])),
        "input.3.output.0",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule_sees_what_breaks_it_and_lets_pass_what_keeps_it(case: Case) -> None:
    """The broken request is named with its place in the provider's words; the kept one is clean."""
    target = case.to or PLAIN
    found = [one for one in validate(case.broken, target) if one.rule == case.rule]
    assert case.where in [one.where for one in found], validate(case.broken, target)
    assert any(case.said in one.quote for one in found), found
    assert all("{" not in one.quote for one in found)
    assert validate(case.kept, target) == []


def test_every_rule_has_a_case() -> None:
    """No rule goes untested, and no two have one name."""
    assert {case.rule for case in CASES} == {rule.id for rule in RULES}
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_output_may_answer_a_call_that_the_server_keeps() -> None:
    """With a chain on the server, an output's call need not be in the request."""
    found = validate(request(output("a"), previous_response_id="resp_1"), PLAIN)
    assert [one.rule for one in found] == ["server-chain"]


# How requests are written.


def test_conversation_is_rendered_item_by_item() -> None:
    """The whole body of a conversation with everything in it."""
    body = render(conversation(), PLAIN)
    made, long = body["input"][2]["call_id"], body["input"][8]["call_id"]
    assert body == {
        "model": MODEL,
        "store": False,
        "max_output_tokens": 4_000,
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Reads a file",
                "parameters": {"type": "object", "properties": {"path": {}}},
                "strict": False,
            },
            {
                "type": "function",
                "name": "list",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            },
        ],
        "instructions": "You are careful.",
        "input": [
            message("user", [{"type": "input_text", "text": "What is in there?"}, picture(png())]),
            message("assistant", "Let me look."),
            {
                "type": "function_call",
                "call_id": made,
                "name": "fs_read",
                "arguments": '{"path":"a"}',
            },
            {
                "type": "function_call",
                "call_id": "toolu_01",
                "name": "list",
                "arguments": "{}",
            },
            output(made, "Error: no such file"),
            output("toolu_01", [{"type": "input_text", "text": "a.png"}, picture(png())]),
            message("assistant", "One picture."),
            message("user", [{"type": "input_text", "text": "And now?"}]),
            {
                "type": "function_call",
                "call_id": long,
                "name": "list",
                "arguments": '{"deep":[1,{"ä":"😀"}]}',
            },
            output(long, "(no output)"),
            message("user", [{"type": "input_text", "text": "Go on."}]),
        ],
    }


def thought(number: int, **more: Any) -> Thinking:
    item = {**reasoning(number), "status": "completed", **more}
    return Thinking(item=item, provider=PROVIDER, model=MODEL)


def _turn(*said: Any) -> Prompt:
    calls = [block for block in said if isinstance(block, ToolCall)]
    answers = tuple(ToolAnswer(one.id, (Text("ok"),)) for one in calls)
    return Prompt(
        (
            Message("user", (Text("go"),)),
            Message("assistant", said),
            Message("user", answers or (Text("go"),)),
        )
    )


@pytest.mark.parametrize(
    ("said", "items"),
    [
        ((thought(1), ToolCall("a", "read", {})), ["rs_1", "a"]),
        ((thought(1), thought(2), Text("So.")), ["rs_1", "rs_2", "So."]),
        ((Text("So."), thought(1)), ["So."]),
        ((thought(1),), ["(no reply)"]),
        ((thought(1), Text("So."), thought(1), Text("So.")), ["rs_1", "So.", "So."]),
        ((thought(1, encrypted_content=None), Text("So.")), ["So."]),
        ((Thinking(item=reasoning(), provider="x", model="y"), Text("So.")), ["rs_1", "So."]),
    ],
)
def test_reasoning_stays_with_what_it_led_to(said: Any, items: list[str]) -> None:
    """It stands right before its follower; alone, twice or hollow it is left out."""
    body = render(_turn(*said), THINKING)
    shown = [
        item.get("id") or item.get("call_id") or item["content"]
        for item in body["input"][1:]
        if item.get("role") != "user" and item["type"] != "function_call_output"
    ]
    assert shown == items
    assert body["include"] == [ENCRYPTED]
    assert validate(body, THINKING) == []


def test_reasoning_item_goes_back_without_what_the_api_refuses() -> None:
    """Its id, summary and content; the status it came with is no input."""
    body = render(_turn(thought(1), Text("So.")), THINKING)
    assert body["input"][1] == reasoning(1)


def test_reasoning_goes_back_with_thinking_off() -> None:
    """The prefix stays as it was; nothing encrypted is asked for."""
    body = render(_turn(thought(1), Text("So.")), PLAIN)
    assert "include" not in body
    assert body["input"][1] == reasoning(1)
    assert validate(body, PLAIN) == []


def test_small_reply_limit_is_raised_to_the_least_the_api_takes() -> None:
    """Sixteen tokens."""
    prompt = Prompt((Message("user", (Text("go"),)),), output_tokens=3)
    assert render(prompt, PLAIN)["max_output_tokens"] == 16


def test_text_longer_than_a_string_may_be_goes_in_parts() -> None:
    """Nothing is cut, wherever the text stands."""
    prompt = Prompt(
        (
            Message("user", (Text(LONG),)),
            Message("assistant", (Text(LONG), ToolCall("a", "read", {}))),
            Message("user", (ToolAnswer("a", (Text(LONG),)),)),
        )
    )
    body = render(prompt, to("openai-responses", model=MODEL))
    assert [one.rule for one in validate(body, PLAIN)] == []
    assert "".join(part["text"] for part in body["input"][0]["content"]) == LONG
    assert "".join(part["text"] for part in body["input"][4]["output"]) == LONG
    assert "".join(item["content"] for item in body["input"][1:3]) == LONG


@pytest.mark.parametrize(
    ("model", "is_marked"), [("gpt-5", False), ("gpt-5.6-sol", True), ("gpt-6.2-sol", True)]
)
def test_instructions_end_a_block_that_the_host_marks(model: str, is_marked: bool) -> None:
    """Where writing is charged for, a developer's message comes first: the host marks its end."""
    prompt = Prompt((Message("user", (Text("Well?"),)),), "Be brief.", (), 500)
    body = render(prompt, target("openai-responses", provider="openai", model=model))
    content = [{"type": "input_text", "text": "Be brief."}]
    first = {"type": "message", "role": "developer", "content": content}
    assert (body["input"][0] == first) is is_marked
    assert ("instructions" in body) is not is_marked
    assert len(body["input"]) == 1 + is_marked
