"""Logs: from when to when, how many lines of each level, and what went wrong in them."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from holdfast.core.outputs.describe.samples import ends_of, entry, fitting, listed
from holdfast.core.text.cut import cut, ellipsis
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from holdfast.core.outputs.describe.samples import Sample

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
"""How far into a line its level may stand."""
_NAMES: Final = {"WARNING": "WARN", "ERR": "ERROR", "SEVERE": "ERROR"}
_ORDER: Final = ("FATAL", "CRITICAL", "ERROR", "WARN", "NOTICE", "INFO", "DEBUG", "TRACE")
_BAD: Final = ("FATAL", "CRITICAL", "ERROR")
_VARYING: Final = lazy_pattern(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8,}\b|\d+")
_ENDS_LINES: Final = 50
_LINES_MIN: Final = 5
_OFTEN_SHARE: Final = 0.05
_OFTEN_LINES: Final = 10
_KIND_CHARS: Final = 120


def is_log(sample: Sample) -> bool:
    """Whether most lines begin with a time or have a level."""
    lines = ends_of(sample.lines, _ENDS_LINES)
    marked = sum(map(is_logged, lines))
    return len(lines) >= _LINES_MIN and 2 * marked >= len(lines)


def is_logged(line: str) -> bool:
    """Whether a line begins with a time or has a level."""
    return _stamp(line) is not None or level_of(line) != ""


def level_of(line: str) -> str:
    """The level a line was logged at, if it says so near its beginning."""
    found = _LEVEL.search(line, 0, _LEVEL_CHARS)
    if found is None:
        return ""
    name = (found[1] or found[2]).upper()
    return _NAMES.get(name, name)


def log_facts(sample: Sample, room: int) -> list[str]:
    levels = [level_of(line) for line in sample.lines]
    said = (_times(sample), _counts(levels))
    facts = fitting([f"{sample.note}{one}" for one in said if one], room)
    # Errors have the room that warnings would take, not the other way round.
    for title, wanted in (("Errors", _BAD), ("Warnings", ("WARN",))):
        entries = _alike(sample, levels, wanted)
        heading = f"{title}, {len(entries):,} different:"
        left = room - _size(facts) - len(heading) - 1
        shown = listed(entries, left) if entries else []
        facts += [heading, *shown] if shown else []
    return [*facts, *fitting(_often(sample), room - _size(facts))]


def _size(facts: list[str]) -> int:
    return sum(len(one) + 1 for one in facts)


def _stamp(line: str) -> str | None:
    found = _STAMP.match(line)
    return found[1] if found else None


def _times(sample: Sample) -> str:
    first = next(filter(None, map(_stamp, sample.lines)), None)
    last = next(filter(None, map(_stamp, reversed(sample.lines))), None)
    return f"First time {first}, last time {last}." if first and last else ""


def _counts(levels: list[str]) -> str:
    counts = Counter(levels)
    said = [f"{name} {counts[name]:,}" for name in _ORDER if counts[name]]
    return f"Lines by level: {', '.join(said)}." if said else ""


def _alike(sample: Sample, levels: list[str], wanted: tuple[str, ...]) -> list[str]:
    """The lines of some levels, each kind once: where it is first, and how often it comes."""
    first: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for place, level in enumerate(levels):
        if level in wanted:
            kind = _kind(sample.lines[place])
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


def _often(sample: Sample) -> list[str]:
    """Lines that come again and again, whatever their level."""
    counts = Counter(map(_kind, sample.lines))
    least = max(_OFTEN_LINES, int(_OFTEN_SHARE * len(sample.lines)))
    often = [(kind, count) for kind, count in counts.most_common(3) if count >= least and kind]
    return [
        f"{count:,} lines are, but for numbers: {cut(kind, _KIND_CHARS, marker=ellipsis).text}"
        for kind, count in often
    ]


def _kind(line: str) -> str:
    """A line without what differs from one time to the next."""
    stamp = _STAMP.match(line)
    return _VARYING.sub("#", line[stamp.end() if stamp else 0 :]).strip(" ]\t")
