"""Cutting text: within the cap, nothing split, everything that was left out counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.strategies import FRAGMENTS, json_values, texts

from holdfast.core.text.cut import (
    Keep,
    Unit,
    cut,
    default_marker,
    head,
    scrub,
    scrub_deep,
    size,
    tail,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Marker = Callable[[int, int, str], str]

KEEPS: tuple[Keep, ...] = get_args(Keep)
UNITS: tuple[Unit, ...] = get_args(Unit)

ALL = "".join(FRAGMENTS)
LONG = (
    "plain ascii, nothing else, and long enough to be cut at every cap that is tried here " * 3,
    ALL,
    "漢" * 130,
    "😀" * 130,
    "👩‍👩‍👧‍👦" * 20,
    "e\u0301\u0323" * 45,
    "\ud83d" * 130,
    "\ud83d\ude00" * 130,
    "a" + "\ude00\ud83d" * 70,
)


def nothing(_omitted: int, _total: int, _unit: str) -> str:
    return ""


def stutter(omitted: int, _total: int, _unit: str) -> str:
    """Long for some counts and short for others, in no order."""
    return "<" + "…" * (omitted * 7 % 23) + ">"


def spiteful(omitted: int, total: int, _unit: str) -> str:
    """Short when asked about the extremes, long about everything between."""
    return "!" if omitted in (0, total) else "!" * 40


def shrinking(omitted: int, total: int, _unit: str) -> str:
    """The less is left out, the longer it is."""
    return "#" * (total - omitted)


def broken(_omitted: int, _total: int, _unit: str) -> str:
    return "\ud800cut\udc00"


MARKERS: tuple[Marker, ...] = (default_marker, nothing, stutter, spiteful, shrinking, broken)

keeps = st.sampled_from(KEEPS)
units = st.sampled_from(UNITS)
caps = st.integers(0, 260)
markers = st.sampled_from(MARKERS)


def check_cut(text: str, cap: int, keep: Keep, unit: Unit, marker: Marker) -> None:
    """Everything that `cut` promises, for one call."""
    clean = scrub(text)
    done = cut(text, cap, keep=keep, unit=unit, marker=marker)
    done.text.encode()
    assert size(done.text, unit) <= cap
    assert done.total == size(clean, unit)
    assert done.unit == unit
    assert done.was_cut == (done.omitted > 0) == (done.total > cap)
    if not done.was_cut:
        assert done.text == clean
        return
    # Somewhere in the result stands a mark; around it, prefix and suffix make up the rest.
    marks = {scrub(marker(done.omitted, done.total, unit)), "…", ""}
    shown = done.total - done.omitted
    assert any(_is_made_of(clean, done.text, mark, shown, keep, unit) for mark in marks)


def _is_made_of(text: str, result: str, mark: str, shown: int, keep: Keep, unit: Unit) -> bool:
    """Whether a result is prefix + mark + suffix, which show exactly so many units."""
    if keep == "head":
        splits = {len(result) - len(mark)}
    elif keep == "tail":
        splits = {0}
    else:
        splits = set(range(len(result) - len(mark) + 1))
    for split in splits:
        if split < 0 or result[split : split + len(mark)] != mark:
            continue
        left, right = result[:split], result[split + len(mark) :]
        if text.startswith(left) and text.endswith(right):
            return size(left, unit) + size(right, unit) == shown
    return False


@given(texts(), caps, keeps, units)
@example("\ud83d\ude00" * 40, 31, "both", "bytes")
@example("漢" * 40, 32, "tail", "bytes")
def test_cut_keeps_every_promise(text: str, cap: int, keep: Keep, unit: Unit) -> None:
    """Within the cap, encodable, made of prefix, mark and suffix, with an exact count."""
    check_cut(text, cap, keep, unit, default_marker)


@pytest.mark.sampled(1 / 2, "text")
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("text", LONG)
def test_cut_keeps_every_promise_at_every_cap(text: str, keep: Keep, unit: Unit) -> None:
    """No cap from 0 to 120 breaks a promise, for texts that tempt it to."""
    for cap in range(121):
        check_cut(text, cap, keep, unit, default_marker)


@given(texts(), caps, keeps, units, markers)
@example("x" * 100, 30, "both", "characters", spiteful)
@example("x" * 100, 60, "head", "bytes", spiteful)
@example("x" * 200, 90, "tail", "characters", shrinking)
@example("漢" * 100, 50, "tail", "bytes", broken)
def test_cut_stays_within_cap_for_any_marker(
    text: str, cap: int, keep: Keep, unit: Unit, marker: Marker
) -> None:
    """A marker may be empty, longer than the cap, or change its length as it likes."""
    check_cut(text, cap, keep, unit, marker)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("marker", MARKERS)
def test_cut_stays_within_cap_for_any_marker_at_every_cap(
    marker: Marker, keep: Keep, unit: Unit
) -> None:
    """No cap from 0 to 120 breaks a promise, whatever the marker does."""
    for cap in range(121):
        check_cut(LONG[0], cap, keep, unit, marker)
        check_cut(ALL * 3, cap, keep, unit, marker)


@given(st.text(max_size=60), st.integers(0, 40), keeps, units, st.text(max_size=50))
def test_cut_stays_within_cap_for_any_fixed_marker(
    text: str, cap: int, keep: Keep, unit: Unit, words: str
) -> None:
    """The marker's own characters are never split and count against the cap."""
    check_cut(text, cap, keep, unit, lambda _omitted, _total, _unit: words)


