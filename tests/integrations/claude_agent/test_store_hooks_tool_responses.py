"""Texts in tool responses: the law over responses of any shape."""

from __future__ import annotations

import random
from typing import Any

from holdfast.integrations.claude_agent.store_hooks import texts_over, with_texts

NAMES = ("stdout", "content", "data", "base64", "text", "file", "result")


def response(rng: random.Random, depth: int = 0) -> Any:
    """A value as JSON has them, with texts of all sizes in any place."""
    kind = rng.randrange(4 if depth < 4 else 2)
    if kind == 0:
        return rng.choice([None, True, 7, 1.5, "", "data:image/png;base64," + "A" * 900])
    if kind == 1:
        return rng.choice("a é\n") * rng.choice([0, 1, 99, 100, 101, 500, 3000])
    if kind == 2:
        return [response(rng, depth + 1) for _ in range(rng.randrange(5))]
    return {name: response(rng, depth + 1) for name in rng.sample(NAMES, rng.randrange(5))}


def shape(value: Any) -> Any:
    """The value without its texts."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value]
    return str if isinstance(value, str) else value


def test_the_limit_holds_or_all_that_is_left_is_short_and_the_shape_stays() -> None:
    rng, cap, limit = random.Random(1), 100, 400
    replaced = 0
    for _ in range(2_000):
        given = response(rng)
        chosen = texts_over(given, limit, cap)
        shown = with_texts(given, dict.fromkeys(chosen, "p" * cap))
        assert shape(shown) == shape(given)
        assert all(len(text) > cap and "base64," not in text for text in chosen.values())
        left = texts_over(shown, limit, cap)
        assert not left, "a second look finds nothing to replace"
        assert with_texts(given, chosen) == given, "the paths lead back to the texts"
        replaced += len(chosen)
    assert replaced > 500


def test_no_more_is_replaced_than_needed_the_longest_first() -> None:
    given = {"a": "x" * 300, "b": "y" * 200, "c": "z" * 150}
    assert texts_over(given, 650, 100) == {}
    assert list(texts_over(given, 649, 100)) == [("a",)]
    assert list(texts_over(given, 400, 100)) == [("a",), ("b",)]
    assert list(texts_over("x" * 101, 100, 50)) == [()]


def test_pictures_stay_and_printed_base64_does_not() -> None:
    data = "iVBORw0KGgo" * 100
    for picture in (
        [{"type": "image", "data": data, "mimeType": "image/png"}],
        {"type": "image", "file": {"base64": data, "type": "image/png"}},
        {"stdout": f"data:image/png;base64,{data}", "isImage": True},
    ):
        assert texts_over(picture, 400, 100) == {}
    assert texts_over({"stdout": data}, 400, 100)
    assert texts_over({"data": "words and words " * 100}, 400, 100)
