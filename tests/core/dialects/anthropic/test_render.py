"""Anthropic's requests: how they are written, what is marked, and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.prompts import MODEL, PROVIDER, conversation, png
from tests.providers.cases import Case, Json, case_id, to, with_, without

from holdfast.core.dialects.anthropic.rules import RULES, is_adaptive
from holdfast.core.dialects.anthropic.validate import validate
from holdfast.core.dialects.registry import DIALECTS, VARIANTS
from holdfast.core.dialects.registry import render_body as render
from holdfast.core.models.messages import (
    Image,
    Message,
    Other,
    Prompt,
    Text,
    Thinking,
    Tool,
    ToolAnswer,
    ToolCall,
)

DIRECT = to("anthropic", provider=PROVIDER, model=MODEL)
THINKING = to("anthropic", provider=PROVIDER, model=MODEL, thinking=True)
BEDROCK = to("anthropic:bedrock", provider=PROVIDER, model=MODEL)


def user(*blocks: Any) -> Json:
    return {"role": "user", "content": [_block(block) for block in blocks]}


def assistant(*blocks: Any) -> Json:
    return {"role": "assistant", "content": [_block(block) for block in blocks]}


def _block(block: Any) -> Json:
    return {"type": "text", "text": block} if isinstance(block, str) else block


def use(call_id: str, kind: str = "tool_use") -> Json:
    return {"type": kind, "id": call_id, "name": "read", "input": {}}


def result(call_id: str, content: Any = "ok") -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def think(text: str = "Hm.", signature: Any = "c2ln") -> Json:
    return {"type": "thinking", "thinking": text, "signature": signature}


def image(data: str, kind: str = "image/png") -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def request(*messages: Any, **more: Any) -> Json:
    return {"max_tokens": 4_000, "messages": list(messages), **more}


PAIR = request(user("go"), assistant(use("a"), use("b")), user(result("a"), result("b"), "and?"))
TOOLS = [{"name": "read", "input_schema": {"type": "object"}}]
ON = {"type": "enabled", "budget_tokens": 2_000}
MARK = {"type": "ephemeral"}
THOUGHT = request(
    user("go"), assistant(think(), use("a")), user(result("a")), thinking=ON, max_tokens=4_000
)
SERVED = request(
    user("go"),
    assistant(
        use("srvtoolu_1", "server_tool_use"),
        {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    ),
    user("thanks"),
)
MARKED = request(
    user(*({"type": "text", "text": "x", "cache_control": MARK} for _ in range(2))),
    system=[{"type": "text", "text": "s", "cache_control": MARK}],
    tools=[{**TOOLS[0], "cache_control": MARK}],
)
LARGE = png() + "A" * (5 * 1_048_576 + 4 - len(png()))

CASES = [
    Case("request-shape", [], PAIR, "", "request: Input should be an object"),
    Case("request-shape", request(), PAIR, "messages"),
    Case("request-shape", request("hi"), PAIR, "messages.0", "messages.0: Input should be"),
    Case("request-shape", with_(PAIR, "messages.0.role", "system"), PAIR, "messages.0.role"),
    Case("request-shape", with_(PAIR, "messages.0.content", None), PAIR, "messages.0.content"),
    Case("request-shape", with_(PAIR, "messages.0.content.0", "x"), PAIR, "messages.0.content.0"),
    Case(
        "valid-unicode",
        request(user("ab\ud83d")),
        request(user("ab😀")),
        "messages.0.content.0.text",
        "no low surrogate in string: line 1 column … (char 2)",
    ),
    Case(
        "body-bytes",
        request(user("x" * 32_000_000)),
        request(user("x" * 31_000_000)),
        "",
        "413 request_too_large",
    ),
    Case("max-tokens-required", without(PAIR, "max_tokens"), PAIR, "max_tokens"),
    Case("first-is-user", request(assistant("hi"), user("go")), PAIR, "messages.0"),
    Case(
        "ends-with-user",
        request(user("go"), assistant("{"), model="claude-opus-4-6"),
        request(user("go"), assistant("{"), model="claude-sonnet-4-5-20250929"),
        "messages.1",
        "does not support assistant message prefill",
    ),
    Case(
        "ends-with-user",
        request(user("go"), assistant(think(), "{"), thinking=ON),
        request(user("go"), assistant(think(), "{"), user("on"), thinking=ON),
        "messages.1",
    ),
    Case(
        "prefill-trailing-space",
        request(user("go"), assistant("So ")),
        request(user("go"), assistant("So")),
        "messages.1.content.0",
    ),
    Case(
        "content-not-empty",
        request(user("go"), {"role": "assistant", "content": []}, user("go")),
        request(user("go"), {"role": "assistant", "content": []}),
        "messages.1",
        "messages.1: all messages must have non-empty content",
    ),
    Case("content-not-empty", request({"role": "user", "content": ""}), PAIR, "messages.0"),
    Case("text-not-empty", request(user("go", "")), PAIR, "messages.0.content.1"),
    Case("text-not-empty", request(user(" \n")), PAIR, "messages.0.content.0"),
    Case("text-not-empty", request({"role": "user", "content": " "}), PAIR, "messages.0.content"),
    Case(
        "text-not-empty",
        with_(PAIR, "messages.2.content.0", result("a", [_block("")])),
        with_(PAIR, "messages.2.content.0", result("a", [_block("x")])),
        "messages.2.content.0.content.0",
    ),
    Case("text-not-empty", request(user("go"), system=[_block("")]), PAIR, "system.0"),
    Case(
        "block-role",
        request(user("go", use("a")), user(result("a"))),
        PAIR,
        "messages.0.content.1",
        "`tool_use` blocks can only be in `assistant` messages",
    ),
    Case(
        "tool-use-answered",
        without(PAIR, "messages.2.content.1"),
        PAIR,
        "messages.1",
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: b.",
    ),
    Case("tool-use-answered", without(PAIR, "messages.2"), PAIR, "messages.1", "after: a, b."),
    Case(
        "tool-result-expected",
        request(user("go"), assistant("ok"), user(result("a"))),
        PAIR,
        "messages.2.content.0",
        "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a.",
    ),
    Case("tool-result-expected", request(user(result("a"))), PAIR, "messages.0.content.0"),
    Case(
        "results-first",
        request(user("go"), assistant(use("a")), user("so:", result("a"))),
        request(user("go"), assistant(use("a")), user(result("a"), "so.")),
        "messages.2",
        "Did not find 1 tool_result block(s) at the beginning",
    ),
    Case(
        "tool-use-ids-unique",
        request(
            user("go"),
            assistant(use("a")),
            user(result("a")),
            assistant(use("a")),
            user(result("a")),
        ),
        request(
            user("go"),
            assistant(use("a")),
            user(result("a")),
            assistant(use("b")),
            user(result("b")),
        ),
        "messages.3.content.0",
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    Case(
        "one-result-per-id",
        request(user("go"), assistant(use("a")), user(result("a"), result("a"))),
        request(user("go"), assistant(use("a")), user(result("a"))),
        "messages.2.content.1",
        "Found multiple `tool_result` blocks with id: a",
    ),
    Case(
        "tool-use-id-pattern",
        request(user("go"), assistant(use("a|b")), user(result("a|b"))),
        request(user("go"), assistant(use("a-b_C1")), user(result("a-b_C1"))),
        "messages.1.content.0.tool_use.id",
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    Case(
        "tool-use-id-length",
        request(user("go"), assistant(use("a" * 129)), user(result("a" * 129))),
        request(user("go"), assistant(use("a" * 128)), user(result("a" * 128))),
        "messages.2.content.0.tool_result.tool_use_id",
        "at most 128 characters",
    ),
    Case(
        "server-result-follows-use",
        without(SERVED, "messages.1.content.0"),
        SERVED,
        "messages.1.content.0",
        "unexpected `tool_use_id` found in `advisor_tool_result` blocks: srvtoolu_1.",
    ),
    Case(
        "server-use-has-result",
        with_(SERVED, "messages.1.content.1", _block("found")),
        SERVED,
        "messages.1.content.0",
        "`read` tool use with id `srvtoolu_1`",
    ),
    Case(
        "thinking-first",
        without(THOUGHT, "messages.1.content.0"),
        THOUGHT,
        "messages.1.content.0",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
        "`tool_use`.",
    ),
    Case(
        "thinking-first", THOUGHT | {"messages": PAIR["messages"]}, THOUGHT, "messages.1.content.0"
    ),
    Case(
        "thinking-off",
        without(THOUGHT, "thinking"),
        without(without(THOUGHT, "thinking"), "messages.1.content.0"),
        "messages.1.content.0",
        "When thinking is disabled",
    ),
    Case(
        "thinking-unmodified",
        with_(THOUGHT, "messages.1.content.0", think("")),
        with_(
            THOUGHT | {"thinking": {**ON, "display": "omitted"}}, "messages.1.content.0", think("")
        ),
        "messages.1.content.0",
        "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant",
    ),
    Case(
        "thinking-unmodified",
        with_(THOUGHT, "messages.1.content", [think(), think(), use("a")]),
        with_(THOUGHT, "messages.1.content", [think(), think(signature="eA=="), use("a")]),
        "messages.1.content.1",
    ),
    Case(
        "thinking-unmodified",
        with_(THOUGHT, "messages.1.content.0", {"type": "redacted_thinking"}),
        with_(THOUGHT, "messages.1.content.0", {"type": "redacted_thinking", "data": "eA=="}),
        "messages.1.content.0",
    ),
    Case(
        "thinking-signature",
        with_(THOUGHT, "messages.1.content.0.signature", ""),
        THOUGHT,
        "messages.1.content.0",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    ),
    Case(
        "thinking-budget-below-max",
        with_(THOUGHT, "max_tokens", 2_000),
        with_(THOUGHT, "max_tokens", 2_001),
        "max_tokens",
    ),
    Case(
        "thinking-budget-min",
        with_(THOUGHT, "thinking.budget_tokens", 1_023),
        with_(THOUGHT, "thinking.budget_tokens", 1_024),
        "thinking.budget_tokens",
    ),
    Case(
        "cache-marks-max",
        with_(MARKED, "messages.0.content.2", {**_block("y"), "cache_control": MARK}),
        MARKED,
        "messages.0.content.2",
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    Case(
        "cache-marks-max",
        with_(
            MARKED,
            "messages.0.content.2",
            {
                "type": "document",
                "source": {"type": "content", "content": [{**_block("y"), "cache_control": MARK}]},
            },
        ),
        # A parameter may be called so; it is no mark.
        with_(MARKED, "tools.0.input_schema", {"type": "object", "cache_control": MARK}),
        "messages.0.content.2.source.content.0",
    ),
    Case(
        "images-max",
        request(user(*(image(png()) for _ in range(101)))),
        request(user(*(image(png()) for _ in range(100)))),
        "messages.0.content.100",
        "101 > 100",
    ),
    Case(
        "image-data",
        request(user(image("bm8gcGljdHVyZQ=="))),
        request(user(image(png()))),
        "messages.0.content.0",
        "Could not process image",
    ),
    Case(
        "image-type",
        request(user(image("PHN2Zz4=", "image/svg+xml"))),
        request(user(image(png()))),
        "messages.0.content.0",
    ),
    Case(
        "image-bytes",
        request(user(image(LARGE))),
        request(user(image(LARGE[:-4]))),
        "messages.0.content.0",
        "image exceeds 5 MB maximum: 5242884 bytes > 5242880 bytes",
    ),
    Case(
        "image-pixels",
        request(user(image(png(8_001, 10)))),
        request(user(image(png(8_000, 10)))),
        "messages.0.content.0",
        "8000 pixels",
    ),
    Case(
        "many-image-pixels",
        request(user(*(image(png(10, 2_001)) for _ in range(21)))),
        request(user(*(image(png(10, 2_001)) for _ in range(20)))),
        "messages.0.content.0",
        "max allowed size for many-image requests: 2000 pixels",
    ),
    Case(
        "image-pixels",
        with_(PAIR, "messages.2.content.0", result("a", [image(png(9_000, 1))])),
        with_(PAIR, "messages.2.content.0", result("a", [image(png(900, 1))])),
        "messages.2.content.0.content.0",
    ),
    Case(
        "tool-name",
        request(user("go"), tools=[{**TOOLS[0], "name": "fs.read"}]),
        request(user("go"), tools=TOOLS),
        "tools.0",
        "tools.0.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    ),
    Case(
        "tool-names-unique",
        request(user("go"), tools=TOOLS * 2),
        request(user("go"), tools=TOOLS),
        "tools.1",
    ),
    Case(
        "bedrock-roles-alternate",
        request(user("go"), user("go")),
        request(user("go"), assistant("ok"), user("go")),
        "messages.1",
        "A conversation must alternate between user and assistant roles.",
        BEDROCK,
    ),
    Case(
        "bedrock-tools-declared",
        PAIR,
        PAIR | {"tools": TOOLS},
        "tools",
        "toolConfig field must be defined",
        BEDROCK,
    ),
    Case(
        "bedrock-results-missing",
        without(PAIR | {"tools": TOOLS}, "messages.2.content.1"),
        PAIR | {"tools": TOOLS},
        "messages.1",
        "Expected toolResult blocks at messages.2.content for the following Ids: b",
        BEDROCK,
    ),
    Case(
        "bedrock-results-excess",
        with_(PAIR | {"tools": TOOLS}, "messages.2.content.2", result("c")),
        PAIR | {"tools": TOOLS},
        "messages.2.content.2",
        "The number of toolResult blocks at messages.2.content exceeds",
        BEDROCK,
    ),
    Case(
        "bedrock-ids-unique",
        request(user("go"), assistant(use("a"), use("a")), user(result("a")), tools=TOOLS),
        request(user("go"), assistant(use("a")), user(result("a")), tools=TOOLS),
        "messages.1.content.1",
        "The toolUse blocks at messages.1.content contain duplicate Ids: a",
        BEDROCK,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule_sees_what_breaks_it_and_lets_pass_what_keeps_it(case: Case) -> None:
    """The broken request is named with its place in the provider's words; the kept one is clean."""
    target = case.to or DIRECT
    found = [one for one in validate(case.broken, target) if one.rule == case.rule]
    assert case.where in [one.where for one in found], validate(case.broken, target)
    assert any(case.said in one.quote for one in found), found
    assert all("{" not in one.quote or "{1," in one.quote for one in found)
    assert validate(case.kept, target) == []


