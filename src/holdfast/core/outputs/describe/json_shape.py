"""JSON: what is in it, level by level, and how large the parts are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.outputs.describe.samples import fitting
from holdfast.core.text.cut import cut, ellipsis
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from holdfast.core.outputs.describe.samples import Sample

_PARSED_CHARS: Final = 4_000_000
"""A longer text is not parsed; it is called JSON by how it begins and ends."""
_KEY: Final = lazy_pattern(r'"((?:[^"\\]|\\.){1,80})"\s*:')
_HEAD_CHARS: Final = 20_000
_KEYS_SHOWN: Final = 40
_ELEMENT_CHARS: Final = 300
_NAME_CHARS: Final = 80
_DEPTH: Final = 2


def json_in(text: str) -> Any:
    """The value that a text is; `NOT_JSON` where it is none."""
    bare = text.strip()
    if not bare or (bare[0], bare[-1]) not in (("{", "}"), ("[", "]")):
        return NOT_JSON
    if len(text) > _PARSED_CHARS:
        return UNPARSED if re.match(r'[\[{]\s*["\[{\d]', bare) else NOT_JSON
    try:
        return msgspec.json.decode(bare)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return NOT_JSON


class _Sign(msgspec.Struct, frozen=True):
    name: str


NOT_JSON: Final = _Sign("not JSON")
UNPARSED: Final = _Sign("too long to be parsed")


def is_json_lines(sample: Sample) -> bool:
    """Whether a text is one JSON object a line, by its first lines and its last."""
    lines = [line for line in sample.lines if line.strip()]
    ends = [*lines[:3], *lines[-3:]]
    return len(lines) > 1 and all(_object(line) is not None for line in ends)


def json_facts(value: Any, text: str, room: int) -> list[str]:
    if value is UNPARSED:
        bare = text.lstrip()
        what = "object" if bare[0] == "{" else "array"
        found = dict.fromkeys(_KEY.findall(bare[:_HEAD_CHARS]))
        keys = [_name(key) for key in list(found)[:_KEYS_SHOWN]]
        named = f"; keys near its beginning: {', '.join(keys)}" if keys else ""
        return [_line(f"It looks like a JSON {what}, too long to be parsed here{named}", room)]
    facts = [f"JSON: {_described(value)}", *_inside(value, 1)]
    if isinstance(value, list) and value:
        facts += [f"First element: {_shown(value[0])}", f"Last element: {_shown(value[-1])}"]
    return _fitting(facts, room)


def json_lines_facts(sample: Sample, room: int) -> list[str]:
    lines = [line for line in sample.lines if line.strip()]
    some = sample.note or ""
    facts = [f"{some}{len(lines):,} lines, and by the first and the last of them one object each."]
    for name, line in (("first", lines[0]), ("last", lines[-1])):
        value = _object(line)
        assert value is not None
        facts += [f"The {name} has {_described(value)}", *_inside(value, 1)]
    return _fitting(facts, room)


def _object(line: str) -> dict[str, Any] | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return value if isinstance(value, dict) else None


def _described(value: Any) -> str:
    match value:
        case dict():
            return f"an object with {len(value):,} keys"
        case list():
            kinds = sorted({_kind(item) for item in value})
            of = f" ({', '.join(kinds)})" if kinds else ""
            return f"an array of {len(value):,}{of}"
        case str():
            return f"text, {len(value):,} characters"
        case _:
            return f"{_kind(value)} {cut(_shown(value), 40, marker=ellipsis).text}"


def _inside(value: Any, depth: int) -> list[str]:
    """A line for every part of a value, and those for the parts of the parts."""
    if isinstance(value, list):
        first = next((item for item in value if isinstance(item, dict)), None)
        if first is None:
            return []
        keys = ", ".join(map(_name, list(first)[:_KEYS_SHOWN]))
        more = f" and {len(first) - _KEYS_SHOWN:,} more" if len(first) > _KEYS_SHOWN else ""
        return [f"{'  ' * depth}keys of the first object: {keys}{more}"]
    if not isinstance(value, dict):
        return []
    lines = []
    for key, item in list(value.items())[:_KEYS_SHOWN]:
        lines.append(f"{'  ' * depth}{_name(key)}: {_described(item)}")
        if depth < _DEPTH:
            lines += _inside(item, depth + 1)
    if len(value) > _KEYS_SHOWN:
        lines.append(f"{'  ' * depth}… {len(value) - _KEYS_SHOWN:,} more keys")
    return lines


def _name(key: str) -> str:
    """A key in one line of bounded length."""
    return cut(key.replace("\n", " "), _NAME_CHARS, marker=ellipsis).text


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "array"
        case _:
            return "object"


def _shown(value: Any) -> str:
    said = msgspec.json.encode(value).decode()
    return cut(said, _ELEMENT_CHARS, marker=ellipsis).text


def _fitting(facts: list[str], room: int) -> list[str]:
    """As many as there is room for, from the first on."""
    shown = fitting(facts, room)
    if len(shown) < len(facts) and shown:
        shown[-1] = _line(f"… {len(facts) - len(shown) + 1:,} more facts", len(shown[-1]) + 1)
    return shown


def _line(text: str, room: int) -> str:
    return cut(text, max(0, room - 1), keep="head", marker=ellipsis).text
