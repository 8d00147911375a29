"""Every string of a JSON-like value, rewritten: deep, keys included, neighbours together.

Places in texts take something else instead. The depth of a value is measured level by level.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from holdfast.core.limits import NESTING_MAX
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Span(NamedTuple):
    """A place in a text, with its name if known, and the kind of thing that it looks like."""

    start: int
    end: int
    name: str = ""
    kind: str = ""


class Replacement(NamedTuple):
    """A place, and the words that are put there."""

    start: int
    end: int
    words: str


def places(text: str, form: str, name: str) -> Iterator[Span]:
    """Yield the places of a form in a text; two that overlap are one place."""
    place = text.find(form)
    while place >= 0:
        end = place + len(form)
        again = text.find(form, place + 1)
        while 0 <= again < end:  # `abab` twice in `ababab`
            end = again + len(form)
            again = text.find(form, again + 1)
        yield Span(place, end, name)
        place = again


def replace(
    pieces: Sequence[str], found: Sequence[Replacement], *, keeps_lines: bool = True
) -> list[str]:
    """The pieces of a text with words in place of what was found, by its place in all of them.

    The words stand where a place begins. `keeps_lines` leaves every line break in its piece, so
    that what follows has the line number it had. The replacements are in order and do not overlap.
    """
    made: list[str] = []
    base = 0
    waiting = list(reversed(found))
    for piece in pieces:
        kept: list[str] = []
        place, stop = base, base + len(piece)
        while waiting and waiting[-1].start < stop:
            start, end, words = waiting[-1]
            kept.append(piece[place - base : max(start, place) - base])
            if start >= base:
                kept.append(words)
            place = min(end, stop)
            if keeps_lines:
                kept.append("\n" * piece.count("\n", max(start, base) - base, place - base))
            if end > stop:
                break
            waiting.pop()
        made.append("".join((*kept, piece[place - base :])) if kept else piece)
        base = stop
    return made


_PLAIN: Final = frozenset((str, int, float, bool, type(None)))
_are_plain: Final = _PLAIN.issuperset
_LONG_BYTES: Final = 16 * 1024  # to count brackets in more takes longer than to look at the value
_CONTAINERS: Final = (dict, list, tuple, msgspec.Struct)


def is_too_deep(value: object, levels: int = NESTING_MAX) -> bool:
    """True where lists and objects stand in each other on more than `levels` levels.

    Looks at every part once. The value must be a tree, as parsed JSON is.
    """
    level: list[Any] = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(levels):
        if not level:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer if type(outer) is list else _inside(outer))
            if type(inner) not in _PLAIN and isinstance(inner, _CONTAINERS)
        ]
    return bool(level)


def is_shallow(value: Any) -> bool:
    """True for a text, a number, or a list or an object of these, three levels at most.

    These are the blocks of a message, with the arguments of a tool. It is asked at every append and
    every read, so it calls no function in Python.
    """
    kind = type(value)
    if not value or kind in _PLAIN:
        return True
    for item in value if kind is list else value.values() if kind is dict else (value,):
        if type(item) is not dict:
            if type(item) not in _PLAIN:
                return False
        elif not _are_plain(map(type, item.values())):
            for inner in item.values():
                if not inner or type(inner) in _PLAIN:
                    continue
                if not (type(inner) is dict and _are_plain(map(type, inner.values()))):
                    return False
    return True


def may_be_deep(data: bytes, levels: int, lines: int = 1) -> bool:
    """False for most JSON, or lines of it, without decoding it: a level is a bracket."""
    brackets_max = levels + lines - 1
    return len(data) > _LONG_BYTES * lines or data.count(b"[") + data.count(b"{") > brackets_max


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return msgspec.structs.astuple(value) if isinstance(value, msgspec.Struct) else value


SIGNATURES: Final = frozenset(
    ("signature", "thinkingSignature", "thoughtSignature", "thought_signature")
)
_OPAQUE: Final = SIGNATURES | {"encrypted_content", "data"}
_PAYLOAD: Final = lazy_pattern(
    r"(?:data:[\w.+-]+/[\w.+-]+(?:;[\w=.+-]+){0,4},)?[\w+/\r\n-]{64,}+={0,2}+\s*"
)
_ID_FIELDS: Final = frozenset(
    ("id", "parent", "to", "target", "record", "first_kept", "covers", "sha256")
)
_ID: Final = lazy_pattern(r"[0-9a-f]{18}|[0-9a-f]{64}")
"""Record ids and hashes: by chance they hold any short number, and a log hangs together by them."""
_TEXT_FIELDS: Final = ("text", "thinking")


class Rewriter(Protocol):
    """Rewrites strings, pieces of strings and keys."""

    def texts(self, texts: Sequence[str]) -> list[str]:
        """Texts that follow each other, rewritten."""

    def rewrite_field(self, name: str, text: str) -> str:
        """The same text, unless the name of its field says that it is to be another."""

    def payload(self, text: str) -> str:
        """Base64, or what a provider signed: not meant to be read."""

    def number(self, number: float) -> float | str: ...

    def too_deep(self, value: Any) -> Any:
        """Return the stand-in for a value that is nested too deeply to be read."""


def rewritten(value: Any, rewriter: Rewriter, *, name: str = "", depth: int = 0) -> Any:
    """A value with its strings rewritten; `name` is the field that it is in."""
    if depth > NESTING_MAX:
        return rewriter.too_deep(value)
    # By exact type first: nearly all values are plain JSON, and each string comes through here.
    kind = type(value)
    if kind is str or isinstance(value, str):
        if _is_id(name, value) or _is_payload(name, value):
            return rewriter.payload(value)
        [text] = rewriter.texts([value])
        return rewriter.rewrite_field(name, text)
    if kind is bool or value is None:
        return value
    if kind is dict or isinstance(value, dict):
        return _object(value, rewriter, depth)
    if kind is list or isinstance(value, list | tuple):
        return _list(value, rewriter, name, depth)
    return rewriter.number(value) if isinstance(value, int | float) else value


def text_field(block: object) -> str:
    """The field of a block that holds what is read as text; empty where there is none."""
    if isinstance(block, dict):
        for field in _TEXT_FIELDS:
            if isinstance(block.get(field), str):
                return field
    return ""


def _is_payload(name: str, text: str) -> bool:
    is_place = name in _OPAQUE or text.startswith("data:")
    return is_place and len(text) >= 64 and _PAYLOAD.fullmatch(text) is not None


def _is_id(name: str, text: str) -> bool:
    return name in _ID_FIELDS and _ID.fullmatch(text) is not None


def _object(
    value: dict[Any, Any], rewriter: Rewriter, depth: int, *, texts: dict[str, str] | None = None
) -> dict[Any, Any]:
    """An object; `texts` are fields that were rewritten already, with their neighbours."""
    made: dict[Any, Any] = {}
    numbers: dict[str, int] = {}
    is_same = True
    for key, item in value.items():
        new_key = rewriter.texts([key])[0] if isinstance(key, str) else key
        if texts and key in texts:
            new_item: Any = texts[key]
        else:
            name = key if isinstance(key, str) else ""
            new_item = rewritten(item, rewriter, name=name, depth=depth + 1)
            if isinstance(new_item, str) and (paired := _name_in_pair(name, value)):
                new_item = rewriter.rewrite_field(paired, new_item)
        if new_key is not key:
            new_key = _unused_key(new_key, value, made, numbers)
        is_same = is_same and new_key is key and new_item is item
        made[new_key] = new_item
    return value if is_same else made


def _name_in_pair(key: str, fields: dict[Any, Any]) -> str:
    """Return the name that an object gives to its value, as `{"name": …, "value": …}` does."""
    if key[-5:].lower() != "value":
        return ""
    stem = key.lower().removesuffix("value")
    for other, name in fields.items():
        if isinstance(name, str) and isinstance(other, str):
            ending = other.lower().removeprefix(stem) if other.lower().startswith(stem) else ""
            if ending in ("name", "key", "variable"):
                return name
    return ""


def _unused_key(
    key: str, before: dict[Any, Any], made: dict[Any, Any], numbers: dict[str, int]
) -> str:
    """A key that no other field has: two that became alike must not become one.

    `numbers` has the next number to try for each key, so that many alike are numbered in one pass.
    """
    free = key
    while free in made or free in before:
        number = numbers.get(key, 2)
        numbers[key] = number + 1
        free = f"{key} ({number})"
    return free


def _list(items: Sequence[Any], rewriter: Rewriter, name: str, depth: int) -> Any:
    made = list(items)
    texts = {} if name in _ID_FIELDS else _neighbours(items, rewriter)
    for place, item in enumerate(items):
        if place in texts and isinstance(item, str):
            made[place] = rewriter.rewrite_field(_name_at(items, place) or name, texts[place])
        elif place in texts:
            known = {text_field(item): texts[place]}
            made[place] = _object(item, rewriter, depth + 1, texts=known)
        else:
            made[place] = rewritten(item, rewriter, name=name, depth=depth + 1)
    is_same = all(new is old for new, old in zip(made, items, strict=True))
    return items if is_same else made


def _name_at(items: Sequence[Any], place: int) -> str:
    """On a command line, a flag is the name of what follows it."""
    before = items[place - 1] if place else ""
    return before if isinstance(before, str) and before.startswith("-") else ""


def _neighbours(items: Sequence[Any], rewriter: Rewriter) -> dict[int, str]:
    """The strings and text blocks of a list by their place, each run of them rewritten as one."""
    found: dict[int, str] = {}
    run: dict[int, str] = {}
    for place, item in enumerate((*items, None)):
        field = text_field(item)
        text = item if isinstance(item, str) else item[field] if field else None
        if text is not None:
            run[place] = text
        elif run:
            found.update(zip(run, rewriter.texts(list(run.values())), strict=True))
            run = {}
    return found


def name_pattern(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """Return what matches names like any of these, in upper or lower case; None for none."""
    if not patterns:
        return None
    parts = (re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".") for pattern in patterns)
    return re.compile("|".join(parts), re.IGNORECASE | re.DOTALL)


def is_like(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a name is like any of these patterns."""
    pattern = name_pattern(patterns)
    return pattern is not None and pattern.fullmatch(name) is not None
