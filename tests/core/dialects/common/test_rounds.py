"""Rounds of a reply as one, where hosts deviate: split names, no numbers, usage in every chunk."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.core.dialects.common.rounds import add_usage, write_event
from holdfast.core.dialects.registry import DIALECTS, find_dialect

if TYPE_CHECKING:
    from holdfast.core.dialects.common.rounds import ReplyJoiner

NAMES = frozenset(("context", "sessions_history"))


def feed(joiner: ReplyJoiner, *events: dict[str, Any]) -> list[dict[str, Any]]:
    """The events that pass."""
    return decode([out for event in events for out in joiner.take(event, write_event(event))])


def decode(passed: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(raw.split(b"data: ", 1)[1]) for raw in passed]


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def piece(name: str = "", arguments: str = "", **about: Any) -> dict[str, Any]:
    function = {**({"name": name} if name else {}), "arguments": arguments}
    return {**about, "function": function}


def calls_in(events: list[dict[str, Any]]) -> list[tuple[int, str, str]]:
    """The number, the name and the arguments of each piece of a call."""
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    return [
        (call["index"], call["function"].get("name", ""), call["function"].get("arguments", ""))
        for delta in deltas
        for call in delta.get("tool_calls", ())
    ]


def test_a_name_that_comes_in_pieces_is_known_before_it_passes() -> None:
    """A name that could still become ours waits; one that cannot passes at once."""
    joiner = find_dialect("openai-chat").rounds.make_joiner(NAMES)
    assert calls_in(feed(joiner, chunk(tool_calls=[piece("con", index=0, id="a")]))) == []
    assert calls_in(feed(joiner, chunk(tool_calls=[piece("text", index=0)]))) == []
    assert calls_in(feed(joiner, chunk(tool_calls=[piece("", '{"ref":1}', index=0)]))) == []
    other = feed(joiner, chunk(tool_calls=[piece("read", '{"x":', index=1, id="b")]))
    assert calls_in(other) == [(0, "read", '{"x":')]
    assert calls_in(feed(joiner, chunk(tool_calls=[piece("", "1}", index=1)]))) == [(0, "", "1}")]


def test_a_name_that_begins_like_ours_is_the_clients() -> None:
    """`cont` waits until its arguments come, or the reply ends; then it passes whole."""
    joiner = find_dialect("openai-chat").rounds.make_joiner(NAMES)
    assert feed(joiner, chunk(tool_calls=[piece("cont", index=0, id="a")])) == []
    passed = feed(joiner, chunk(tool_calls=[piece("", "{}", index=0)]))
    assert calls_in(passed) == [(0, "cont", ""), (0, "", "{}")]
    assert feed(joiner, chunk(tool_calls=[piece("sessions", index=1, id="b")])) == []
    assert calls_in(feed(joiner, chunk("tool_calls"))) == [(1, "sessions", "")]
    (end,) = decode(joiner.finish())
    assert end["choices"][0]["finish_reason"] == "tool_calls"


def test_calls_without_numbers_are_told_by_their_ids() -> None:
    """Hosts that give no index begin a call with its id."""
    joiner = find_dialect("openai-chat").rounds.make_joiner(NAMES)
    assert feed(joiner, chunk(tool_calls=[piece("context", "{", id="a")])) == []
    assert feed(joiner, chunk(tool_calls=[piece("", "}")])) == []
    passed = feed(joiner, chunk(tool_calls=[piece("read", "{}", id="b")]))
    assert calls_in(passed) == [(0, "read", "{}")]


def test_usage_in_every_chunk_does_not_hold_the_text() -> None:
    """Some hosts count with each chunk: text passes, and the counts of rounds are added."""
    joiner = find_dialect("openai-chat").rounds.make_joiner(NAMES)
    first = {**chunk(content="a"), "usage": {"prompt_tokens": 5}}
    assert feed(joiner, first) == [first]
    joiner.end_round()
    (second,) = feed(joiner, {**chunk(content="b"), "usage": {"prompt_tokens": 7}})
    assert second["usage"] == {"prompt_tokens": 12}
    assert second["choices"][0]["delta"]["content"] == "\n\nb"


def test_thinking_keeps_its_signature() -> None:
    """Blocks of thinking pass in every round, whole and in their order."""
    joiner = find_dialect("anthropic").rounds.make_joiner(NAMES)
    start = {"type": "content_block_start", "index": 0}
    thought = {**start, "content_block": {"type": "thinking", "thinking": "Hm."}}
    signed = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "signature_delta", "signature": "s"},
    }
    stop = {"type": "content_block_stop", "index": 0}
    call = {"type": "tool_use", "id": "t", "name": "context", "input": {}}
    own = {"type": "content_block_start", "index": 1, "content_block": call}
    own_stop = {"type": "content_block_stop", "index": 1}
    assert feed(joiner, thought, signed, stop, own, own_stop) == [thought, signed, stop]
    joiner.end_round()
    again = [{**event, "index": 1} for event in (thought, signed, stop)]
    assert feed(joiner, thought, signed, stop) == again


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_passes_as_it_came(dialect: str) -> None:
    """An error of the provider's is the client's to see, whatever was held."""
    joiner = find_dialect(dialect).rounds.make_joiner(NAMES)
    event = {"type": "error", "error": {"message": "overloaded"}}
    assert joiner.take(event, b"raw") == [b"raw"]


def test_usage_is_added_field_by_field() -> None:
    """Numbers are added in depth; what is no number, or is in one report alone, stays."""
    first = {"a": 1, "deep": {"b": 2, "tier": "x"}, "flag": True, "none": None}
    second = {"a": 10, "deep": {"b": 20, "c": 3}, "flag": True, "none": 4}
    assert add_usage(first, second) == {
        "a": 11,
        "deep": {"b": 22, "tier": "x", "c": 3},
        "flag": True,
        "none": 4,
    }
    assert add_usage(None, {"a": 1}) == {"a": 1}
