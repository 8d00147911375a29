"""Facts about JSON and tables: their parts and how large those are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.outputs.describe.samples import ends_of, fit_first, fit_line
from holdfast.core.text.cut import count_of, cut, ellipsis
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from holdfast.core.outputs.describe.samples import Sample

_PARSED_CHARS: Final = 4_000_000
"""A longer text is not parsed; it counts as JSON by its beginning and its end."""
_KEY: Final = lazy_pattern(r'"((?:[^"\\]|\\.){1,80})"\s*:')
_HEAD_CHARS: Final = 20_000
_KEYS_SHOWN: Final = 40
_ELEMENT_CHARS: Final = 300
_KEY_CHARS: Final = 80
_DEPTH: Final = 2
"""A description shows the shape of a document: its first keys, two levels deep, one element
of each list."""

_DELIMITERS: Final = (("\t", "tab-separated"), (",", "CSV"), (";", "CSV with semicolons"))
_QUOTED: Final = lazy_pattern(r'"(?:[^"]|"")*"')
_RULE: Final = lazy_pattern(r"\s*+(?:\|\s*+)?:?-{2,}+:?\s*+(?:\|\s*+:?-{2,}+:?\s*+)++(?:\|\s*+)?")
_FIXED: Final = lazy_pattern(r"\S+(?: \S+)*")
_ENDS_LINES: Final = 40
_ROWS_MIN: Final = 3
_COLUMN_CHARS: Final = 60
_FIT_SHARE: Final = 0.95
"""The share of lines that must look like rows."""


class _Sign(msgspec.Struct, frozen=True):
    name: str


NOT_JSON: Final = _Sign("not JSON")
_UNPARSED: Final = _Sign("too long to be parsed")


# JSON


def parse_json(text: str) -> Any:
    """The value of a JSON text; `NOT_JSON` for any other text."""
    bare = text.strip()
    if not bare or (bare[0], bare[-1]) not in (("{", "}"), ("[", "]")):
        return NOT_JSON
    if len(text) > _PARSED_CHARS:
        return _UNPARSED if re.match(r'[\[{]\s*["\[{\d]', bare) else NOT_JSON
    try:
        return msgspec.json.decode(bare)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return NOT_JSON


def is_json_lines(sample: Sample) -> bool:
    """Guess from the first and the last lines whether each line is a JSON object."""
    lines = [line for line in sample.lines if line.strip()]
    ends = [*lines[:3], *lines[-3:]]
    return len(lines) > 1 and all(_object(line) is not None for line in ends)


def json_facts(value: Any, text: str, room: int) -> list[str]:
    if value is _UNPARSED:
        bare = text.lstrip()
        kind = "object" if bare[0] == "{" else "array"
        found = dict.fromkeys(_KEY.findall(bare[:_HEAD_CHARS]))
        keys = [_key(key) for key in list(found)[:_KEYS_SHOWN]]
        named = f"; keys near its beginning: {', '.join(keys)}" if keys else ""
        return [fit_line(f"It looks like a JSON {kind}, too long to be parsed here{named}", room)]
    facts = [f"JSON: {_describe(value)}", *_describe_parts(value, 1)]
    if isinstance(value, list) and value:
        facts += [f"First element: {_element(value[0])}", f"Last element: {_element(value[-1])}"]
    return _fit_facts(facts, room)


def json_lines_facts(sample: Sample, room: int) -> list[str]:
    lines = [line for line in sample.lines if line.strip()]
    count = f"{sample.note}{len(lines):,} lines"
    facts = [f"{count}, and by the first and the last of them one object each."]
    for name, line in (("first", lines[0]), ("last", lines[-1])):
        value = _object(line)
        assert value is not None
        facts += [f"The {name} has {_describe(value)}", *_describe_parts(value, 1)]
    return _fit_facts(facts, room)


def _object(line: str) -> dict[str, Any] | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return value if isinstance(value, dict) else None


def _describe(value: Any) -> str:
    match value:
        case dict():
            return f"an object with {len(value):,} keys"
        case list():
            kinds = sorted({_kind(item) for item in value})
            of = f" ({', '.join(kinds)})" if kinds else ""
            return f"an array of {len(value):,}{of}"
        case str():
            return f"text, {len(value):,} characters"
        case _:  # a number, a boolean or null
            return f"{_kind(value)} {cut(_element(value), 40, marker=ellipsis).text}"


def _describe_parts(value: Any, depth: int) -> list[str]:
    """A line for every part of a value, and those for the parts of the parts."""
    if isinstance(value, list):
        first = next((item for item in value if isinstance(item, dict)), None)
        if first is None:
            return []
        keys = ", ".join(map(_key, list(first)[:_KEYS_SHOWN]))
        more = f" and {len(first) - _KEYS_SHOWN:,} more" if len(first) > _KEYS_SHOWN else ""
        return [f"{'  ' * depth}keys of the first object: {keys}{more}"]
    if not isinstance(value, dict):
        return []
    lines = []
    for key, item in list(value.items())[:_KEYS_SHOWN]:
        lines.append(f"{'  ' * depth}{_key(key)}: {_describe(item)}")
        if depth < _DEPTH:
            lines += _describe_parts(item, depth + 1)
    if len(value) > _KEYS_SHOWN:
        lines.append(f"{'  ' * depth}… {len(value) - _KEYS_SHOWN:,} more keys")
    return lines


def _key(key: str) -> str:
    """A key in one line of bounded length."""
    return cut(key.replace("\n", " "), _KEY_CHARS, marker=ellipsis).text


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
        case _:  # JSON has nothing else
            return "object"


def _element(value: Any) -> str:
    return cut(msgspec.json.encode(value).decode(), _ELEMENT_CHARS, marker=ellipsis).text


def _fit_facts(facts: list[str], room: int) -> list[str]:
    """As many facts as there is room for, and the number of others in place of the last."""
    shown = fit_first(facts, room)
    if len(shown) < len(facts) and shown:
        shown[-1] = fit_line(f"… {len(facts) - len(shown) + 1:,} more facts", len(shown[-1]) + 1)
    return shown


# Tables


class TableShape(msgspec.Struct, frozen=True):
    """The format, the columns and the rows of a text that is a table."""

    format: str
    columns: list[str]
    rows: int


def read_table(sample: Sample) -> TableShape | None:
    """The shape of a text that is a table from its first line to its last."""
    if len(sample.lines) < _ROWS_MIN or sample.lines[0].lstrip()[:1] in ("{", "["):
        return None
    return _read_markdown(sample) or _read_delimited(sample) or _read_fixed_width(sample)


def table_facts(table: TableShape, sample: Sample, room: int) -> list[str]:
    some = "" if not sample.missing else " in the first and the last part"
    names = ", ".join(cut(name, _COLUMN_CHARS, marker=ellipsis).text for name in table.columns)
    rows = f"{count_of(table.rows, 'row')}{some}"
    columns = f"below the names of {len(table.columns)} columns: {names}"
    return [fit_line(f"A table ({table.format}): {rows} {columns}", room)]


def _read_markdown(sample: Sample) -> TableShape | None:
    first, second = sample.lines[0], sample.lines[1]
    if "|" not in first or not _RULE.fullmatch(second):
        return None
    rows = [line for line in sample.lines[2:] if line.strip()]
    if not _mostly(["|" in line for line in rows]):
        return None
    columns = [name.strip() for name in first.strip().strip("|").split("|")]
    return TableShape("Markdown", columns, len(rows))


def _read_delimited(sample: Sample) -> TableShape | None:
    heading = sample.lines[0]
    examined = ends_of(sample.lines, _ENDS_LINES)
    for sign, name in _DELIMITERS:
        width = _width(heading, sign)
        if width > 1 and _mostly([_width(line, sign) == width for line in examined]):
            return TableShape(name, _column_names(heading, sign), _count_rows(sample))
    return None


def _column_names(heading: str, sign: str) -> list[str]:
    """The names between the signs; a sign in quotes is part of a name."""
    parts = _QUOTED.sub(lambda quoted: quoted[0].replace(sign, "\0"), heading).split(sign)
    return [part.strip().strip('"').replace("\0", sign) for part in parts]


def _width(line: str, sign: str) -> int:
    return (_QUOTED.sub("", line) if '"' in line else line).count(sign) + 1


def _count_rows(sample: Sample) -> int:
    """The lines below the first that begin a row: a quoted field may span several lines."""
    rows, is_open = -1, False
    for place, line in enumerate(sample.lines):
        is_open &= place != sample.gap  # quotes before the gap are unknown
        rows += not is_open and bool(line.strip())
        is_open ^= line.count('"') % 2 == 1
    return rows


def _read_fixed_width(sample: Sample) -> TableShape | None:
    """Columns as commands print them: a word of each row begins where a column name does."""
    heading = sample.lines[0]
    names = list(_FIXED.finditer(heading))
    if len(names) < 3 or not heading.isupper():
        return None
    starts = [name.start() for name in names[1:]]
    rows = ends_of(sample.lines[1:], _ENDS_LINES)
    if not _mostly([_is_aligned(row, starts) for row in rows]):
        return None
    count = sum(bool(line.strip()) for line in sample.lines[1:])
    return TableShape("columns", [name[0] for name in names], count)


def _is_aligned(row: str, starts: list[int]) -> bool:
    return sum(row[start - 1 : start].isspace() for start in starts if start <= len(row)) >= 2


def _mostly(are: list[bool]) -> bool:
    return len(are) >= 2 and sum(are) >= _FIT_SHARE * len(are)
