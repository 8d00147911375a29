"""Moving payloads out: a large output leaves a preview and a ref, and its bytes go to a blob first.

One policy for every tool. Text over a limit, or over a share of the budget, and large details are
replaced by what is worth seeing of them. Pictures and other binary only leave the log: in the view
they are put back, or the model could not look at them. Whatever the disk says, the turn goes on.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.flow.effects import Emit, PutBlob
from holdfast.core.flow.events import OffloadFailed, OutputOffloaded
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
from holdfast.core.log.records import OutputRef
from holdfast.core.log.refs import (
    AS_TEXT,
    DATA_URI,
    IN_BLOCK,
    IN_DETAILS,
    leaf_at,
    prefix_of,
    with_leaf,
    without_refs,
)
from holdfast.core.outputs.preview import preview
from holdfast.core.text.cut import cut, scrub
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.tokens.counting import Estimator
from holdfast.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.records import Content, Json, ToolResult
    from holdfast.core.tokens.counting import Counter

READS_OUTPUTS: Final = "output_read"
"""The tool that reads back."""
_TEXTS: Final = ("text", "input_text", "output_text")
_SMALL_BLOCK_CHARS: Final = 2_000
"""A block of another kind stays beside a preview up to this size."""
_CHARS_PER_TOKEN: Final = 1.5
"""Of a preview, in the densest text that is usual."""
_BASE64: Final = lazy_pattern(r"(?:[A-Za-z0-9+/_-]{60,}+\s?){1,}+[A-Za-z0-9+/_-]*={0,2}\s*")
_SCALARS: Final = (
    *("status", "exitCode", "exit_code", "error", "path", "sessionId", "runId", "success"),
    *("killed", "timedOut", "timed_out"),
)


class Room(msgspec.Struct, frozen=True):
    """What a result may take before it is moved out."""

    chars: int = OFFLOAD_TEXT_CHARS
    tokens: int | None = None
    """A share of the budget, where there is one."""
    counter: Counter = Estimator()

    def is_over(self, text: str) -> bool:
        if len(text) > self.chars:
            return True
        # Every token has a byte at least, so most results need not be counted.
        if self.tokens is None or len(text) * 4 <= self.tokens:
            return False
        return self.counter.count(text) > self.tokens

    @property
    def read_chars(self) -> int:
        """What may be read back at once."""
        if self.tokens is None:
            return OFFLOAD_TEXT_CHARS
        return min(OFFLOAD_TEXT_CHARS, max(2 * PREVIEW_CHARS_MIN, 2 * self.tokens))

    @property
    def preview_chars(self) -> int:
        if self.tokens is None:
            return PREVIEW_CHARS
        return min(PREVIEW_CHARS, max(PREVIEW_CHARS_MIN, int(_CHARS_PER_TOKEN * self.tokens)))


def room_for(budget_tokens: int, counter: Counter) -> Room:
    """The room in a budget."""
    return Room(tokens=max(1, int(OFFLOAD_SHARE * budget_tokens)), counter=counter)


# Out


def offloaded(result: ToolResult, room: Room) -> Flow[ToolResult]:
    """A result as it goes into the log."""
    content = yield from moved_out(result.content, result.name or "")
    ref = None
    if result.name != READS_OUTPUTS:  # or what is read back would be moved out again
        content, ref = yield from _text_out(content, room, result)
    details = yield from _details_out(_without_ref(result.details), result)
    return msgspec.structs.replace(result, content=content, details=details, output_ref=ref)


def moved_out(content: Content, name: str = "") -> Flow[Content]:
    """A message's content without its large pictures and other binary."""
    if not isinstance(content, list):
        return content
    blocks: list[Json] = []
    for block in content:
        bare = without_refs(block)
        found = (
            list(_binaries(bare, ())) if _is_long(bare) and bare.get("type") not in _TEXTS else []
        )
        blocks.append((yield from _binaries_out(bare, found, name)) if found else bare)
    return blocks


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
    why = yield from _kept(data, ref, result.name or "")
    said = shown.text if why is None else _unkept(text, room.preview_chars, why)
    kept = said if isinstance(content, str) else _replaced(content, parts, said)
    return kept, ref if why is None else None


