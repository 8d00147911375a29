"""What the demo's agent tells while it works: one value each, over a pipe or at once."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class _Frame(msgspec.Struct, frozen=True, tag_field="frame"):
    """One thing that happened."""


class Asked(_Frame, frozen=True, tag="asked"):
    """The user said something."""

    turn: int
    turns: int
    text: str
    away_seconds: float = 0.0
    """How long the user was away before."""


class Calling(_Frame, frozen=True, tag="calling"):
    """A request is about to be sent."""

    call: int
    """Which answer of the recording it asks for, from 1."""
    attempt: int
    tokens: int
    window: int
    parts: dict[str, int]
    """Tokens by what they are: fixed (system prompt and tools), summary, user, agent, results."""
    whole: int
    """What the request would take with the whole history in it."""


class Answered(_Frame, frozen=True, tag="answered"):
    """A model answered."""

    purpose: str
    prompt: int
    cached: int
    output: int
    cost: float
    text: str = ""
    """What the agent said beside its calls."""


class ToolBegan(_Frame, frozen=True, tag="tool-began"):
    """A tool is running: its call is in the log, its result is not."""

    call: str
    tool: str
    what: str


class ToolEnded(_Frame, frozen=True, tag="tool-ended"):
    call: str
    record: str
    chars: int
    is_error: bool


class MovedOut(_Frame, frozen=True, tag="moved-out"):
    """An output left the log; a preview stays."""

    ref: str
    bytes: int
    kind: str


class Pruned(_Frame, frozen=True, tag="pruned"):
    record: str
    trimmed: int
    cleared: int
    before: int
    after: int


class Compacted(_Frame, frozen=True, tag="compacted"):
    record: str
    method: str
    reason: str
    messages: int
    before: int
    after: int
    summary: int
    """Tokens of what stands for the messages."""


class Noted(_Frame, frozen=True, tag="noted"):
    """Notes were saved before a cut."""

    record: str
    notes: list[str]


class Refused(_Frame, frozen=True, tag="refused"):
    """The provider refused a request."""

    kind: str
    said: str
    remedy: str
    tokens: int


class Learned(_Frame, frozen=True, tag="learned"):
    tokens: int
    before: int


class Told(_Frame, frozen=True, tag="told"):
    """The model is told of calls that were interrupted."""

    calls: list[str]


class Noticed(_Frame, frozen=True, tag="noticed"):
    """A call that succeeded and is not what it seems."""

    kind: str
    detail: str


class Stored(_Frame, frozen=True, tag="stored"):
    """The store acknowledged records."""

    ids: list[str]


class Finished(_Frame, frozen=True, tag="finished"):
    """The session is at its end."""

    request: list[str]
    """Every text of the last request."""


Frame: TypeAlias = (
    Asked
    | Calling
    | Answered
    | ToolBegan
    | ToolEnded
    | MovedOut
    | Pruned
    | Compacted
    | Noted
    | Refused
    | Learned
    | Told
    | Noticed
    | Stored
    | Finished
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Frame] = msgspec.json.Decoder(Frame)


def encoded(frame: Frame) -> bytes:
    """A frame as one line."""
    return _encoder.encode(frame) + b"\n"


def decoded(line: bytes) -> Frame:
    return _decoder.decode(line)
