"""A reply is kept as whole only where every event of it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.dialects.registry import target
from holdfast.engine.proxy.reply_reading import ReplyReader

if TYPE_CHECKING:
    import pytest

CHUNK = {"id": "x", "choices": [{"index": 0, "delta": {"content": "Hello"}}]}
END = {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def read(*events: object) -> ReplyReader:
    reader = ReplyReader(target("openai-chat", model="m"), "text/event-stream", "")
    for event in events:
        reader.take(b"data: " + msgspec.json.encode(event) + b"\n\n")
    reader.take(b"data: [DONE]\n\n")
    return reader


def test_a_reply_with_an_event_that_cannot_be_read_is_not_whole(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = read(CHUNK, END).reply()
    assert found is not None
    assert found[1]
    reader = ReplyReader(target("openai-chat", model="m"), "text/event-stream", "")

    def fail(_event: object) -> None:
        raise TypeError("a list where an object should be")

    reader.take(b"data: " + msgspec.json.encode(CHUNK) + b"\n\n")
    monkeypatch.setattr(reader._accumulator, "take_json", fail)
    assert reader.take(b"data: " + msgspec.json.encode(END) + b"\n\n") == "pass"
    reader.take(b"data: [DONE]\n\n")
    damaged = reader.reply()
    assert damaged is not None
    assert not damaged[1]
    assert "cannot be read" in caplog.text
