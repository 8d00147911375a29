"""Gemini's requests: how they are written, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.prompts import MODEL, PROVIDER, conversation, png
from tests.providers.cases import Case, Json, case_id, to, with_, without

from holdfast.core.dialects.gemini.render import LOST_SIGNATURE
from holdfast.core.dialects.gemini.rules import RULES, wants_signatures
from holdfast.core.dialects.gemini.validate import validate
from holdfast.core.dialects.registry import render_body as render
from holdfast.core.models.messages import (
    Image,
    Message,
    Prompt,
    Text,
    Thinking,
    ToolAnswer,
    ToolCall,
)

GEMINI = to("gemini", provider=PROVIDER, model="gemini-3-pro")
VERTEX = to("gemini:vertex", provider=PROVIDER, model="gemini-3-pro")
OLD = to("gemini", provider=PROVIDER, model="gemini-2.5-flash")
CAPPED = to("gemini", output_max=65_536)


def turn(role: str, *parts: Any) -> Json:
    return {"role": role, "parts": [{"text": p} if isinstance(p, str) else p for p in parts]}


def call(name: str = "read", signature: str = "c2ln") -> Json:
    signed = {"thoughtSignature": signature} if signature else {}
    return {"functionCall": {"name": name, "args": {}}, **signed}


def response(name: str = "read") -> Json:
    return {"functionResponse": {"name": name, "response": {"output": "ok"}}}


def inline(data: str, kind: str = "image/png") -> Json:
    return {"inlineData": {"mimeType": kind, "data": data}}


def request(*contents: Any, **more: Any) -> Json:
    return {"contents": list(contents), **more}


def declared(name: str) -> list[Json]:
    return [{"functionDeclarations": [{"name": name}]}]


PAIR = request(
    turn("user", "go"),
    turn("model", "Hm.", call(), call("list", "")),
    turn("user", response(), response("list"), "and?"),
)
TWO_STEPS = request(
    turn("user", "go"),
    turn("model", call()),
    turn("user", response()),
    turn("model", call()),
    turn("user", response()),
)

CASES = [
    Case("request-shape", 1, PAIR, "", "Invalid value at 'request'"),
    Case("request-shape", request(), PAIR, "contents"),
    Case("request-shape", request("x"), PAIR, "contents.0"),
    Case("request-shape", request(turn("assistant", "x")), PAIR, "contents.0.role"),
    Case("request-shape", request({"parts": [1]}), PAIR, "contents.0.parts.0"),
    Case(
        "valid-unicode",
        request(turn("user", "\udfff")),
        request(turn("user", "😀")),
        "contents.0.parts.0.text",
        "The input data is not valid json",
    ),
    Case(
        "inline-bytes",
        request(turn("user", inline(png() + "A" * 20_971_520))),
        request(turn("user", inline(png() + "A" * 20_970_000))),
        "",
        "Sent message larger than max (20971",
    ),
    Case(
        "starts-with-user",
        request(turn("model", "hi"), turn("user", "go")),
        PAIR,
        "contents.0",
        "History must start with a user turn.",
    ),
    Case("ends-with-user", request(turn("user", "go"), turn("model", "hi")), PAIR, "contents.1"),
    Case(
        "call-after-user",
        request(turn("model", call()), turn("user", response())),
        PAIR,
        "contents.0",
        "function call turn comes immediately after a user turn or after a function response turn",
    ),
    Case(
        "call-after-user",
        request(
            turn("user", "go"), turn("model", "so"), turn("model", call()), turn("user", response())
        ),
        PAIR,
        "contents.2",
    ),
    Case(
        "response-after-call",
        request(turn("user", "go"), turn("model", "hi"), turn("user", response())),
        PAIR,
        "contents.2",
        "function response turn comes immediately after a function call turn",
    ),
    Case(
        "counts-equal",
        without(PAIR, "contents.2.parts.1"),
        PAIR,
        "contents.1",
        "the number of function response parts is equal to the number of function call parts",
    ),
    Case(
        "counts-equal",
        request(turn("user", "go"), turn("model", call()), turn("user", "never mind")),
        PAIR,
        "contents.1",
    ),
    Case(
        "parts-not-empty",
        with_(PAIR, "contents.1.parts", []),
        PAIR | {"systemInstruction": {"parts": [{"text": "s"}]}},
        "contents.1",
        "* GenerateContentRequest.contents[1].parts: contents.parts must not be empty.",
    ),
    Case(
        "parts-not-empty",
        PAIR | {"system_instruction": {"parts": [], "role": "user"}},
        PAIR,
        "systemInstruction",
    ),
    Case(
        "vertex-parts-not-empty",
        with_(PAIR, "contents.0.parts", []),
        PAIR,
        "contents.0",
        "must include at least one parts field",
        VERTEX,
    ),
    Case(
        "part-has-data",
        with_(PAIR, "contents.0.parts.0", {"text": ""}),
        with_(PAIR, "contents.1.parts.0", {"text": "", "thoughtSignature": "c2ln"}),
        "contents.0.parts.0",
        "GenerateContentRequest.contents[0].parts[0].data: required oneof field 'data'",
    ),
    Case("part-has-data", with_(PAIR, "contents.0.parts.0", {}), PAIR, "contents.0.parts.0"),
    Case(
        "call-signature",
        with_(TWO_STEPS, "contents.1.parts.0", call(signature="")),
        TWO_STEPS,
        "contents.1.parts.0",
        "Function call is missing a thought_signature in functionCall parts.",
    ),
    Case(
        # Inside the call it is not seen.
        "call-signature",
        with_(
            without(TWO_STEPS, "contents.3.parts.0.thoughtSignature"),
            "contents.3.parts.0.functionCall.thoughtSignature",
            "c2ln",
        ),
        with_(TWO_STEPS, "contents.3.parts.0", call(signature=LOST_SIGNATURE)),
        "contents.3.parts.0",
    ),
    Case(
        "call-signature",
        with_(PAIR, "contents.1.parts", [call(signature=""), call("list")]),
        # An earlier turn is not looked at.
        request(
            turn("user", "go"),
            turn("model", call(signature="")),
            turn("user", response()),
            turn("model", "done"),
            turn("user", "go"),
        ),
        "contents.1.parts.0",
    ),
    Case(
        "response-name",
        with_(PAIR, "contents.2.parts.0.functionResponse.name", ""),
        PAIR,
        "contents.2.parts.0",
        "contents[2].parts[0].function_response.name: Name cannot be empty.",
    ),
    Case(
        "response-matches-call",
        with_(PAIR, "contents.2.parts.0.functionResponse.name", "write"),
        PAIR,
        "contents.2.parts.0",
        "`write`",
    ),
    Case(
        "output-tokens-range",
        PAIR | {"generationConfig": {"maxOutputTokens": 65_537}},
        PAIR | {"generationConfig": {"maxOutputTokens": 65_536}},
        "generationConfig.maxOutputTokens",
        "a maxOutputTokens value of 65537 but the supported range is from 1 (inclusive) to 65537 "
        "(exclusive)",
        CAPPED,
    ),
    Case(
        "output-tokens-range",
        PAIR | {"generation_config": {"max_output_tokens": 0}},
        PAIR | {"generationConfig": {"maxOutputTokens": 1}},
        "generationConfig.maxOutputTokens",
    ),
    Case(
        "tool-name",
        PAIR | {"tools": declared("9 lives")},
        PAIR | {"tools": declared("lives.of:a-cat_9")},
        "tools.0.functionDeclarations.0",
    ),
    Case(
        "images-max",
        request(turn("user", *(inline(png()) for _ in range(3_601)))),
        request(turn("user", *(inline(png()) for _ in range(3_600)))),
        "contents.0.parts.3600",
    ),
    Case(
        "image-data",
        request(turn("user", inline("bm8gcGljdHVyZQ=="))),
        request(turn("user", inline(png()))),
        "contents.0.parts.0",
    ),
    Case(
        "image-type",
        request(turn("user", inline("R0lGOD", "image/gif"))),
        request(turn("user", inline(png()))),
        "contents.0.parts.0",
        "Unsupported MIME type: image/gif",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_rule_sees_what_breaks_it_and_lets_pass_what_keeps_it(case: Case) -> None:
    """The broken request is named with its place in the provider's words; the kept one is clean."""
    target = case.to or GEMINI
    found = [one for one in validate(case.broken, target) if one.rule == case.rule]
    assert case.where in [one.where for one in found], validate(case.broken, target)
    assert any(case.said in one.quote for one in found), found
    assert all("{" not in one.quote for one in found)
    assert validate(case.kept, target) == []


