"""Snapshots of Strands in pieces that give back their bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.core.text.typed import decode_typed

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

_SDK_JSON: Final = json.JSONEncoder(ensure_ascii=False)
"""Writes JSON as the SDK does."""
_MESSAGES_START: Final = b'"messages": ['
_RAW_LIST: Final = list[msgspec.Raw]
_RAW_OBJECT: Final = dict[str, msgspec.Raw]


class Snapshot(NamedTuple):
    """A snapshot in two pieces that give back its bytes."""

    messages: list[bytes]
    """The JSON of each message, as it is in the snapshot."""
    rest: Json
    """The snapshot with no messages in it."""
    same: int = 0
    """The number of messages that are known to be those that were there before."""


def take_apart(data: bytes) -> Snapshot | None:
    """Return a snapshot in pieces; None for bytes that the pieces would not give back.

    The messages stay as they are: of a long conversation, all but the last were there before.
    """
    try:
        top = decode_typed(data, _RAW_OBJECT)
        inner = decode_typed(bytes(top["data"]), _RAW_OBJECT)
        messages = [bytes(raw) for raw in decode_typed(bytes(inner["messages"]), _RAW_LIST)]
        rest: Json = {name: json.loads(bytes(raw)) for name, raw in top.items() if name != "data"}
        rest = {name: rest.get(name) for name in top}
        rest["data"] = {
            name: [] if name == "messages" else json.loads(bytes(raw))
            for name, raw in inner.items()
        }
        if put_together(rest, messages) != data:
            return None
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return Snapshot(messages, rest)


def take_end_apart(data: bytes, known: list[bytes]) -> Snapshot | None:
    """Return a snapshot in pieces that begins with known messages; None for another one.

    Of a long conversation, only what is new is read: the rest is compared as bytes.
    """
    start = data.find(_MESSAGES_START) + len(_MESSAGES_START)
    before = b", ".join(known)
    if not before or not data.startswith(before, start):
        return None
    end = start + len(before)
    if data[end : end + 2] == b", ":
        end += 2
    added = take_apart(data[:start] + data[end:])
    if added is None or (data[end - 2 : end] == b", ") != bool(added.messages):
        return None
    # No byte of JSON is NUL: it stands where the messages begin.
    if put_together(added.rest, [b"\0"]).find(b"\0") != start:
        return None
    return Snapshot([*known, *added.messages], added.rest, len(known))


def put_together(rest: Json, messages: list[bytes]) -> bytes:
    """Return the JSON of a snapshot, as the SDK writes it."""
    inner = {name: spell(value) for name, value in rest["data"].items()}
    inner["messages"] = b"[%b]" % b", ".join(messages)
    top = {name: spell(value) for name, value in rest.items()}
    top["data"] = _join(inner)
    return _join(top)


def _join(fields: dict[str, bytes]) -> bytes:
    return b"{%b}" % b", ".join(b"%b: %b" % (spell(name), raw) for name, raw in fields.items())


def spell(value: Any) -> bytes:
    """Return the JSON of a value, as the SDK writes it."""
    return _SDK_JSON.encode(value).encode(errors="surrogatepass")
