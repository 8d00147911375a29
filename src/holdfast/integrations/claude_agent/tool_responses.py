"""The texts in a tool's response: found, chosen, and replaced without a change of shape.

The SDK keeps the original output of a built-in tool where a replacement has another shape. So a
text becomes another text in the same place, and all else stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.log.refs import DATA_URI
from holdfast.core.outputs.offload import is_binary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Path = tuple[str | int, ...]
"""The keys and places that lead to a text in a response; empty where the response is the text."""

_PAYLOADS: Final = frozenset({"data", "base64", "blob", "bytes"})
"""Fields that hold a picture or a file in the tools of Claude Code and in MCP's blocks."""


def texts_over(response: Any, limit: int, cap: int) -> dict[Path, str]:
    """Return the texts to replace by `cap` characters each, so that `limit` holds for their sum.

    The longest come first, and no more of them than needed. Texts up to `cap` stay, and so do
    pictures and other binary data: then the sum may be over the limit.
    """
    texts = dict(_texts(response, ()))
    total = sum(map(len, texts.values()))
    chosen: dict[Path, str] = {}
    for path, text in sorted(texts.items(), key=lambda item: len(item[1]), reverse=True):
        if total <= limit or len(text) <= cap:
            break
        chosen[path] = text
        total -= len(text) - cap
    return chosen


def with_texts(response: Any, texts: Mapping[Path, str]) -> Any:
    """Return a copy of a response with other texts in some places."""
    return _with_texts(response, (), texts)


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    match value:
        case str() if not _is_binary(value, path):
            yield path, value
        case dict():
            for name, item in value.items():
                yield from _texts(item, (*path, name))
        case list():
            for place, item in enumerate(value):
                yield from _texts(item, (*path, place))
        case _:
            pass  # numbers and the like say nothing long


def _is_binary(text: str, path: Path) -> bool:
    """Base64 elsewhere is text that a tool printed."""
    is_payload = bool(path) and path[-1] in _PAYLOADS
    return is_binary(text) if is_payload else DATA_URI.match(text) is not None


def _with_texts(value: Any, path: Path, texts: Mapping[Path, str]) -> Any:
    match value:
        case str():
            return texts.get(path, value)
        case dict():
            return {name: _with_texts(item, (*path, name), texts) for name, item in value.items()}
        case list():
            return [_with_texts(item, (*path, place), texts) for place, item in enumerate(value)]
        case _:
            return value  # only texts are replaced
