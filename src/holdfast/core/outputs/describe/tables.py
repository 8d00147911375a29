"""Tables: what their columns are called and how many rows they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.outputs.describe.samples import counted, ends_of
from holdfast.core.text.cut import cut, ellipsis
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from holdfast.core.outputs.describe.samples import Sample

_DELIMITERS: Final = (("\t", "tab-separated"), (",", "CSV"), (";", "CSV with semicolons"))
_QUOTED: Final = lazy_pattern(r'"(?:[^"]|"")*"')
_RULE: Final = lazy_pattern(r"\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)+\|?\s*")
_FIXED: Final = lazy_pattern(r"\S+(?: \S+)*")
_ENDS_LINES: Final = 40
_ROWS_MIN: Final = 3
_NAME_CHARS: Final = 60
_FIT_SHARE: Final = 0.95


class Table(msgspec.Struct, frozen=True):
    """How a text is a table."""

    how: str
    columns: list[str]
    rows: int


def table_in(sample: Sample) -> Table | None:
    """The table that a text is, if it is one from its first line to its last."""
    if len(sample.lines) < _ROWS_MIN or sample.lines[0].lstrip()[:1] in ("{", "["):
        return None
    return _markdown(sample) or _delimited(sample) or _fixed(sample)


def table_facts(table: Table, sample: Sample, room: int) -> list[str]:
    some = "" if not sample.missing else " in the first and the last part"
    names = ", ".join(cut(name, _NAME_CHARS, marker=ellipsis).text for name in table.columns)
    count = len(table.columns)
    rows = counted(table.rows, "row")
    said = f"A table ({table.how}): {rows}{some} below the names of {count} columns: "
    return [cut(said + names, max(0, room - 1), keep="head", marker=ellipsis).text]


def _markdown(sample: Sample) -> Table | None:
    first, second = sample.lines[0], sample.lines[1]
    if "|" not in first or not _RULE.fullmatch(second):
        return None
    rows = [line for line in sample.lines[2:] if line.strip()]
    if not _mostly(["|" in line for line in rows]):
        return None
    return Table(
        "Markdown", [one.strip() for one in first.strip().strip("|").split("|")], len(rows)
    )


def _delimited(sample: Sample) -> Table | None:
    heading = sample.lines[0]
    looked_at = ends_of(sample.lines, _ENDS_LINES)
    for sign, how in _DELIMITERS:
        width = _width(heading, sign)
        if width > 1 and _mostly([_width(line, sign) == width for line in looked_at]):
            return Table(how, _names(heading, sign), _rows(sample))
    return None


def _names(heading: str, sign: str) -> list[str]:
    """The names between the signs, where a sign in quotes is part of a name."""
    parts = _QUOTED.sub(lambda one: one[0].replace(sign, "\0"), heading).split(sign)
    return [one.strip().strip('"').replace("\0", sign) for one in parts]


def _width(line: str, sign: str) -> int:
    return (_QUOTED.sub("", line) if '"' in line else line).count(sign) + 1


def _rows(sample: Sample) -> int:
    """Lines below the first that begin a row: a quoted field may go over several."""
    rows, is_open = -1, False
    for place, line in enumerate(sample.lines):
        is_open &= place != sample.gap  # nobody knows what was open before what is missing
        rows += not is_open and bool(line.strip())
        is_open ^= line.count('"') % 2 == 1
    return rows


def _fixed(sample: Sample) -> Table | None:
    """Columns of a width, as commands print them: every row begins a word where the names do."""
    heading = sample.lines[0]
    names = list(_FIXED.finditer(heading))
    if len(names) < 3 or not heading.isupper():
        return None
    starts = [one.start() for one in names[1:]]
    rows = ends_of(sample.lines[1:], _ENDS_LINES)
    if not _mostly([_is_aligned(row, starts) for row in rows]):
        return None
    count = sum(bool(line.strip()) for line in sample.lines[1:])
    return Table("columns", [one[0] for one in names], count)


def _is_aligned(row: str, starts: list[int]) -> bool:
    return sum(row[start - 1 : start].isspace() for start in starts if start <= len(row)) >= 2


def _mostly(are: list[bool]) -> bool:
    return len(are) >= 2 and sum(are) >= _FIT_SHARE * len(are)
