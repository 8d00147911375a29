"""Answers within a cap, measured as compact JSON; some state their own length.

What there is no room for gives way in an order that the maker sets. An answer without room for the
least of it is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from holdfast.core.limits import HISTORY_ITEMS_MAX
from holdfast.core.text.cut import cut, scrub_deep
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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


_EDGE_ITEMS: Final = 16
_EDGE_CHARS: Final = 16_384
"""Characters read beyond what may be shown: longer than any secret."""
TEXT_CHARS_MIN: Final = 4 * _EDGE_CHARS
_SIDE_ITEMS: Final = HISTORY_ITEMS_MAX // 2 + _EDGE_ITEMS
_GAP: Final = lazy_pattern("\ue000([0-9]{1,15})\ue001")
"""The marker for removed characters. No message can contain it."""
_REST: Final = "…"


class Gap(msgspec.Struct, frozen=True):
    """Stands for items of a list, or fields of an object, that no one looked at."""

    count: int


def with_gap_in_text(text: str, chars: int) -> str:
    """A text without its middle where it is longer than `chars`."""
    assert chars >= TEXT_CHARS_MIN
    text = _GAP.sub("", text) if "\ue000" in text else text
    if len(text) <= chars:
        return text
    side = chars // 2
    return f"{text[:side]}\ue000{len(text) - 2 * side}\ue001{text[-side:]}"


def with_gap_in_list(items: Sequence[Any]) -> list[Any]:
    """A list without its middle where it has more items than are ever shown."""
    missing = len(items) - 2 * _SIDE_ITEMS
    if missing <= 0:
        return list(items)
    return [*items[:_SIDE_ITEMS], Gap(missing), *items[-_SIDE_ITEMS:]]


def with_gap_in_object(fields: Json) -> Json:
    """The same for the fields of an object."""
    if len(fields) <= 2 * _SIDE_ITEMS:
        return fields
    named = list(fields.items())
    first, last = named[:_SIDE_ITEMS], named[-_SIDE_ITEMS:]
    return {**dict(first), _REST: Gap(len(named) - 2 * _SIDE_ITEMS), **dict(last)}


class Cutter:
    """Shortens to a number of characters a text, and of items a list or an object."""

    def __init__(self, ref: str, chars: int, items: int, words: Sequence[str] = ()) -> None:
        """Cut texts around the first of the `words`; the rest can be read by `ref`."""
        self._ref, self._chars, self._items, self._words = ref, chars, items, words
        self.is_cut = False

    def value(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case list():
                return self._list(value)
            case dict():
                return self._object(value)
            case _:
                return value

    def text(self, text: str) -> str:
        if len(text) <= self._chars and "\ue000" not in text:
            return text
        left, right, missing = _around_gap(text)
        if len(text) <= self._chars and not missing:
            return text
        self.is_cut = True
        whole = left + right
        total = len(whole) + missing

        def marker(omitted: int, part: int, unit: str) -> str:
            # Where only one side of a gap is shown, the other is missing as well.
            more = missing if part == len(whole) else 0
            return f"\n{self._omission_note(omitted + more, total, unit)}\n"

        if missing and len(whole) <= self._chars:
            return cut(f"{left}{marker(0, len(whole), 'characters')}{right}", self._chars).text
        for side in (left, right) if missing else (whole,):
            place = _first_match(side, self._words)
            if place is not None:
                return self._around(side, place, marker)
        return cut(whole, self._chars, marker=marker).text

    def _around(self, text: str, place: int, marker: Any) -> str:
        start = max(0, min(place - self._chars // 4, len(text) - self._chars // 2))
        before = cut(text[:start], self._chars // 4, keep="head", marker=marker).text
        room = self._chars - len(before)
        return before + cut(text[start:], room, keep="head", marker=marker).text

    def _list(self, items: list[Any]) -> list[Any]:
        first, last, missing = self._sides(items)
        kept = [self.value(item) for item in first]
        if missing:
            note = self._omission_note(missing, len(first) + len(last) + missing, "items")
            is_blocks = any(isinstance(item, dict) and "type" in item for item in items[:1])
            kept.append({"type": "text", "text": note} if is_blocks else note)
            kept += [self.value(item) for item in last]
        return kept

    def _object(self, fields: Json) -> Json:
        first, last, missing = self._sides(list(fields.items()))
        kept: Json = {}
        for name, item in first:
            self._put(kept, name, item)
        if missing:
            kept[_REST] = self._omission_note(missing, len(first) + len(last) + missing, "fields")
            for name, item in last:
                self._put(kept, name, item)
        return kept

    def _put(self, kept: Json, name: str, item: Any) -> None:
        """A field under its name; where a cut has made two names alike, both stay."""
        short = self.text(name)
        number = 1
        while short in kept:
            number += 1
            short = f"{cut(name, max(0, self._chars - 8)).text} ({number})"
        kept[short] = self.value(item)

    def _sides(self, items: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], int]:
        """The first and the last items that are shown, and how many are not."""
        gaps = (place for place, item in enumerate(items) if _gap_in(item) is not None)
        place = next(gaps, None)
        if place is None and len(items) <= self._items:
            return items, (), 0
        self.is_cut = True
        gap = None if place is None else _gap_in(items[place])
        left, right = (items, ()) if place is None else (items[:place], items[place + 1 :])
        total = len(left) + len(right) + (gap.count if gap else 0)
        first = left[: self._items - self._items // 2]
        last = [*left[len(first) :], *right][-(self._items // 2) :] if self._items > 1 else []
        return first, last, total - len(first) - len(last)

    def _omission_note(self, omitted: int, total: int, unit: str) -> str:
        return f"[… {omitted:,} of {total:,} {unit} left out; ref {self._ref} …]"


def _gap_in(item: Any) -> Gap | None:
    """The gap that an item of a list is, or a field of an object."""
    if isinstance(item, tuple) and len(item) == 2:
        item = item[1]
    return item if isinstance(item, Gap) else None


def _around_gap(text: str) -> tuple[str, str, int]:
    """Return the text on both sides of the gaps, and the length of the gaps."""
    gaps = list(_GAP.finditer(text)) if "\ue000" in text else []
    if not gaps:
        return text, "", 0
    left = text[: max(0, gaps[0].start() - _EDGE_CHARS)]
    right = text[gaps[-1].end() + _EDGE_CHARS :]
    signs = sum(len(gap[0]) for gap in gaps)
    hidden = sum(int(gap[1]) for gap in gaps)
    return left, right, len(text) - len(left) - len(right) - signs + hidden


def _first_match(text: str, words: Sequence[str]) -> int | None:
    places = (re.search(re.escape(word), text, re.IGNORECASE) for word in words)
    return min((found.start() for found in places if found), default=None)
