"""Excerpts: the part that was asked for, its place, and how to go on, from a text in pieces."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.limits import EXCERPT_CHARS_MAX, EXCERPT_CHARS_MIN
from holdfast.core.outputs.excerpts import Excerpt, Selection, excerpt, selection
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Match = Callable[[str, int], tuple[int, int] | None]

REF = "0123456789abcdef"
texts = st.text(alphabet="ab\né😀", max_size=400)
"""Many short lines, empty ones among them, with and without an end."""


def matcher(pattern: str) -> Match:
    compiled = re.compile(pattern)

    def match(text: str, start: int) -> tuple[int, int] | None:
        found = compiled.search(text, start)
        return found.span() if found else None

    return match


def pieces_of(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def read(text: str, wanted: Selection, *, piece: int = 7) -> Excerpt:
    match = matcher(wanted.pattern) if wanted.pattern else None
    if wanted.counts_from_end:
        wanted = wanted.count_from_start(len(lines_of(text)))
    return excerpt(pieces_of(text, piece), wanted, ref=REF, kind="text", match=match)


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends, by `\n` and nothing else."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


# Slices


@given(texts, st.integers(0, 450), st.integers(1, 60), st.integers(1, 20))
def test_slices_by_offset_are_the_text_from_there(
    text: str, offset: int, cap: int, piece: int
) -> None:
    """Exactly the characters from the offset on, as many as there are or may be shown."""
    part = read(text, Selection(max_chars=cap, offset=offset), piece=piece)
    assert part.text == text[offset : offset + cap]
    assert (part.total_chars, part.total_lines) == (len(text), len(lines_of(text)))
    assert part.is_cut is (offset + cap < len(text))
    assert part.next_offset == (offset + cap if part.is_cut else None)
    if part.text:
        assert part.offset == offset
        assert part.first_line == 1 + text.count("\n", 0, offset)
        assert part.last_line == 1 + text.count("\n", 0, offset + len(part.text) - 1)


@given(texts, st.integers(1, 60), st.integers(1, 20), st.booleans())
def test_slices_one_after_another_are_the_whole(
    text: str, cap: int, piece: int, by_lines: bool
) -> None:
    """Who goes on as the excerpt says has read everything, and nothing twice."""
    wanted = Selection(max_chars=cap, is_by_lines=by_lines)
    shown = ""
    for _ in range(len(text) + 2):
        part = read(text, wanted, piece=piece)
        shown += part.text
        if part.next_lines is not None:
            wanted = Selection(max_chars=cap, first=int(part.next_lines[:-1]), is_by_lines=True)
        elif part.next_offset is not None:
            wanted = Selection(max_chars=cap, offset=part.next_offset)
        else:
            break
    assert shown == text


@given(texts, st.integers(-12, 12), st.integers(-12, 12), st.integers(1, 20))
def test_slices_by_lines_are_those_lines(text: str, first: int, last: int, piece: int) -> None:
    """Lines count from 1, from the end below 0, and both ends are included."""
    lines = lines_of(text)
    count = len(lines)
    if first == 0 or last == 0:
        return
    wanted = Selection(max_chars=10_000, first=first, last=last, is_by_lines=True)
    start = first if first > 0 else max(1, count + first + 1)
    end = last if last > 0 else count + last + 1
    assert read(text, wanted, piece=piece).text == "".join(lines[start - 1 : max(0, end)])


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        ("2:3", "two\nthree\n"),
        ("2", "two\n"),
        ("3:", "three\nfour"),
        (":2", "one\ntwo\n"),
        ("-2:", "three\nfour"),
        (":-3", "one\ntwo\n"),
        ("-1", "four"),
        (":", "one\ntwo\nthree\nfour"),
        ("9:12", ""),
        (" 2:2 ", "two\n"),
    ],
)
def test_ranges_of_lines_are_read_as_people_write_them(lines: str, shown: str) -> None:
    """`a:b`, `a:`, `:b`, `a`, and all of them from the end."""
    assert read("one\ntwo\nthree\nfour", selection(lines=lines)).text == shown


def test_slices_by_lines_end_with_a_whole_line() -> None:
    """Cut at a line end, so that the next lines can be named; a giant line by its characters."""
    text = "".join(f"line {number}\n" for number in range(1, 200))
    part = read(text, selection(lines="5:150", max_chars=256))
    assert part.text.startswith("line 5\n")
    assert part.text.endswith("\n")
    assert part.next_lines == f"{part.last_line + 1}:150"
    giant = read("x" * 1_000 + "\nend", selection(lines="1:2", max_chars=256))
    assert (giant.text, giant.next_offset, giant.next_lines) == ("x" * 256, 256, None)


def test_slices_of_nothing_say_how_much_there_is() -> None:
    """Beyond the end is an answer, not an error: it says how far the output goes."""
    part = read("one\ntwo\n", selection(offset=900))
    assert (part.text, part.is_cut) == ("", False)
    assert "8 characters, 2 lines" in part.note


def test_notes_say_which_part_of_how_much_and_the_way_on() -> None:
    """One line for people and models."""
    text = "".join(f"line {number}\n" for number in range(1, 200))
    assert "characters 7 to 263, lines 2 to " in read(text, selection(offset=7, max_chars=256)).note
    assert 'go on with lines="' in read(text, selection(lines="2:", max_chars=256)).note
    assert "nothing asked for is left out" in read(text, selection(lines="2:3")).note


# Patterns


def naive_grep(text: str, pattern: str) -> list[int]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [number for number, line in enumerate(lines, 1) if re.search(pattern, line)]


@given(texts, st.sampled_from(["a", "b+", "^a", "é$", "😀", "^$"]), st.integers(1, 20))
def test_patterns_find_the_lines_that_match(text: str, pattern: str, piece: int) -> None:
    """The same lines as a search line by line, each with its number; two more around each."""
    part = read(text, Selection(max_chars=100_000, pattern=pattern), piece=piece)
    wanted = naive_grep(text, pattern)
    shown = dict(re.findall(r"^(\d+)([:-])", part.text, re.MULTILINE))
    assert [int(line) for line, sign in shown.items() if sign == ":"] == wanted
    assert part.matches == len(wanted)
    count = len(lines_of(text))
    near = {one for line in wanted for one in range(line - 2, line + 3) if 1 <= one <= count}
    assert sorted(map(int, shown)) == sorted(near)


def test_patterns_show_lines_as_grep_does() -> None:
    """Numbers, signs, and a line of dashes where something between is left out."""
    text = "".join(f"line {number}\n" for number in range(1, 30))
    part = read(text, selection(pattern="line (5|6|20)$"))
    assert part.text == (
        "3-line 3\n4-line 4\n5:line 5\n6:line 6\n7-line 7\n8-line 8\n--\n"
        "18-line 18\n19-line 19\n20:line 20\n21-line 21\n22-line 22\n"
    )
    assert (part.matches, part.first_line, part.last_line) == (3, 5, 20)


@given(texts, st.integers(20, 80), st.integers(1, 20))
def test_patterns_read_on_find_every_match(text: str, cap: int, piece: int) -> None:
    """Within the cap on every page; page by page every match is shown, in order."""
    wanted = Selection(max_chars=cap, pattern="a")
    found: list[int] = []
    for _ in range(len(text) + 1):
        part = read(text, wanted, piece=piece)
        assert len(part.text) <= cap
        found += [int(line) for line in re.findall(r"^(\d+):", part.text, re.MULTILINE)]
        if part.next_lines is None:
            break
        first = int(part.next_lines.split(":")[0])
        wanted = Selection(max_chars=cap, pattern="a", first=first, is_by_lines=True)
    assert found == naive_grep(text, "a")


def test_patterns_search_only_the_lines_asked_for() -> None:
    """A pattern and lines, or an offset, go together."""
    text = "".join(f"line {number}\n" for number in range(1, 100))
    assert read(text, selection(pattern="line", lines="50:51")).matches == 2
    assert read(text, selection(pattern="line", lines="-3:")).matches == 3
    assert read(text, selection(pattern="line", offset=len(text) - 8)).matches == 1


@given(st.integers(0, 30_000), st.integers(60, 9_000), st.booleans())
def test_patterns_find_a_match_anywhere_in_a_giant_line(
    place: int, piece: int, has_end: bool
) -> None:
    """A line of any length is searched in parts that overlap; what is found is shown in place."""
    text = "first\n" + "x" * place + "needle" + "y" * (30_000 - place) + ("\n" if has_end else "")
    part = read(text, selection(pattern="needle"), piece=piece)
    assert part.matches == 1
    assert "needle" in part.text
    assert len(part.text) < 2_000
    where = re.search(r"2:\[offset (\d+)\] ", part.text)
    assert where is not None
    assert text[int(where[1]) :].startswith(part.text[where.end() :].split("…")[0].split("\n")[0])


def test_patterns_count_every_match_of_a_giant_line_once_in_a_part() -> None:
    """Places far apart in one line are several matches; the parts' overlap is not counted twice."""
    text = ("x" * 5_000 + "needle") * 6
    assert read(text, selection(pattern="needle"), piece=4_096).matches == 6