def _details_out(details: Any, result: ToolResult) -> Flow[Any]:
    data = _encoded(details)
    if len(data) <= OFFLOAD_DETAILS_CHARS:
        return details
    ref = OutputRef(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), kind="details")
    why = yield from _kept(data, ref, result.name or "")
    small: Json = {}
    if isinstance(details, dict):
        small = {name: _scalar(details[name]) for name in _SCALARS if _is_scalar(details.get(name))}
    if why is not None:
        return {**small, "left_out": f"{len(data):,} bytes of details could not be kept: {why}"}
    return {**small, IN_DETAILS: msgspec.to_builtins(ref)}


def _binaries_out(block: Json, found: Sequence[tuple[str, ...]], name: str) -> Flow[Json]:
    refs: Json = {}
    for path in found:
        leaf = leaf_at(block, path)
        prefix, data, kind = _decoded(leaf, block, path)
        ref = OutputRef(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), kind=kind)
        why = yield from _kept(data, ref, name)
        if why is not None:
            return block  # it stays in the log, which may refuse it in its turn
        refs[".".join(path)] = msgspec.to_builtins(ref)
        block = with_leaf(block, path, prefix)
    return {**block, IN_BLOCK: refs}


def _kept(data: bytes, ref: OutputRef, name: str) -> Flow[str | None]:
    """Put a payload away; gives why that was not possible, if it was not."""
    outcome = yield PutBlob(data)
    if isinstance(outcome, StoreError):
        yield Emit(OffloadFailed(name, len(data), str(outcome)))
        return str(outcome)
    assert outcome == ref.sha256, "a blob store goes by the hash of what it stores"
    yield Emit(OutputOffloaded(name, ref.sha256, ref.bytes, ref.kind))
    return None


def _unkept(text: str, cap: int, why: str) -> str:
    def marker(omitted: int, total: int, unit: str) -> str:
        return f"\n[… {omitted:,} of {total:,} {unit} are lost: they could not be kept ({why}) …]\n"

    return cut(text, cap, marker=marker).text


def _own_text(block: Json) -> str:
    """What of a block counts as text."""
    if block.get("type") in _TEXTS:
        text = block.get("text")
        return text if isinstance(text, str) else ""
    size = len(_encoded(block))
    return _encoded(block).decode() if size > _SMALL_BLOCK_CHARS and not _has_binary(block) else ""


def _replaced(content: Sequence[Json], parts: Sequence[str], said: str) -> list[Json]:
    """The blocks with one preview in place of those whose text it is of."""
    rest = [block for block, part in zip(content, parts, strict=True) if not part]
    return [{"type": "text", "text": said}, *rest]


# Where things are in a block


def _is_long(block: Json) -> bool:
    return len(_encoded(block)) > OFFLOAD_BINARY_CHARS


def _has_binary(block: Json) -> bool:
    return IN_BLOCK in block or next(_binaries(block, ()), None) is not None


def _binaries(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The places of what is binary in a block, and long."""
    match value:
        case str() if len(value) > OFFLOAD_BINARY_CHARS and "." not in "".join(path):
            if DATA_URI.match(value) or _BASE64.fullmatch(value):
                yield path
        case dict():
            for name, item in value.items():
                yield from _binaries(item, (*path, str(name)))
        case list():
            for place, item in enumerate(value):
                yield from _binaries(item, (*path, str(place)))


def _decoded(leaf: str, block: Json, path: tuple[str, ...]) -> tuple[str, bytes, str]:
    """What stays in place of a payload, the payload, and its media type."""
    prefix = prefix_of(leaf)
    spelled = leaf[len(prefix) :]
    try:
        data: bytes = msgspec.convert(spelled, bytes)
    except msgspec.ValidationError:
        data = b""
    if not data or msgspec.to_builtins(data) != spelled:
        return prefix, scrub(spelled).encode(), AS_TEXT
    said = DATA_URI.match(leaf)
    kind = (said[1] if said else None) or _media_type(block, path) or "application/octet-stream"
    return prefix, data, kind


def _media_type(block: Json, path: tuple[str, ...]) -> str:
    """What stands beside the payload and says what it is."""
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


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return b""  # the store says better what is wrong with it
