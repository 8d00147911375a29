"""Lines of Claude Code's transcripts as records; real ones: `integrations/test_round_trips.py`."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import Assistant, Compaction, Label, decode, encode
from holdfast.integrations.claude_agent.session_store import (
    FORMAT_NAME,
    entries_from_items,
    records_from_entry,
)
from holdfast.integrations.common.originals import items_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    (*("type", "uuid", "parentUuid", "message", "timestamp", "content", "customTitle"), "summary")
)
KINDS = st.sampled_from(["user", "assistant", "system", "attachment", "summary", "custom-title"])
BLOCKS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "tool_use", "tool_result", "thinking", "new"])},
        optional={
            "text": JSON,
            "id": JSON,
            "name": JSON,
            "input": JSON,
            "tool_use_id": JSON,
            "content": JSON,
        },
    ),
    max_size=3,
)
MESSAGES = st.fixed_dictionaries({"role": KINDS, "content": JSON | BLOCKS})


@given(st.dictionaries(FIELDS | st.text(max_size=3), JSON | KINDS | MESSAGES, max_size=6))
def test_any_line_comes_back_to_the_byte(entry: dict[str, Any]) -> None:
    records = []
    for record in records_from_entry(entry):
        stored = decode(encode(record))
        assert not isinstance(stored, Flaw)
        records.append(stored)
    found = entries_from_items(items_of(records, FORMAT_NAME), "s")
    assert json.dumps(found) == json.dumps([entry])


def test_title_summary_and_usage_are_told_as_ours() -> None:
    (title,) = records_from_entry({"type": "custom-title", "customTitle": "Trip", "sessionId": "s"})
    assert isinstance(title, Label)
    assert title.label == "Trip"
    said = {"role": "user", "content": "The story so far."}
    line = {"type": "user", "uuid": "u", "isCompactSummary": True, "message": said}
    (boundary,) = records_from_entry(line)
    assert isinstance(boundary, Compaction)
    assert boundary.summary == "The story so far."
    reply = {"role": "assistant", "id": "m", "content": [{"type": "text", "text": "Hi"}]}
    for stop, usage in ((None, None), ("end_turn", {"output_tokens": 3})):
        told = {**reply, "stop_reason": stop, "usage": {"output_tokens": 3}}
        (record,) = records_from_entry({"type": "assistant", "uuid": "u", "message": told})
        assert isinstance(record, Assistant)
        assert record.usage == usage
