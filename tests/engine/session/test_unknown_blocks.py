"""Blocks and items that we do not know go back as they came, in their order, in every dialect."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Session, model
from holdfast.core.dialects.registry import DIALECTS
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.records import Json

NOVEL: Json = {"type": "novel_thing", "id": "nv_1", "data": {"list": [1, {"a": ""}], "empty": ""}}
SEARCH: Json = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"q": "x"},
}
RAN: Json = {"executableCode": {"language": "PYTHON", "code": "1 + 1"}}
SAW: Json = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}
SERVED: Json = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"q": "x"}}
FOUND: Json = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"u": "x"}]}


def said(text: str) -> Json:
    words = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": f"msg_{text}", "role": "assistant", "content": words}


REPLIES: dict[str, tuple[str, Json, list[Json]]] = {
    "anthropic": (
        "claude-opus-5-5",
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "text", "text": "one"},
                SERVED,
                FOUND,
                NOVEL,
                {"type": "text", "text": "two"},
            ],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 10, "output_tokens": 5},
        },
        [SERVED, FOUND, NOVEL],
    ),
    "openai-responses": (
        "gpt-6.2-sol",
        {
            "object": "response",
            "status": "completed",
            "output": [said("one"), SEARCH, NOVEL, said("two")],
            "usage": {"input_tokens": 10, "output_tokens": 5},
        },
        [SEARCH, NOVEL],
    ),
    "openai-chat": (
        "command-x",
        {
            "choices": [
                {
                    "message": {
                        "role": "assistant",
                        "content": [
                            {"type": "text", "text": "one"},
                            NOVEL,
                            {"type": "text", "text": "two"},
                        ],
                    },
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5},
        },
        [NOVEL],
    ),
    "gemini": (
        "gemini-3.1-pro-preview",
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [{"text": "one"}, RAN, SAW, {"novelPart": NOVEL}, {"text": "two"}],
                    },
                    "finishReason": "STOP",
                }
            ],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5},
        },
        [RAN, SAW, {"novelPart": NOVEL}],
    ),
}


def pieces(value: Any, wanted: list[Json]) -> list[Json]:
    """What is wanted of a request, in its order."""
    if value in wanted:
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [found for item in inner for found in pieces(item, wanted)]


def numbered(value: Any, number: int) -> Any:
    """A reply with ids of its own."""
    return json.loads(json.dumps(value).replace('_1"', f'_1{number}"'))


def answering(reply: Json, requests: list[Json]) -> Callable[[Json], Json]:
    def answer(request: Json) -> Json:
        requests.append(request)
        return reply

    return answer


def test_every_dialect_has_a_reply_here() -> None:
    assert set(REPLIES) == set(DIALECTS)


@pytest.mark.parametrize("dialect", REPLIES)
def test_what_nobody_knows_goes_back_as_it_came(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also from another object, which has it from the log alone."""
    for key in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(key, "any")
    name, reply, wanted = REPLIES[dialect]
    requests: list[Json] = []
    with MemoryStore() as store:
        for number in range(3):
            with Session.open(
                "s", store=store, model=f"{dialect}:{name}", window=100_000
            ) as session:
                session.own_loop.add_user(f"Question {number}")
                session.own_loop.call(answering(numbered(reply, number), requests))
    first, second = (numbered(wanted, number) for number in range(2))
    assert pieces(requests[1], first) == first
    assert pieces(requests[2], [*first, *second]) == [*first, *second]


def test_a_host_of_the_same_api_gets_a_note_of_what_another_made() -> None:
    """Hosts that imitate Chat Completions know their own kinds of parts only."""
    name, reply, _wanted = REPLIES["openai-chat"]
    requests: list[Json] = []
    with MemoryStore() as store:
        for host in ("one", "two"):
            client = model(
                f"openai-chat:{name}", provider=host, api_key="any", base_url="http://localhost:1"
            )
            with Session.open("s", store=store, model=client, window=100_000) as session:
                session.own_loop.add_user("Question")
                session.own_loop.call(answering(reply, requests))
    assert not pieces(requests[1], [NOVEL])
    assert "novel_thing" in json.dumps(requests[1])
