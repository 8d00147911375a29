"""The messages of a session as entries: each block with its speaker, without thinking.

Both texts that retell a session, the input of a summariser and the reseed of a backend, are made
from these entries.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, assert_never

import msgspec

from holdfast.core.models.messages import Image, Other, Text, Thinking, ToolAnswer, ToolCall
from holdfast.core.projection.steps import Thread
from holdfast.core.text.cut import cut, ellipsis

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.messages import Piece
    from holdfast.core.projection.units import ContextUnit

Speaker = Literal["user", "assistant", "note"]
Said: TypeAlias = Text | Image | Other | ToolCall | ToolAnswer

_NAME_CHARS: Final = 80
"""Longer than any real tool name or media type; a hostile one is cut."""


class MessageEntry(msgspec.Struct, frozen=True):
    """A block of a message, with the record it is from."""

    record: str
    speaker: Speaker
    block: Said
    tool: str = ""
    """The tool that was called, or whose result it is."""


def read_units(records: Iterable[Record]) -> Sequence[ContextUnit]:
    """The units of a session."""
    thread = Thread()
    for record in records:
        thread.feed(record)
    return thread.units()


def read_entries(unit: ContextUnit) -> Iterator[tuple[MessageEntry, ...]]:
    """The entries of each part of a unit; parts with nothing but thinking are left out."""
    for part in unit.parts:
        said: Speaker = "user" if part.source == "user" else "note"
        speaker = "assistant" if part.role == "assistant" else said
        entries = []
        for block in part.blocks:
            match block:
                case Thinking():
                    continue
                case ToolCall() | ToolAnswer():
                    tool = block.name
                case Text() | Image() | Other():
                    tool = ""
                case _:
                    assert_never(block)
            entries.append(MessageEntry(part.record, speaker, block, tool))
        if entries:
            yield tuple(entries)


def piece_text(piece: Piece) -> str:
    """A piece as text; a note in place of one that is no text."""
    match piece:
        case Text(text):
            return text
        case Image():
            kind = " ".join((piece.media_type or "a picture").split())
            return f"[Image, not shown: {cut(kind, _NAME_CHARS, marker=ellipsis).text}]"
        case Other(kind=kind):
            return piece.words or f"[Not shown: a block of kind {plain_name(kind) or 'unknown'}]"
        case _:
            assert_never(piece)


def plain_name(name: str) -> str:
    """The name of a tool or a block as one bounded word, so that it cannot pass for a label."""
    return cut(re.sub(r"[^\w./-]+", "_", name), _NAME_CHARS, marker=ellipsis).text
