"""Names of other frameworks as session ids."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Header
from holdfast.integrations.common.home import (
    NAME_FIELD,
    read_name,
    session_id_for,
    spell_name,
)

TEXTS = st.one_of(
    st.text(st.characters(), max_size=300),  # with lone surrogates
    st.text("aAbB-_01", max_size=6),
    st.sampled_from(["", "t1", "T1", "t1 ", "ａ", "a" * 5000, "../x", "x\0y", "тред", "🧵"]),
)
NAMES = st.lists(TEXTS, min_size=1, max_size=3).map(tuple)


@given(NAMES, NAMES)
def test_two_names_never_share_an_id(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    """Stores tell no ids apart that differ only in case, so neither may names."""
    first, second = session_id_for(one), session_id_for(other)
    SessionKey("main", first)
    assert (first.casefold() == second.casefold()) == (one == other)


@given(NAMES)
def test_name_of_a_made_id_has_another_id(name: tuple[str, ...]) -> None:
    """A thread may be called as another one's session is."""
    made = session_id_for(name)
    assert session_id_for((made,)) != made or name == (made,)


@given(NAMES)
def test_header_gives_the_name_back(name: tuple[str, ...]) -> None:
    spelled = spell_name(name)
    assert spelled.isascii()
    assert read_name(Header(extra={NAME_FIELD: spelled})) == name


def test_header_of_another_program_has_no_name() -> None:
    for extra in ({}, {NAME_FIELD: 3}, {NAME_FIELD: "{"}, {NAME_FIELD: '"x"'}, {NAME_FIELD: "[1]"}):
        assert read_name(Header(extra=extra)) is None


def test_plain_name_is_its_own_id() -> None:
    """So that `holdfast show thread-1` finds what a framework calls `thread-1`."""
    uuid = "0f1e2d3c-0000-4000-8000-000000000001"
    assert [session_id_for((name,)) for name in ("thread-1", uuid)] == ["thread-1", uuid]
