"""Chat Completions, OpenAI's and its imitators': how requests are written and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.prompts import MODEL, PROVIDER, conversation, png
from tests.providers.cases import Case, Json, case_id, to, with_, without

from holdfast.core.dialects.openai_chat.render import BRIDGE, NO_REASONING
from holdfast.core.dialects.openai_chat.rules import RULES
from holdfast.core.dialects.openai_chat.validate import validate
from holdfast.core.dialects.registry import render_body as render
from holdfast.core.models.messages import (
    Image,
    Message,
    Other,
    Prompt,
    Text,
    Thinking,
    ToolAnswer,
    ToolCall,
)

OPENAI = to("openai-chat", provider=PROVIDER, model=MODEL)
MISTRAL = to("openai-chat:mistral", provider=PROVIDER, model=MODEL)
DEEPSEEK = to("openai-chat:deepseek", provider=PROVIDER, model=MODEL, thinking=True)
KIMI = to("openai-chat:kimi", provider=PROVIDER, model=MODEL)
LOCAL = to("openai-chat:local", provider=PROVIDER, model=MODEL)
CAPPED = to("openai-chat", output_max=4_096)


def user(content: Any = "go") -> Json:
    return {"role": "user", "content": content}


def said(content: Any = "ok", *ids: str, **more: Any) -> Json:
    calls = [
        {"id": one, "type": "function", "function": {"name": "read", "arguments": "{}"}}
        for one in ids
    ]
    return {
        "role": "assistant",
        "content": content,
        **({"tool_calls": calls} if ids else {}),
        **more,
    }


def tool(call_id: str, content: Any = "done") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def picture(uri: str) -> Json:
    return {"type": "image_url", "image_url": {"url": uri}}


def inline(data: str, kind: str = "image/png") -> Json:
    return picture(f"data:{kind};base64,{data}")


def request(*messages: Any, **more: Any) -> Json:
    return {"messages": list(messages), **more}


def declared(name: str) -> Json:
    return {"type": "function", "function": {"name": name, "parameters": {}}}


PAIR = request(user(), said(None, "a", "b"), tool("a"), tool("b"), user("and?"))
NINE = request(user(), said(None, "aaaaaaaaa", "bbbbbbbbb"), tool("aaaaaaaaa"), tool("bbbbbbbbb"))
REASONED = request(user(), said(None, "a", reasoning_content="Hm."), tool("a"))
LONG = "x" * 1_048_577
LARGE = png() + "A" * (10_000_004 - len(png()))

CASES = [
    Case("request-shape", "hi", PAIR, "", "Invalid type for 'request'"),
    Case("request-shape", request(), PAIR, "messages"),
    Case("request-shape", request(3), PAIR, "messages.0"),
    Case("request-shape", request({"role": "me", "content": "x"}), PAIR, "messages.0.role"),
    Case("request-shape", request(user(None)), PAIR, "messages.0.content"),
    Case("request-shape", request(user([])), PAIR, "messages.0.content"),
    Case(
        "request-shape",
        with_(PAIR, "messages.1.tool_calls", []),
        PAIR,
        "messages.1.tool_calls",
    ),
    Case(
        "valid-unicode",
        request(user("\ud800")),
        request(user("😀")),
        "messages.0.content",
        "lone leading surrogate in hex escape",
    ),
    Case(
        "body-bytes",
        request(*(user(LONG[:-1]) for _ in range(48))),
        request(*(user(LONG[:-1]) for _ in range(47))),
        "",
        "> 50000000 bytes",
    ),
    Case(
        "tool-follows-call",
        request(user(), tool("a")),
        request(user(), said(None, "a"), tool("a")),
        "messages.1",
        "must be a response to a preceeding message with 'tool_calls'.",
    ),
    Case("tool-follows-call", with_(PAIR, "messages.3", tool("c")), PAIR, "messages.3"),
    Case(
        "tool-follows-call",
        request(user(), said(None, "a"), user(), tool("a")),
        PAIR,
        "messages.3",
    ),
    Case(
        "calls-answered",
        without(PAIR, "messages.3"),
        PAIR,
        "messages.1",
        "The following tool_call_ids did not have response messages: b",
    ),
    Case("calls-answered", request(user(), said(None, "a")), PAIR, "messages.1"),
    Case(
        "call-id-length",
        request(user(), said(None, "x" * 41), tool("x" * 41)),
        request(user(), said(None, "x" * 40), tool("x" * 40)),
        "messages.1.tool_calls.0.id",
        "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum "
        "length 40, but got a string with length 41 instead.",
    ),
    Case(
        "string-length",
        request(user(LONG)),
        request(user(LONG[:-1])),
        "messages.0.content",
        "Invalid 'messages[0].content': string too long. Expected a string with maximum length "
        "1048576,",
    ),
    Case(
        "string-length",
        request(user([{"type": "text", "text": LONG}])),
        request(user([inline(LARGE)])),
        "messages.0.content.0.text",
    ),
    Case(
        "tools-max",
        request(user(), tools=[declared(f"t{n}") for n in range(129)]),
        request(user(), tools=[declared(f"t{n}") for n in range(128)]),
        "tools",
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an "
        "array with length 129 instead.",
    ),
    Case(
        "messages-max",
        request(*(user() for _ in range(2_049))),
        request(*(user() for _ in range(2_048))),
        "messages",
        "maximum length 2048",
    ),
    Case(
        "tool-name",
        request(user(), tools=[declared("fs.read")]),
        request(user(), tools=[declared("fs_read")]),
        "tools.0.function.name",
        "Invalid 'tools[0].function.name'",
    ),
    Case(
        "tool-name",
        with_(PAIR, "messages.1.tool_calls.0.function.name", "a b"),
        PAIR,
        "messages.1.tool_calls.0.function.name",
    ),
    Case(
        "output-tokens-max",
        request(user(), max_tokens=4_097),
        request(user(), max_completion_tokens=4_096),
        "max_tokens",
        "max_tokens is too large: 4097. This model supports at most 4096 completion tokens",
        CAPPED,
    ),
    Case(
        "images-max",
        request(user([inline(png())] * 9)),
        request(user([inline(png())] * 8)),
        "messages.0.content.8",
        "9 > 8",
        MISTRAL,
    ),
    Case(
        "images-max",
        request(user([picture("https://example.org/a.png")])),
        request(user()),
        "messages.0.content.0",
        "1 > 0",
        to("openai-chat:deepseek"),
    ),
    Case(
        "image-data",
        request(user([inline("bm8gcGljdHVyZQ==")])),
        request(user([inline(png())])),
        "messages.0.content.0",
    ),
    Case(
        "image-type",
        request(user([inline("PHN2Zz4=", "image/svg+xml")])),
        request(user([inline(png())])),
        "messages.0.content.0",
        "unsupported image (image/svg+xml)",
    ),
    Case(
        "image-bytes",
        request(user([inline(LARGE)])),
        request(user([inline(LARGE[:-4])])),
        "messages.0.content.0",
        "10000004 > 10000000",
        MISTRAL,
    ),
    Case(
        "image-role",
        request(user(), said(None, "a"), tool("a", [inline(png())])),
        request(user(), said(None, "a"), tool("a"), user([inline(png())])),
        "messages.2.content.0",
        "only allowed for messages with role 'user', but this message with role 'tool'",
    ),
    Case(
        "deepseek-tool-follows-call",
        request(user(), tool("a")),
        request(user(), said(None, "a", reasoning_content="Hm."), tool("a")),
        "messages.1",
        "must be a response to a preceding message",
        DEEPSEEK,
    ),
    Case(
        "deepseek-reasoning-content",
        request(user(), said(), user()),
        request(user(), said(reasoning_content=""), user()),
        "messages.1",
        "must be passed back to the API.",
        DEEPSEEK,
    ),
    Case(
        "deepseek-reasoning-content",
        request(user(), said(), user(), thinking={"type": "enabled"}),
        request(user(), said(), user()),
        "messages.1",
        "",
        to("openai-chat:deepseek"),
    ),
    Case(
        "kimi-tool-call-id-known",
        with_(REASONED, "messages.2", tool("b")),
        REASONED,
        "messages.2",
        "tool_call_id b is not found",
        KIMI,
    ),
    Case(
        "kimi-reasoning-content",
        with_(REASONED, "messages.1.reasoning_content", ""),
        with_(REASONED, "messages.1.reasoning_content", " "),
        "messages.1",
        "reasoning_content is missing in assistant tool call message at index 1",
        KIMI,
    ),
    Case(
        "kimi-reasoning-content",
        without(REASONED, "messages.1.reasoning_content"),
        without(REASONED, "messages.1.reasoning_content") | {"thinking": {"type": "disabled"}},
        "messages.1",
        "",
        KIMI,
    ),
    Case(
        "mistral-call-id",
        request(user(), said(None, "call_1"), tool("call_1")),
        NINE,
        "messages.1.tool_calls.0.id",
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        MISTRAL,
    ),
    Case(
        "mistral-user-after-tool",
        with_(NINE, "messages.4", user()),
        with_(with_(NINE, "messages.4", said("I see.")), "messages.5", user()),
        "messages.4",
        "Unexpected role 'user' after role 'tool'",
        MISTRAL,
    ),
    Case(
        "mistral-tool-after-user",
        request(user(), tool("aaaaaaaaa")),
        NINE,
        "messages.1",
        "Unexpected role 'tool' after role 'user'",
        MISTRAL,
    ),
    Case(
        "mistral-counts-equal",
        without(NINE, "messages.3"),
        NINE,
        "messages.1",
        "Not the same number of function calls and responses",
        MISTRAL,
    ),
    Case(
        "mistral-counts-equal",
        with_(NINE, "messages.4", tool("bbbbbbbbb")),
        NINE,
        "messages.1",
        "",
        MISTRAL,
    ),
    Case(
        "mistral-last-role",
        request(user(), said("So")),
        request(user(), said("So", prefix=True)),
        "messages.1",
        "Expected last role User or Tool (or Assistant with prefix True)",
        MISTRAL,
    ),
    Case(
        "local-roles-alternate",
        PAIR,
        without(PAIR, "messages.4"),
        "messages.4",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        LOCAL,
    ),
    Case(
        "local-roles-alternate",
        request({"role": "system", "content": "s"}, said()),
        request({"role": "system", "content": "s"}, user(), said(), user()),
        "messages.1",
        "",
        LOCAL,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule_sees_what_breaks_it_and_lets_pass_what_keeps_it(case: Case) -> None:
    """The broken request is named with its place in the provider's words; the kept one is clean."""
    target = case.to or OPENAI
    found = [one for one in validate(case.broken, target) if one.rule == case.rule]
    assert case.where in [one.where for one in found], validate(case.broken, target)
    assert any(case.said in one.quote for one in found), found
    assert all("{" not in one.quote for one in found)
    assert validate(case.kept, target) == []


