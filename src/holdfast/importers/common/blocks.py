"""Other dialects' pieces of a message as the blocks that our log keeps."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.log.records import Compaction
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.importers.common.base import (
    KNOWN_BLOCKS,
    is_text,
    listing,
    mapping,
    mappings,
    text_at,
    text_or_empty,
)
from holdfast.importers.common.parsing import NOT_JSON, parse

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.log.records import Content, Json
    from holdfast.importers.common.base import Draft

_DATA_URI: Final = lazy_pattern(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,(.*)", re.DOTALL)
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "summary_text"})


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def thinking(value: str, signature: str = "") -> Json:
    block: Json = {"type": "thinking", "thinking": value}
    return {**block, "signature": signature} if signature else block


def call(call_id: str, name: str, arguments: object, signature: str = "") -> Json:
    block: Json = {
        "type": "tool_use",
        "id": call_id,
        "name": name,
        "input": arguments_of(arguments),
    }
    return {**block, "thought_signature": signature} if signature else block


def calls(
    draft: Draft, value: object, *, ids: str = "id", arguments: str = "arguments"
) -> list[Json]:
    """Return the calls in a list of objects that have `name` and these fields."""
    return [
        call(draft.call_id(item.get(ids)), text_at(item, "name"), item.get(arguments))
        for item in mappings(value)
    ]


def image(data: str, media_type: str = "") -> Json:
    source = {"type": "base64", "media_type": media_type or "image/png", "data": data}
    return {"type": "image", "source": source}


def image_at(address: str) -> Json:
    """A picture at an address, which may hold the picture itself."""
    found = _DATA_URI.fullmatch(address)
    if found:
        return image(found[2], found[1] or "")
    return {"type": "image", "source": {"type": "url", "url": address}}


def data_in(address: str) -> tuple[str, bytes] | None:
    """Return the media type and the bytes that an address holds itself; None for others."""
    found = _DATA_URI.fullmatch(address)
    if found is None:
        return None
    try:
        return found[1] or "", base64.b64decode(found[2], validate=True)
    except ValueError:
        return None


def arguments_of(value: object) -> Json:
    """A call's arguments as the object that we keep; what is none is wrapped, not lost."""
    if isinstance(value, str):
        read = parse(value) if value.strip() else {}
        value = value if read is NOT_JSON else read
    if isinstance(value, dict):
        return value
    return {} if value is None else {"value": value}


def as_text(value: object) -> str:
    """Anything as text: texts as they are, the rest as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(value)


def content_of(value: object) -> Content:
    """A message's content in any dialect: a text, or blocks in ours. Unknown kinds stay raw."""
    if value is None or isinstance(value, str):
        return value
    items: list[Any] = value if isinstance(value, list) else [value]
    blocks = [_block(item) for item in items]
    return [block for block in blocks if block]


def blocks_of(value: object) -> list[Json]:
    """Like `content_of`, and a text is one block."""
    content = content_of(value)
    if isinstance(content, str):
        return [text(content)] if content.strip() else []
    return content or []


def is_known(block: Json) -> bool:
    """Return whether a block is of a kind that some provider's API defines."""
    return block.get("type") is None or str(block.get("type")) in KNOWN_BLOCKS


def pass_over(draft: Draft, body: Json, read: Collection[str], *, beside: str = "messages") -> None:
    """Count what stands beside the messages and is not read. Settings of one value are none."""
    for name, value in body.items():
        if name not in read and isinstance(value, list | dict) and value:
            draft.skip(f"field `{name[:60]}`", f"beside the {beside}; it is not read")


def compaction(
    draft: Draft, summary: str, *, record_id: str = "", ts: float = 0.0, **more: Any
) -> None:
    """Add the summary that a model wrote in place of what was before."""
    draft.add(Compaction(summary=summary, method="model", id=record_id, ts=ts, **more))


def skip_role(draft: Draft, role: object) -> None:
    """Count a message whose role the format does not know."""
    draft.skip(f"message with the role {str(role)[:40]!r}", "no such role in this format")


def rename_counts(usage: Json, names: dict[str, str]) -> Json | None:
    """Return the counts of a usage under other names; None where there are none."""
    return {new: usage[old] for old, new in names.items() if old in usage} or None


def messages_in(draft: Draft, value: object) -> list[Json]:
    """The messages of a list; what stands between them and is none is counted."""
    for item in listing(value):
        if not isinstance(item, dict):
            draft.skip("item that is not a message", f"found {type(item).__name__}")
    return mappings(value)


def parts_of(value: object) -> list[Json]:
    """The parts of a message as their format spells them; a bare text is a part of text."""
    items: list[Any] = value if isinstance(value, list) else [value]
    found = (item if isinstance(item, dict) else text(as_text(item)) for item in items)
    return [part for part in found if part.get("type") != "text" or part.get("text") != ""]


def with_ids(draft: Draft, content: Content) -> Content:
    """The content with an id for every call; the ids of results that have none follow them."""
    if not isinstance(content, list):
        return content
    return [
        {**block, "id": draft.call_id(block.get("id"))}
        if block.get("type") == "tool_use"
        else block
        for block in content
    ]


def _block(item: object) -> Json:
    if not isinstance(item, dict):
        return text(as_text(item)) if item not in (None, "") else {}
    kind = item.get("type")
    if is_text(kind) and kind in _TEXTS and isinstance(item.get("text"), str):
        return text(item["text"]) if kind != "text" else item
    if kind is None and isinstance(item.get("text"), str):
        return text(item["text"])
    if kind in ("image", "image_url", "input_image"):
        return _image(item)
    if kind in ("toolCall", "tool_call", "function_call"):
        return _foreign_call(item)
    return item


def _image(item: Json) -> Json:
    if isinstance(item.get("source"), dict):
        return item
    if isinstance(item.get("data"), str):
        media_type = text_at(item, "mimeType", "media_type")
        return image(item["data"], media_type)
    address = item.get("image_url") or item.get("url") or item.get("image")
    address = mapping(address).get("url") if isinstance(address, dict) else address
    return image_at(address) if isinstance(address, str) and address else item


def _foreign_call(item: Json) -> Json:
    function = mapping(item.get("function"))
    arguments = next(
        (
            place[name]
            for place in (item, function)
            for name in ("arguments", "input", "args")
            if name in place
        ),
        None,
    )
    return call(
        text_at(item, "call_id", "id"),
        text_or_empty(item.get("name") or function.get("name")),
        arguments,
        text_at(item, "thoughtSignature", "thought_signature"),
    )


def text_of(message: Json) -> str:
    """Return the texts of a message."""
    said = blocks_of(message.get("content"))
    return "\n".join(text_at(block, "text") for block in said)
