"""What a provider refused, and what takes its place in the view.

Repairs do not depend on the wording of a refusal, but on what is new: the media, and then the
words, that no request to this model had which it answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.prefix import origin_of
from holdfast.core.log.records import Assistant, LeftOut
from holdfast.core.log.refusals import is_refusal
from holdfast.core.models.messages import Image, Other, Thinking, ToolAnswer, ToolCall
from holdfast.core.tokens.images import payload_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Block
    from holdfast.core.projection.units import MessagePart

_MEDIA: Final = frozenset(
    (
        *("image", "image_url", "input_image", "document", "file", "input_file", "file_data"),
        *("audio", "input_audio", "video", "video_url", "media", "inline_data", "container_upload"),
    )
)
"""Kinds of blocks that are a file and no words."""


def is_media(block: Block) -> bool:
    """Return whether a block is a picture, a document or another file."""
    return isinstance(block, Image) or (isinstance(block, Other) and block.kind in _MEDIA)


def has_media(part: MessagePart) -> bool:
    """Return whether a part has a file, also one in a tool's result."""
    return any(
        is_media(block)
        or (isinstance(block, ToolAnswer) and any(is_media(piece) for piece in block.content))
        for block in part.blocks
    )


def has_reasoning(parts: Iterable[MessagePart]) -> bool:
    """Return whether parts have thinking, or calls with a signature of it."""
    return any(
        isinstance(block, Thinking) or (isinstance(block, ToolCall) and bool(block.signature))
        for part in parts
        for block in part.blocks
    )


def refused_note(block: Block, record: str) -> str:
    """Return the text in the place of a file that the provider refused."""
    if isinstance(block, Image):
        size = f", {payload_bytes(block.data):,} bytes" if block.data else ""
        kind = f"{block.media_type or 'picture'}{size}"
    else:
        kind = block.kind if isinstance(block, Other) else "file"
    return f"[{kind} left out: the provider refused it; record {record} has it]"


def new_records(records: Sequence[Record], target: Target) -> set[str]:
    """Return the records that were in no request which this model answered."""
    return _after(records, (target.provider, target.model))


def unanswered_records(records: Sequence[Record]) -> set[str]:
    """Return the records that were in no request which any model answered."""
    return _after(records, None)


def _after(records: Sequence[Record], maker: tuple[str, str] | None) -> set[str]:
    found: set[str] = set()
    seen = ""
    for record in reversed(records):
        if record.id == seen:
            break
        if isinstance(record, Assistant) and not seen and not is_refusal(record):
            is_it = maker is None or (record.provider or "", record.model or "") == maker
            if is_it:
                sent = origin_of(record)
                seen = sent.seen if sent is not None else ""
                if not seen:
                    break
                continue
        found.add(record.id)
    return found


def media_of(parts: Iterable[MessagePart], among: set[str] | None = None) -> list[LeftOut]:
    """Return the media of parts, of these records alone or of all, as they are left out."""
    records = dict.fromkeys(part.record for part in parts if part.record and has_media(part))
    return [LeftOut(record=name) for name in records if among is None or name in among]


def words_of(parts: Iterable[MessagePart], among: set[str]) -> list[LeftOut]:
    """Return everything that these records say, as it is left out; the model's own replies stay."""
    found = {
        part.record: LeftOut(record=part.record, what="all", note=_note(part))
        for part in parts
        if part.record in among and part.source not in ("assistant", "injected")
    }
    return list(found.values())


def turn_of(records: Sequence[Record], shown: set[str], why: str) -> list[LeftOut]:
    """Return the newest turn as it leaves the view: a note in its place, and nothing else of it."""
    turn: list[str] = []
    for record in reversed(records):
        if isinstance(record, Assistant) and not _has_calls(record):
            break
        if record.id in shown:
            turn.append(record.id)
    turn.reverse()
    if not turn:
        return []
    note = (
        f"[A turn of {len(turn)} {'record' if len(turn) == 1 else 'records'} was left out: the "
        f"provider refused it under its policy ({why}). It is in the log from record {turn[0]} on.]"
    )
    return [
        LeftOut(record=name, what="all", note="" if place else note)
        for place, name in enumerate(turn)
    ]


def _has_calls(record: Assistant) -> bool:
    return isinstance(record.content, list) and any(
        block.get("type") == "tool_use" for block in record.content
    )


def _note(part: MessagePart) -> str:
    what = "result" if part.source == "tool_result" else "message"
    return f"[This {what} was left out: the provider refused it; record {part.record} has it.]"
