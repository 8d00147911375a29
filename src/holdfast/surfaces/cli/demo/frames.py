"""Frames: the events of the demo's agent, sent over a pipe or passed directly."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.core.text.typed import decoder_of


class _Frame(msgspec.Struct, frozen=True, tag=True, tag_field="frame"):
    """An event of the replay."""


class TurnFrame(_Frame, frozen=True):
    """The user sent a message."""

    turn: int
    turns: int
    text: str
    away_seconds: float = 0.0
    """The pause before the message."""


class RequestFrame(_Frame, frozen=True):
    """The agent is about to send a request."""

    call: int
    """The number of the recorded reply that it asks for, from 1."""
    attempt: int
    tokens: int
    window: int
    parts: dict[str, int]
    """Tokens by part: fixed (system prompt and tools), summary, user, agent, results."""
    whole: int
    """Tokens of the request if it contained the whole history."""


class ReplyFrame(_Frame, frozen=True):
    """A model answered."""

    purpose: str
    prompt: int
    cached: int
    output: int
    cost: float
    text: str = ""
    """The text of the reply, beside its calls."""


class ToolStartFrame(_Frame, frozen=True):
    """A tool started: its call is in the log, its result is not yet."""

    call: str
    tool: str
    what: str


class ToolEndFrame(_Frame, frozen=True):
    call: str
    record: str
    chars: int
    is_error: bool


class OffloadFrame(_Frame, frozen=True):
    """An output was offloaded; the log has a preview."""

    ref: str
    bytes: int
    kind: str


class PruneFrame(_Frame, frozen=True):
    record: str
    trimmed: int
    cleared: int
    before: int
    after: int


class CompactionFrame(_Frame, frozen=True):
    record: str
    method: str
    reason: str
    messages: int
    before: int
    after: int
    summary: int
    """Tokens of the summary that replaces the messages."""


class NotesFrame(_Frame, frozen=True):
    """Notes were saved before a compaction."""

    record: str
    notes: list[str]


class RefusalFrame(_Frame, frozen=True):
    """The provider refused a request."""

    kind: str
    said: str
    remedy: str
    tokens: int


class WindowFrame(_Frame, frozen=True):
    tokens: int
    before: int


class InterruptFrame(_Frame, frozen=True):
    """The model was told which calls had been interrupted."""

    calls: list[str]


class TroubleFrame(_Frame, frozen=True):
    """A call succeeded but looks wrong."""

    kind: str
    detail: str


class StoredFrame(_Frame, frozen=True):
    """The store acknowledged records."""

    ids: list[str]


class EndFrame(_Frame, frozen=True):
    """The recording has ended."""

    request: list[str]
    """The texts of the last request."""


Frame: TypeAlias = (
    TurnFrame
    | RequestFrame
    | ReplyFrame
    | ToolStartFrame
    | ToolEndFrame
    | OffloadFrame
    | PruneFrame
    | CompactionFrame
    | NotesFrame
    | RefusalFrame
    | WindowFrame
    | InterruptFrame
    | TroubleFrame
    | StoredFrame
    | EndFrame
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Frame] = decoder_of(Frame)


def encode(frame: Frame) -> bytes:
    """Encode a frame as one line."""
    return _encoder.encode(frame) + b"\n"


def decode(line: bytes) -> Frame:
    return _decoder.decode(line)
