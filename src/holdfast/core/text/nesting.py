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
_are_plain: Final = _PLAIN.issuperset
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
    """True for a text, a number, or a list or an object of these, three levels at most.

    These are the blocks of a message, with the arguments of a tool. It is asked at every append and
    every read, so it calls no function in Python.
    """
    kind = type(value)
    if not value or kind in _PLAIN:
        return True
    for item in value if kind is list else value.values() if kind is dict else (value,):
        if type(item) is not dict:
            if type(item) not in _PLAIN:
                return False
        elif not _are_plain(map(type, item.values())):
            for inner in item.values():
                if not inner or type(inner) in _PLAIN:
                    continue
                if not (type(inner) is dict and _are_plain(map(type, inner.values()))):
                    return False
    return True


def may_be_deep(data: bytes, levels: int, lines: int = 1) -> bool:
    """False for most JSON, or lines of it, without decoding it: a level is a bracket."""
    brackets_max = levels + lines - 1
    return len(data) > _LONG_BYTES * lines or data.count(b"[") + data.count(b"{") > brackets_max


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return msgspec.structs.astuple(value) if isinstance(value, msgspec.Struct) else value
