"""Answers within a cap, measured as compact JSON; some state their own length.

What there is no room for gives way in an order that the maker sets. An answer without room for the
least of it is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from holdfast.core.text.cut import cut, scrub_deep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.log.records import Json

S = TypeVar("S", bound=msgspec.Struct)

_ERROR_CHARS: Final = (600, 300, 150, 80, 40)


class NoRoom(Exception):
    """Not even the smallest form of an answer is within the cap."""


def encode(reply: Any) -> bytes:
    """Return an answer as compact JSON."""
    try:
        return msgspec.json.encode(reply, enc_hook=repr)
    except UnicodeEncodeError:  # a name that the caller gave may be no valid text
        return msgspec.json.encode(scrub_deep(msgspec.to_builtins(reply, enc_hook=repr)))


def text_within(reply: Any, cap: int) -> str:
    """Return an answer as compact JSON; nothing below two bytes."""
    data = encode(reply)
    return data.decode() if len(data) <= cap else "{}" if cap >= 2 else ""


def with_length(reply: S) -> S:
    """Return an answer whose field `bytes` is its own length."""
    bare = len(encode(msgspec.structs.replace(reply, bytes=0))) - 1
    total = bare
    while total != bare + len(str(total)):
        total = bare + len(str(total))
    return msgspec.structs.replace(reply, bytes=total)


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `most` that fits, where smaller ones fit if larger ones do."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return least


def fit(make: Callable[[int], S], most: int, cap: int) -> S:
    """Return the answer with the largest part that is within the cap. Raises `NoRoom`."""
    found = make(most)
    if len(encode(found)) > cap:
        found = make(largest(most, lambda count: len(encode(make(count))) <= cap))
        if len(encode(found)) > cap:
            raise NoRoom
    return found


def fit_text(reply: S, field: str, cap: int) -> S:
    """Return an answer whose text in `field` is shortened to fit; `truncated` says so."""
    text: str = getattr(reply, field)

    def make(chars: int) -> S:
        if chars >= len(text):
            return reply
        shown = cut(text, chars, keep="head").text
        return msgspec.structs.replace(reply, **{field: shown, "truncated": True})

    return fit(make, len(text), cap)


def refusal(status: str, error: str, asked: str, cap: int) -> Json:
    """A refusal as data: what was asked for, if it is named, and why it is not given."""
    told = {"sessionKey": asked} if asked else {}
    short = [cut(error, chars).text for chars in _ERROR_CHARS]
    whole = ({"status": status, "error": item, **told} for item in (error, *short))
    bare = ({"status": status, "error": item} for item in short)
    found: Iterable[Json] = (*whole, *bare, {"status": status}, {})
    return next((each for each in found if len(encode(each)) <= cap), {})