def test_every_rule_has_a_case() -> None:
    """No rule goes untested, and no two have one name."""
    assert {case.rule for case in CASES} == {rule.id for rule in RULES}
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_direct_api_joins_neighbours_of_one_role() -> None:
    """What Bedrock refuses the direct API reads as one message, pairs included."""
    split = request(user("go"), assistant(use("a")), assistant(use("b")), user(result("a")))
    split["messages"].append(user(result("b")))
    assert validate(split, DIRECT) == []
    rules = {one.rule for one in validate(split | {"tools": TOOLS}, BEDROCK)}
    assert rules == {"bedrock-roles-alternate"}


def test_adaptive_models_need_not_begin_with_thinking() -> None:
    """Models that decide by themselves may skip it, so nothing is missing where it is not."""
    found = validate(PAIR | {"thinking": {"type": "adaptive"}, "model": "claude-opus-4-6"}, DIRECT)
    assert found == []
    assert [is_adaptive(name) for name in ("claude-opus-4-6", "claude-sonnet-5", "x")] == [
        True,
        True,
        False,
    ]
    assert not any(
        map(is_adaptive, ("claude-3-7-sonnet-20250219", "claude-sonnet-4-20250514", "claude-2.1"))
    )


# How requests are written.


def test_conversation_is_rendered_block_by_block() -> None:
    """The whole body of a conversation with everything in it."""
    body = render(conversation(), to("anthropic", provider=PROVIDER, model=MODEL, cache="none"))
    made = body["messages"][1]["content"][1]["id"]
    long = body["messages"][5]["content"][0]["id"]
    assert body == {
        "model": MODEL,
        "max_tokens": 4_000,
        "tools": [
            {
                "name": "read",
                "description": "Reads a file",
                "input_schema": {"type": "object", "properties": {"path": {}}},
            },
            {"name": "list", "input_schema": {"type": "object", "properties": {}}},
        ],
        "system": [{"type": "text", "text": "You are careful."}],
        "messages": [
            user("What is in there?", image(png())),
            assistant(
                "Let me look.",
                {"type": "tool_use", "id": made, "name": "fs_read", "input": {"path": "a"}},
                {"type": "tool_use", "id": "toolu_01", "name": "list", "input": {}},
            ),
            user(
                {**result(made, [_block("no such file")]), "is_error": True},
                result("toolu_01", [_block("a.png"), image(png())]),
            ),
            assistant("One picture."),
            user("And now?"),
            assistant(
                {
                    "type": "tool_use",
                    "id": long,
                    "name": "list",
                    "input": {"deep": [1, {"ä": "😀"}]},
                }
            ),
            user(result(long, [_block("(no output)")]), "Go on."),
        ],
    }


