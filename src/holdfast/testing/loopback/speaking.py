"""A reply before it is put into a dialect's words, and what the three dialects share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol

import msgspec

from holdfast.core.log.records import Json  # noqa: TC001  (a struct's field)
from holdfast.core.models.replies import Stop  # noqa: TC001  (a struct's field)
from holdfast.testing.loopback.asking import Call  # noqa: TC001  (a struct's field)
from holdfast.testing.loopback.faults import Counts  # noqa: TC001  (a struct's field)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.dialects.common.rule import Violation
    from holdfast.testing.loopback.faults import WireFailure

PIECE_CHARS: Final = 24
PIECES_MAX: Final = 200
"""A long text comes in larger pieces, not in more of them."""

Stage = Literal["start", "thinking", "text", "call", "other"]


class Event(msgspec.Struct, frozen=True):
    """A piece of a stream, and what it is about."""

    stage: Stage
    data: bytes


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """A reply with everything that a dialect needs to write it."""

    id: str
    model: str
    created: int
    stop: Stop
    thinking: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()
    """With their ids."""
    counts: Counts | None = None
    """None where usage is left out."""
    body: Json
    """The request."""
    thoughts: tuple[Json, ...] = ()
    """Blocks or items of reasoning, before the words."""
    notes: tuple[Json, ...] = ()
    """Blocks of reasoning right before the first call."""
    signature: str = ""
    """The signature of the first call, or of the words where there is none."""
    report: Json = {}
    """Fields of the reply itself that the wire has no name for."""


class Wire(Protocol):
    """Writes the replies of one API."""

    request_header: str
    """The header of a reply with the id of its request."""
    call_prefix: str
    """The beginning of the ids of calls."""
    reserves_output: bool
    """True if the reply that is asked for counts towards the window."""

    def count(self, tokens: int, /) -> Json:
        """Return the reply to a request that only counts."""

    def reply(self, spoken: Spoken, /) -> Json: ...

    def events(self, spoken: Spoken, /) -> Iterator[Event]: ...

    def error(self, failure: WireFailure, request_id: str, /) -> Json: ...

    def error_event(self, failure: WireFailure, spoken: Spoken, sent: int, /) -> bytes:
        """Return the error event that ends a stream after `sent` events."""

    def refusal(self, violation: Violation, /) -> WireFailure: ...

    def over_limit(self, tokens: int, output: int, limit: int, /) -> WireFailure: ...

    def too_large(self) -> WireFailure: ...

    def over_output(self, output: int, limit: int, model: str, /) -> WireFailure: ...


def sse(data: Json, event: str = "") -> bytes:
    """One server-sent event."""
    name = f"event: {event}\n".encode() if event else b""
    return name + b"data: " + msgspec.json.encode(data) + b"\n\n"


def in_pieces(text: str) -> list[str]:
    """A text as a stream brings it: in two pieces at least, where it has two characters."""
    size = max(1, min(max(PIECE_CHARS, len(text) // PIECES_MAX), -(-len(text) // 2)))
    return [text[at : at + size] for at in range(0, len(text), size)]
