"""Finds pictures that are cut off: steps over their parts, and decodes no pixel."""

from __future__ import annotations

from typing import Final

_SCAN: Final = 0xDA
"""The marker of a JPEG's pixels."""
_BARE: Final = frozenset((0x01, *range(0xD0, 0xD9)))
"""Markers of a JPEG without a length."""


def is_whole(data: bytes, kind: str) -> bool:
    """Return whether a picture of one of the four common kinds reaches its end; True for others."""
    match kind:
        case "image/png":
            return _is_whole_png(data)
        case "image/jpeg":
            return _is_whole_jpeg(data)
        case "image/gif":
            return _is_whole_gif(data)
        case "image/webp":
            return 12 < int.from_bytes(data[4:8], "little") + 8 <= len(data)
        case _:
            return True


def _is_whole_png(data: bytes) -> bool:
    place, has_pixels = 8, False
    while place + 12 <= len(data):
        name = data[place + 4 : place + 8]
        place += 12 + int.from_bytes(data[place : place + 4], "big")
        has_pixels = has_pixels or name == b"IDAT"
        if name == b"IEND":
            return has_pixels and place <= len(data)
    return False


def _is_whole_jpeg(data: bytes) -> bool:
    place = 2
    while place + 4 <= len(data) and data[place] == 0xFF:
        marker = data[place + 1]
        if marker == 0xFF:
            place += 1
        elif marker in _BARE:
            place += 2
        elif marker == _SCAN:
            return data.find(b"\xff\xd9", place) > 0
        else:
            place += 2 + max(2, int.from_bytes(data[place + 2 : place + 4], "big"))
    return False


def _is_whole_gif(data: bytes) -> bool:
    """Return whether the first frame is there: decoders do without what follows."""
    place = 13 + _colours(data[10:11])
    while place < len(data):
        match data[place]:
            case 0x21:
                place = _after_blocks(data, place + 2)
            case 0x2C:
                place += 11 + _colours(data[place + 9 : place + 10])
                return _after_blocks(data, place) <= len(data)
            case _:
                return False
    return False


def _colours(flags: bytes) -> int:
    """Return the size of the table of colours that flags announce."""
    return 3 << (flags[0] & 7) + 1 if flags and flags[0] & 0x80 else 0


def _after_blocks(data: bytes, place: int) -> int:
    """Return the place behind a row of blocks; behind the end where it is cut."""
    while place < len(data):
        length = data[place]
        place += 1 + length
        if not length:
            return place
    return len(data) + 1
