"""Large payloads that were written into texts, taken out again.

A tool result is shown as the tool returned it, and a call as the model made it: an agent that edits
a style sheet must see the icons in it. Only a data URI above `DATA_URI_CHARS_MAX` is not text: it
costs thousands of tokens and shows nothing. A note with a ref takes its place, the text around it
stays as it is, and a picture is also shown as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.limits import DATA_URI_CHARS_MAX
from holdfast.core.models.messages import Image, Other, Text, ToolCall
from holdfast.core.tokens.images import data_uris, payload_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.models.messages import Block
    from holdfast.core.tokens.images import DataUri

_SIGN: Final = ";base64,"


def has_payload(block: Block) -> bool:
    """Return whether a large data URI is somewhere in a block's texts."""
    match block:
        case Text(text):
            return _has_payload(text)
        case ToolCall(arguments=value) | Other(raw=value):
            return _has_payload(value)
        case _:
            return False  # pictures, and thinking that goes back unchanged


def without_payloads(block: Any, ref: str, *, may_show: bool) -> Iterator[Any]:
    """Yield a block without large data URIs, and the pictures that were in its text, where they
    `may_show`. The `ref` in the notes leads back to what stood there."""
    match block:
        case Text(text) if _has_payload(text):
            pictures: list[Image] | None = [] if may_show else None
            rest = _replace_uris(text, ref, pictures)
            if rest.strip():
                yield Text(rest)
            yield from pictures or ()
        case ToolCall(arguments=arguments):
            yield msgspec.structs.replace(block, arguments=_bare(arguments, ref))
        case Other(raw=raw):
            yield msgspec.structs.replace(block, raw=_bare(raw, ref))
        case _:
            yield block  # without texts of its own


def _has_payload(value: object) -> bool:
    match value:
        case str():
            if len(value) <= DATA_URI_CHARS_MAX or _SIGN not in value:
                return False
            return any(len(uri.data) > DATA_URI_CHARS_MAX for uri in data_uris(value))
        case dict():
            return any(map(_has_payload, value.values()))
        case list():
            return any(map(_has_payload, value))
        case _:
            return False


def _bare(value: Any, ref: str) -> Any:
    match value:
        case str() if _has_payload(value):
            return _replace_uris(value, ref, None)
        case dict():
            return {name: _bare(item, ref) for name, item in value.items()}
        case list():
            return [_bare(item, ref) for item in value]
        case _:
            return value


def _replace_uris(text: str, ref: str, pictures: list[Image] | None) -> str:
    """A text with a note for each large data URI; where `pictures` can be kept, they go there."""
    kept: list[str] = []
    place = 0
    for uri in data_uris(text):
        if len(uri.data) <= DATA_URI_CHARS_MAX:
            continue
        is_kept = pictures is not None and uri.is_image
        kept.append(text[place : uri.start])
        kept.append(_note(uri, ref, is_kept=is_kept))
        if pictures is not None and is_kept:
            data = uri.data.replace("\\", "").replace("\r", "").replace("\n", "")
            pictures.append(Image(data=data, media_type=uri.media_type or "image/png"))
        place = uri.end
    return "".join((*kept, text[place:]))


def _note(uri: DataUri, ref: str, *, is_kept: bool) -> str:
    what = f"{uri.media_type or 'data'}, {payload_bytes(uri.data):,} bytes"
    return f"[{what}, {'shown below' if is_kept else 'left out'}; ref {ref}]"
