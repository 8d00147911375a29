"""A tool call as one line: its name, the arguments that tell something, and what an edit changed.

Nothing here knows a tool. An argument tells something by its shape: a short value is told as it
is, of a text with many lines the first lines are, and two texts that share lines are the old and
the new state of something, of which the difference is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.text.cut import cut, ellipsis, scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Json

LINE_CHARS: Final = 800
"""The longest line of a call."""
_VALUE_CHARS: Final = 240
_REMOVED_CHARS: Final = 140
_ADDED_CHARS: Final = 480
_VALUES_MAX: Final = 24
"""Arguments of a call that are looked at."""
_SCANNED_CHARS: Final = 8_000
"""Of one argument, from its start."""
_TRIVIAL: Final = lazy_pattern(r"[\W_]*")
_DIFF_LINE: Final = lazy_pattern(r"[+-](?![+-]{2})")
_DIFF_START: Final = lazy_pattern(r"(?m)^(?:@@|\*\*\* Begin Patch|diff --git )")


def call_line(arguments: Json) -> str:
    """Return the telling arguments of a call as one line; empty if it has none."""
    told: list[str] = []
    for values in _groups(arguments):
        told += _tell_values(values)
    return cut(" ".join(filter(None, told)), LINE_CHARS, keep="head", marker=ellipsis).text


def one_line(text: str, chars: int) -> str:
    """Return the start of a text as one line."""
    return cut(
        " ".join(scrub(text[: 4 * chars + 400]).split()), chars, keep="head", marker=ellipsis
    ).text


def _groups(value: Any) -> Iterator[list[str]]:
    """The texts of a mapping, then those of each mapping inside it, as in a list of edits."""
    own: list[str] = []
    inner: list[Any] = []
    items = list(value.values()) if isinstance(value, dict) else [value]
    for item in items[:_VALUES_MAX]:
        if isinstance(item, str):
            own.append(item)
        elif isinstance(item, dict):
            inner.append(item)
        elif isinstance(item, list):
            plain = [part for part in item[:_VALUES_MAX] if isinstance(part, str)]
            own += [" ".join(plain)] if plain else []
            inner += [part for part in item[:_VALUES_MAX] if isinstance(part, dict)]
        elif not isinstance(item, bool) and item is not None:
            own.append(str(item))
    if own:
        yield own
    for item in inner:
        yield from _groups(item)


def _tell_values(values: Sequence[str]) -> list[str]:
    values = [scrub(value[:_SCANNED_CHARS]) for value in values]
    pair = _find_pair(values)
    told: list[str] = []
    for place, value in enumerate(values):
        if place in pair:
            if place == pair[1]:
                told.append(change_line(values[pair[0]], value))
        elif _DIFF_START.search(value[:400]):
            told.append(_diff_line(value))
        else:
            told.append(one_line(value, _VALUE_CHARS))
    return told


def _find_pair(values: Sequence[str]) -> tuple[int, ...]:
    """The places of the old and the new text of an edit: neighbours, one of them at least of some
    length, that begin or end alike, share a line, or stand behind a path alone."""
    for first in range(len(values) - 1):
        old, new = values[first], values[first + 1]
        if old == new or max(len(old), len(new)) < 24 or not old.strip():
            continue
        lines = {line for line in map(str.strip, old.splitlines()) if len(line) > 3}
        shares = not lines.isdisjoint(map(str.strip, new.splitlines()))
        if shares or (old.count(" ") and _common_start(old, new) >= min(len(old), len(new)) // 3):
            return first, first + 1
        if "\n" in old and "\n" in new:
            return first, first + 1
    return ()


def _common_start(one: str, other: str) -> int:
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))


def change_line(old: str, new: str) -> str:
    """Return what an edit adds and what it takes away: the newer state comes first."""
    before, after = _bare_lines(old), _bare_lines(new)
    kept, there = set(after), set(before)
    gone = [line for line in before if line not in kept]
    come = [line for line in after if line not in there]
    return _tell_change(gone, come)


def _diff_line(patch: str) -> str:
    lines = patch.splitlines()
    gone = [line[1:].strip() for line in lines if line[:1] == "-" and _DIFF_LINE.match(line)]
    come = [line[1:].strip() for line in lines if line[:1] == "+" and _DIFF_LINE.match(line)]
    named = [line for line in lines if line.startswith(("*** ", "+++ ")) and "Patch" not in line]
    return " ".join((one_line(" ".join(named), _VALUE_CHARS), _tell_change(gone, come)))


def _tell_change(gone: Sequence[str], come: Sequence[str]) -> str:
    removed = one_line(" / ".join(line for line in gone if not _TRIVIAL.fullmatch(line)), 4_000)
    added = one_line(" / ".join(line for line in come if not _TRIVIAL.fullmatch(line)), 4_000)
    told = []
    if added:
        told.append(f"+ {one_line(added, _ADDED_CHARS)}")
    if removed:
        told.append(f"− {one_line(removed, _REMOVED_CHARS)}")
    return " ".join(told)


def _bare_lines(text: str) -> list[str]:
    return [bare for line in text.splitlines() if (bare := line.strip())]
