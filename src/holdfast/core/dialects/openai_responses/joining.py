"""Rounds of the Responses API as one response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects.common.rounds import ReplyJoiner, Rounds, add_usage, write_event
from holdfast.core.dialects.common.values import as_dict, as_dicts

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from holdfast.core.log.records import Json

_OPENINGS: Final = ("response.created", "response.in_progress", "response.queued")
_IDENTITY: Final = ("id", "created_at")
"""Fields that clients expect to be the same from the first event to the last."""
_ENDS: Final = ("response.completed", "response.incomplete")


class ResponsesJoiner:
    """Items of all rounds have one numbering, and all events one sequence."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._identity: Json = {}
        self._is_first = True
        self._sequence = 0
        self._next = 0
        self._places: dict[int, int | None] = {}
        """The client's index of each item of this round; None for a call of our own."""
        self._reasoning: list[tuple[Json, bytes]] = []
        """The events of reasoning of which it is not known yet what it led to. A client that gets
        it without its call could not send it back."""
        self._done: list[Json] = []
        """The items of this round that the client has seen whole."""
        self._items: list[Json] = []
        """The items of the rounds that have ended."""
        self._usage: Any = None
        self._before: Any = None
        self._held: list[tuple[Json, bytes]] = []

    def take(self, event: Json, raw: bytes) -> list[bytes]:
        kind = event.get("type")
        if kind in _OPENINGS:
            response = as_dict(event.get("response"))
            if not self._is_first:
                return []
            self._identity = {name: response[name] for name in _IDENTITY if name in response}
            return [self._write({**event, "response": self._without_tools(response)}, event, raw)]
        if kind in _ENDS:
            self._usage = as_dict(event.get("response")).get("usage")
            self._held.append((event, raw))
            return []
        if "output_index" not in event:
            return [self._write(event, event, raw)]
        return self._take_item(event, raw)

    def _take_item(self, event: Json, raw: bytes) -> list[bytes]:
        item = as_dict(event.get("item"))
        index = event["output_index"]
        if self._reasoning and index != self._reasoning[0][0]["output_index"]:
            thought, self._reasoning = self._reasoning, []
            if self._is_own(item):
                self._places[thought[0][0]["output_index"]] = None
            passed = [out for event, raw in thought for out in self._pass_item(event, raw)]
            return [*passed, *self._take_item(event, raw)]
        is_new = index not in self._places
        if (is_new and item.get("type") == "reasoning") or self._reasoning:
            self._reasoning.append((event, raw))
            return []
        return self._pass_item(event, raw)

    def _pass_item(self, event: Json, raw: bytes) -> list[bytes]:
        kind, index = event.get("type"), event["output_index"]
        item = as_dict(event.get("item"))
        if index not in self._places:
            self._open(index, item)
        place = self._places[index]
        if place is None:
            return []
        if kind == "response.output_item.done":
            self._done.append(item)
        return [self._write({**event, "output_index": place}, event, raw)]

    def _open(self, index: int, item: Json) -> None:
        if self._is_own(item):
            self._places[index] = None
            return
        self._places[index] = self._next
        self._next += 1

    def _is_own(self, item: Json) -> bool:
        return item.get("type") == "function_call" and item.get("name") in self._names

    def _write(self, event: Json, given: Json, raw: bytes) -> bytes:
        """An event with the next number of the sequence."""
        if "sequence_number" in event:
            event = {**event, "sequence_number": self._sequence}
            self._sequence += 1
        return raw if raw and event == given else write_event(event, str(event.get("type")))

    def _without_tools(self, response: Json) -> Json:
        """A response without the echo of our own tools."""
        tools = response.get("tools")
        if not isinstance(tools, list):
            return response
        kept = [tool for tool in tools if as_dict(tool).get("name") not in self._names]
        return {**response, "tools": kept}

    def hold(self, raw: bytes) -> None:
        self._held.append(({}, raw))

    def end_round(self) -> list[bytes]:
        self._items += self._client_items()
        self._before = add_usage(self._before, self._usage)
        self._is_first = False
        self._places, self._done, self._held, self._usage = {}, [], [], None
        self._reasoning = []
        return []

    def _client_items(self) -> list[Json]:
        """The client's items of this round."""
        responses = [as_dict(event.get("response")) for event, _raw in self._held]
        output = next((found["output"] for found in responses if found.get("output")), None)
        items = as_dicts(output) or self._done  # some hosts leave the last event's output empty
        return self._without_own(items)

    def _without_own(self, items: Sequence[Json]) -> list[Json]:
        """Items without our calls, and without the reasoning that led to them."""
        kept: list[Json] = []
        for item in items:
            if not self._is_own(item):
                kept.append(item)
            elif kept and kept[-1].get("type") == "reasoning":
                kept.pop()
        return kept

    def finish(self) -> list[bytes]:
        thought, self._reasoning = self._reasoning, []
        passed = [out for event, raw in thought for out in self._pass_item(event, raw)]
        ended = [self._end(event, raw) for event, raw in self._held]
        self._held = []
        return [*passed, *ended]

    def _end(self, event: Json, raw: bytes) -> bytes:
        if not event:
            return raw
        given = as_dict(event.get("response"))
        response = {**self._without_tools(given), **self._identity}
        output = [*self._items, *self._client_items()]
        if given.get("output") or self._items:
            response["output"] = output
        if self._before is not None:
            response["usage"] = add_usage(self._before, self._usage)
        return self._write({**event, "response": response}, event, raw)

    def join(self, bodies: Sequence[Json]) -> Json:
        last = self._without_tools(bodies[-1])
        found = [item for body in bodies for item in as_dicts(body.get("output"))]
        output = [
            item for body in bodies for item in self._without_own(as_dicts(body.get("output")))
        ]
        if len(bodies) == 1 and len(output) == len(found):
            return last
        usage: Any = None
        for body in bodies:
            usage = add_usage(usage, body.get("usage"))
        return {**last, "output": output, **({"usage": usage} if usage else {})}


_REASONING_FIELDS: Final = ("type", "id", "summary", "encrypted_content")
"""Fields of a reasoning item that the API accepts back."""


class ResponsesRounds(Rounds):
    """Each item of a reply is one of the next request, and so is a result."""

    def make_joiner(self, names: frozenset[str]) -> ReplyJoiner:
        return ResponsesJoiner(names)

    def reply_items(
        self, body: Json, left_out: Container[str], *, is_stored: bool = True
    ) -> list[Json]:
        items = [_response_item(item, is_stored) for item in as_dicts(body.get("output"))]
        return [item for item in items if item and item.get("call_id") not in left_out]

    def result_items(self, call: Json, text: str, *, is_error: bool) -> list[Json]:
        del is_error
        return [{"type": "function_call_output", "call_id": call.get("id"), "output": text}]

    def with_result_text(self, items: list[Json], text: str) -> list[Json]:
        return [{**items[0], "output": text}]

    def _calls_by_name(self, body: Json) -> list[Json]:
        return [
            {"name": item.get("name"), "id": item.get("call_id")}
            for item in as_dicts(body.get("output"))
        ]


def _response_item(item: Json, is_stored: bool) -> Json:
    if item.get("type") == "reasoning":
        if not is_stored and not item.get("encrypted_content"):
            return {}  # nothing could be found by its id
        known = {name: item[name] for name in _REASONING_FIELDS if item.get(name) is not None}
        return {"summary": [], **known}
    left_out = ("status",) if is_stored else ("status", "id")
    return {n: v for n, v in item.items() if n not in left_out and v is not None}
