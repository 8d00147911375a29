"""Values of stated types, from JSON and from plain values, in any thread.

msgspec reads the fields of a struct when it is first asked for one. Until it has done that, a
second thread that asks for the same struct crashes the process (version 0.22 and before). So each
type is read here first, by one thread at a time, and nothing else asks msgspec for a type.
"""

from __future__ import annotations

import threading
from typing import Any, Final, TypeVar, overload
from weakref import WeakSet

import msgspec

T = TypeVar("T")

_reading: Final = threading.RLock()
_classes: Final[WeakSet[type]] = WeakSet()
_others: Final[set[Any]] = set()
"""Unions and generic types, which the modules state: there are few."""


@overload
def decoder_of(kind: type[T]) -> msgspec.json.Decoder[T]: ...
@overload
def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]: ...
def decoder_of(kind: Any) -> Any:
    """Return a decoder of JSON values of a type."""
    with _reading:
        return msgspec.json.Decoder(kind)


@overload
def decode_typed(data: bytes | str, kind: type[T]) -> T: ...
@overload
def decode_typed(data: bytes | str, kind: Any) -> Any: ...
def decode_typed(data: bytes | str, kind: Any) -> Any:
    """Return the value of a type that JSON states; raises what msgspec raises."""
    _read(kind)
    return msgspec.json.decode(data, type=kind)


@overload
def convert_typed(value: Any, kind: type[T], *, strict: bool = True) -> T: ...
@overload
def convert_typed(value: Any, kind: Any, *, strict: bool = True) -> Any: ...
def convert_typed(value: Any, kind: Any, *, strict: bool = True) -> Any:
    """Return plain values as a value of a type; raises what msgspec raises."""
    _read(kind)
    return msgspec.convert(value, kind, strict=strict)


def _read(kind: Any) -> None:
    known: Any = _classes if isinstance(kind, type) else _others
    if kind not in known:
        with _reading:
            msgspec.json.Decoder(kind)
            known.add(kind)
