"""The depth of JSON-like values, measured level by level.

The interpreter's own limit says nothing: it differs by version and by the stack of the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.limits import NESTING_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN: Final = frozenset((str, int, float, bool, type(None)))
_LONG_BYTES: Final = 16 * 1024  # to count brackets in more takes longer than to look at the value
_CONTAINERS: Final = (dict, list, tuple, msgspec.Struct)


def is_too_deep(value: object, levels: int = NESTING_MAX) -> bool:
    """True where lists and objects stand in each other on more than `levels` levels.

    Looks at every part once. The value must be a tree, as parsed JSON is.
    """
    level: list[Any] = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(levels):
        if not level:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer if type(outer) is list else _inside(outer))
            if type(inner) not in _PLAIN and isinstance(inner, _CONTAINERS)
        ]
    return bool(level)


def is_shallow(value: Any) -> bool:
    """True for a text, a number, or a list or an object of these and of objects of these."""
    inside = value.values() if type(value) is dict else value if type(value) is list else (value,)
    return all(map(_is_flat, inside))


def may_be_deep(data: bytes, levels: int, lines: int = 1) -> bool:
    """False for most JSON, or lines of it, without decoding it: a level is a bracket."""
    brackets_max = levels + lines - 1
    return len(data) > _LONG_BYTES * lines or data.count(b"[") + data.count(b"{") > brackets_max


def _is_flat(value: Any) -> bool:
    """True for a text or a number, or an object of these and of empty lists and objects."""
    if type(value) is not dict:
        return type(value) in _PLAIN
    return all(not inner or type(inner) in _PLAIN for inner in value.values())


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return msgspec.structs.astuple(value) if isinstance(value, msgspec.Struct) else value
