"""Values of stated types, from JSON and from plain values, in any thread.

Fields of JSON objects that a struct does not know are set aside under `$extra`, and come back.
"""

from __future__ import annotations

import threading
from typing import Any, Final, TypeAlias, TypeVar, overload
from weakref import WeakSet

import msgspec

_Json: TypeAlias = dict[str, Any]


def fold(value: _Json, known: frozenset[str]) -> _Json:
    """Move the fields we do not know into `$extra`, where a struct can keep them."""
    if known.issuperset(value):
        return value
    folded = dict(value)
    folded["$extra"] = {name: folded.pop(name) for name in value if name not in known}
    return folded


def unfold(value: _Json) -> _Json:
    """Put the fields of `$extra` back into a value that the caller owns."""
    extra: _Json = value.pop("$extra", {})
    return {**value, **extra}


def fold_nested(value: Any, known: frozenset[str]) -> Any:
    """Return an object, or a list of them, with unknown fields set aside."""
    if isinstance(value, list):
        return [fold_nested(item, known) for item in value]
    return fold(value, known) if isinstance(value, dict) else value


def unfold_nested(value: Any) -> Any:
    """Return an object, or a list of them, with unknown fields put back."""
    return [unfold(item) for item in value] if isinstance(value, list) else unfold(value)


def json_type(value: object) -> str:
    """Return the name of the type of a JSON value that is not an object."""
    return {list: "a list", str: "a string", type(None): "null", bool: "a boolean"}.get(
        type(value), "a number"
    )


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