def test_thinking_goes_back_unchanged() -> None:
    """With thinking on, all that the projection let through; else none of an older model."""
    body = render(conversation(), THINKING)
    kinds = [[block["type"] for block in one["content"]] for one in body["messages"]]
    assert body["messages"][1]["content"][0] == think("I should look.")
    assert kinds[3] == ["thinking", "text"]
    assert "thinking" not in str(render(conversation(), DIRECT)["messages"])


def _loop(*said: Any, output: int = 4_000) -> Prompt:
    return Prompt(
        messages=(
            Message("user", (Text("go"),)),
            Message("assistant", (*said, ToolCall("a", "read", {}))),
            Message("user", (ToolAnswer("a", (Text("ok"),)),)),
        ),
        output_tokens=output,
    )


def test_thinking_is_not_begun_amid_a_turn() -> None:
    """A turn whose thinking is lost goes on without; a turn that has it goes on with it."""
    mine = Thinking("Hm.", "c2ln", provider=PROVIDER, model=MODEL)
    assert render(_loop(mine), THINKING)["thinking"] == {"type": "enabled", "budget_tokens": 2_000}
    assert "thinking" not in render(_loop(Text("So.")), THINKING)
    for prompt in (_loop(mine), _loop(Text("So.")), _loop(Text("So."), mine)):
        assert validate(render(prompt, THINKING), THINKING) == []


