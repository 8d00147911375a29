"""Excerpts: a part of an output from an offset on, some lines, or the lines that match a pattern.

The output comes in pieces and is read once to its end; only the shown part is held. A slice is
shown verbatim, so that the slices of an output, joined, are the output. If more was asked for than
may be shown, the excerpt says how to continue.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict

import msgspec

from holdfast.core.limits import (
    EXCERPT_CHARS,
    EXCERPT_CHARS_MAX,
    EXCERPT_CHARS_MIN,
    PATTERN_CHARS_MAX,
)
from holdfast.core.text.cut import cut, ellipsis
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Match = Callable[[str, int], tuple[int, int] | None]
    """(a line, where to start) → the span that matches, if one does."""


_RANGE: Final = lazy_pattern(r"(-?[0-9]{1,15})?:(-?[0-9]{1,15})?|(-?[0-9]{1,15})")


class Selection(msgspec.Struct, frozen=True):
    """The part of an output that a caller wants. Made by `selection`, which checks it."""

    max_chars: int = EXCERPT_CHARS
    offset: int = 0
    first: int = 1
    """Lines count from 1; below 0 from the end."""
    last: int | None = None
    pattern: str = ""
    is_by_lines: bool = False

    @property
    def counts_from_end(self) -> bool:
        """The number of lines must be known before anything can be selected."""
        return self.first < 0 or (self.last or 0) < 0

    def count_from_start(self, total_lines: int) -> Selection:
        """The same selection with line numbers from the beginning."""
        last = self.last
        return msgspec.structs.replace(
            self,
            first=max(1, self.first + total_lines + 1) if self.first < 0 else self.first,
            last=max(0, last + total_lines + 1) if last is not None and last < 0 else last,
        )


class ExcerptOptions(TypedDict, total=False):
    """The part of an output that is wanted: from `offset` on, some `lines`, or the lines that a
    `pattern` matches, which can be given together with either, to search only there."""

    offset: int | None
    """Characters before the part."""
    lines: str | None
    """`"120:180"`, `"120:"`, `":50"`, or `"-50:"` for the last 50."""
    pattern: str | None
    """A regular expression."""
    max_chars: int


def selection(
    *,
    offset: int | None = None,
    lines: str | None = None,
    pattern: str | None = None,
    max_chars: int = EXCERPT_CHARS,
) -> Selection:
    """A checked selection. Raises `UsageError`."""
    if not EXCERPT_CHARS_MIN <= max_chars <= EXCERPT_CHARS_MAX:
        raise UsageError(
            f"cannot show {max_chars:,} characters at once",
            hint=f"give max_chars from {EXCERPT_CHARS_MIN} to {EXCERPT_CHARS_MAX:,}",
        )
    if offset is not None and lines is not None:
        raise UsageError(
            "cannot select by offset and by lines at once", hint="give offset or lines, not both"
        )
    if offset is not None and offset < 0:
        raise UsageError(
            f"the offset {offset} is negative",
            hint='give an offset from 0 up, or lines="-50:" for the last 50 lines',
        )
    if pattern == "":
        raise UsageError("an empty pattern matches every line", hint="read by lines or by offset")
    if pattern is not None and len(pattern) > PATTERN_CHARS_MAX:
        raise UsageError(
            f"the pattern has {len(pattern):,} characters",
            hint=f"give one of at most {PATTERN_CHARS_MAX:,}",
        )
    first, last = (1, None) if lines is None else _range(lines)
    return Selection(max_chars, offset or 0, first, last, pattern or "", lines is not None)


def _range(lines: str) -> tuple[int, int | None]:
    """`a:b`, `a:`, `:b` or `a`, from 1 and including both; below 0 from the end."""
    found = _RANGE.fullmatch(lines.strip())
    if found is None:
        raise UsageError(
            f"{lines[:80]!r} is not a range of lines",
            hint='give for example "120:180", "120:", ":50", or "-50:" for the last 50',
        )
    start, end, single = (int(number) if number else None for number in found.groups())
    first, last = (single, single) if single is not None else (start, end)
    if first == 0 or last == 0:
        raise UsageError(f"there is no line 0 in {lines!r}", hint="lines count from 1")
    if first is not None and last is not None and first > last and (first < 0) == (last < 0):
        raise UsageError(
            f"the range {lines!r} ends before it begins", hint=f'give "{last}:{first}"'
        )
    return first or 1, last


_CONTEXT_LINES: Final = 2
_UNIT_CHARS: Final = 4_000
"""A longer line is searched in parts of this length."""
_OVERLAP_CHARS: Final = 400
"""The overlap of two parts, so that a match across both is found."""
_SHOWN_CHARS: Final = 1_000
"""Of a longer matching line, only the text around the match is shown."""
_AROUND_CHARS: Final = 300
_CONTEXT_CHARS: Final = 300
"""A few lines around a hit in a text without line breaks."""


class Excerpt(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A part of an output and its place in the whole.

    Characters and lines are those of the text as it may be shown: with secrets masked.
    """

    ref: str
    """The ref of the output."""
    kind: str
    """The kind of text or data."""
    text: str
    """At most as long as asked for. With a pattern: numbered lines, with `:` for a match, `-` for
    its context, and `--` where lines between are left out."""
    offset: int = 0
    """The place of the first character shown."""
    first_line: int = 0
    """The number of the first line shown."""
    last_line: int = 0
    """The number of the last line shown."""
    next_offset: int | None = None
    """The `offset` of the next part, if there is one."""
    next_lines: str | None = None
    """The `lines` of the next part, if there is one."""
    total_chars: int = 0
    """Characters of the whole text."""
    total_lines: int = 0
    """Lines of the whole text."""
    bytes: int = 0
    """The size of the whole output."""
    matches: int | None = None
    """With a pattern: the number of lines that match, shown or not."""
    is_cut: bool = msgspec.field(default=False, name="truncated")
    """True where there is more behind this part."""
    note: str = ""
    """The place of this part in the whole, and how to continue."""


