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


# The fields of a reply of Chat Completions

THOUGHT: Json = {"type": "reasoning.text", "text": "Hm.", "signature": "c2ln", "index": 0}
LOCKED: Json = {"type": "reasoning.encrypted", "data": "QUJD", "id": "rs_1", "index": 1}
DETAILS: Json = {"reasoning": "Hm.", "reasoning_details": [THOUGHT, LOCKED]}
ODD: Json = {"citations_seen": [{"url": "x", "at": None}], "level": 3}


def completion(more: Json) -> Json:
    message = {"role": "assistant", "content": "It is done.", "audio": None, **more}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def streamed(_more: Json) -> list[Json]:
    """The same in pieces: a text goes on, and what a piece is of is said again."""
    begun = {**THOUGHT, "text": "H", "signature": None}
    deltas: list[Json] = [
        {"role": "assistant", "content": "", "reasoning": "Hm.", "reasoning_details": [begun]},
        {"reasoning_details": [{**THOUGHT, "text": "m."}], "level": 3},
        {"reasoning_details": [LOCKED], "citations_seen": ODD["citations_seen"]},
        {"content": "It is done."},
    ]
    return [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas] + [
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    ]


class Host:
    """Keeps the messages that it gets; refuses those with a field that it does not know."""

    def __init__(self, *, refused: str = "", words: str = "") -> None:
        self.requests: list[Json] = []
        self.refused = refused
        self.words = words
        self.streams = False

    def __call__(self, request: Json) -> Any:
        self.requests.append(request)
        if self.refused and any(self.refused in message for message in request["messages"]):
            raise Refused(self.words)
        return (streamed if self.streams else completion)({**DETAILS, **ODD})

    def ask(self, store: MemoryStore, provider: str = "router", name: str = "maker/one") -> Json:
        """One more turn; returns the newest request's first reply as it was sent back."""
        client = model(
            f"openai-chat:{name}", provider=provider, api_key="any", base_url="http://localhost:1"
        )
        with Session.open("s", store=store, model=client, window=100_000) as session:
            session.own_loop.add_user("Question")
            session.own_loop.call(self)
        said = (item for item in self.requests[-1]["messages"] if item["role"] == "assistant")
        return next(said, {})


class Refused(Exception):
    status_code = 400


@pytest.mark.parametrize("streams", [False, True])
def test_fields_that_nobody_knows_go_back_to_their_host(*, streams: bool) -> None:
    """Reasoning goes to the model that made it, everything else to the host; nothing elsewhere."""
    host = Host()
    host.streams = streams
    plain = {"role": "assistant", "content": "It is done."}
    with MemoryStore() as store:
        host.ask(store)
        details = {"reasoning_details": DETAILS["reasoning_details"]}
        assert host.ask(store) == {**plain, **details, **ODD}
        assert host.ask(store, name="maker/two") == {**plain, **ODD}
        assert host.ask(store, provider="another") == plain
        assert host.ask(store, provider="openai") == plain
        assert host.ask(store) == {**plain, **details, **ODD}


@pytest.mark.parametrize(
    "words", ["'messages.1' : property 'level' is unsupported", "Der Mond steht falsch."]
)
def test_a_host_that_refuses_its_own_fields_is_not_sent_them_again(words: str) -> None:
    """Whatever it says: the session goes on, without the user's words being left out."""
    host = Host(refused="level", words=words)
    with MemoryStore() as store:
        host.ask(store)
        host.ask(store)
        assert host.ask(store)["content"] == "It is done."
    assert "level" not in json.dumps(host.requests[-1])
    assert json.dumps(host.requests[-1]).count("Question") == 3
    refused = sum("level" in json.dumps(request) for request in host.requests)
    assert refused <= 2