@pytest.mark.parametrize(
    ("output", "wanted", "budget"),
    [(4_000, 0, 2_000), (1_025, 0, 1_024), (4_000, 9_000, 3_999), (4_000, 5, 1_024)],
)
def test_thinking_budget_keeps_its_bounds(output: int, wanted: int, budget: int) -> None:
    """At least 1,024 and less than the output; too small an output means no thinking."""
    mine = Thinking("Hm.", "c2ln", provider=PROVIDER, model=MODEL)
    target = to("anthropic", provider=PROVIDER, model=MODEL, thinking=True, thinking_tokens=wanted)
    assert render(_loop(mine, output=output), target)["thinking"]["budget_tokens"] == budget
    small = render(_loop(mine, output=1_024), target)
    assert "thinking" not in small
    assert validate(small, target) == []


def test_adaptive_model_is_asked_to_show_its_thinking() -> None:
    """Thinking that is not shown could not be stored whole."""
    target = to("anthropic", provider="anthropic", model="claude-opus-4-7", thinking=True)
    body = render(_loop(Text("So.")), target)
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert validate(body, target) == []


def test_reply_limit_of_the_model_is_kept() -> None:
    """What the caller asks for is cut to what the model can give."""
    target = to("anthropic", model="m", output_max=1_500)
    assert render(conversation(), target)["max_tokens"] == 1_500
    assert render(Prompt(conversation().messages), target)["max_tokens"] > 0