def excerpt(
    pieces: Iterable[str],
    wanted: Selection,
    *,
    ref: str,
    kind: str,
    size: int = 0,
    match: Match | None = None,
) -> Excerpt:
    """The wanted part of a text that comes in pieces, read to its end."""
    assert not wanted.counts_from_end, "resolve lines that count from the end first"
    text = _Pieces(pieces)
    found = _slice_pieces(text, wanted) if match is None else _matching(text, wanted, match)
    assert len(found.text) <= wanted.max_chars
    placed = msgspec.structs.replace(
        found,
        ref=ref,
        kind=kind,
        bytes=size,
        total_chars=text.chars,
        total_lines=text.lines,
        is_cut=found.next_offset is not None,
    )
    return msgspec.structs.replace(placed, note=_note(placed))


class _Pieces:
    """The pieces of a text, counted as they go by."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self._pieces = pieces
        self.chars = 0
        self.line_ends = 0
        self._is_open = False

    @property
    def lines(self) -> int:
        return self.line_ends + self._is_open

    def __iter__(self) -> Iterator[tuple[int, int, str]]:
        """(characters before, line ends before, piece)"""
        for piece in filter(None, self._pieces):
            yield self.chars, self.line_ends, piece
            self.chars += len(piece)
            self.line_ends += piece.count("\n")
            self._is_open = not piece.endswith("\n")


# Slices


def _slice_pieces(pieces: _Pieces, wanted: Selection) -> Excerpt:
    start: int | None = None
    end: int | None = None
    line = 1
    kept: list[str] = []
    room = wanted.max_chars + 1  # one character more shows whether there is a next part
    for before, line_ends, piece in pieces:
        if start is None:
            start = _start(wanted, before, line_ends, piece)
            if start is not None:
                line = 1 + line_ends + piece.count("\n", 0, start - before)
        if wanted.last is not None and end is None:
            end = _behind_line(wanted.last, before, line_ends, piece)
        if start is not None and room:
            stop = None if end is None else max(0, end - before)
            kept.append(piece[max(0, start - before) : stop][:room])
            room -= len(kept[-1])
    if start is None:
        return Excerpt("", "", "", offset=pieces.chars)
    return _slice("".join(kept), start, line, wanted)


def _start(wanted: Selection, before: int, line_ends: int, piece: str) -> int | None:
    if wanted.is_by_lines:
        return _behind_line(wanted.first - 1, before, line_ends, piece)
    return wanted.offset if wanted.offset < before + len(piece) else None


def _behind_line(line: int, before: int, line_ends: int, piece: str) -> int | None:
    """The offset after the end of that line, if it is in this piece."""
    if line - line_ends > piece.count("\n"):
        return None
    place = 0
    for _ in range(line - line_ends):
        place = piece.index("\n", place) + 1
    return before + place


def _slice(kept: str, start: int, line: int, wanted: Selection) -> Excerpt:
    text = kept[: wanted.max_chars]
    is_cut = len(kept) > len(text)
    if is_cut and wanted.is_by_lines and "\n" in text:
        text = text[: text.rindex("\n") + 1]  # whole lines, so that the next part starts at a line
    last_line = line + text.count("\n", 0, max(0, len(text) - 1))
    next_lines = None
    if is_cut and wanted.is_by_lines and text.endswith("\n"):
        next_lines = f"{last_line + 1}:{wanted.last or ''}"
    return Excerpt(
        "",
        "",
        text,
        offset=start,
        first_line=line if text else 0,
        last_line=last_line if text else 0,
        next_offset=start + len(text) if is_cut else None,
        next_lines=next_lines,
    )


# Lines that match


class _Unit(NamedTuple):
    """A line, or a part of one that is too long to be searched at once."""

    line: int
    offset: int
    text: str
    is_part: bool


def _matching(pieces: _Pieces, wanted: Selection, match: Match) -> Excerpt:
    page = _Page(wanted.max_chars)
    before: deque[_Unit] = deque(maxlen=_CONTEXT_LINES)
    following = covered = 0
    for unit in _units(pieces):
        if not _is_wanted(unit, wanted):
            continue
        skip = max(0, covered - unit.offset, wanted.offset - unit.offset)
        span = match(unit.text, skip)
        if span is not None:
            covered = unit.offset + max(span[1], span[0] + 1)
            page.add_match(unit, span, before)
            before.clear()
            following = _CONTEXT_LINES
        elif unit.is_part:
            continue  # of a giant line, only matches are worth showing
        elif following:
            page.add_context(unit)
            following -= 1
        else:
            before.append(unit)
    return page.excerpt(wanted)


def _is_wanted(unit: _Unit, wanted: Selection) -> bool:
    if unit.offset + len(unit.text) < wanted.offset or unit.line < wanted.first:
        return False
    return wanted.last is None or unit.line <= wanted.last


def _units(pieces: _Pieces) -> Iterator[_Unit]:
    rest, offset, is_part = "", 0, False
    for _before, line_ends, piece in pieces:
        *whole, rest = (rest + piece).split("\n")
        for number, text in enumerate(whole, line_ends + 1):
            if len(text) <= _UNIT_CHARS:
                yield _Unit(number, offset, text, is_part)
            else:
                yield from _parts(_Unit(number, offset, text, is_part))
            offset += len(text) + 1
            is_part = False
        if len(rest) > _UNIT_CHARS:
            *parts, (number, offset, rest, is_part) = _parts(
                _Unit(line_ends + len(whole) + 1, offset, rest, is_part)
            )
            yield from parts
    if rest:
        yield _Unit(pieces.line_ends + 1, offset, rest, is_part)


def _parts(unit: _Unit) -> Iterator[_Unit]:
    """A long line in parts that overlap."""
    step = _UNIT_CHARS - _OVERLAP_CHARS
    for start in range(0, max(1, len(unit.text) - _OVERLAP_CHARS), step):
        part = unit.text[start : start + _UNIT_CHARS]
        yield _Unit(unit.line, unit.offset + start, part, True)


class _Page:
    """Numbered lines, as many as there is room for."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._lines: list[str] = []
        self._shown: list[_Unit] = []
        self._last_line = 0
        self.matches = 0
        self._next: _Unit | None = None

    def add_match(self, unit: _Unit, span: tuple[int, int], before: Iterable[_Unit]) -> None:
        self.matches += 1
        if self._next is not None:
            return
        wanted = [_line(unit, ":", _around(unit, span))]
        earlier = list(before)
        lead = self._separator(min([unit.line, *(line.line for line in earlier)]))
        whole = [*lead, *(_line(line, "-", _context(line)) for line in earlier), *wanted]
        for lines in (whole, [*self._separator(unit.line), *wanted]):
            if self._take(lines, unit):
                self._shown.append(unit)
                return
        if self._shown:
            self._next = unit
            return
        self._take([cut(wanted[0], self._room, keep="head", marker=ellipsis).text], unit)
        self._shown.append(unit)

    def add_context(self, unit: _Unit) -> None:
        if self._next is None:
            self._take([*self._separator(unit.line), _line(unit, "-", _context(unit))], unit)

    def excerpt(self, wanted: Selection) -> Excerpt:
        first = self._shown[0] if self._shown else None
        following = self._next
        return Excerpt(
            "",
            "",
            "".join(self._lines),
            offset=first.offset if first else 0,
            first_line=first.line if first else 0,
            last_line=self._shown[-1].line if self._shown else 0,
            next_offset=following.offset if following else None,
            next_lines=(
                f"{following.line}:{wanted.last or ''}"
                if following and not following.is_part
                else None
            ),
            matches=self.matches,
        )

    def _separator(self, line: int) -> list[str]:
        return ["--\n"] if self._lines and line > self._last_line + 1 else []

    def _take(self, lines: list[str], unit: _Unit) -> bool:
        size = sum(map(len, lines))
        if size > self._room:
            return False
        self._room -= size
        self._lines += lines
        self._last_line = unit.line
        return True


