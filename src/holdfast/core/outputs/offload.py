"""Offloading: a large output goes to a blob first, and a preview and a ref stay in the log.

One policy for every tool. Text over a limit, or over a share of the budget, and large details are
replaced by a preview. Pictures and other binary data only leave the log: the view puts them back,
so that the model can look at them. If the blob cannot be stored, the turn continues without it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.flow.effects import Emit, PutBlob, ScalePicture
from holdfast.core.flow.events import (
    OffloadFailed,
    OutputOffloaded,
    PictureScaled,
    ScalingFailed,
)
from holdfast.core.limits import (
    DETAIL_CHARS_MAX,
    OFFLOAD_BINARY_CHARS,
    OFFLOAD_DETAILS_CHARS,
    OFFLOAD_SHARE,
    OFFLOAD_TEXT_CHARS,
    PREVIEW_CHARS,
    PREVIEW_CHARS_MIN,
    REF_CHARS,
)
from holdfast.core.log.records import OutputRef, text_of
from holdfast.core.log.refs import (
    AS_TEXT,
    DATA_URI,
    IN_BLOCK,
    IN_DETAILS,
    ORIGINAL,
    leaf_at,
    prefix_of,
    with_leaf,
    without_refs,
)
from holdfast.core.media import decode, is_whole, kind_of
from holdfast.core.models.messages import Image, read_blocks
from holdfast.core.outputs.preview import preview
from holdfast.core.refusals import is_above_limits
from holdfast.core.text.cut import cut, scrub
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.typed import convert_typed
from holdfast.core.tokens.counting import Estimator
from holdfast.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.flow.effects import Flow, ScaledPicture
    from holdfast.core.log.records import Content, Json, ToolResult
    from holdfast.core.models.dialects import DialectVariant
    from holdfast.core.tokens.counting import Counter

CONTEXT_TOOL: Final = "context"
"""The tool that reads what was moved out or cut."""
FORMER_TOOL: Final = "output_read"
"""Its name in logs of version 0.1."""
_READ_HEADER: Final = lazy_pattern(r"\[[^\n]{1,80}, ref \S{1,300}: ")
"""The beginning of an answer that shows a part of something."""
_TEXTS: Final = ("text", "input_text", "output_text")
_SMALL_BLOCK_CHARS: Final = 2_000
"""A block that is not text stays beside a preview up to this size."""
_CHARS_PER_TOKEN: Final = 1.5
"""Of a preview, in the densest usual text."""
_BASE64: Final = lazy_pattern(r"(?:[A-Za-z0-9+/_-]{60,}+\s?){1,}+[A-Za-z0-9+/_-]*={0,2}\s*")
_SCALARS: Final = (
    *("status", "exitCode", "exit_code", "error", "path", "sessionId", "runId", "success"),
    *("killed", "timedOut", "timed_out"),
)


class Room(msgspec.Struct, frozen=True):
    """The size up to which a result stays in the log."""

    chars: int = OFFLOAD_TEXT_CHARS
    """Characters up to which a result stays."""
    tokens: int | None = None
    """A share of the budget, where there is one."""
    counter: Counter = Estimator()
    """The counter for `tokens`."""

    def is_over(self, text: str) -> bool:
        if len(text) > self.chars:
            return True
        # Every token has at least one byte, so most results need not be counted.
        if self.tokens is None or len(text) * 4 <= self.tokens:
            return False
        return self.counter.count(text) > self.tokens

    @property
    def read_chars(self) -> int:
        """The most characters that one read returns."""
        if self.tokens is None:
            return OFFLOAD_TEXT_CHARS
        return min(OFFLOAD_TEXT_CHARS, max(2 * PREVIEW_CHARS_MIN, 2 * self.tokens))

    @property
    def preview_chars(self) -> int:
        if self.tokens is None:
            return PREVIEW_CHARS
        return min(PREVIEW_CHARS, max(PREVIEW_CHARS_MIN, int(_CHARS_PER_TOKEN * self.tokens)))


def room_for(budget_tokens: int, counter: Counter) -> Room:
    """The room that a budget leaves for one result."""
    return Room(tokens=max(1, int(OFFLOAD_SHARE * budget_tokens)), counter=counter)


# Moving out


def offload_result(
    result: ToolResult, room: Room, pictures: DialectVariant | None = None
) -> Flow[ToolResult]:
    """A result as it goes into the log, with pictures that the API of `pictures` takes."""
    content = yield from offload_content(result.content, result.name or "", pictures)
    ref = None
    if not is_read_back(
        result.name or "", result.content
    ):  # else the text it read would be moved out again
        content, ref = yield from _text_out(content, room, result)
    details = yield from _details_out(_without_ref(result.details), result)
    return msgspec.structs.replace(result, content=content, details=details, output_ref=ref)


def is_read_back(name: str, content: Content) -> bool:
    """Return whether a result shows what stands elsewhere in its session.

    Others have tools called `context`, too: an answer of ours says which part of what it shows.
    """
    if name != CONTEXT_TOOL:
        return name == FORMER_TOOL
    return _READ_HEADER.match(text_of(content)) is not None


def offload_content(
    content: Content, name: str = "", pictures: DialectVariant | None = None
) -> Flow[Content]:
    """A message's content without its large pictures and other binary data. Pictures above the
    limits of the API of `pictures` are scaled down: later, they would be part of a prefix."""
    if not isinstance(content, list):
        return content
    blocks: list[Json] = []
    for block in content:
        bare, original = without_refs(block), None
        if pictures is not None:
            bare, original = yield from _scale_block(bare, pictures, name)
        found = (
            list(_binaries(bare, ())) if _is_long(bare) and bare.get("type") not in _TEXTS else []
        )
        kept = (yield from _binaries_out(bare, found, name)) if found else bare
        if original is not None:
            kept = {**kept, IN_BLOCK: {**kept.get(IN_BLOCK, {}), ORIGINAL: original}}
        blocks.append(kept)
    return blocks


def _scale_block(block: Json, dialect: DialectVariant, name: str) -> Flow[tuple[Json, Json | None]]:
    """A block whose picture is within the limits of an API, and the ref of what it came from."""
    picture = next(iter(read_blocks([block])), None)
    if not isinstance(picture, Image) or not is_above_limits(picture, dialect):
        return block, None
    data = decode(picture.data)
    kind = kind_of(picture.data)
    if data is None or not kind or not is_whole(data, kind):
        return block, None  # no size of it would be taken
    edge = dialect.many_image_pixels or dialect.image_pixels
    made: ScaledPicture | str = yield ScalePicture(
        data, edge, dialect.image_bytes, dialect.image_types
    )
    if isinstance(made, str):
        yield Emit(ScalingFailed(name, len(data), made))
        return block, None
    ref = OutputRef(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), kind=kind)
    if (yield from _put_blob(data, ref, name)) is not None:
        return block, None
    scaled = msgspec.to_builtins(made.data)
    source = {"type": "base64", "media_type": made.media_type, "data": scaled}
    event = PictureScaled(name, ref.sha256, len(data), len(made.data), made.width, made.height)
    yield Emit(event)
    return {"type": "image", "source": source}, msgspec.to_builtins(ref)


def _text_out(
    content: Content, room: Room, result: ToolResult
) -> Flow[tuple[Content, OutputRef | None]]:
    if content is None:
        return content, None
    parts = [content] if isinstance(content, str) else [_own_text(block) for block in content]
    text = scrub("\n".join(part for part in parts if part))
    if not room.is_over(text):
        return content, None
    data = text.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    shown = preview(text, room.preview_chars, ref=sha256[:REF_CHARS])
    if room.tokens is not None:
        cap = room.preview_chars
        while room.counter.count(shown.text) > room.tokens and cap > PREVIEW_CHARS_MIN:
            cap = max(PREVIEW_CHARS_MIN, cap // 2)
            shown = preview(text, cap, ref=sha256[:REF_CHARS])
    ref = OutputRef(
        sha256=sha256, bytes=len(data), kind=shown.kind, lines=shown.lines, chars=len(text)
    )
    failure = yield from _put_blob(data, ref, result.name or "")
    said = shown.text if failure is None else _cut_lost(text, room.preview_chars, failure)
    kept = said if isinstance(content, str) else _with_preview(content, parts, said)
    return kept, ref if failure is None else None


def _details_out(details: Any, result: ToolResult) -> Flow[Any]:
    data = _encode(details)
    if len(data) <= OFFLOAD_DETAILS_CHARS:
        return details
    ref = OutputRef(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), kind="details")
    failure = yield from _put_blob(data, ref, result.name or "")
    small: Json = {}
    if isinstance(details, dict):
        small = {name: _scalar(details[name]) for name in _SCALARS if _is_scalar(details.get(name))}
    if failure is not None:
        lost = f"{len(data):,} bytes of details could not be stored: {failure}"
        return {**small, "left_out": lost}
    return {**small, IN_DETAILS: msgspec.to_builtins(ref)}


def _binaries_out(block: Json, found: Sequence[tuple[str, ...]], name: str) -> Flow[Json]:
    refs: Json = {}
    for path in found:
        leaf = leaf_at(block, path)
        prefix, data, kind = _decode(leaf, block, path)
        ref = OutputRef(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), kind=kind)
        failure = yield from _put_blob(data, ref, name)
        if failure is not None:
            return block  # it stays in the log, which may refuse it as too large
        refs[".".join(path)] = msgspec.to_builtins(ref)
        block = with_leaf(block, path, prefix)
    return {**block, IN_BLOCK: refs}


def _put_blob(data: bytes, ref: OutputRef, name: str) -> Flow[str | None]:
    """Store a payload; returns the reason if that failed."""
    outcome = yield PutBlob(data)
    if isinstance(outcome, StoreError):
        yield Emit(OffloadFailed(name, len(data), str(outcome)))
        return str(outcome)
    assert outcome == ref.sha256, "a blob store names payloads by their hash"
    yield Emit(OutputOffloaded(name, ref.sha256, ref.bytes, ref.kind))
    return None


def _cut_lost(text: str, cap: int, failure: str) -> str:
    def marker(omitted: int, total: int, unit: str) -> str:
        lost = f"{omitted:,} of {total:,} {unit}"
        return f"\n[… {lost} are lost: they could not be stored ({failure}) …]\n"

    return cut(text, cap, marker=marker).text


def _own_text(block: Json) -> str:
    """The text of a block that goes into the preview."""
    if block.get("type") in _TEXTS:
        text = block.get("text")
        return text if isinstance(text, str) else ""
    size = len(_encode(block))
    return _encode(block).decode() if size > _SMALL_BLOCK_CHARS and not _has_binary(block) else ""


def _with_preview(content: Sequence[Json], parts: Sequence[str], said: str) -> list[Json]:
    """The blocks with one preview in place of those that it shows."""
    rest = [block for block, part in zip(content, parts, strict=True) if not part]
    return [{"type": "text", "text": said}, *rest]


# Places in a block


def _is_long(block: Json) -> bool:
    return len(_encode(block)) > OFFLOAD_BINARY_CHARS


def _has_binary(block: Json) -> bool:
    return IN_BLOCK in block or next(_binaries(block, ()), None) is not None


def is_binary(text: str) -> bool:
    """Return whether a text is a data URI or long base64."""
    return DATA_URI.match(text) is not None or _BASE64.fullmatch(text) is not None


def _binaries(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of long binary data in a block."""
    match value:
        case str() if len(value) > OFFLOAD_BINARY_CHARS and "." not in "".join(path):
            if is_binary(value):
                yield path
        case dict():
            for name, item in value.items():
                yield from _binaries(item, (*path, str(name)))
        case list():
            for place, item in enumerate(value):
                yield from _binaries(item, (*path, str(place)))


