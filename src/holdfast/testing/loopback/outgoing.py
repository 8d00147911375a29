"""Send replies over the connection, and break it as told."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.testing.loopback.faults import Stage
    from holdfast.testing.loopback.speaking import Event

JSON_TYPE: Final = "application/json"
STREAM_TYPE: Final = "text/event-stream; charset=utf-8"
_GZIP: Final = 16 + zlib.MAX_WBITS


class Wait(msgspec.Struct, frozen=True):
    """Seconds in which nothing is sent."""

    seconds: float


Ending: TypeAlias = Literal["end", "drop", "reset"]


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A reply as the connection carries it. Status 0: not a byte of it."""

    status: int
    headers: dict[str, str]
    parts: tuple[bytes | Wait, ...] = ()
    size: int | None = None
    """The length that is announced; None for a stream, which ends when it ends."""
    ending: Ending = "end"
    wait: float = 0.0
    """Seconds before the status line."""


class Handled(msgspec.Struct, frozen=True):
    """A reply without a connection."""

    status: int
    """0 where a connection would have been reset before a reply."""
    headers: dict[str, str]
    """The headers of the reply."""
    body: bytes = b""
    """All of it that is sent."""
    is_broken: bool = False
    """True if the connection breaks before the end."""


def whole(status: int, headers: dict[str, str], data: bytes, *, wait: float = 0.0) -> Outgoing:
    headers = {"content-type": JSON_TYPE, **headers}
    return Outgoing(status=status, headers=headers, parts=(data,), size=len(data), wait=wait)


def reset(wait: float = 0.0) -> Outgoing:
    return Outgoing(status=0, headers={}, ending="reset", wait=wait)


def cut_gzip(headers: dict[str, str], data: bytes, *, wait: float) -> Outgoing:
    """A compressed reply that stops after `data`, with more to come and no end of its own."""
    packer = zlib.compressobj(wbits=_GZIP)
    packed = packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)
    return whole(200, {**headers, "content-encoding": "gzip"}, packed, wait=wait)


def cut_short(headers: dict[str, str], data: bytes, ending: Ending, *, wait: float) -> Outgoing:
    """A reply that is no stream, of which the second half is missing."""
    half = data[: len(data) // 2]
    reply = whole(200, headers, half, wait=wait)
    size = len(half) if ending == "end" else len(data)
    return msgspec.structs.replace(reply, size=size, ending=ending)


def amid(events: Iterable[Event], stage: Stage) -> int:
    """Return the number of events up to the middle of a stage."""
    if stage == "open":
        return 0
    places = [at for at, event in enumerate(events) if event.stage == stage]
    return places[(len(places) - 1) // 2] + 1 if places else 1


def pace(events: Iterable[Event], pause: float) -> Iterator[bytes | Wait]:
    for number, event in enumerate(events):
        if pause and number:
            yield Wait(pause)
        yield event.data
