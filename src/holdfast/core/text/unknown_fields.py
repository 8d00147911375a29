"""Fields of JSON objects that a struct does not know: set aside under `$extra`, and put back."""

from __future__ import annotations

from typing import Any, TypeAlias

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
    """Return the name of the type of a JSON value that is no object."""
    return {list: "a list", str: "a string", type(None): "null", bool: "a boolean"}.get(
        type(value), "a number"
    )