def _decode(leaf: str, block: Json, path: tuple[str, ...]) -> tuple[str, bytes, str]:
    """The prefix that stays in place of a payload, the payload, and its media type."""
    prefix = prefix_of(leaf)
    spelled = leaf[len(prefix) :]
    try:
        data: bytes = convert_typed(spelled, bytes)
    except msgspec.ValidationError:
        data = b""
    if not data or msgspec.to_builtins(data) != spelled:
        return prefix, scrub(spelled).encode(), AS_TEXT
    said = DATA_URI.match(leaf)
    kind = (said[1] if said else None) or _media_type(block, path) or "application/octet-stream"
    return prefix, data, kind


def _media_type(block: Json, path: tuple[str, ...]) -> str:
    """The media type beside the payload."""
    beside = leaf_at(block, path[:-1])
    for name in ("media_type", "mimeType", "mime_type"):
        if isinstance(beside, dict) and isinstance(beside.get(name), str):
            return str(beside[name])[:80]
    return "image/png" if block.get("type") == "image" else ""


def _without_ref(details: Any) -> Any:
    if not isinstance(details, dict) or IN_DETAILS not in details:
        return details
    return {name: item for name, item in details.items() if name != IN_DETAILS}


def _is_scalar(value: Any) -> bool:
    return value is not None and isinstance(value, str | int | float | bool)


def _scalar(value: Any) -> Any:
    return cut(value, DETAIL_CHARS_MAX).text if isinstance(value, str) else value


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return b""  # the store reports what is wrong with it
