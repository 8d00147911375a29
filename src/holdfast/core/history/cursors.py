"""Cursors: the session and the record before which the next older page ends.

A cursor gives no right to anything: each call is authorised again, and a record that is not on the
session's path is refused. Its checksum tells a caller that invents one what is wrong with it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey

_PREFIX: Final = "hc1"
_SHAPE: Final = lazy_pattern(rf"{_PREFIX}\.((?:[0-9a-f]{{2}})+)\.([0-9a-f]{{12}})")
_CHARS_MAX: Final = 2_000
"""A cursor of ours has a few hundred characters; anything longer is not one and is not parsed."""
_HINT: Final = "give the cursor of the page before as it was, or none for the newest page"


def cursor(key: SessionKey, record: str) -> str:
    """Return the cursor for the page before this record."""
    said = f"{key}:{record}"
    return f"{_PREFIX}.{said.encode().hex()}.{_checksum(said)}"


def record_in(text: str, key: SessionKey) -> str:
    """The record that a cursor names. Raises `UsageError` where it is not one of this session."""
    found = _SHAPE.fullmatch(text) if len(text) <= _CHARS_MAX else None
    if found is None:
        raise UsageError("that is not a cursor of this tool", hint=_HINT)
    said = bytes.fromhex(found[1]).decode(errors="replace")
    if _checksum(said) != found[2]:
        raise UsageError("the cursor was altered: its checksum does not fit", hint=_HINT)
    session, _, record = said.partition(":")
    if session != str(key):
        raise UsageError("the cursor belongs to another session", hint=_HINT)
    return record


def _checksum(said: str) -> str:
    return hashlib.sha256(f"holdfast history cursor {said}".encode()).hexdigest()[:12]
