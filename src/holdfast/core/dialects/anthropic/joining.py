"""Rounds of the Messages API as one message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.dialects.anthropic.reply import block_index
from holdfast.core.dialects.common.rounds import (
    NOTHING_SAID,
    ReplyJoiner,
    Rounds,
    add_usage,
    write_event,
)
from holdfast.core.dialects.common.values import as_dict, as_dicts

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from holdfast.core.log.records import Json


class AnthropicJoiner:
    """Blocks of all rounds have one numbering, and the client's message has one end."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._is_first = True
        self._next = 0
        self._places: dict[int, int | None] = {}
        """The client's index of each block of this round; None for a call of our own."""
        self._has_call = self._has_own_call = False
        self._usage: Json = {}
        self._before: Json = {}
        """The usage of the rounds that have ended."""
        self._held: list[tuple[Json, bytes]] = []

    def take(self, event: Json, raw: bytes) -> list[bytes]:
        match event.get("type"):
            case "message_start":
                self._usage = as_dict(as_dict(event.get("message")).get("usage"))
                return [raw] if self._is_first else []
            case "content_block_start":
                return self._start_block(event, raw)
            case "content_block_delta" | "content_block_stop":
                index = block_index(event)
                if index not in self._places:
                    self._open(index)
                return self._write(event, raw)
            case "message_delta":
                news = as_dict(event.get("usage")).items()
                self._usage = {**self._usage, **{n: v for n, v in news if v is not None}}
                self._held.append((event, raw))
                return []
            case "message_stop":
                self._held.append((event, raw))
                return []
            case _:
                return [raw]

    def _start_block(self, event: Json, raw: bytes) -> list[bytes]:
        block = as_dict(event.get("content_block"))
        if _is_call(block, self._names):
            self._places[block_index(event)] = None
            self._has_own_call = True
            return []
        self._has_call |= block.get("type") == "tool_use"
        self._open(block_index(event))
        return self._write(event, raw)

    def _open(self, index: int) -> None:
        self._places[index] = self._next
        self._next += 1

    def _write(self, event: Json, raw: bytes) -> list[bytes]:
        index = block_index(event)
        place = self._places[index]
        if place is None:
            return []
        if place == index:
            return [raw]
        return [write_event({**event, "index": place}, str(event["type"]))]

    def hold(self, raw: bytes) -> None:
        self._held.append(({}, raw))

    def end_round(self) -> list[bytes]:
        self._before = add_usage(self._before, self._usage)
        self._is_first = False
        self._places, self._held, self._usage = {}, [], {}
        self._has_call = self._has_own_call = False
        return []

    def finish(self) -> list[bytes]:
        ended = [self._end(event, raw) for event, raw in self._held]
        is_empty = self._has_own_call and not self._next and bool(self._held)
        self._held = []
        return [*_text_events(NOTHING_SAID), *ended] if is_empty else ended

    def _end(self, event: Json, raw: bytes) -> bytes:
        if event.get("type") != "message_delta":
            return raw
        ended = dict(event)
        if self._has_own_call and not self._has_call:
            ended["delta"] = _without_call(as_dict(event.get("delta")))
        if self._before:
            ended["usage"] = add_usage(self._before, self._usage)
        return raw if ended == event else write_event(ended, "message_delta")

    def join(self, bodies: Sequence[Json]) -> Json:
        last = bodies[-1]
        found = [block for body in bodies for block in as_dicts(body.get("content"))]
        content = [block for block in found if not _is_call(block, self._names)]
        if len(bodies) == 1 and len(content) == len(found):
            return last
        usage: Any = {}
        for body in bodies:
            usage = add_usage(usage, body.get("usage"))
        joined = {**last, "content": content, "usage": usage}
        calls = [block for block in as_dicts(last.get("content")) if _is_client_call(block)]
        if calls and all(_is_call(block, self._names) for block in calls):
            joined = _without_call(joined)
            joined["content"] = content or [{"type": "text", "text": NOTHING_SAID}]
        return joined


def _text_events(text: str) -> list[bytes]:
    delta = {"type": "text_delta", "text": text}
    events: list[Json] = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
    ]
    return [write_event(event, event["type"]) for event in events]


def _is_client_call(block: Json) -> bool:
    return block.get("type") == "tool_use"


def _is_call(block: Json, names: frozenset[str]) -> bool:
    return _is_client_call(block) and str(block.get("name")) in names


def _without_call(ended: Json) -> Json:
    """The end of a message in which no call is left for the client."""
    return {**ended, "stop_reason": "end_turn"} if ended.get("stop_reason") == "tool_use" else ended


class AnthropicRounds(Rounds):
    """A reply is one message; a result of ours is a user message with one block."""

    def make_joiner(self, names: frozenset[str]) -> ReplyJoiner:
        return AnthropicJoiner(names)

    def reply_items(
        self, body: Json, left_out: Container[str], *, is_stored: bool = True
    ) -> list[Json]:
        del is_stored
        content = [_without_null(block) for block in as_dicts(body.get("content"))]
        content = [block for block in content if not _is_left_out(block, left_out)]
        return [{"role": "assistant", "content": content}] if content else []

    def result_items(self, call: Json, text: str, *, is_error: bool) -> list[Json]:
        failed = {"is_error": True} if is_error else {}
        answer = {"type": "tool_result", "tool_use_id": call.get("id"), "content": text, **failed}
        return [{"role": "user", "content": [answer]}]

    def with_result_text(self, items: list[Json], text: str) -> list[Json]:
        item = items[0]
        return [{**item, "content": [{**item["content"][0], "content": text}]}]

    def _calls_by_name(self, body: Json) -> list[Json]:
        return as_dicts(body.get("content"))


def _is_left_out(block: Json, left_out: Container[str]) -> bool:
    return block.get("type") == "tool_use" and block.get("id") in left_out


def _without_null(value: Json) -> Json:
    return {name: item for name, item in value.items() if item is not None}
