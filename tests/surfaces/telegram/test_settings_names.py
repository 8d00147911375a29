"""A place has one session, and two places share one only where the scope says so."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.log.ids import is_name
from holdfast.core.owners import NamedOwner
from holdfast.surfaces.telegram.settings import ChatPlace, DmScope, session_name, session_owner

SCOPES = get_args(DmScope)
IDS = st.integers(1, 2**53) | st.integers(1, 12)
TOPICS = st.none() | IDS
PRIVATE = st.builds(lambda bot, user, topic: ChatPlace(bot, user, user, topic), IDS, IDS, TOPICS)
GROUPS = st.builds(
    lambda bot, chat, user, topic: ChatPlace(bot, -chat, user, topic, is_private=False),
    *(IDS, IDS, IDS | IDS.map(lambda number: -number), TOPICS),
)
PLACES = PRIVATE | GROUPS


@pytest.mark.parametrize(
    ("scope", "private", "group"),
    [
        ("main", "main", "tg_chat-100_99"),
        ("per-peer", "direct_99", "tg_chat-100_99"),
        ("per-channel-peer", "tg_99", "tg_chat-100_99"),
        ("per-account-channel-peer", "tg_bot7_99", "tg_bot7_chat-100_99"),
    ],
)
def test_the_table_of_scopes(scope: Any, private: str, group: str) -> None:
    assert session_name(ChatPlace(7, 99, 99), scope) == private
    assert session_name(ChatPlace(7, 99, 99, 5), scope) == f"{private}_topic5"
    assert session_name(ChatPlace(7, -100, 99, is_private=False), scope) == group
    assert session_name(ChatPlace(7, -100, 99, 5, is_private=False), scope) == f"{group}_topic5"


def _known(place: ChatPlace, scope: DmScope) -> tuple[object, ...]:
    """Return what a scope tells places apart by."""
    bot = place.bot if scope == "per-account-channel-peer" else None
    if not place.is_private:
        return ("group", bot, place.chat, place.user, place.topic)
    if scope == "main":
        return ("main", place.topic)
    return ("private", bot, place.user, place.topic)


@examples(1_000)
@given(PLACES, PLACES, st.sampled_from(SCOPES))
def test_a_name_stands_for_what_the_scope_tells_apart(
    place: ChatPlace, other: ChatPlace, scope: DmScope
) -> None:
    name = session_name(place, scope)
    assert is_name(name)
    assert name == name.lower()
    is_same = _known(place, scope) == _known(other, scope)
    assert (name == session_name(other, scope)) == is_same
    if is_same:
        assert session_owner(place, scope) == session_owner(other, scope)


@examples(100)
@given(PLACES)
def test_a_person_owns_their_sessions(place: ChatPlace) -> None:
    assert session_owner(place, "per-channel-peer") == NamedOwner(f"telegram:{place.user}")