def test_every_rule_has_a_case() -> None:
    """No rule goes untested, and no two have one name."""
    assert {case.rule for case in CASES} == {rule.id for rule in RULES}
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_both_spellings_are_read() -> None:
    """A request in snake case is judged like one in camel case."""
    snake = request(
        turn("user", "go"),
        turn("model", {"function_call": {"name": "read"}, "thought_signature": "c2ln"}),
        turn("user", {"function_response": {"name": "read", "response": {}}}),
    )
    assert validate(snake, GEMINI) == []
    found = validate(without(snake, "contents.1.parts.0.thought_signature"), GEMINI)
    assert [one.rule for one in found] == ["call-signature"]


def test_models_before_the_third_need_no_signature() -> None:
    """Older models are let alone; new and unknown ones are taken at their strictest."""
    assert validate(with_(TWO_STEPS, "contents.1.parts.0", call(signature="")), OLD) == []
    assert not any(map(wants_signatures, ("gemini-2.5-pro", "gemini-1.5-flash", "gemini-pro")))
    assert all(map(wants_signatures, ("gemini-3-pro", "gemini-3.1-flash-lite", "gemini-10", "")))


# How requests are written.


def test_conversation_is_rendered_part_by_part() -> None:
    """The whole body of a conversation with everything in it."""
    lost = {"thoughtSignature": LOST_SIGNATURE}
    body = render(conversation(), to("gemini", provider=PROVIDER, model=MODEL))
    assert body.pop("tools") == [
        {
            "functionDeclarations": [
                {
                    "name": "read",
                    "description": "Reads a file",
                    "parametersJsonSchema": {"type": "object", "properties": {"path": {}}},
                },
                {"name": "list"},
            ]
        }
    ]
    long = body["contents"][5]["parts"][0]["functionCall"]["id"]
    first = {"id": "call_1|fc_1", "name": "fs_read"}
    assert body == {
        "systemInstruction": {"parts": [{"text": "You are careful."}]},
        "generationConfig": {"maxOutputTokens": 4_000},
        "contents": [
            turn("user", "What is in there?", inline(png())),
            turn(
                "model",
                {"text": "I should look.", "thought": True, "thoughtSignature": "c2ln"},
                "Let me look.",
                {"functionCall": {**first, "args": {"path": "a"}}, **lost},
                {"functionCall": {"id": "toolu_01", "name": "list", "args": {}}},
            ),
            turn(
                "user",
                {"functionResponse": {**first, "response": {"error": "no such file"}}},
                {
                    "functionResponse": {
                        "id": "toolu_01",
                        "name": "list",
                        "response": {"output": "a.png"},
                    }
                },
                "[From the result of list:]",
                inline(png()),
            ),
            turn(
                "model",
                {"text": "Elsewhere.", "thought": True, "thoughtSignature": "c2ln"},
                "One picture.",
            ),
            turn("user", "And now?"),
            turn(
                "model",
                {
                    "functionCall": {
                        "id": long,
                        "name": "list",
                        "args": {"deep": [1, {"ä": "😀"}]},
                    },
                    **lost,
                },
            ),
            turn(
                "user",
                {
                    "functionResponse": {
                        "id": long,
                        "name": "list",
                        "response": {"output": "(no output)"},
                    }
                },
                "Go on.",
            ),
        ],
    }


