"""Every string of a JSON-like value, rewritten: deep, keys included, neighbours together.

What a model wrote in pieces stands in blocks next to each other, so a text that is split over
them is rewritten as one. What was not changed comes back as the same object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.core.limits import NESTING_MAX
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    match value:
        case str():
            if _is_id(name, value) or _is_payload(name, value):
                return rewriter.payload(value)
            [text] = rewriter.texts([value])
            return rewriter.rewrite_field(name, text)
        case bool():
            return value
        case int() | float():
            return rewriter.number(value)
        case dict():
            return _object(value, rewriter, depth)
        case list() | tuple():
            return _list(value, rewriter, name, depth)
        case _:
            return value


def text_field(block: object) -> str:
    """The field of a block that holds what is read as text; empty where there is none."""
    if isinstance(block, dict):
        return next((field for field in _TEXT_FIELDS if isinstance(block.get(field), str)), "")
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
    if not key.lower().endswith("value"):
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
