"""Checks of the arguments that callers pass: a wrong type is refused before anything is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.models.messages import read_blocks
from holdfast.core.text.cut import cut
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.core.log.records import Content

_SHOWN_CHARS: Final = 80
"""Characters of a wrong argument in its error."""
_PLAIN: Final = frozenset((str, int, float, bool, type(None)))
_JSON: Final = (str, int, float, dict, list, tuple)
_PARTS_MAX: Final = 1_000_000
"""Parts of a block. One with more contains itself, or is too long for a line of the log."""
_BLOCKS: Final = 'pass a text, or blocks such as `{"type": "text", "text": "…"}`'


def check_argument(name: str, value: Any, kinds: Any, wanted: str) -> None:
    """Raise `UsageError` where an argument is of no such type. True and False are no numbers."""
    fits = False if isinstance(value, bool) and kinds is not bool else isinstance(value, kinds)
    if not fits:
        raise UsageError(f"`{name}` cannot be {shorten(value)}", hint=f"pass {wanted}")


def check_text(name: str, value: Any) -> None:
    """Raise `UsageError` where an argument is not text."""
    check_argument(name, value, str, "a text")


def check_optional_text(name: str, value: Any) -> None:
    """Raise `UsageError` where an argument is neither a text nor None."""
    check_argument(name, value, str | None, "a text, or None")


def check_number(name: str, value: Any) -> None:
    """Raise `UsageError` where an argument is no integer."""
    check_argument(name, value, int, "a whole number")


def check_flag(name: str, value: Any) -> None:
    """Raise `UsageError` where an argument is neither True nor False."""
    check_argument(name, value, bool, "True or False")


def check_callable(name: str, value: Any) -> None:
    """Raise `UsageError` where an argument cannot be called."""
    if not callable(value):
        raise UsageError(f"`{name}` cannot be {shorten(value)}", hint="pass a function")


def check_fields(name: str, value: Any) -> None:
    """Raise `UsageError` where an argument is neither a JSON object nor None."""
    wanted = "a dictionary of texts, numbers, lists and dictionaries, or None"
    check_argument(name, value, dict | None, wanted)
    strays = (key for key in value or () if not isinstance(key, str))
    stray = next(strays, None if value is None else _stray(value))
    if stray is not None:
        raise UsageError(
            f"`{name}` holds {shorten(stray)}, which is not JSON", hint=f"pass {wanted}"
        )


def check_message(content: Content) -> None:
    """Raise `UsageError` where something cannot be said by a user: an empty message, or none.

    Blocks are empty where a model would see none of them.
    """
    check_content(content)
    if not read_blocks(content):
        raise UsageError("the message is empty", hint="pass a text, or blocks with content")


def check_content(content: Content) -> None:
    """Raise `UsageError` where something is neither a text, nor blocks, nor None."""
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        raise UsageError(f"a message cannot be {shorten(content)}", hint=_BLOCKS)
    for place, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise UsageError(f"block {place} cannot be {shorten(block)}", hint=_BLOCKS)
        if (stray := _stray(block)) is not None:
            raise UsageError(
                f"block {place} holds {shorten(stray)}, which is not JSON",
                hint="encode bytes as base64 text, and other objects as text",
            )


def _stray(block: object) -> object | None:
    """The first value in a block that JSON does not have; None where there is none."""
    left, seen = [block], 0
    while left:
        value = left.pop()
        seen += 1
        if type(value) in _PLAIN:
            continue
        if seen > _PARTS_MAX or not isinstance(value, _JSON):
            return value
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                return value
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
    return None


def shorten(value: object) -> str:
    """A value as text for an error message."""
    try:
        shown = repr(value)
    except Exception:  # an argument may be anything, also an object that cannot be shown
        shown = f"a {type(value).__name__}"
    return cut(shown, _SHOWN_CHARS).text
