"""Mask the secrets in an exported log; lines without a secret keep every byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.limits import LINE_BYTES_MAX
from holdfast.core.secrets.redaction import masks_in
from holdfast.engine.redactor import redactor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Masking:
    """Masks secrets and counts them."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.count = 0
        self._redactor = redactor(secrets)

    def log(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Mask a log, given in chunks of any size, line by line."""
        return map(self._line, _lines(chunks))

    def value(self, value: Any) -> Any:
        masked = self._redactor.value(value)
        if masked is not value:
            self.count += _masks(masked) - _masks(value)
        return masked

    def _line(self, line: bytes) -> bytes:
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._text_line(line)
        masked = self.value(value)
        if masked is value and not _has_duplicate_keys(line, value):
            return line
        return msgspec.json.encode(masked) + b"\n"[: line.endswith(b"\n")]

    def _text_line(self, line: bytes) -> bytes:
        """Mask a line that is not JSON as text; its other bytes stay the same."""
        text = line.decode(errors="surrogateescape")
        masked = self._redactor.text(text)
        self.count += masks_in(masked) - masks_in(text)
        return line if masked is text else masked.encode(errors="surrogateescape")


def _masks(value: Any) -> int:
    return masks_in(msgspec.json.encode(value).decode())


def _has_duplicate_keys(line: bytes, value: Any) -> bool:
    """Return True if a key occurs twice: decoding would hide the first value."""
    if msgspec.json.encode(value) == line.rstrip():
        return False
    twice = False

    def check(pairs: list[tuple[str, Any]]) -> None:
        nonlocal twice
        twice = twice or len(dict(pairs)) < len(pairs)

    json.loads(line, object_pairs_hook=check)
    return twice


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a log; a line that is too long for a record comes in pieces."""
    held = bytearray()
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield bytes(held + line + b"\n")
            held.clear()
        held += rest
        if len(held) > LINE_BYTES_MAX:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)
