"""Cutting text. Every bounded text in Holdfast returns through `cut`.

The promise, for every text and every cap from 0 up: the result is within the cap, its marker
included; no code point is split; what was left out is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    Marker = Callable[[int, int, str], str]
    """(units left out, units in all, name of the unit) → the text that says so."""

Keep = Literal["head", "tail", "both"]
Unit = Literal["characters", "bytes"]

_SURROGATE_PAIR = lazy_pattern("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATE = lazy_pattern("[\ud800-\udfff]")


class Cut(msgspec.Struct, frozen=True):
    """A text that fits, and what it cost."""

    text: str
    """The text that fits, with its marker."""
    total: int
    """The size of the whole text, in `unit`."""
    omitted: int
    """The size of what was left out, in `unit`."""
    unit: Unit
    """The unit of both sizes."""

    @property
    def was_cut(self) -> bool:
        return self.omitted > 0


def default_marker(omitted: int, total: int, unit: str) -> str:
    """Say how much is missing; callers with a ref pass a marker that names it."""
    return f"[… {omitted:,} of {total:,} {unit} cut …]"


def ellipsis(_omitted: int, _total: int, _unit: str) -> str:
    """The marker for titles and other one-line texts, where words would take all the room."""
    return "…"


def count_of(number: int, noun: str) -> str:
    """A number of things, as in `1 line` and `2,000 lines`."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def scrub(text: str) -> str:
    """Make text encodable: join split surrogate pairs, replace lone surrogates by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()  # ten times as fast as to look for what is hardly ever there
    except UnicodeEncodeError:
        pass
    else:
        return text
    joined = _SURROGATE_PAIR.sub(_join_pair, text)
    return _SURROGATE.sub("\ufffd", joined)


def has_lone_surrogates(content: object) -> bool:
    """Return whether a text or a JSON-like value holds half of a surrogate pair alone."""
    if isinstance(content, str):
        if content.isascii():
            return False
    elif content is None:
        return False
    try:
        msgspec.json.encode(content)
    except UnicodeEncodeError:
        return True
    except (TypeError, ValueError, RecursionError, OverflowError):
        return False
    return False


def scrub_deep(value: object) -> object:
    """`scrub` every string, keys included, in a JSON-like value."""
    match value:
        case str():
            return scrub(value)
        case dict():
            return {_scrub_item(key): _scrub_item(item) for key, item in value.items()}
        case list() | tuple():
            return [_scrub_item(item) for item in value]
        case _:
            return value


def _scrub_item(value: object) -> object:
    # Most of JSON is short ASCII: asking here spares the way through all cases.
    return value if type(value) is str and value.isascii() else scrub_deep(value)


def cut(
    text: str,
    cap: int,
    *,
    keep: Keep = "both",
    unit: Unit = "characters",
    marker: Marker = default_marker,
) -> Cut:
    """Shorten `text` to at most `cap` units, marker included, keeping its head, tail or both."""
    assert cap >= 0, f"a cap cannot be negative: {cap}"
    text = scrub(text)
    total = size(text, unit)
    if total <= cap:
        return Cut(text, total, 0, unit)
    fitted = _fit(text, total, cap, keep, unit, marker)
    assert size(fitted.text, unit) <= cap
    return fitted


def size(text: str, unit: Unit) -> int:
    return len(text) if unit == "characters" or text.isascii() else len(text.encode())


def head(text: str, count: int, unit: Unit) -> str:
    """The longest prefix of at most `count` units that splits no code point."""
    if unit == "characters":
        return text[:count]
    return text[:count].encode()[:count].decode(errors="ignore")


def tail(text: str, count: int, unit: Unit) -> str:
    """The longest suffix of at most `count` units that splits no code point."""
    if count == 0:
        return ""
    if unit == "characters":
        return text[-count:]
    return text[-count:].encode()[-count:].decode(errors="ignore")


def _fit(text: str, total: int, cap: int, keep: Keep, unit: Unit, marker: Marker) -> Cut:
    # The count inside the marker depends on what is kept, and what is kept on the marker's
    # length. So reserve the longest it is likely to be, and more where it turns out longer.
    reserved = max(size(scrub(marker(count, total, unit)), unit) for count in (0, total))
    while reserved < cap:
        left, right = _sides(text, cap - reserved, keep, unit)
        if not (left or keep == "tail") or not (right or keep == "head"):
            break  # words would take the room of the text itself
        omitted = total - size(left, unit) - size(right, unit)
        words = scrub(marker(omitted, total, unit))
        if size(words, unit) <= reserved:
            return Cut(f"{left}{words}{right}", total, omitted, unit)
        reserved = size(words, unit)
    return _fit_without_words(text, total, cap, keep, unit)


def _fit_without_words(text: str, total: int, cap: int, keep: Keep, unit: Unit) -> Cut:
    """Caps too small for the marker's words: an ellipsis where it fits, else bare text."""
    sign = "…" if size("…", unit) <= cap else ""
    left, right = _sides(text, cap - size(sign, unit), keep, unit)
    omitted = total - size(left, unit) - size(right, unit)
    return Cut(f"{left}{sign}{right}", total, omitted, unit)


def _sides(text: str, room: int, keep: Keep, unit: Unit) -> tuple[str, str]:
    if keep == "head":
        return head(text, room, unit), ""
    if keep == "tail":
        return "", tail(text, room, unit)
    # Where half the room is too little for a character, the newest has all of it.
    right = tail(text, room - room // 2, unit) or tail(text, room, unit)
    return head(text, min(room // 2, room - size(right, unit)), unit), right


def _join_pair(pair: re.Match[str]) -> str:
    return pair.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le")
