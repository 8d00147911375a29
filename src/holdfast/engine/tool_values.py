"""Whatever a tool returns or raises, as the outcome of its call.

A tool is someone's code: it may return numbers without end, lists that contain themselves, or
objects that cannot even be shown. None of that costs the turn.
"""

from __future__ import annotations

import dataclasses
from itertools import islice
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.flow.effects import Outcome
from holdfast.core.limits import NESTING_MAX, TOOL_VALUE_CHARS_MAX, TOOL_VALUE_PARTS_MAX
from holdfast.core.text.cut import cut, scrub
from holdfast.core.text.strings import is_too_deep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.log.records import Content

_NOT_JSON: Final = (TypeError, ValueError, OverflowError, RecursionError)
_INTEGER_BITS_MAX: Final = 13_000
"""The interpreter refuses to write larger integers in decimal."""
_LEAVES: Final = frozenset((str, int, float, bool, type(None)))
_OUTLINE_PARTS: Final = 5
_OUTLINE_CHARS: Final = 80
"""Parts of a level, and characters of a part, in the outline of a value that has no end."""


class ToolOutput(msgspec.Struct, frozen=True):
    """A tool result with an error flag, content blocks or details."""

    content: Content
    """The result that the model gets."""
    is_error: bool = False
    """True where the tool failed."""
    details: Any = None
    """For programs; the model does not see it."""
    pending: bool = False
    """True where the result is not known yet: `content` stands in its place, and the result follows
    by the key of the call."""


def outcome_of(call_id: str, value: Any, seconds: float) -> Outcome:
    """Turn the return value of a tool into the outcome of its call."""
    if type(value) in (GeneratorType, AsyncGeneratorType):  # by type: a value may lie
        text = "[The tool returned a generator, whose values were not read.]"
        return Outcome(call_id, text, is_error=True, seconds=seconds)
    try:
        if isinstance(value, ToolOutput):
            content, details = _content(value.content), _storable(value.details)
            return Outcome(
                call_id,
                content,
                bool(value.is_error),
                details,
                seconds,
                pending=bool(value.pending),
            )
        return Outcome(call_id, _content(value), seconds=seconds)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = f"[The tool returned {_unseen(value, error)}]"
        return Outcome(call_id, text, is_error=True, seconds=seconds)


def outcome_of_error(call_id: str, error: BaseException, seconds: float) -> Outcome:
    """Turn an exception of a tool into the outcome of its call."""
    message = show(error).strip()
    name = _type_name(error)
    return Outcome(call_id, f"{name}: {message}" if message else name, True, seconds=seconds)


def _content(value: Any) -> Content:
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode(errors="replace")
    if isinstance(value, str | int | float):
        return show(value) if not isinstance(value, bool) else str(value).lower()
    if not _is_bounded_tree(value):
        return _sketch(value)
    if _is_blocks(value):
        stored = _storable(value)
        return list(stored) if isinstance(stored, list) else str(stored)
    try:
        return msgspec.json.encode(value, enc_hook=_show_in_full).decode()
    except _NOT_JSON:
        pass
    try:
        return msgspec.json.encode(_tidy(value), enc_hook=_show_in_full).decode()
    except _NOT_JSON:
        return show(value)


def _storable(value: Any) -> Any:
    """Convert a value to JSON types; other types become text."""
    if not _is_bounded_tree(value):
        return _sketch(value)
    try:
        encoded = msgspec.json.encode(_tidy(value), enc_hook=_show_in_full)
        stored = msgspec.json.decode(encoded)
    except _NOT_JSON:
        return show(value)
    return _sketch(value) if is_too_deep(stored) else stored


def show(value: Any) -> str:
    """The text of a value, also of one that has none."""
    try:
        if isinstance(value, int) and value.bit_length() > _INTEGER_BITS_MAX:
            return hex(value)
        return scrub(str.__str__(value) if isinstance(value, str) else str(value))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return f"[{_unseen(value, error)}]"


def _show_in_full(value: Any) -> str:
    try:
        return scrub(repr(value))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return f"[{_unseen(value, error)}]"


def _sketch(value: Any) -> str:
    """A bounded text for a value that is too deep, too large, or contains itself."""
    name = _type_name(value)
    return f"[a {name} that is nested too deeply or too large to be shown: {_outline(value)}]"


def _outline(value: Any, levels: int = 3) -> str:
    """The first parts of the first levels. The text of an object may have no end: its type only."""
    if type(value) in _LEAVES:
        return cut(show(value), _OUTLINE_CHARS).text
    if not isinstance(value, dict | list | tuple | set | frozenset):
        return f"<{_type_name(value)}>"
    if levels == 0:
        return "…"
    shown = []
    for part in islice(value, _OUTLINE_PARTS):
        text = _outline(part, levels - 1)
        shown.append(
            f"{text}: {_outline(value[part], levels - 1)}" if type(value) is dict else text
        )
    more = ", …" if len(value) > _OUTLINE_PARTS else ""
    return f"{_type_name(value)}({', '.join(shown)}{more})"


def _unseen(value: Any, error: BaseException) -> str:
    return f"a {_type_name(value)} that cannot be shown: {_type_name(error)}"


def _type_name(value: Any) -> str:
    # `type.__name__` of the metaclass: a class can redefine its own
    return scrub(type.__dict__["__name__"].__get__(type(value)))


def _tidy(value: Any) -> Any:
    """Replace what JSON cannot hold in lists and dictionaries: keys, huge integers, surrogates."""
    match value:
        case str():
            return scrub(value)
        case bool():
            return value
        case int() if value.bit_length() > _INTEGER_BITS_MAX:
            return hex(value)
        case dict():
            return {_tidy_key(key): _tidy(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_tidy(item) for item in value]
        case _:
            return value


def _tidy_key(key: Any) -> Any:
    return key if isinstance(key, int | float) and not isinstance(key, bool) else show(key)


def _is_bounded_tree(value: Any) -> bool:
    """True where a value has an end: no more levels, parts and characters than a result may have.

    A value that contains itself, or one part a million times, has none.
    """
    levels: list[Iterator[Any]] = [iter((value,))]
    parts = chars = 0
    while levels:
        part = next(levels[-1], levels)
        if part is levels:
            levels.pop()
            continue
        parts += 1
        if type(part) is str or type(part) is bytes:
            chars += len(part)
        if parts > TOOL_VALUE_PARTS_MAX or chars > TOOL_VALUE_CHARS_MAX:
            return False
        inside = None if type(part) in _LEAVES else _inside(part)
        if inside is not None:
            if len(levels) > NESTING_MAX:
                return False
            levels.append(iter(inside))
    return True


def _inside(part: Any) -> Iterable[Any] | None:
    """The parts of a container; None for other values."""
    match part:
        case dict():
            return (inner for pair in part.items() for inner in pair)
        case list() | tuple() | set() | frozenset():
            return part
        case msgspec.Struct():
            return msgspec.structs.astuple(part)
        case _ if dataclasses.is_dataclass(part) and not isinstance(part, type):
            return (getattr(part, field.name, None) for field in dataclasses.fields(part))
        case _:
            return None


def _is_blocks(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in value)
    )