def test_every_rule_has_a_case() -> None:
    """No rule goes untested, and no two have one name."""
    assert {case.rule for case in CASES} == {rule.id for rule in RULES}
    assert len({rule.id for rule in RULES}) == len(RULES)


# How requests are written.


def roles(body: Json) -> str:
    """The roles in order, by their first letters."""
    return "".join(message["role"][0] for message in body["messages"])


def test_conversation_is_rendered_message_by_message() -> None:
    """The whole body of a conversation with everything in it."""
    body = render(conversation(), OPENAI)
    calls = body["messages"][2]["tool_calls"]
    made, long = calls[0]["id"], body["messages"][8]["tool_calls"][0]["id"]
    assert body == {
        "model": MODEL,
        "max_completion_tokens": 4_000,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read",
                    "description": "Reads a file",
                    "parameters": {"type": "object", "properties": {"path": {}}},
                },
            },
            {
                "type": "function",
                "function": {"name": "list", "parameters": {"type": "object", "properties": {}}},
            },
        ],
        "messages": [
            {"role": "system", "content": "You are careful."},
            user([{"type": "text", "text": "What is in there?"}, inline(png())]),
            {
                "role": "assistant",
                "content": "Let me look.",
                "tool_calls": [
                    {
                        "id": made,
                        "type": "function",
                        "function": {"name": "fs_read", "arguments": '{"path":"a"}'},
                    },
                    {
                        "id": "toolu_01",
                        "type": "function",
                        "function": {"name": "list", "arguments": "{}"},
                    },
                ],
            },
            tool(made, "Error: no such file"),
            tool("toolu_01", "a.png"),
            user([{"type": "text", "text": "[From the result of call toolu_01:]"}, inline(png())]),
            said("One picture."),
            user("And now?"),
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": long,
                        "type": "function",
                        "function": {"name": "list", "arguments": '{"deep":[1,{"ä":"😀"}]}'},
                    }
                ],
            },
            tool(long, "(no output)"),
            user("Go on."),
        ],
    }