def test_bedrock_declares_a_tool_where_history_has_calls() -> None:
    """Without tools of the caller's, a stand-in that cannot be called."""
    prompt = msgspec.structs.replace(conversation(), tools=())
    body = render(prompt, BEDROCK)
    assert body["tool_choice"] == {"type": "none"}
    assert body["anthropic_version"]
    assert "model" not in body
    assert validate(body, BEDROCK) == []
    assert "tools" not in render(prompt, DIRECT)
    silent = Prompt((Message("user", (Text("hi"),)),))
    assert "tools" not in render(silent, BEDROCK)


def test_blocks_of_other_apis_become_text_and_own_ones_stay() -> None:
    """A document stays; what the API does not know is shown as text or as a note."""
    document = {"type": "document", "source": {"type": "url", "url": "https://example.org"}}
    prompt = Prompt(
        (
            Message(
                "user",
                (
                    Other("document", {**document, "cache_control": MARK}),
                    Other("refusal", {"type": "refusal", "refusal": "No."}),
                    Other("input_audio", {"type": "input_audio", "input_audio": {"data": "xx"}}),
                    Image("PHN2Zz4=", "image/svg+xml"),
                ),
            ),
        )
    )
    target = to("anthropic", cache="none")
    content = render(prompt, target)["messages"][0]["content"]
    assert content[0] == document
    assert content[1] == _block("No.")
    assert "input_audio" in content[2]["text"]
    assert "image/svg+xml" in content[3]["text"]


