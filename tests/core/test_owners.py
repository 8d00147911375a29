"""Owners as types: between them and the text of records there is one way in each direction."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from tests.strategies import texts
from tests.support.runs import examples

from holdfast.core.history.access import Caller
from holdfast.core.owners import (
    ANY_OWNER,
    NO_OWNER,
    UNKNOWN_OWNER,
    FoundOwner,
    NamedOwner,
    OwnerFilter,
    filter_text,
    is_wanted,
    owner_argument,
    owner_in_row,
    owner_of,
    owner_text,
    row_text,
)
from holdfast.errors import UsageError

ANN, BOB = NamedOwner("ann"), NamedOwner("bob")


@examples(200)
@given(texts(99))
def test_text_becomes_an_owner_and_the_same_text_again(text: str) -> None:
    owner = owner_of(text)
    assert owner_text(owner) == row_text(owner) == filter_text(owner) == text
    assert owner == owner_in_row(text) == owner_of(text)
    assert (owner == NO_OWNER) == (text == "")
    assert hash(owner) == hash(owner_of(text))


def test_a_row_without_an_owner_is_of_an_unknown_one() -> None:
    assert owner_in_row(None) == UNKNOWN_OWNER
    assert row_text(UNKNOWN_OWNER) is None


def test_who_is_wanted() -> None:
    """A filter lets its own through, every owner all of them, and nobody but nobody's."""
    found: tuple[FoundOwner, ...] = (ANN, BOB, NO_OWNER, UNKNOWN_OWNER)
    filters: tuple[OwnerFilter, ...] = (ANN, BOB, NO_OWNER, ANY_OWNER)
    for owner, wanted in product(found, filters):
        assert is_wanted(owner, wanted) == (wanted == ANY_OWNER or owner == wanted)


def test_the_values_are_told_apart() -> None:
    values = (ANN, BOB, NO_OWNER, ANY_OWNER, UNKNOWN_OWNER)
    assert len(set(values)) == len({repr(value) for value in values}) == len(values)
    assert repr(ANN) == "NamedOwner(name='ann')"


def test_a_door_takes_a_name_or_a_value() -> None:
    assert owner_argument("ann") == owner_argument(ANN) == ANN
    assert owner_argument("") == owner_argument(NO_OWNER) == NO_OWNER
    assert owner_argument(ANY_OWNER) == ANY_OWNER
    assert owner_argument("a\ud800") == NamedOwner("a\ufffd"), "as the log has it"


@pytest.mark.parametrize("wrong", [None, 7, b"ann", UNKNOWN_OWNER, ("ann",)])
def test_what_is_no_owner_is_refused_and_never_taken_for_nobody(wrong: Any) -> None:
    with pytest.raises(UsageError, match="`owner` cannot be"):
        owner_argument(wrong)
    for convert in (owner_text, filter_text, lambda owner: is_wanted(ANN, owner)):
        with pytest.raises(UsageError, match="`owner` cannot be"):
            convert(wrong)


def test_a_name_is_no_owner_inside() -> None:
    """A text where an owner belongs, from a program without types, is an error and no lookup."""
    name: Any = "ann"
    with pytest.raises(UsageError):
        owner_text(name)
    with pytest.raises(UsageError):
        Caller("main", None, owner=name)
    with pytest.raises(UsageError):
        Caller("main", None, owners=("*",))  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        Caller("main", None, owner=ANY_OWNER)  # type: ignore[arg-type]


def test_a_named_owner_has_a_name() -> None:
    with pytest.raises(UsageError, match="empty"):
        NamedOwner("")
