"""Room shared out among texts: the short stay whole, the long are cut to the same size."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from holdfast.core.text import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.text import Keep
    from holdfast.core.tokens import Counter

_T = TypeVar("_T")


def fair_share(sizes: Sequence[int], room: int) -> int:
    """The largest cap on each for which all of them together fit."""
    left = len(sizes)
    for size in sorted(sizes):
        if size * left > room:
            return max(0, room // left)
        room -= size
        left -= 1
    return max(sizes, default=0)


def first_and_newest(items: list[_T], count: int) -> list[_T]:
    """The first often says what all of it is about; it goes after the second."""
    if count >= len(items):
        return items
    return [*items[:1], *items[len(items) - count + 1 :]] if count > 1 else items[-1:][:count]


def as_it_is(text: str) -> str:
    return text


def within_tokens(
    text: str,
    tokens: int,
    counter: Counter,
    shown: Callable[[str], str] = as_it_is,
    *,
    keep: Keep = "both",
    chars_max: int | None = None,
) -> str:
    """As much of a text as fits into `tokens` in the way it is shown; empty where nothing does."""
    chars = len(text) if chars_max is None else min(len(text), chars_max)
    whole = cut(text, chars, keep=keep).text
    if whole and counter.count(shown(whole)) <= tokens:
        return whole
    while chars > 0 and tokens > 0:
        chars = min(chars * 9 // 10, int(chars * tokens / counter.count(shown(text[:chars]))))
        shorter = cut(text, max(chars, 0), keep=keep).text
        if counter.count(shown(shorter)) <= tokens:
            return shorter
    return ""
