"""Nesting is bounded by a number of ours, and measured without recursion."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.limits import NESTING_MAX
from holdfast.core.text.strings import is_shallow, is_too_deep


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


_JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=12,
)


@example([{"type": "tool_use", "input": {"path": "a", "lines": []}}])
@example([{"type": "tool_use", "input": {"path": ["a"]}}])
@example([{"a": {"b": {}}}])
@example([[1]])
@given(value=_JSON)
@examples(400)
def test_what_is_shallow_has_three_levels_at_most(value: Any) -> None:
    """So nobody has to count the brackets of it."""
    assert not (is_shallow(value) and is_too_deep(value, 3))


def test_blocks_of_messages_are_shallow() -> None:
    """Otherwise every append would be encoded twice."""
    assert is_shallow([{"type": "text", "text": "a"}, {"type": "image", "source": {"data": "b"}}])
    assert is_shallow([{"type": "tool_use", "id": "c", "input": {"path": "d", "line": 1}}])
    assert not is_shallow([{"input": {"edits": [{"line": 1}]}}])
