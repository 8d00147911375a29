"""The kind of an output (JSON, a table, a log, a traceback or text) and facts about it.

Facts about JSON and tables are their parts and how large those are. Of a large output, the lines of
its two ends are described.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.core.text.cut import count_of, cut, ellipsis
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_EXAMINED_CHARS: Final = 2_000_000
_EXAMINED_LINES: Final = 100_000
"""A longer text is described by its beginning and its end, half of this each."""
_ENTRY_CHARS: Final = 160
"""Two lines of a terminal for an entry of an outline."""


class Sample(msgspec.Struct, frozen=True):
    """Lines without their ends, and their places in the text."""

    lines: list[str]
    gap: int
    """The number of lines before the gap; the number of all lines where there is no gap."""
    missing: int = 0

    def number(self, place: int) -> int:
        """The line number in the text, from 1."""
        return place + 1 + (self.missing if place >= self.gap else 0)

    @property
    def note(self) -> str:
        """The words in front of a count that does not cover the whole text."""
        if not self.missing:
            return ""
        return f"In the first {self.gap:,} and the last {len(self.lines) - self.gap:,} lines: "


def sample_of(text: str) -> Sample:
    """All lines of a text, or those of its two ends."""
    half = _EXAMINED_CHARS // 2
    if len(text) > _EXAMINED_CHARS:
        end = text.rfind("\n", 0, half) + 1
        start = text.find("\n", len(text) - half) + 1 or len(text)
        missing = text.count("\n", end, start)
        return _join(_split_lines(text[:end]), _split_lines(text[start:]), missing)
    lines = _split_lines(text)
    if len(lines) > _EXAMINED_LINES:
        middle = len(lines) // 2
        return _join(lines[:middle], lines[middle:], 0)
    return Sample(lines, len(lines))


def _join(head: list[str], tail: list[str], missing: int) -> Sample:
    """A sample of the outer lines of two ends that have `missing` lines between them."""
    most = _EXAMINED_LINES // 2
    missing += max(0, len(head) - most) + max(0, len(tail) - most)
    head, tail = head[:most], tail[-most:]
    return Sample(head + tail, len(head), missing)


def _split_lines(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def ends_of(lines: Sequence[str], most: int) -> list[str]:
    """The first and the last lines that are not blank, `most` of each."""
    first = [line for line in lines[: 4 * most] if line.strip()][:most]
    rest = lines[max(4 * most, len(lines) - 4 * most) :]
    return first + [line for line in rest if line.strip()][-most:]


# Facts: lines about a text


def entry(number: int, line: str, *, note: str = "") -> str:
    """A line of the text in a list of them."""
    text = cut(line.strip(), _ENTRY_CHARS, keep="head", marker=ellipsis).text
    return f"  line {number}{note}: {text}"


def list_entries(title: str, entries: Sequence[str], room: int) -> list[str]:
    """A title with the entries that fit, from both ends; nothing where none fits."""
    shown = fit_both_ends(entries, room - len(title) - 1) if entries else []
    return [title, *shown] if shown else []


def fit_both_ends(entries: Sequence[str], room: int) -> list[str]:
    """As many entries as there is room for, from both ends, and the number left out."""
    if size_of(entries) <= room:
        return list(entries)
    left = room - len(_more(len(entries))) - 1
    head: list[str] = []
    tail: list[str] = []
    for place in count():
        # The last entry first: the end of an output tells more than its beginning.
        at, side = (place // 2, head) if place % 2 else (-1 - place // 2, tail)
        left -= len(entries[at]) + 1
        if left < 0:
            break
        side.append(entries[at])
    if not tail:
        return []
    return [*head, _more(len(entries) - len(head) - len(tail)), *reversed(tail)]


def fit_first(lines: Sequence[str], room: int) -> list[str]:
    """As many lines as there is room for, from the first on."""
    shown: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    return shown


def fit_line(text: str, room: int) -> str:
    """The beginning of a line that fits together with its line end."""
    return cut(text, max(0, room - 1), keep="head", marker=ellipsis).text


def size_of(lines: Sequence[str]) -> int:
    """The characters of lines with their line ends."""
    return sum(len(line) + 1 for line in lines)


def _more(number: int) -> str:
    return f"  … {number:,} more"


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
_TABLE_ENDS_LINES: Final = 40
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
    examined = ends_of(sample.lines, _TABLE_ENDS_LINES)
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
    rows = ends_of(sample.lines[1:], _TABLE_ENDS_LINES)
    if not _mostly([_is_aligned(row, starts) for row in rows]):
        return None
    count = sum(bool(line.strip()) for line in sample.lines[1:])
    return TableShape("columns", [name[0] for name in names], count)


def _is_aligned(row: str, starts: list[int]) -> bool:
    return sum(row[start - 1 : start].isspace() for start in starts if start <= len(row)) >= 2


def _mostly(are: list[bool]) -> bool:
    return len(are) >= 2 and sum(are) >= _FIT_SHARE * len(are)


Kind = Literal["text", "json", "table", "log", "traceback"]

_TRACEBACK_LINES: Final = 60
"""A log counts as a traceback if one ends within this many lines of its end."""
_LINE_CHARS: Final = 300
"""The part of a line that is examined."""


class Shape(msgspec.Struct, frozen=True):
    """The kind of a text, and the function that describes it."""

    kind: Kind
    describe: Callable[[int], list[str]]

    def facts(self, room: int) -> list[str]:
        """Lines about the text, of at most `room` characters together, line ends included."""
        lines = self.describe(room)
        assert size_of(lines) <= max(0, room), "facts exceed their room"
        return lines


def shape_of(text: str) -> Shape:
    """The shape of a text."""
    value = parse_json(text)
    if value is not NOT_JSON:
        return Shape("json", lambda room: json_facts(value, text, room))
    sample = sample_of(text)
    if is_json_lines(sample):
        return Shape("json", lambda room: json_lines_facts(sample, room))
    # The lines of a log may have equal numbers of commas; they are not the rows of a table.
    table = read_table(sample) if sample.lines and not _is_log_line(sample.lines[0]) else None
    if table is not None:
        return Shape("table", lambda room: table_facts(table, sample, room))
    trace = _last_trace(sample)
    if _is_log(sample):
        is_ending = trace is not None and trace.end >= len(sample.lines) - _TRACEBACK_LINES
        return Shape(
            "traceback" if is_ending else "log",
            lambda room: _facts_after_trace(sample, trace, room, _log_facts),
        )
    return Shape(
        "text" if trace is None else "traceback",
        lambda room: _facts_after_trace(sample, trace, room, _text_facts),
    )


def _facts_after_trace(
    sample: Sample, trace: _Trace | None, room: int, more: Callable[[Sample, int], list[str]]
) -> list[str]:
    facts = _trace_facts(sample, trace, room // 2) if trace is not None else []
    return [*facts, *more(sample, room - size_of(facts))]


def _text_facts(sample: Sample, room: int) -> list[str]:
    failures = _failure_facts(sample, room // 2)
    return [*failures, *_outline_facts(sample, room - size_of(failures))]


# Failures: the last exception with the end of its trace, exit codes, tests, compiler errors

_PYTHON: Final = "Traceback (most recent call last)"
_FRAME: Final = lazy_pattern(r"\s+at .+[(:]|\s+\.\.\. \d+ more|Caused by: ")
_RAISED: Final = lazy_pattern(
    r"(?:Uncaught |Exception in thread \S+ )?[\w.$]*(?:Error|Exception)\b"
)
_PANIC: Final = lazy_pattern(
    r"panic: |fatal error: |thread '.*' panicked at|goroutine \d+ \[running"
)
_FAILURE: Final = lazy_pattern(
    r"""
      (?: =+\ )? (?: [\w\ ]*\b )? \d+\ (?: failed | failing | failures? | errors? | passed )\b
    | FAILED?\b | ---\ FAIL | test\ result: | Tests?:\ +\d | Ran\ \d+\ tests? | E\ {2,}\S
    | (?: \[? (?: [Pp]rocess | [Cc]ommand )\b .* )?
      \b [Ee]xit(?:ed)?\ (?: with\ )? (?: code | status ) \W+ -?\d
    | exit(?:ed)?\ with\ \d | .*\ non-zero\ exit\ status | make(?: \[\d+\])?:\ \*\*\* | npm\ ERR!
    | \S+?:\d+(?: :\d+ )?:\ (?: fatal\ )?error | \S+\(\d+,\d+\):\ error
    | error(?: \[\w+\] | \ TS\d+ )?:
    | (?: ERROR | FATAL | fatal ) (?: : | \b )
    """,
    re.VERBOSE,
)
_LEAD: Final = lazy_pattern(r"[\s>|]{0,12}")
_TRACE_LINES: Final = 12
"""The last frames and the error itself: what a reader of a traceback looks at."""


class _Trace(msgspec.Struct, frozen=True):
    """The places of the first line, the last line and the exception of a trace."""

    start: int
    end: int
    raised: int


def _last_trace(sample: Sample) -> _Trace | None:
    """The last trace of an exception in any of the languages that print one."""
    lines = sample.lines
    place = len(lines)
    while place:
        place -= 1
        line = lines[place]
        if _PYTHON in line:
            return _python(lines, place)
        if _PANIC.match(line):
            return _panic(lines, place)
        if _is_frame(line):
            last = place
            while place and _is_frame(lines[place]):
                place -= 1
            if _RAISED.match(lines[place]):
                return _Trace(place, last, place)
    return None


def _is_frame(line: str) -> bool:
    """A line below the exception, as in Java and JavaScript."""
    return line[:1] in " \tC" and _FRAME.match(line, 0, _LINE_CHARS) is not None


def _python(lines: list[str], start: int) -> _Trace:
    """The trace up to the first line that is not indented more than its first."""
    column = lines[start].index(_PYTHON)
    for place in range(start + 1, len(lines)):
        line = lines[place]
        if len(line) > column and not line[column].isspace():
            return _Trace(start, place, place)
    return _Trace(start, len(lines) - 1, len(lines) - 1)


def _panic(lines: list[str], place: int) -> _Trace:
    """The trace from the message of the panic on; the running routines follow it."""
    near = range(place, max(-1, place - _TRACE_LINES), -1)
    start = next((at for at in near if "panic: " in lines[at][:_LINE_CHARS]), place)
    return _Trace(start, min(len(lines), place + _TRACE_LINES) - 1, start)


def _trace_facts(sample: Sample, trace: _Trace, room: int) -> list[str]:
    """The exception, and as much of the end of the trace as there is room for."""
    title = "The last exception:"
    raised = entry(sample.number(trace.raised), sample.lines[trace.raised])
    raised = fit_line(raised, room - len(title) - 1)
    left = room - len(title) - len(raised) - 2
    if left < 0:
        return []
    first = max(trace.start, trace.end - _TRACE_LINES)
    places = [place for place in range(first, trace.end + 1) if place != trace.raised]
    frames = [entry(sample.number(place), sample.lines[place]) for place in places]
    shown = fit_both_ends(frames, left)
    order = [raised, *shown] if trace.raised == trace.start else [*shown, raised]
    return [title, *order]


def _failure_facts(sample: Sample, room: int) -> list[str]:
    """Lines that say by themselves that something failed, or how it ended."""
    entries = [
        entry(sample.number(place), line)
        for place, line in enumerate(sample.lines)
        if _reports_failure(line)
    ]
    title = f"{sample.note}{count_of(len(entries), 'line')} about failures or results:"
    return list_entries(title, entries, room)


def _reports_failure(line: str) -> bool:
    lead = _LEAD.match(line)
    return _FAILURE.match(line, lead.end() if lead else 0, _LINE_CHARS) is not None


# Logs: time span, lines of each level, errors and warnings

_STAMP: Final = lazy_pattern(
    r"""[\[("]? (
      \d{4}[-/]\d\d[-/]\d\d [T ] \d\d:\d\d (?: :\d\d )? (?: [.,]\d+ )? (?: Z | [+-]\d\d:?\d\d )?
    | \d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d
    | [A-Z][a-z][a-z]\ [ \d]\d\ \d\d:\d\d:\d\d
    | \d\d:\d\d:\d\d (?: [.,]\d+ )?
    )""",
    re.VERBOSE,
)
_LEVEL: Final = lazy_pattern(
    r"""\b( TRACE | DEBUG | INFO | NOTICE | WARN(?:ING)? | ERROR | ERR | FATAL | CRITICAL
           | SEVERE )\b
    | (?: \[ | \blevel["']?[=:]\s?["']? ) ( trace | debug | info | notice | warn(?:ing)? | error
                                             | err | fatal | critical ) \b""",
    re.VERBOSE,
)
_LEVEL_CHARS: Final = 120
"""The part of a line in which its level is looked for."""
_LEVEL_NAMES: Final = {"WARNING": "WARN", "ERR": "ERROR", "SEVERE": "ERROR"}
_LEVELS: Final = ("FATAL", "CRITICAL", "ERROR", "WARN", "NOTICE", "INFO", "DEBUG", "TRACE")
_ERROR_LEVELS: Final = ("FATAL", "CRITICAL", "ERROR")
_VARYING: Final = lazy_pattern(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8,}\b|\d+")
_ENDS_LINES: Final = 50
_LOG_LINES_MIN: Final = 5
_FREQUENT_SHARE: Final = 0.05
_FREQUENT_LINES: Final = 10
_PATTERN_CHARS: Final = 120
"""Both ends tell whether a text is a log; a frequent pattern makes up a twentieth of its lines."""


def _is_log(sample: Sample) -> bool:
    """Most lines begin with a time or have a level."""
    lines = ends_of(sample.lines, _ENDS_LINES)
    marked = sum(map(_is_log_line, lines))
    return len(lines) >= _LOG_LINES_MIN and 2 * marked >= len(lines)


def _is_log_line(line: str) -> bool:
    return _stamp(line) is not None or _level(line) != ""


def _level(line: str) -> str:
    """The level a line was logged at, if it says so near its beginning."""
    found = _LEVEL.search(line, 0, _LEVEL_CHARS)
    if found is None:
        return ""
    name = (found[1] or found[2]).upper()
    return _LEVEL_NAMES.get(name, name)


def _log_facts(sample: Sample, room: int) -> list[str]:
    levels = [_level(line) for line in sample.lines]
    summary = filter(None, (_time_span(sample), _level_counts(levels)))
    facts = fit_first([f"{sample.note}{fact}" for fact in summary], room)
    # Errors come first, so that warnings get only the room that errors leave.
    for title, wanted in (("Errors", _ERROR_LEVELS), ("Warnings", ("WARN",))):
        entries = _distinct_entries(sample, levels, wanted)
        heading = f"{title}, {len(entries):,} different:"
        facts += list_entries(heading, entries, room - size_of(facts))
    return [*facts, *fit_first(_frequent_lines(sample), room - size_of(facts))]


def _stamp(line: str) -> str | None:
    found = _STAMP.match(line)
    return found[1] if found else None


def _time_span(sample: Sample) -> str:
    first = next(filter(None, map(_stamp, sample.lines)), None)
    last = next(filter(None, map(_stamp, reversed(sample.lines))), None)
    return f"First time {first}, last time {last}." if first and last else ""


def _level_counts(levels: list[str]) -> str:
    counts = Counter(levels)
    named = [f"{name} {counts[name]:,}" for name in _LEVELS if counts[name]]
    return f"Lines by level: {', '.join(named)}." if named else ""


def _distinct_entries(sample: Sample, levels: list[str], wanted: tuple[str, ...]) -> list[str]:
    """The lines of some levels, each pattern once: its first line, and the number alike."""
    first: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for place, level in enumerate(levels):
        if level in wanted:
            kind = _pattern(sample.lines[place])
            first.setdefault(kind, place)
            counts[kind] += 1
    return [
        entry(
            sample.number(place),
            sample.lines[place],
            note=f" and {counts[kind] - 1:,} alike" if counts[kind] > 1 else "",
        )
        for kind, place in first.items()
    ]


def _frequent_lines(sample: Sample) -> list[str]:
    """The most repeated lines, whatever their level."""
    counts = Counter(map(_pattern, sample.lines))
    least = max(_FREQUENT_LINES, int(_FREQUENT_SHARE * len(sample.lines)))
    return [
        f"{count:,} lines are, but for numbers: {cut(kind, _PATTERN_CHARS, marker=ellipsis).text}"
        for kind, count in counts.most_common(3)
        if count >= least and kind
    ]


def _pattern(line: str) -> str:
    """A line without its time and its numbers."""
    stamp = _STAMP.match(line)
    return _VARYING.sub("#", line[stamp.end() if stamp else 0 :]).strip(" ]\t")


# Outlines: the headings of a document, the definitions of a source, the files of a diff

_PART: Final = lazy_pattern(
    r"""
    (?: [ \t]* \d+ [→|:\t] [ ]? )?                   # tools that print files number their lines
    (?: (?P<fence> ``` )
      | (?P<diff> diff[ ]--git[ ].+ )
      | (?P<heading> \#{1,6}[ ]\S.* )
      | (?P<definition> \s*
          (?: (?: export | default | pub(?:\(\w+\))? | public | private | protected | internal
                | static | abstract | final | async | unsafe | declare | inline ) \s+ ){0,5}
          (?: def | defp | defmodule | defmacro | class | func | fn | function\*? | interface
            | struct | enum | trait | impl | module | namespace | type ) \s+ [^\s=] .* )
    )""",
    re.VERBOSE,
)
_PROSE: Final = lazy_pattern(r"\s*\w+\s+\w+[ ]\w+[ ]\w")
"""`type the word again` begins like a definition."""
_ENTRIES_MIN: Final = 2
"""A single entry is no outline."""


def _outline_facts(sample: Sample, room: int) -> list[str]:
    """The lines at which the parts of a text begin."""
    for title, entries in _outlines(sample).items():
        if len(entries) >= _ENTRIES_MIN:
            heading = f"{sample.note}{title}, {len(entries):,} in all:"
            return list_entries(heading, entries, room)
    return []


def _outlines(sample: Sample) -> dict[str, list[str]]:
    diffs: list[str] = []
    headings: list[str] = []
    definitions: list[str] = []
    deeper, is_code = 0, False
    for place, line in enumerate(sample.lines):
        found = _PART.match(line, 0, _LINE_CHARS)
        if found is None:
            continue
        what = found[found.lastgroup or 0]
        if found.lastgroup == "fence":
            is_code = not is_code
        elif found.lastgroup == "diff":
            diffs.append(entry(sample.number(place), what))
        elif found.lastgroup == "definition" and not _PROSE.match(what):
            definitions.append(entry(sample.number(place), what))
        elif found.lastgroup == "heading" and not is_code:
            headings.append(entry(sample.number(place), what))
            deeper += what.startswith("##")
    # One `#` is a comment in many languages; two are a heading.
    is_document = deeper >= _ENTRIES_MIN
    return {
        "Files of the diff": diffs,
        "Headings": headings if is_document else [],
        "Definitions": definitions,
    }
