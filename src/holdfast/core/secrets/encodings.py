"""The forms that a known value takes in other texts: escaped, encoded, in hexadecimal."""

from __future__ import annotations

import json
from typing import Final

import msgspec

_URL_SAFE: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_URL_MARKS: Final = frozenset(b"!*'()")
"""Characters that JavaScript does not encode and others do."""
_HTML: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
_CODE_CHARS: Final = 5
"""A shorter piece of base64 is found everywhere."""
_ENCODED_CHARS: Final = 10
"""A shorter encoding stands in other texts by chance, where a log must keep it."""


def disguises(value: str) -> frozenset[str]:
    """A value as it stands, and as it would stand in JSON, an address, HTML, base64 or a dump."""
    data = value.encode(errors="replace")
    found = {
        value,
        *escaped_forms(value),
        *_percent_encoded(data),
        *(_html(value, quote) for quote in ("&#x27;", "&#39;", "&apos;", "'")),
        *_base64(data),
        data.hex(),
        data.hex().upper(),
    }
    return frozenset(found)


def encodings_of(value: str) -> dict[str, str]:
    """Return a value in hexadecimal and in base64, by the name of the encoding.

    In base64 it is the part that is the same whatever stands around the value, by its offset.
    """
    data = value.encode(errors="replace")
    found = {"hex": data.hex(), "HEX": data.hex().upper()}
    for offset, text in enumerate(_base64_parts(data)):
        found[f"base64-{offset}"] = text
        found[f"base64url-{offset}"] = _url_safe(text)
    return {name: text for name, text in found.items() if len(text) >= _ENCODED_CHARS}


def escaped_forms(value: str) -> frozenset[str]:
    """A value inside a string of JSON, and of JSON that is itself in a string of JSON."""
    found: set[str] = set()
    for is_ascii in (True, False):
        once = json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        twice = json.dumps(once, ensure_ascii=is_ascii)[1:-1]
        found |= {once, twice, once.replace("/", "\\/")}
    return frozenset(found - {value})


def _percent_encoded(data: bytes) -> set[str]:
    found = set()
    for safe in (_URL_SAFE, _URL_SAFE | {ord("/")}, _URL_SAFE | _URL_MARKS):
        for form in ("%{:02X}", "%{:02x}"):
            text = "".join(chr(byte) if byte in safe else form.format(byte) for byte in data)
            found |= {text, text.replace("%20", "+")}
    return found


def _html(value: str, quote: str) -> str:
    return "".join(quote if item == "'" else _HTML.get(item, item) for item in value)


def _base64(data: bytes) -> set[str]:
    """Return the texts contained in every base64 encoding of the bytes, at any offset."""
    parts = [text for text in _base64_parts(data) if len(text) >= _CODE_CHARS]
    return {*parts, *map(_url_safe, parts)}


def _base64_parts(data: bytes) -> list[str]:
    """Return what the bytes certainly are in base64 behind none, one and two other bytes."""
    return [
        str(msgspec.to_builtins(b"\0" * before + data))[dropped : (before + len(data)) * 8 // 6]
        for before, dropped in ((0, 0), (1, 2), (2, 3))
    ]


def _url_safe(text: str) -> str:
    return text.replace("+", "-").replace("/", "_")