def _line(unit: _Unit, sign: str, text: str) -> str:
    return f"{unit.line}{sign}{text}\n"


def _around(unit: _Unit, span: tuple[int, int]) -> str:
    """A matching line, or the text around the match in a long one, with its offset."""
    if not unit.is_part and len(unit.text) <= _SHOWN_CHARS:
        return unit.text
    start = max(0, span[0] - _AROUND_CHARS)
    end = min(len(unit.text), max(span[0] + _SHOWN_CHARS, span[1])) + _AROUND_CHARS
    shown = cut(unit.text[start:end], _SHOWN_CHARS, keep="head", marker=ellipsis).text
    return f"[offset {unit.offset + start}] {shown}"


def _context(unit: _Unit) -> str:
    return cut(unit.text, _CONTEXT_CHARS, keep="head", marker=ellipsis).text


# Notes


def _note(part: Excerpt) -> str:
    if not part.text:
        return _nothing(part)
    whole = f"of {part.total_chars:,} characters, {part.total_lines:,} lines"
    lines = (
        f"line {part.first_line}"
        if part.first_line == part.last_line
        else f"lines {part.first_line} to {part.last_line}"
    )
    if part.matches is None:
        end = part.offset + len(part.text)
        here = f"characters {part.offset} to {end}, {lines}, {whole}"
    else:
        some = "1 match" if part.matches == 1 else f"{part.matches:,} matches"
        here = f"{some}, shown: {lines}, {whole}"
    return f"{here}; {_way_on(part)}"


def _way_on(part: Excerpt) -> str:
    if not part.is_cut:
        return "nothing asked for is left out"
    same = "the same pattern and " if part.matches is not None else ""
    if part.next_lines is not None:
        return f'go on with {same}lines="{part.next_lines}"'
    return f"go on with {same}offset={part.next_offset}"


def _nothing(part: Excerpt) -> str:
    whole = f"{part.total_chars:,} characters, {part.total_lines:,} lines"
    if part.matches is not None:
        return f"no line matches; the output has {whole}"
    return f"there is nothing in that place; the output has {whole}"