def test_half_a_server_tool_call_is_not_sent() -> None:
    """Both halves go back together, or as a note."""
    called = Other("server_tool_use", use("srvtoolu_1", "server_tool_use"))
    found = Other(
        "web_search_tool_result",
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    )
    for blocks, kinds in (
        ((called, found), ["server_tool_use", "web_search_tool_result"]),
        ((called,), ["text"]),
        ((found,), ["text"]),
        ((found, called), ["text", "text"]),
        (
            (found, called, called, found, found),
            ["text", "server_tool_use", "text", "web_search_tool_result", "text"],
        ),
    ):
        prompt = Prompt(
            (
                Message("user", (Text("go"),)),
                Message("assistant", blocks),
                Message("user", (Text("go"),)),
            )
        )
        body = render(prompt, DIRECT)
        assert [block["type"] for block in body["messages"][1]["content"]] == kinds
        assert validate(body, DIRECT) == []


# Cache marks.


def marks(body: Json) -> list[str]:
    """Where a request is marked."""
    head = [
        name for name in ("tools", "system") for one in body.get(name, []) if "cache_control" in one
    ]
    return head + [
        f"{index}.{at}"
        for index, message in enumerate(body["messages"])
        for at, block in enumerate(message["content"])
        if "cache_control" in block
    ]


def steps(count: int, results: int = 1, **more: Any) -> Prompt:
    """A long turn: many steps of some calls each."""
    messages = [Message("user", (Text("go"),))]
    for step in range(count):
        calls = [ToolCall(f"{step}-{number}", "read", {}) for number in range(results)]
        messages += [
            Message("assistant", tuple(calls)),
            Message("user", tuple(ToolAnswer(call.id, (Text("ok"),)) for call in calls)),
        ]
    return Prompt(tuple(messages), system="s", tools=(Tool("read"),), **more)


def test_marks_stand_at_the_head_the_stable_boundaries_and_the_end() -> None:
    """At most four: one covers tools and system, one the end, the newest boundaries between."""
    assert marks(render(steps(5), DIRECT)) == ["system", "10.0"]
    assert marks(render(steps(5, stable=(2, 4, 6)), DIRECT)) == ["system", "4.0", "6.0", "10.0"]
    assert marks(render(steps(5, stable=(10, 99)), DIRECT)) == ["system", "10.0"]
    bare = msgspec.structs.replace(steps(1), system="")
    assert marks(render(bare, DIRECT)) == ["tools", "2.0"]
    assert marks(render(bare, to("anthropic", cache="none"))) == []


def test_large_step_is_bridged_by_a_mark_where_the_last_request_ended() -> None:
    """The provider looks back 20 blocks; beyond that the last end is marked again."""
    assert marks(render(steps(3, results=9), DIRECT)) == ["system", "6.8"]
    assert marks(render(steps(3, results=10), DIRECT)) == ["system", "4.9", "6.9"]
    full = render(steps(3, results=30, stable=(0, 2)), DIRECT)
    assert marks(full) == ["system", "2.29", "4.29", "6.29"]


def test_mark_does_not_stand_on_thinking() -> None:
    """A boundary after thinking is marked on the block before it."""
    mine = Thinking("Hm.", "c2ln", provider=PROVIDER, model=MODEL)
    prompt = Prompt(
        (
            Message("user", (Text("go"),)),
            Message(
                "assistant", (mine, Text("So."), msgspec.structs.replace(mine, signature="eA"))
            ),
            Message("user", (Text("go"),)),
        ),
        stable=(1,),
    )
    assert marks(render(prompt, THINKING)) == ["1.1", "2.0"]


def test_marks_ask_for_the_time_that_was_chosen() -> None:
    """An hour is said; five minutes are the provider's default."""
    hour = render(steps(1), to("anthropic", cache="1h"))
    assert hour["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert render(steps(1), DIRECT)["system"][0]["cache_control"] == MARK


def test_variant_is_known_to_the_table() -> None:
    """The names used above are the ones the table has."""
    assert DIRECT.dialect is DIALECTS["anthropic"]
    assert BEDROCK.dialect is VARIANTS["anthropic"]["bedrock"]
