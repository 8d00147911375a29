"""Pictures and other binary data in stored blocks, in the shapes of all providers and tools.

The reader of a history cannot look at a picture. It gets a placeholder with the media type, the
decoded size, the hash and a ref; the payload itself is never handed out.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import msgspec

from holdfast.core.limits import DATA_URI_CHARS_MAX, REF_CHARS
from holdfast.core.log.records import OutputRef
from holdfast.core.log.refs import IN_BLOCK, ORIGINAL, ref_in, with_leaf
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.typed import convert_typed
from holdfast.core.tokens.images import data_uris, is_image, payload_bytes

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

_HOLDERS: Final = (
    *("", "source", "image_url", "inlineData", "inline_data", "input_audio"),
    *("file", "audio", "resource", "image"),
)
"""Fields of a block that may hold the payload; "" is the block itself."""
_PAYLOADS: Final = ("data", "url", "image_url", "file_data", "b64_json", "blob", "base64", "bytes")
_MEDIA_TYPES: Final = ("media_type", "mimeType", "mime_type", "mediaType")
_SEEN: Final = ("image", "image_url", "input_image", "audio", "input_audio", "video")
_FILED: Final = ("document", "file", "input_file", "blob")
"""Types of blocks that hold payloads. In a file, a short base64 text may be a plain word."""
_TEXTUAL: Final = lazy_pattern(r"text/|application/(?:[\w.+-]*json|xml)\b")
_SIGN: Final = ";base64,"
_BASE64: Final = lazy_pattern(r"[A-Za-z0-9+/_\-\s]++={0,2}+\s*")
_BARE_CHARS_MIN: Final = 64
"""A payload with no type beside it is recognised by its first bytes, if it is this long."""


def with_refs(block: Json) -> Json:
    """A block with its refs in the places of the offloaded payloads."""
    held = block.get(IN_BLOCK)
    if not isinstance(held, dict):
        return block
    whole: Any = {name: item for name, item in block.items() if name != IN_BLOCK}
    for path, value in held.items():
        ref = ref_in(value)
        if ref is not None and isinstance(path, str) and path != ORIGINAL:
            whole = with_leaf(whole, path.split("."), ref)
    return whole if isinstance(whole, dict) else block


def replace_payload(value: Json, ref: str) -> Json | None:
    """An object with a placeholder instead of its payload; None if it holds no payload."""
    kind = value.get("type")
    for holder in _HOLDERS:
        inside: Any = value.get(holder) if holder else value
        if isinstance(inside, str | OutputRef):
            inside = {"url": inside}
        if not isinstance(inside, dict):
            continue
        for name in _PAYLOADS:
            payload = inside.get(name)
            media_type = _media_type(inside, payload)
            if _is_payload(payload, media_type, kind, name):
                beside = value if holder else {}
                rest = {**{key: beside[key] for key in beside if key != holder}, **inside}
                gone = ("type", "detail", "format", name, *_MEDIA_TYPES)
                return {
                    **{key: rest[key] for key in rest if key not in gone},
                    **placeholder(payload, media_type, kind, ref),
                }
    return None


def placeholder(payload: str | OutputRef, media_type: str, kind: object, ref: str) -> Json:
    """The object in place of a payload."""
    if isinstance(payload, OutputRef):
        media_type = payload.kind if "/" in payload.kind else media_type
        size, sha256, ref = payload.bytes, payload.sha256, payload.sha256[:REF_CHARS]
    else:
        size, sha256 = _measure(payload.partition(_SIGN)[2] or payload)
    found: Json = {"type": _type_name(media_type, kind), "omitted": True}
    if media_type:
        found["mimeType"] = media_type
    found["bytes"] = size
    if sha256:
        found["sha256"] = sha256
    return {**found, "ref": ref}


def without_payloads(text: str, ref: str) -> str:
    """A text with a note in place of each large payload inside it."""
    if _is_bare(text):
        return _note("", text, ref)
    kept: list[str] = []
    place = 0
    for uri in data_uris(text):
        if len(uri.data) > DATA_URI_CHARS_MAX:
            kept += [text[place : uri.start], _note(uri.media_type, uri.data, ref)]
            place = uri.end
    return "".join((*kept, text[place:])) if kept else text


def _is_payload(
    value: object, media_type: str, kind: object, name: str
) -> TypeGuard[str | OutputRef]:
    if isinstance(value, OutputRef):
        return True
    if not isinstance(value, str) or not value:
        return False
    if value.startswith("data:"):
        return _SIGN in value[:256]
    if name == "url" or "://" in value[:12]:
        return False
    if _BASE64.fullmatch(value) is None:
        return False
    if media_type:
        return not _TEXTUAL.match(media_type)
    is_long = len(value) >= _BARE_CHARS_MIN
    return kind in _SEEN or (is_long and kind in _FILED) or _is_bare(value)


def _is_bare(text: str) -> bool:
    """The text is a picture or a document in base64 and nothing else."""
    if len(text) < _BARE_CHARS_MIN or not text[:8].isascii():
        return False
    begins = text.startswith("JVBERi0") or is_image(text[:_BARE_CHARS_MIN])
    return begins and _BASE64.fullmatch(text) is not None


def _media_type(inside: Json, payload: object) -> str:
    if isinstance(payload, str) and payload.startswith("data:"):
        found = re.match(r"data:([\w.+-]{1,64}/[\w.+-]{1,64})", payload[:160])
        return found[1].lower() if found else ""
    for name in _MEDIA_TYPES:
        if isinstance(inside.get(name), str):
            return str(inside[name])
    return ""


def _type_name(media_type: str, kind: object) -> str:
    major = media_type.partition("/")[0]
    if major in ("image", "audio", "video"):
        return major
    if not major and kind in ("image", "image_url", "input_image"):
        return "image"
    return "document"


def _measure(data: str) -> tuple[int, str]:
    """The decoded size and hash of base64 text; no hash if it cannot be decoded."""
    spelled = "".join(data.split()).replace("-", "+").replace("_", "/").replace("\\", "")
    padded = spelled.rstrip("=")
    padded += "=" * (-len(padded) % 4)
    try:
        decoded: bytes = convert_typed(padded, bytes)
    except (msgspec.ValidationError, UnicodeError, ValueError):
        return payload_bytes(data), ""
    return len(decoded), hashlib.sha256(decoded).hexdigest()


def _note(media_type: str, data: str, ref: str) -> str:
    size, _sha256 = _measure(data)
    return f"[{media_type or 'data'}, {size:,} bytes, left out; ref {ref}]"
