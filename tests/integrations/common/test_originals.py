"""Items of the Responses API as records and back: exactly, and in their meaning alone."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import ORIGINAL_FIELD, Assistant, Record, decode, encode
from holdfast.errors import BadItem
from holdfast.integrations.common.originals import spell_item
from holdfast.integrations.common.responses_items import (
    items_from_record,
    rebuild_items,
    records_from_items,
)

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "42"}
SAID = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "done", "annotations": [], "logprobs": []}],
}
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {"content": "hi", "role": "user"},
    {"role": "user", "content": [{"type": "input_text", "text": "look"}]},
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA"}]},
    {"type": "message", "role": "developer", "content": "be brief"},
    {"role": "system", "content": ""},
    CALL,
    {**CALL, "arguments": "not json"},
    {**CALL, "id": "fc_1", "status": "completed"},
    OUTPUT,
    {**OUTPUT, "output": [{"type": "input_text", "text": "a"}, {"type": "input_file"}]},
    SAID,
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xyz"},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "xyz"},
    {"type": "computer_call", "id": "cc", "call_id": "k", "action": {"type": "click"}},
    {"type": "item_reference", "id": "msg_1"},
    {"type": "of the year 2030", "value": {"deep": [1, 2.5, None, True]}},
    {},
    {"role": "user", "content": "\ud800 alone"},
    {"role": "user", "content": "n", "number": float("inf")},
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    (*("type", "role", "content", "call_id", "name", "arguments", "output", "id"), "status")
)
VALUES = st.one_of(
    JSON, st.sampled_from(["user", "assistant", "message", "function_call", "reasoning"])
)


def stored(record: Record) -> Record:
    found = decode(encode(record))
    assert not isinstance(found, Flaw)
    return found


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: str(item.get("type") or item.get("role")))
def test_item_comes_back_to_the_byte(item: dict[str, Any]) -> None:
    (record,) = records_from_items([item])
    (found,) = items_from_record(stored(record))
    assert json.dumps(found) == json.dumps(item)


@given(st.dictionaries(KEYS | st.text(max_size=3), VALUES, max_size=6))
def test_any_item_comes_back_to_the_byte(item: dict[str, Any]) -> None:
    (record,) = records_from_items([item])
    (found,) = items_from_record(stored(record))
    assert json.dumps(found) == json.dumps(item)


def test_messages_are_records_of_ours_and_not_only_originals() -> None:
    """Without the kept copies the same roles, texts and pairs are there."""
    items = [ITEMS[0], CALL, OUTPUT, SAID]
    records = [stored(record) for record in records_from_items(items)]
    assert [record.kind for record in records] == ["user", "assistant", "tool_result", "assistant"]
    bare = [_without_original(record) for record in records]
    rebuilt = [item for record in bare for item in rebuild_items(record)]
    assert [item.get("role") or item["type"] for item in rebuilt] == [
        *("user", "function_call", "function_call_output", "assistant")
    ]
    assert rebuilt[3]["content"] == "done"
    assert rebuilt[1]["call_id"] == rebuilt[2]["call_id"]
    assert json.loads(rebuilt[1]["arguments"]) == {"a": 1}


def test_plain_items_are_not_stored_twice() -> None:
    compact = {**CALL, "arguments": '{"a":1}'}
    for record in records_from_items([ITEMS[0], compact, OUTPUT]):
        assert ORIGINAL_FIELD not in record.extra


@pytest.mark.parametrize("kind", ["compaction", "mcp_list_tools", "a kind of tomorrow"])
def test_item_without_a_counterpart_is_kept_as_it_is(kind: str) -> None:
    item = {"type": kind, "encrypted_content": "x", "id": "i1"}
    (record,) = records_from_items([item])
    assert isinstance(record, Assistant)
    assert rebuild_items(record) == [item]


@pytest.mark.parametrize("item", [{"content": object()}, "text", 3, None, {"x": b"bytes"}])
def test_what_json_cannot_hold_is_a_type_error(item: Any) -> None:
    with pytest.raises(TypeError) as refused:
        records_from_items([ITEMS[0], item])
    assert isinstance(refused.value, BadItem)
    assert "nothing was stored" in (refused.value.hint or "")


def test_item_that_contains_itself_is_refused() -> None:
    item: dict[str, Any] = {}
    item["self"] = item
    with pytest.raises(BadItem):
        spell_item(item)


def test_deep_item_is_kept() -> None:
    deep: Any = "end"
    for _ in range(400):
        deep = [deep]
    item = {"role": "user", "content": [{"type": "input_text", "text": "x", "more": deep}]}
    (record,) = records_from_items([item])
    assert items_from_record(stored(record)) == [item]


def _without_original(record: Record) -> Record:
    extra = {name: value for name, value in record.extra.items() if name != ORIGINAL_FIELD}
    return msgspec.structs.replace(record, extra=extra)