def test_vertex_gets_no_call_ids() -> None:
    """It knows calls by name and order, and refuses the field."""
    assert "'id'" not in str(render(conversation(), VERTEX))
    assert "'id'" in str(render(conversation(), GEMINI))


def test_real_signature_stays_and_only_the_first_call_gets_a_stand_in() -> None:
    """Another model's signature is lost, and parallel calls after the first have none to lose."""
    prompt = Prompt(
        (
            Message("user", (Text("go"),)),
            Message(
                "assistant",
                (
                    ToolCall("a", "read", {}, "cmVhbA==", PROVIDER, "gemini-3-pro"),
                    ToolCall("b", "read", {}),
                ),
            ),
            Message("user", (ToolAnswer("a", (Text("1"),)), ToolAnswer("b", (Text("2"),)))),
            Message(
                "assistant",
                (
                    ToolCall("c", "read", {}, "Zm9yZWlnbg==", PROVIDER, "gemini-2.5-flash"),
                    ToolCall("d", "read", {}),
                ),
            ),
            Message("user", (ToolAnswer("c", (Text("1"),)), ToolAnswer("d", (Text("2"),)))),
        )
    )
    contents = render(prompt, GEMINI)["contents"]
    found = [part.get("thoughtSignature") for at in (1, 3) for part in contents[at]["parts"]]
    assert found == ["cmVhbA==", None, LOST_SIGNATURE, None]
    assert LOST_SIGNATURE not in str(render(prompt, OLD))


def test_thoughts_are_asked_for_and_go_back_as_they_came() -> None:
    """Thinking turns thoughts on; those that the projection let through are marked as thoughts."""
    target = to("gemini", provider=PROVIDER, model=MODEL, thinking=True, thinking_tokens=512)
    prompt = Prompt(
        (
            Message("user", (Text("go"),)),
            Message("assistant", (Thinking("Hm.", provider="x", model="y"),)),
            Message("user", (Image(url="https://example.org/a.png"),)),
        )
    )
    body = render(prompt, target)
    assert body["generationConfig"]["thinkingConfig"] == {
        "includeThoughts": True,
        "thinkingBudget": 512,
    }
    assert body["contents"][1] == turn("model", {"text": "Hm.", "thought": True})
    assert body["contents"][2]["parts"] == [
        {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}}
    ]
