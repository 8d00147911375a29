"""Nesting is bounded by a number of ours, and measured without recursion."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.limits import NESTING_MAX
from holdfast.core.text.nesting import is_too_deep


def nested(levels: int, bottom: Any = 1) -> Any:
    value = bottom
    for level in range(levels):
        value = {"in": value, "beside": [level]} if level % 2 else [value, level]
    return value


@pytest.mark.parametrize("value", [None, 1, "[[[[", {}, [], [[[]]], {"a": {"b": [1]}}])
def test_ordinary_values_are_not_too_deep(value: object) -> None:
    assert not is_too_deep(value)


@pytest.mark.parametrize("levels", [0, 1, 2, 7, NESTING_MAX])
def test_the_last_level_that_is_allowed(levels: int) -> None:
    """One level more is refused, whatever stands beside it."""
    assert not is_too_deep(nested(levels), levels)
    assert is_too_deep(nested(levels + 1), levels)
    assert is_too_deep(["wide"] * 100 + [nested(levels)], levels)


def test_a_hundred_thousand_levels_need_no_stack() -> None:
    assert is_too_deep(nested(100_000))


def test_structs_are_levels_too() -> None:
    class Holder(msgspec.Struct):
        value: Any

    assert not is_too_deep(Holder(1), 1)
    assert is_too_deep(Holder(Holder(1)), 1)
