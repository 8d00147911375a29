"""The place between two messages of a body, found in its bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.proxy.known_prefix import KnownPrefix, find_prefix_end

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab"\\[]{},é \n', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["messages", "a", '"', "]"]), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = st.dictionaries(st.sampled_from(["model", "x", '"messages', "system"]), VALUES, max_size=3)


@given(
    FIELDS, FIELDS, st.lists(VALUES, max_size=6), st.integers(0, 7), st.sampled_from([None, 0, 3])
)
@examples(400)
@example({}, {"x": 1}, [1, 1, 1], 2, None)
@example({"x": [1, 2, 3]}, {}, [1, 2, 3], 1, None)
@example({"x": {"messages": [1, 2]}}, {}, [1, 2], 1, 3)
def test_a_body_is_its_prefix_and_the_rest(
    before: dict[str, Any], after: dict[str, Any], items: list[Any], left: int, indent: int | None
) -> None:
    """A body without the messages of its prefix is the body with the others, whatever surrounds
    them and however it is spelled."""
    body = {**before, "messages": items, **{f"{name} ": after[name] for name in after}}
    data = json.dumps(body, indent=indent).encode()
    end = find_prefix_end(data, "messages", body, left)
    if end is None:
        return
    assert 0 < left < len(items)
    prefix = KnownPrefix(data[: end.offset], end.opening, len(items) - left, [], [], [])
    short = prefix.shorten(data, "messages")
    if short is not None:
        assert json.loads(short) == {**body, "messages": items[-left:]}


@pytest.mark.parametrize("indent", [None, 0, 2])
def test_the_place_is_found_in_usual_bodies(indent: int | None) -> None:
    """Without this, the property above could hold because nothing is ever found."""
    items = [{"role": "user", "content": f'a "quoted" [text], {n}'} for n in range(9)]
    body = {"model": "m", "messages": items, "tools": [{"name": "x"}]}
    data = json.dumps(body, indent=indent).encode()
    end = find_prefix_end(data, "messages", body, 4)
    assert end is not None
    prefix = KnownPrefix(data[: end.offset], end.opening, 5, [], [], [])
    assert json.loads(prefix.shorten(data, "messages") or b"") == {**body, "messages": items[5:]}


@pytest.mark.parametrize(
    "rest", [b"]}", b" ]}", b'{"a":1}],"messages":[]}', b"", b'{"a":1}], "messages" : [2]}']
)
def test_what_does_not_go_on_is_read_whole(rest: bytes) -> None:
    """A list that ends with a comma is no JSON, and the last of two lists is the one that counts:
    neither may be hidden by a prefix."""
    start = b'{"messages":['
    prefix = KnownPrefix(start + b'{"b":1},', len(start), 1, [], [], [])
    short = prefix.shorten(prefix.data + rest, "messages")
    if short is not None:
        with pytest.raises(json.JSONDecodeError):
            json.loads(short)
    assert prefix.shorten(start + b'{"c":1},' + rest, "messages") is None