def test_hosts_that_insist_get_an_assistant_between_results_and_user() -> None:
    """Mistral and strict templates; the others get the user's words right after the results."""
    assert roles(render(conversation(), OPENAI)) == "suattuauatu"
    assert roles(render(conversation(), MISTRAL)) == "suattauauatau"
    assert roles(render(conversation(), LOCAL)) == "suattauauatau"
    bridge = render(conversation(), MISTRAL)["messages"][5]
    assert bridge == {"role": "assistant", "content": BRIDGE}


def test_mistral_gets_nine_letters_and_its_own_name_for_the_limit() -> None:
    """Both sides of a pair carry the same short id."""
    body = render(conversation(), MISTRAL)
    assert body["max_tokens"] == 4_000
    call, answer = body["messages"][2]["tool_calls"][0]["id"], body["messages"][3]["tool_call_id"]
    assert call == answer
    assert len(call) == 9


def test_reasoning_goes_back_where_the_host_wants_it() -> None:
    """Kimi always, DeepSeek while thinking, with a blank where it is lost; OpenAI never."""
    kimi = [one for one in render(conversation(), KIMI)["messages"] if one["role"] == "assistant"]
    texts = ["I should look.", "Elsewhere.", NO_REASONING]
    assert [one["reasoning_content"] for one in kimi] == texts
    deepseek = render(conversation(), DEEPSEEK)
    assert deepseek["thinking"] == {"type": "enabled"}
    found = [one for one in deepseek["messages"] if "reasoning_content" in one]
    assert [one["reasoning_content"] for one in found] == texts
    for target in (OPENAI, MISTRAL, LOCAL, to("openai-chat:deepseek", model=MODEL)):
        assert "reasoning_content" not in str(render(conversation(), target))