def test_patterns_without_a_match_say_so() -> None:
    """Nothing found is an answer with the size of what was searched."""
    part = read("one\ntwo\n", selection(pattern="three"))
    assert (part.text, part.matches) == ("", 0)
    assert "no line matches" in part.note


def test_patterns_show_the_first_match_however_small_the_page() -> None:
    """A line that does not fit the page is cut, never skipped: reading on always gets further."""
    part = read("x" * 900 + "needle\nneedle\n", selection(pattern="needle$", max_chars=256))
    assert len(part.text) <= 256
    assert part.first_line == 1
    assert part.next_lines == "2:"


# What cannot be meant


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"max_chars": EXCERPT_CHARS_MIN - 1}, "255 characters"),
        ({"max_chars": EXCERPT_CHARS_MAX + 1}, "120,001 characters"),
        ({"max_chars": 0}, "0 characters"),
        ({"offset": -1}, "offset -1"),
        ({"offset": 1, "lines": "1:2"}, "at once"),
        ({"lines": "0:5"}, "line 0"),
        ({"lines": "5:3"}, "ends before it begins"),
        ({"lines": "-3:-5"}, "ends before it begins"),
        ({"lines": "a:b"}, "not a range"),
        ({"lines": ""}, "not a range"),
        ({"lines": "1:2:3"}, "not a range"),
        ({"lines": "1-2"}, "not a range"),
        ({"lines": "١:٢"}, "not a range"),
        ({"lines": "9" * 400}, "not a range"),
        ({"pattern": ""}, "empty pattern"),
        ({"pattern": "x" * 1_001}, "1,001 characters"),
    ],
)
def test_selections_that_cannot_be_meant_are_refused(asked: dict[str, object], said: str) -> None:
    """Said before anything is read, with what to give instead."""
    with pytest.raises(UsageError, match=said) as refused:
        selection(**asked)  # type: ignore[arg-type]
    assert refused.value.hint


@pytest.mark.parametrize("size", [EXCERPT_CHARS_MIN, EXCERPT_CHARS_MAX])
def test_selections_at_their_bounds_are_taken(size: int) -> None:
    """Both ends of what may be asked for are allowed."""
    assert selection(max_chars=size).max_chars == size
