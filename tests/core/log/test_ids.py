"""Names: which are allowed, how new ones sort, and which session a name means."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.strategies import texts

from holdfast.core.limits import ID_CHARS_MAX
from holdfast.core.log.ids import (
    Named,
    SessionKey,
    check_name,
    check_record_id,
    is_name,
    new_record_ids,
    new_session_id,
    positional_id,
    resolve,
)
from holdfast.errors import AmbiguousName, BadId, NoSuchSession

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME_CHARS = string.ascii_letters + string.digits + "-_"

REFUSED = (
    "",
    ".",
    "..",
    "../up",
    "a/b",
    "/root",
    "a\\b",
    "nul\x00",
    "line\n",
    "\nline",
    " space",
    "sp ace",
    "-dash",
    "_under",
    "@12",
    "~home",
    "*",
    "a\u202eb",
    "аgent",  # a Cyrillic letter that looks like an `a`
    "ａbc",  # a full-width letter
    "١٢٣",  # digits of another script
    "é",
    "\ud800",
    "x" * (ID_CHARS_MAX + 1),
)
"""Names that would be a way out, a trick for the eye, or an option for a command."""


@pytest.mark.parametrize("value", REFUSED)
def test_check_name_refuses_what_is_not_on_the_list(value: str) -> None:
    """An id outside the allow-list is an error that says what is allowed."""
    assert not is_name(value)
    with pytest.raises(BadId, match="agent id") as raised:
        check_name("agent", value)
    assert "letters, digits" in str(raised.value.hint)
    assert raised.value.value == value
    with pytest.raises(BadId, match="record id"):
        check_record_id(value)
    with pytest.raises(BadId, match="agent id"):
        SessionKey(value, "main")
    with pytest.raises(BadId, match="session id"):
        SessionKey("main", value)


@given(st.text(NAME_CHARS, min_size=1, max_size=ID_CHARS_MAX).filter(lambda one: one[0].isalnum()))
@example("a")
@example("9")
@example("x" * ID_CHARS_MAX)
def test_check_name_allows_plain_names_of_every_length(value: str) -> None:
    """Letters, digits, dashes and underscores pass, up to the longest length."""
    check_name("session", value)
    check_record_id(value)
    assert is_name(value)
    assert str(SessionKey(value, value)) == f"{value}/{value}"


@given(texts(20))
def test_check_name_allows_nothing_but_the_list(value: str) -> None:
    """Whatever passes is made of the allowed characters and cannot leave a folder."""
    if is_name(value):
        assert set(value) <= set(NAME_CHARS)
        assert value[0] not in "-_"
        assert 1 <= len(value) <= ID_CHARS_MAX


@pytest.mark.parametrize("value", ["a.b", "a:b", "msg_01-x.2:3"])
def test_check_record_id_allows_dots_and_colons(value: str) -> None:
    """Record ids never become paths, so the ids of other tools may keep their dots."""
    check_record_id(value)
    assert not is_name(value)


def test_session_keys_sort_by_agent_then_session() -> None:
    """A list of sessions has one order."""
    keys = [SessionKey("b", "a"), SessionKey("a", "b"), SessionKey("a", "a")]
    assert [str(key) for key in sorted(keys)] == ["a/a", "a/b", "b/a"]


# New ids

clocks = st.floats(min_value=0, max_value=4e9, allow_nan=False)
bits = st.integers(0, 2**64)


@given(clocks, bits, st.integers(1, 50), st.lists(st.tuples(clocks, bits), max_size=5))
def test_new_record_ids_always_grow(
    now: float, random_bits: int, count: int, later: list[tuple[float, int]]
) -> None:
    """Each batch sorts after the one before, also where the clock has gone back."""
    ids = new_record_ids(count, now=now, random_bits=random_bits, after="")
    for next_now, next_bits in later:
        ids += new_record_ids(count, now=next_now, random_bits=next_bits, after=ids[-1])
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[0-9a-f]{18}", one) for one in ids)


@given(clocks, bits, bits, st.floats(min_value=0.002, max_value=1e6))
def test_new_record_ids_sort_by_time(
    now: float, random_bits: int, later_bits: int, passed: float
) -> None:
    """Without any other id at hand, a later moment gives a later id."""
    (first,) = new_record_ids(1, now=now, random_bits=random_bits, after="")
    (second,) = new_record_ids(1, now=now + passed, random_bits=later_bits, after="")
    assert first < second


@pytest.mark.parametrize(
    "after", ["", "@120", "msg_01", "f" * 17, "f" * 19, "F" * 18, "g" * 18, "0" * 17 + "\u0661"]
)
def test_new_record_ids_go_by_the_clock_after_foreign_ids(after: str) -> None:
    """An id that is not one of ours says nothing about time and moves nothing."""
    plain = new_record_ids(2, now=1_700_000_000.5, random_bits=5, after="")
    assert new_record_ids(2, now=1_700_000_000.5, random_bits=5, after=after) == plain


def test_new_record_ids_are_the_time_in_milliseconds_and_random_bits() -> None:
    """The layout of an id is fixed: eleven digits of time, seven that are random."""
    ids = new_record_ids(2, now=1.5, random_bits=0xABC, after="")
    assert ids == [f"{1500:011x}0000abc", f"{1500:011x}0000abd"]
    (after,) = new_record_ids(1, now=1.0, random_bits=0, after=ids[-1])
    assert after == f"{1500:011x}0000abe"
    (most,) = new_record_ids(1, now=1.5, random_bits=2**64 - 1, after="")
    assert most == f"{1500:011x}fffffff"


@given(bits)
def test_new_session_id_is_twelve_characters_and_a_name(random_bits: int) -> None:
    """A new session's id is short, of one length, and on the allow-list."""
    made = new_session_id(random_bits)
    assert re.fullmatch(r"[0-9a-f]{12}", made)
    assert int(made, 16) == random_bits % 2**48
    check_name("session", made)