def test_pictures_stay_away_from_hosts_that_take_none() -> None:
    """DeepSeek gets a note in the picture's place."""
    body = render(conversation(), DEEPSEEK)
    assert "image_url" not in str(body)
    assert "this model cannot be shown it" in body["messages"][1]["content"]


def test_result_that_is_only_a_picture_says_where_it_went() -> None:
    """The tool message is not empty, and the picture follows from the user."""
    prompt = Prompt(
        (
            Message("user", (Text("go"),)),
            Message("assistant", (ToolCall("a", "see", {}),)),
            Message("user", (ToolAnswer("a", (Image(url="https://example.org/a.png"),)),)),
        )
    )
    messages = render(prompt, OPENAI)["messages"]
    assert messages[2]["content"] == "(see the image)"
    assert messages[3]["content"][1] == picture("https://example.org/a.png")


def test_message_of_nothing_but_foreign_thinking_is_not_empty() -> None:
    """Roles go on alternating, and nothing empty is sent."""
    prompt = Prompt(
        (
            Message("user", (Text("go"),)),
            Message("assistant", (Thinking("Hm.", provider="x", model="y"),)),
            Message("user", (Text("go"),)),
        )
    )
    assert render(prompt, OPENAI)["messages"][1] == said("(no reply)")


def test_text_longer_than_a_string_may_be_goes_in_parts() -> None:
    """Nothing is cut; hosts that take one string only get one."""
    prompt = Prompt((Message("user", (Text(LONG),)),), system=LONG)
    body = render(prompt, OPENAI)
    assert validate(body, OPENAI) == []
    for message in body["messages"]:
        assert "".join(part["text"] for part in message["content"]) == LONG
    assert render(prompt, LOCAL)["messages"][1]["content"] == LONG


def test_address_that_nobody_can_fetch_becomes_a_note() -> None:
    """A path on somebody's disk is no address for a provider; neither is broken data."""
    for image in (Image(url="file:///a.png"), Image("bm8gcGljdHVyZQ==", "image/png")):
        prompt = Prompt((Message("user", (image,)),))
        assert "cannot be shown it" in render(prompt, OPENAI)["messages"][0]["content"]


def test_a_reply_has_no_empty_part_beside_a_part_of_its_host() -> None:
    """An empty one is refused."""
    own = Other(
        "refusal", {"type": "refusal", "refusal": "no"}, dialect="openai-chat", provider=PROVIDER
    )
    prompt = Prompt(
        messages=(Message("user", (Text("go"),)), Message("assistant", (Text(""), own)))
    )
    (_user, reply) = render(prompt, OPENAI)["messages"]
    assert reply["content"] == [own.raw]
