"""Rounds of one reply in which the proxy answers calls: as messages, and joined for the client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from holdfast.core.dialects.common.values import as_dict, as_number

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.messages import ToolCall

SEPARATOR: Final = "\n\n"
"""Between the texts of two rounds, in dialects in which a reply has one text."""
NOTHING_SAID: Final = "[Holdfast proxy: the model read what was cut, and said nothing.]"
"""The text of a reply that has nothing left without our calls: no API takes an empty one back."""


class ReplyJoiner(Protocol):
    """Makes one reply of several rounds, in the words of a dialect.

    Calls of the proxy's own tools are left out, so that a client never sees a tool that it does not
    have. Events that end a round are held until it is known whether another one follows.
    """

    def take(self, event: Json, raw: bytes) -> list[bytes]:
        """The events for the client after one of the provider's; `raw` is the event as it came."""

    def hold(self, raw: bytes) -> None:
        """Keep an event without JSON that ends the stream."""

    def end_round(self) -> list[bytes]:
        """End a round that another one follows; returns the events that are still to be passed."""

    def finish(self) -> list[bytes]:
        """The events that end the reply."""

    def join(self, bodies: Sequence[Json]) -> Json:
        """The rounds of a reply that is not streamed, as one."""


class Rounds(ABC):
    """A round as messages for the next request: the model's reply, and results of our tools."""

    @abstractmethod
    def make_joiner(self, names: frozenset[str]) -> ReplyJoiner:
        """A joiner for one reply. `names` are the tools that the proxy answers."""

    @abstractmethod
    def reply_items(
        self, body: Json, left_out: Container[str], *, is_stored: bool = True
    ) -> list[Json]:
        """A reply as the next request repeats it, without the calls of some ids.

        `is_stored` is False where the provider keeps nothing, so that its ids mean nothing to it.
        """

    @abstractmethod
    def result_items(self, call: Json, text: str, *, is_error: bool) -> list[Json]:
        """The result of a call, of which `call` has the name and, where it has one, the id."""

    @abstractmethod
    def with_result_text(self, items: list[Json], text: str) -> list[Json]:
        """A result of ours with another text."""

    def call_ids(self, body: Json, names: Container[str]) -> list[str]:
        """The ids of all calls of some tools in a reply, those that broke off among them."""
        calls = self._calls_by_name(body)
        return [str(call.get("id")) for call in calls if str(call.get("name")) in names]

    def calls_to_answer(
        self, calls: Sequence[ToolCall], body: Json, names: Container[str]
    ) -> list[Json]:
        """The id and the name of each call, as a result has to repeat them."""
        del body, names
        return [{"id": call.id, "name": call.name} for call in calls]

    @abstractmethod
    def _calls_by_name(self, body: Json) -> list[Json]:
        """The calls of a reply, each with its `name` and its `id`."""


def write_event(event: Json, name: str = "") -> bytes:
    """An event as bytes."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(event) + b"\n\n"


def add_usage(first: Any, second: Any) -> Any:
    """The sum of two reports of usage: numbers are added, whatever else there is stays."""
    if isinstance(first, dict) and isinstance(second, dict):
        return {
            name: add_usage(first.get(name), second.get(name))
            for name in dict.fromkeys((*first, *second))
        }
    if as_number(first) is not None and as_number(second) is not None:
        return first + second
    return first if second is None else second


def first_object(body: Json, field: str) -> Json:
    """The first item of a list, where it is an object."""
    found = body.get(field)
    return as_dict(found[0]) if isinstance(found, list) and found else {}