def test_positional_ids_cannot_be_given_to_a_record() -> None:
    """The id of a record without one is its place, and nobody else can claim it."""
    assert positional_id(120) == "@120"
    with pytest.raises(BadId):
        check_record_id(positional_id(120))


# Which session is meant


def known(*rows: tuple[str, str]) -> Sequence[Named]:
    """Sessions by `agent/session` and label."""
    return [Named(SessionKey(*key.split("/")), label) for key, label in rows]


SESSIONS = known(
    ("main/alpha", "release notes"),
    ("main/alphabet", "alpha"),
    ("main/beta", "Release Plan"),
    ("work/gamma", "beta"),
    ("work/delta1", ""),
    ("work/delta2", ""),
    ("work/shared", "one"),
    ("main/shared", "two"),
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("alpha", "main/alpha"),  # the id, though it is another's label and prefix
        ("beta", "main/beta"),  # the id, though it is another's label
        ("release notes", "main/alpha"),
        ("Release Plan", "main/beta"),
        ("work/gamma", "work/gamma"),
        ("main/shared", "main/shared"),
        ("work/shared", "work/shared"),
        ("two", "main/shared"),
        ("ga", "work/gamma"),
        ("work/g", "work/gamma"),
        ("alphab", "main/alphabet"),
        ("release", "main/alpha"),
        ("Rel", "main/beta"),
        ("RELEASE N", "main/alpha"),
        ("release p", "main/beta"),
    ],
)
def test_resolve_finds_the_one_session_meant(name: str, expected: str) -> None:
    """The id beats the label, the exact beats the prefix, and case matters last."""
    assert str(resolve(name, SESSIONS)) == expected
    assert str(resolve(name, SESSIONS[::-1])) == expected


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("shared", {"work/shared (one)", "main/shared (two)"}),
        ("delta", {"work/delta1", "work/delta2"}),
        ("RELEASE", {"main/alpha (release notes)", "main/beta (Release Plan)"}),
        ("work/d", {"work/delta1", "work/delta2"}),
    ],
)
def test_resolve_names_all_candidates_when_ambiguous(name: str, candidates: set[str]) -> None:
    """A name that fits several sessions is an error that lists every one of them."""
    with pytest.raises(AmbiguousName, match=f"session `{name}` is ambiguous") as raised:
        resolve(name, SESSIONS)
    assert set(raised.value.candidates) == candidates
    assert all(f"`{one}`" in str(raised.value) for one in candidates)


def test_resolve_keeps_all_candidates_where_the_message_is_short() -> None:
    """The message shows the first eight and says how many more; the error holds them all."""
    with pytest.raises(AmbiguousName, match="and 12 more") as raised:
        resolve("s", known(*((f"main/s{number}", "") for number in range(20))))
    assert len(raised.value.candidates) == 20


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("gamme", "gamma"), ("alpah", "alpha"), ("release note s", "release notes")],
)
def test_resolve_suggests_the_nearest_name(name: str, nearest: str) -> None:
    """A name with a slip of the finger is answered with the one that was likely meant."""
    with pytest.raises(NoSuchSession, match=f"no session `{name}`") as raised:
        resolve(name, SESSIONS)
    assert f"`{nearest}`" in str(raised.value.hint)
    assert raised.value.name == name


@pytest.mark.parametrize("name", ["", "zzzzzzzz", "other/alpha"])
def test_resolve_finds_nothing_by_a_name_that_fits_nothing(name: str) -> None:
    """An empty name is no prefix of everything, and an agent must be the right one."""
    with pytest.raises(NoSuchSession):
        resolve(name, SESSIONS)
    with pytest.raises(NoSuchSession) as raised:
        resolve(name, [])
    assert "holdfast sessions" in str(raised.value.hint)


def test_resolve_takes_an_iterator() -> None:
    """The known sessions may come from anything that can be gone through once."""
    assert str(resolve("RELEASE N", iter(SESSIONS))) == "main/alpha"


@given(st.lists(st.sampled_from(SESSIONS), unique=True), st.sampled_from(SESSIONS))
def test_resolve_does_not_change_its_mind_about_an_exact_id(
    others: list[Named], meant: Named
) -> None:
    """However many sessions are added, `agent/id` means the same one."""
    assert resolve(str(meant.key), [*others, meant] if meant not in others else others) == meant.key
