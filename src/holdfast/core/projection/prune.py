"""Shorter forms of what a record contributes: trimmed, cleared, or cut to a size.

Every form says how much is missing and which record has it. The log is not touched; which form a
record has in the view is decided elsewhere and recorded, so that it stays the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

import msgspec

from holdfast.core.extract.fair_share import fair_share
from holdfast.core.extract.names import mentions
from holdfast.core.limits import (
    CLEAR_KEEP_ERROR_CHARS,
    CLEAR_NAMES_SHARE,
    CLEAR_NAMES_TOKENS,
    TRIM_ABOVE_CHARS,
    TRIM_KEEP_CHARS,
)
from holdfast.core.log.records import User
from holdfast.core.models.messages import (
    AddedTools,
    Block,
    Image,
    Other,
    Piece,
    Text,
    Thinking,
    ToolAnswer,
    ToolCall,
)
from holdfast.core.refusals import is_media, name_file
from holdfast.core.text.cut import cut, scrub_deep
from holdfast.core.tokens.counting import Estimator

if TYPE_CHECKING:
    from holdfast.core.log.records import Record
    from holdfast.core.projection.units import MessagePart
    from holdfast.core.text.cut import Marker

_COUNTER: Final = Estimator()
_IMAGE_CHARS: Final = 1_000
"""The size that an image has beside text where it is known only by its address."""
_ARGUMENTS_CHARS_MIN: Final = 200
"""Arguments of this length are not replaced by a note: it would not be shorter."""
_NAMES_CHARS: Final = 20_000
"""Characters of a result that are searched for names."""


def can_trim(part: MessagePart) -> bool:
    """Return whether trimming would take something away."""
    return any(
        type(block) is ToolAnswer and _length(block) > TRIM_ABOVE_CHARS for block in part.blocks
    )


def can_clear(part: MessagePart) -> bool:
    """Return whether clearing would take something away."""
    return part.source == "tool_result" and any(
        type(block) is ToolAnswer and _length(block) > 2 * len(_clear_note(part.record, block))
        for block in part.blocks
    )


def trim(part: MessagePart, keep: int | None = None) -> MessagePart:
    """The beginning and the end of a tool result, or of anything else with `keep` characters."""
    cap = TRIM_KEEP_CHARS if keep is None else keep
    if part.source != "tool_result" or not any(type(b) is ToolAnswer for b in part.blocks):
        return shorten(part, cap)
    blocks = tuple(
        _trim_answer(block, cap, part.record) if type(block) is ToolAnswer else block
        for block in part.blocks
    )
    return msgspec.structs.replace(part, blocks=blocks)


def clear(part: MessagePart) -> MessagePart:
    """A tool result without its content; of one that failed, the end stays. Or words without
    pictures."""
    return msgspec.structs.replace(
        part, blocks=tuple(_clear_block(block, part) for block in part.blocks)
    )


def _clear_block(block: Block, part: MessagePart) -> Block:
    match block:
        case ToolAnswer():
            return msgspec.structs.replace(block, content=(Text(_clear_text(part, block)),))
        case Image():
            return Text(_image_note(block, part.record))
        case Other() if is_media(block):
            return Text(f"[{name_file(block)} left out; record {part.record} has it]")
        case _:
            return block  # only results, pictures and documents are cleared


def shorten(part: MessagePart, keep: int) -> MessagePart:
    """A part with at most `keep` characters of text. Short blocks stay whole, and the long ones get
    the same room: a program's pages beside a person's line must not cost the line.

    A user's message keeps the instructions that are in it beside its beginning and its end.
    Thinking and images give way to a note, or to nothing. Notes count as text, so that a message of
    a thousand images becomes as short as any other.
    """
    cap = fair_share([_length(block) for block in part.blocks], keep)
    blocks = (_shorten_block(block, cap, part.record) for block in part.blocks)
    kept = tuple(block for block in blocks if block is not None)
    kept = _join_texts(kept, keep, part.record)
    return msgspec.structs.replace(part, blocks=kept or (Text("…"),))


def as_shown(record: Record, shown: MessagePart) -> Record:
    """A user's record with the texts it is shown with, where nothing but texts is left of it.

    A cut stores the messages of its turn once more, and a line of the log is bounded.
    """
    texts = [block.text for block in shown.blocks if type(block) is Text]
    if not isinstance(record, User) or len(texts) < len(shown.blocks):
        return record
    content = [{"type": "text", "text": text} for text in texts]
    return msgspec.structs.replace(record, content=content)


def chars_of(part: MessagePart) -> int:
    """Return the size of a part in characters, with what gives way to a note at its own size."""
    return sum(map(_bulk, part.blocks))


def _bulk(block: Block) -> int:
    match block:
        case Image(data=data):
            return max(len(data), _IMAGE_CHARS)
        case Thinking(text=text, signature=signature, redacted=redacted, item=item):
            return len(text) + len(signature) + len(redacted) + len(msgspec.json.encode(item))
        case Other(raw=raw):
            return len(msgspec.json.encode(scrub_deep(raw)))
        case _:  # texts and calls are as long as they are shown
            return _length(block)


def _join_texts(blocks: tuple[Block, ...], keep: int, record: str) -> tuple[Block, ...]:
    """The blocks with all their texts in one, where they are longer than `keep` together."""
    texts = [block.text for block in blocks if type(block) is Text]
    if sum(map(len, texts)) <= keep:
        return blocks
    text = cut("\n".join(texts), keep, marker=name_record(record)).text
    first = (Text(text),) if text.strip() else ()
    return (*first, *(block for block in blocks if type(block) is not Text))


def _shorten_block(block: Block, cap: int, record: str) -> Block | None:
    match block:
        case Text(text):
            shorter = cut(text, cap, marker=name_record(record)).text
            return Text(shorter) if shorter.strip() else None
        case ToolCall(arguments=arguments):
            shorter_call = _shorten_arguments(arguments, cap, record)
            return msgspec.structs.replace(block, arguments=shorter_call)
        case ToolAnswer():
            return _trim_answer(block, min(cap, _length(block)), record)
        case Image():
            return Text(_image_note(block, record))
        case Thinking():
            return None
        case AddedTools():
            return block  # it holds no text
        case Other(kind=kind):
            return (
                block
                if block.is_opaque
                else Text(f"[{kind[:80]} left out: record {record} has it]")
            )
        case _:
            assert_never(block)


def _shorten_arguments(arguments: Any, cap: int, record: str) -> Any:
    """Arguments with shorter texts, or a note where that is not enough: long lists, many names."""
    chars = len(msgspec.json.encode(scrub_deep(arguments)))
    shorter = _shorten_value(arguments, min(1.0, cap / chars), record)
    most = max(_ARGUMENTS_CHARS_MIN, 2 * cap)
    if cap >= chars or len(msgspec.json.encode(scrub_deep(shorter))) <= most:
        return shorter
    return {"left_out": f"[{chars:,} characters of arguments: record {record} has them]"}


def _shorten_value(value: Any, share: float, record: str) -> Any:
    match value:
        case str() if len(value) > 80:
            return cut(value, int(len(value) * share), marker=name_record(record)).text
        case dict():
            return {key: _shorten_value(item, share, record) for key, item in value.items()}
        case list():
            return [_shorten_value(item, share, record) for item in value]
        case _:
            return value


def _trim_answer(answer: ToolAnswer, cap: int, record: str) -> ToolAnswer:
    pictures = [_image_note(piece, record) for piece in answer.content if type(piece) is Image]
    text = cut(
        "\n".join([_text_in(answer), *pictures]).strip("\n"), cap, marker=name_record(record)
    )
    return msgspec.structs.replace(answer, content=(Text(text.text if text.text.strip() else "…"),))


def _clear_text(part: MessagePart, answer: ToolAnswer) -> str:
    text = _text_in(answer)
    note = "\n".join(filter(None, (_clear_note(part.record, answer), _names_in(text))))
    if part.is_failed:
        ending = cut(text.strip(), CLEAR_KEEP_ERROR_CHARS, keep="tail", marker=lambda *_: "… ")
        return f"{note}\n{ending.text}" if ending.text else note
    return note


def _names_in(text: str) -> str:
    """Return the names that a later step may need: they cost little and spare a second look."""
    # By the estimate, whatever else is installed: the bytes must not depend on that.
    text = text[:_NAMES_CHARS]
    cap = min(CLEAR_NAMES_TOKENS, int(CLEAR_NAMES_SHARE * _COUNTER.count(text)))
    names = mentions(text, cap, _COUNTER)
    return f"It named: {names}" if names else ""


def _clear_note(record: str, answer: ToolAnswer) -> str:
    pictures = sum(type(piece) is Image for piece in answer.content)
    what = f"{len(_text_in(answer)):,} characters" + (f", {pictures} images" if pictures else "")
    return f"[Cleared: {what}. Record {record} has all of it.]"


def _image_note(image: Image, record: str) -> str:
    size = f", {len(image.data) * 3 // 4:,} bytes" if image.data else ""
    return f"[Image left out: {image.media_type or 'picture'}{size}. Record {record} has it.]"


def name_record(record: str) -> Marker:
    """Return the marker of a cut that names the record with the whole text."""
    return lambda omitted, total, unit: (
        f"\n[… {omitted:,} of {total:,} {unit} left out; record {record} has all of it …]\n"
    )


def _text_in(answer: ToolAnswer) -> str:
    return "\n".join(_piece_text(piece) for piece in answer.content if type(piece) is not Image)


def _piece_text(piece: Piece) -> str:
    match piece:
        case Text(text):
            return text
        case Other(raw=raw):
            return msgspec.json.encode(raw).decode()
        case Image():
            return ""
        case _:
            assert_never(piece)


def _length(block: Block) -> int:
    match block:
        case Text(text):
            return len(text)
        case ToolAnswer(content=content):
            return sum(
                len(piece.data) if isinstance(piece, Image) else len(_piece_text(piece))
                for piece in content
            )
        case ToolCall(arguments=arguments):
            return len(msgspec.json.encode(arguments))
        case _:
            return 0  # nothing in it can be cut to a length
