"""Events of ADK as records and back: exactly, and in their meaning alone."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.log.records import (
    ORIGINAL_FIELD,
    Assistant,
    ToolResult,
    ToolUse,
    User,
    decode,
    encode,
    text_of,
)
from holdfast.integrations.common.originals import items_of
from holdfast.integrations.google_adk.events import (
    FORMAT_NAME,
    events_as_json,
    has_event,
    records_from_event,
)

CALL = {"function_call": {"id": "c1", "name": "look", "args": {"where": "here"}}}
ANSWER = {"function_response": {"id": "c1", "name": "look", "response": {"result": "seen"}}}
PARTS: list[Any] = [
    {"text": "words"},
    {"text": "Hm.", "thought": True, "thought_signature": "_wE="},
    CALL,
    ANSWER,
    {"function_response": {"name": "look", "response": {"error": "no"}}},
    {"inline_data": {"data": "-_8=", "mime_type": "image/png"}},
    {"inline_data": {"data": "AA==", "mime_type": "audio/wav"}},
    {"file_data": {"file_uri": "gs://x", "mime_type": "image/png"}},
    {"executable_code": {"code": "1"}},
    {},
]
ROLES = st.sampled_from(["user", "model", None, "tool"])
EVENTS = st.fixed_dictionaries(
    {"id": st.uuids().map(str), "timestamp": st.floats(1.0, 1e9)},
    optional={
        "author": st.sampled_from(["user", "helper", ""]),
        "content": st.fixed_dictionaries(
            {}, optional={"role": ROLES, "parts": st.lists(st.sampled_from(PARTS), max_size=4)}
        ),
        "actions": st.just({"state_delta": {"a": None, "user:b": [1]}}),
        "usage_metadata": st.just({"prompt_token_count": 3}),
    },
)


def items(records: list[Any]) -> Any:
    return items_of(records, FORMAT_NAME)


def stored(records: list[Any]) -> list[Any]:
    return [decode(encode(msgspec.structs.replace(r, id=f"r{n}"))) for n, r in enumerate(records)]


def blocks_of(record: Any) -> list[Any]:
    return record.content or []


def meaning(records: list[Any]) -> list[Any]:
    said: list[Any] = []
    for record in records:
        match record:
            case User() | Assistant():
                for block in blocks_of(record):
                    if block.get("type") == "tool_use":
                        said.append(("call", block["id"], block["name"], block["input"]))
                    elif text_of([block]):
                        said.append((record.kind, text_of([block])))
            case ToolResult():
                said.append(("result", record.tool_use_id, record.name, text_of(record.content)))
            case _:
                pass
    return said


@given(st.lists(EVENTS, max_size=5))
@examples(100)
def test_every_event_comes_back_exactly(events: list[Any]) -> None:
    records = [r for event in events for r in records_from_event(event, json.dumps(event))]
    back = [json.loads(event) for event, _item in events_as_json(items(stored(records)), "helper")]
    assert json.dumps(back) == json.dumps(events)
    assert sum(has_event(record) for record in records) == len(events)


@given(st.lists(EVENTS, max_size=5))
@examples(100)
def test_without_the_kept_events_roles_texts_and_pairs_are_the_same(events: list[Any]) -> None:
    records = stored([r for e in events for r in records_from_event(e, json.dumps(e))])
    bare = [
        msgspec.structs.replace(
            record, extra={k: v for k, v in record.extra.items() if k != ORIGINAL_FIELD}
        )
        for record in records
    ]
    rebuilt = [json.loads(event) for event, _item in events_as_json(items(bare), "helper")]
    again = stored([r for e in rebuilt for r in records_from_event(e, json.dumps(e))])
    assert meaning(again) == meaning(bare)


def test_what_other_programs_wrote_is_an_event() -> None:
    """With the agent that spoke last as its author, and the name of the tool that was called."""
    spoke = {"id": "e1", "timestamp": 1.0, "author": "root", "content": {"parts": [{"text": "a"}]}}
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    records = [
        Assistant(content="I begin.", id="a", ts=1.0),
        *records_from_event(spoke, json.dumps(spoke)),
        User(content="Look.", id="b", ts=2.0),
        Assistant(content=[call], id="c", ts=3.0),
        ToolResult(tool_use_id="c1", content="seen", id="d", ts=4.0),
        ToolUse(tool_use_id="c2", name="look", input={}, id="e", ts=5.0),
        User(content="", id="f", ts=6.0),
    ]
    found = [json.loads(event) for event, _item in events_as_json(items(records), "app")]
    authors = ["app", "root", "user", "root", "root", "root"]
    assert [event["author"] for event in found] == authors
    answer = found[4]["content"]["parts"][0]["function_response"]
    assert answer == {"id": "c1", "name": "look", "response": {"result": "seen"}}
    assert found[2]["timestamp"] == 2.0


def test_pictures_and_signatures_have_the_usual_base64() -> None:
    event = {
        "id": "e",
        "timestamp": 1.0,
        "author": "helper",
        "content": {"role": "model", "parts": [PARTS[1], {**CALL, "thought_signature": "-_8="}]},
    }
    picture = {**event, "author": "user", "content": {"role": "user", "parts": [PARTS[5]]}}
    (reply,) = records_from_event(event, json.dumps(event))
    (shown,) = records_from_event(picture, json.dumps(picture))
    assert isinstance(reply, Assistant)
    assert isinstance(shown, User)
    assert [block.get("thought_signature") for block in blocks_of(reply)][1] == "+/8="
    assert isinstance(shown.content, list)
    assert shown.content[0]["source"]["data"] == "+/8="
