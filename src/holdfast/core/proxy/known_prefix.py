"""The beginning of a body that was read before, so that the next request is read from there on.

A client sends its whole history with every call. Its bytes up to the last few messages are those
of the call before; what they say need not be parsed and hashed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.text.typed import decoder_of

if TYPE_CHECKING:
    from holdfast.core.dialects.common.digests import Atom
    from holdfast.core.log.records import Json

ITEMS_LEFT: Final = 8
"""Messages at the end that are read again: clients change marks in them, and drop volatile ones."""
_SPACE: Final = b" \t\r\n"
_fields: Final = decoder_of(dict[str, msgspec.Raw])
_elements: Final = decoder_of(list[msgspec.Raw])


class KnownPrefix(msgspec.Struct, frozen=True):
    """A prefix of a body that ends between two of its messages."""

    data: bytes
    """The bytes, with the comma before the message that follows."""
    opening: int
    """The number of bytes up to the bracket that opens the list of messages, with it."""
    count: int
    """The number of messages in it."""
    leading: list[Any]
    """The messages at the beginning that are instructions."""
    atoms: list[Atom]
    chains: list[bytes]
    """The chain after each atom."""

    def shorten(self, data: bytes, field: str) -> bytes | None:
        """A body without the messages of this prefix; None where it does not go on from it."""
        if not data.startswith(self.data):
            return None
        rest = data[len(self.data) :]
        if rest.lstrip(_SPACE)[:1] == b"]" or f'"{field}"'.encode() in rest:
            return None  # a list that ends with a comma; a second list, which would be the one
        return data[: self.opening] + rest


class PrefixEnd(msgspec.Struct, frozen=True):
    """A place in a body between two of its messages."""

    opening: int
    """The number of bytes up to the bracket that opens the list of messages, with it."""
    offset: int


def find_prefix_end(data: bytes, field: str, body: Json, left: int) -> PrefixEnd | None:
    """The place before the last `left` messages of a body, whose JSON is `body`.

    None where there are no more messages than that, or where the body is written in a way in which
    the place cannot be told for sure.
    """
    items = body.get(field)
    if not isinstance(items, list) or not 0 < left < len(items):
        return None
    try:
        listed = bytes(_fields.decode(data)[field])
        raws = [bytes(raw) for raw in _elements.decode(listed)[-left:]]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        return None
    start = data.find(listed)
    opening = start + len(listed) - len(listed.lstrip(_SPACE)) + 1
    offset = _before(data, start + len(listed.rstrip(_SPACE)) - 1, raws)
    if offset is None:
        return None
    try:
        short = msgspec.json.decode(data[:opening] + data[offset:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    # Another list with the same bytes may stand before the one that counts.
    return PrefixEnd(opening, offset) if short == {**body, field: items[-left:]} else None


def _before(data: bytes, end: int, raws: list[bytes]) -> int | None:
    """The offset behind the comma that stands before some elements, the last of which ends before
    `end`; None where they do not stand there."""
    for raw in reversed(raws):
        end = _skip_space(data, end)
        if not data.endswith(raw.strip(_SPACE), 0, end):
            return None
        end = _skip_space(data, end - len(raw.strip(_SPACE)))
        if data[end - 1 : end] != b",":
            return None
        end -= 1
    return end + 1


def _skip_space(data: bytes, end: int) -> int:
    while end and data[end - 1] in _SPACE:
        end -= 1
    return end
