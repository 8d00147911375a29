"""Payloads that were written into texts, taken out again.

A data URI in a text is sent as text: a picture that way costs a hundred times what it should and
shows the model nothing. Here it becomes a picture, or a note of what it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.models.messages import Image, Other, Text, ToolCall
from holdfast.core.tokens.images import data_uris, payload_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.models.messages import Block
    from holdfast.core.tokens.images import DataUri

_SIGN: Final = ";base64,"


def has_payload(block: Block) -> bool:
    """Return whether a data URI is somewhere in a block's texts."""
    match block:
        case Text(text):
            return _SIGN in text
        case ToolCall(arguments=value) | Other(raw=value):
            return _has_payload(value)
        case _:
            return False  # pictures, and thinking that goes back unchanged


def without_payloads(block: Any) -> Iterator[Any]:
    """A block without data URIs, and the pictures that were in it."""
    match block:
        case Text(text) if _SIGN in text:
            pictures: list[Image] = []
            rest = _replace_uris(text, pictures)
            if rest.strip():
                yield Text(rest)
            yield from pictures
        case ToolCall(arguments=arguments):
            yield msgspec.structs.replace(block, arguments=_bare(arguments))
        case Other(raw=raw):
            yield msgspec.structs.replace(block, raw=_bare(raw))
        case _:
            yield block  # without texts of its own


def _has_payload(value: object) -> bool:
    match value:
        case str():
            return _SIGN in value
        case dict():
            return any(map(_has_payload, value.values()))
        case list():
            return any(map(_has_payload, value))
        case _:
            return False


def _bare(value: Any) -> Any:
    match value:
        case str() if _SIGN in value:
            return _replace_uris(value, None)
        case dict():
            return {name: _bare(item) for name, item in value.items()}
        case list():
            return [_bare(item) for item in value]
        case _:
            return value


def _replace_uris(text: str, pictures: list[Image] | None) -> str:
    """A text with a note for each data URI; where `pictures` can be kept, they go there."""
    kept: list[str] = []
    place = 0
    for uri in data_uris(text):
        if not uri.data:
            continue
        kept.append(text[place : uri.start])
        kept.append(_note(uri, is_kept=pictures is not None and uri.is_image))
        if pictures is not None and uri.is_image:
            data = uri.data.replace("\\", "").replace("\r", "").replace("\n", "")
            pictures.append(Image(data=data, media_type=uri.media_type or "image/png"))
        place = uri.end
    return "".join((*kept, text[place:]))


def _note(uri: DataUri, *, is_kept: bool) -> str:
    if is_kept:
        return "[picture, see below]"
    return f"[{uri.media_type or 'data'}, {payload_bytes(uri.data):,} bytes, left out]"