@given(texts(), caps, st.sampled_from(("tail", "both")), units, markers)
@example("😀" * 40, 32, "tail", "bytes", default_marker)
@example("x" * 40, 30, "both", "characters", default_marker)
@example("aa😀", 7, "both", "bytes", default_marker)
def test_cut_keeps_the_newest_characters(
    text: str, cap: int, keep: Keep, unit: Unit, marker: Marker
) -> None:
    """With room for a character beside an ellipsis, the last one survives."""
    clean = scrub(text)
    done = cut(text, cap, keep=keep, unit=unit, marker=marker)
    is_room = cap >= size("…", unit) + size(clean[-1:], unit)
    assert not is_room or done.text.endswith(clean[-1:])


@given(texts(), st.integers(2, 260), units)
def test_cut_keeps_both_ends_in_both_mode(text: str, cap: int, unit: Unit) -> None:
    """With room for an ellipsis and two characters, the first and the last one survive."""
    clean = scrub(text)
    done = cut(text, cap, keep="both", unit=unit)
    widest = max(size(clean[:1], unit), size(clean[-1:], unit))
    if cap >= size("…", unit) + 2 * widest:
        assert done.text.startswith(clean[:1])
        assert done.text.endswith(clean[-1:])


@given(texts(), st.integers(0, 260), keeps)
@example("x" * 300, 32, "tail")
@example("x" * 300, 33, "both")
@example("x" * 300, 32, "head")
def test_cut_says_what_is_missing_where_there_is_room(text: str, cap: int, keep: Keep) -> None:
    """The words are there once each kept side has a character beside them; no room is wasted."""
    done = cut(text, cap, keep=keep)
    longest = len(default_marker(done.total, done.total, "characters"))
    if done.was_cut and cap >= longest + (2 if keep == "both" else 1):
        words = default_marker(done.omitted, done.total, "characters")
        assert words in done.text
        assert len(done.text) == cap - longest + len(words)


@pytest.mark.parametrize(
    ("cap", "keep", "expected"),
    [
        (0, "both", ""),
        (1, "both", "…"),
        (2, "head", "0…"),
        (2, "tail", "…9"),
        (3, "both", "0…9"),
        (26, "head", "0[… 49 of 50 characters …]"),
        (50, "head", "0123456789" * 5),
    ],
)
def test_cut_reads_well_at_small_caps(cap: int, keep: Keep, expected: str) -> None:
    """Too little room for words leaves an ellipsis, and too little for that bare text."""
    short = cut(
        "0123456789" * 5,
        cap,
        keep=keep,
        marker=lambda omitted, total, unit: f"[… {omitted} of {total} {unit} …]",
    )
    assert short.text == expected


def test_cut_says_how_much_is_missing() -> None:
    """The default marker names what was left out of how much, in the unit of the cap."""
    done = cut("é" * 5_000, 1_000, unit="bytes")
    assert f"[… {done.omitted:,} of 10,000 bytes cut …]" in done.text
    assert done.text.startswith("é" * 200)
    assert done.text.endswith("é" * 200)


def test_cut_refuses_a_negative_cap() -> None:
    """A cap below zero is a mistake of the caller, not a short text."""
    with pytest.raises(AssertionError, match="negative"):
        cut("x", -1)


@given(texts(), st.integers(0, 120), units)
def test_head_and_tail_are_the_longest_that_fit(text: str, count: int, unit: Unit) -> None:
    """One more character would be too much, and no code point is split."""
    clean = scrub(text)
    first, last = head(clean, count, unit), tail(clean, count, unit)
    assert clean.startswith(first)
    assert clean.endswith(last)
    assert size(first, unit) <= count
    assert size(last, unit) <= count
    assert first == clean or size(clean[: len(first) + 1], unit) > count
    assert last == clean or size(clean[len(clean) - len(last) - 1 :], unit) > count


@given(texts())
def test_size_counts_code_points_or_bytes(text: str) -> None:
    """A size is the number of code points, or of bytes in UTF-8."""
    clean = scrub(text)
    assert size(clean, "characters") == len(clean)
    assert size(clean, "bytes") == len(clean.encode())


@given(texts())
def test_scrub_makes_any_text_encodable_and_only_once(text: str) -> None:
    """What comes out can be encoded, and scrubbing it again changes nothing."""
    clean = scrub(text)
    assert clean.encode().decode() == clean
    assert scrub(clean) == clean


@given(st.text())
def test_scrub_leaves_clean_text_alone(text: str) -> None:
    """Text without surrogates is returned as it is."""
    assert scrub(text) == text


@given(st.text())
def test_scrub_joins_what_utf_16_split(text: str) -> None:
    """A text read as single UTF-16 units comes back whole."""
    units = text.encode("utf-16-be")
    split = "".join(chr(int.from_bytes(units[at : at + 2])) for at in range(0, len(units), 2))
    assert scrub(split) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\ud83d\ude00", "😀"),
        ("\ud800", "\ufffd"),
        ("a\udfffb", "a\ufffdb"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ud83d\ude00\ude00", "\ufffd😀\ufffd"),
        ("\ud800\udc00\udbff\udfff", "\U00010000\U0010ffff"),
    ],
)
def test_scrub_joins_pairs_and_replaces_the_lonely(text: str, expected: str) -> None:
    """A pair becomes its character; a surrogate without its other half becomes U+FFFD."""
    assert scrub(text) == expected


@given(json_values())
def test_scrub_deep_leaves_clean_values_alone(value: object) -> None:
    """JSON that can be stored is not changed."""
    assert scrub_deep(value) == value


def test_scrub_deep_reaches_keys_and_nested_values() -> None:
    """Strings are scrubbed wherever they are; whatever is not text stays."""
    value = {"\ud800": [("\ud83d\ude00", 1), {"k": "\udfff"}, None, True, 1.5]}
    assert scrub_deep(value) == {"\ufffd": [["😀", 1], {"k": "\ufffd"}, None, True, 1.5]}
