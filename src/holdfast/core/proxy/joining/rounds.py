"""The joiner of rounds as a protocol, and what those of all dialects use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json

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
    if _is_number(first) and _is_number(second):
        return first + second
    return first if second is None else second


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
