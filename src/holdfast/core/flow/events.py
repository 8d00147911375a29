"""Everything a session tells those who listen, as values.

`…Started` events can be denied where that makes sense: a listener that returns `Deny` stops the
tool, the call or the compaction before it happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from holdfast.core.failures.classify import Failure
    from holdfast.core.flow.effects import Purpose
    from holdfast.core.models.messages import ToolCall
    from holdfast.core.models.replies import Reply
    from holdfast.core.models.usage import Usage

Reason = Literal["asked", "full", "cold", "overflow"]
"""Why a view was cut: somebody asked; the budget; a cold cache; the provider refused."""


class TurnStarted(msgspec.Struct, frozen=True):
    """The user's words are in the log."""

    record: str


class TurnFinished(msgspec.Struct, frozen=True):
    """The turn is answered."""

    reply: Reply
    steps: int


class TurnFailed(msgspec.Struct, frozen=True):
    """The turn ended without an answer. The log has everything up to here."""

    reason: str


class TurnCancelled(msgspec.Struct, frozen=True):
    """Somebody called the turn off; `interrupted` are tool calls that had been started."""

    interrupted: tuple[str, ...] = ()


class Interrupted(msgspec.Struct, frozen=True):
    """Calls of an earlier run that never got a result were answered as interrupted, once."""

    calls: tuple[str, ...]


class CallStarted(msgspec.Struct, frozen=True):
    """A request is about to be sent. Can be denied."""

    purpose: Purpose
    tokens: int
    budget: int
    window: int
    attempt: int = 1
    """1 for the first; more after a failure."""


class CallFinished(msgspec.Struct, frozen=True):
    purpose: Purpose
    tokens: int
    """What we expected."""
    usage: Usage | None
    """What the provider reported, if it can be relied on."""
    cost: float | None
    """In dollars, by list price."""
    stop: str
    seconds: float = 0.0


class CallFailed(msgspec.Struct, frozen=True):
    """A call came to nothing; what is done about it."""

    purpose: Purpose
    failure: Failure
    next: Literal["wait", "lower-output", "shrink", "drop-media", "drop-thinking", "give-up"]
    detail: str = ""
    seconds: float = 0.0
    """How long is waited."""


class ToolStarted(msgspec.Struct, frozen=True):
    """The call is in the log and about to run. Can be denied."""

    call: ToolCall


class ToolFinished(msgspec.Struct, frozen=True):
    """The result is in the log."""

    call: ToolCall
    record: str
    is_error: bool
    chars: int
    seconds: float


class OutputOffloaded(msgspec.Struct, frozen=True):
    """A payload was moved out of a record that is about to be stored; its blob is durable."""

    tool: str
    """What made it; empty for what a user showed."""
    sha256: str
    bytes: int
    kind: str


class OffloadFailed(msgspec.Struct, frozen=True):
    """A payload could not be kept. Of a text, a bounded part is stored and the rest is lost."""

    tool: str
    bytes: int
    reason: str


class CheckpointSaved(msgspec.Struct, frozen=True):
    """What the session is doing is in the log as a state."""

    record: str
    trigger: str


class SessionReset(msgspec.Struct, frozen=True):
    """A fresh session goes on where another was left; it knows what that one was doing."""

    old: str
    new: str
    reason: str


class MemoryRecalled(msgspec.Struct, frozen=True):
    """What memory has on what the user said stands beside it, once, as data."""

    record: str
    chars: int


class PruneStarted(msgspec.Struct, frozen=True):
    """Old results are about to be shown shorter. Denied, that is done only if nothing fits
    without it."""

    trimmed: int
    cleared: int
    tokens_before: int
    tokens_after: int
    reason: str


class Pruned(msgspec.Struct, frozen=True):
    """Old results are shown shorter from now on."""

    record: str
    trimmed: int
    cleared: int
    tokens_before: int
    tokens_after: int
    reason: str


class CompactionStarted(msgspec.Struct, frozen=True):
    """A cut is about to be made. Denied, it is made only if nothing fits without it."""

    reason: Reason
    detail: str
    tokens: int
    covers: tuple[str, str] | None
    messages: int


class CompactionFinished(msgspec.Struct, frozen=True):
    """What became of it. Only `applied` moved the boundary."""

    outcome: Literal["applied", "skipped", "preview"]
    reason: Reason
    detail: str = ""
    """Why it was skipped, or why the summary is made by code."""
    method: Literal["model", "extract"] | None = None
    record: str = ""
    covers: tuple[str, str] | None = None
    tokens_before: int = 0
    tokens_after: int = 0
    summary: str = ""
    """What stands for the messages that were cut."""
    calls: int = 0
    """Calls to a model it took."""
    cost: float | None = None


class FlushStarted(msgspec.Struct, frozen=True):
    """Notes are about to be saved before a cut. Can be denied."""

    covers: tuple[str, str] | None


class FlushFinished(msgspec.Struct, frozen=True):
    """Notes were saved before a cut, or could not be."""

    outcome: Literal["saved", "nothing", "skipped", "failed"]
    notes: tuple[str, ...] = ()
    record: str = ""
    detail: str = ""


class WindowLearned(msgspec.Struct, frozen=True):
    """The provider's own words say how large the window is."""

    tokens: int
    before: int
    source: str


class TroubleNoticed(msgspec.Struct, frozen=True):
    """A call that succeeded, and is not what it seems."""

    kind: Literal["over-window", "cut-silently", "zero-usage", "empty-reply", "window-stop"]
    detail: str


Event: TypeAlias = (
    TurnStarted
    | TurnFinished
    | TurnFailed
    | TurnCancelled
    | Interrupted
    | CallStarted
    | CallFinished
    | CallFailed
    | ToolStarted
    | ToolFinished
    | OutputOffloaded
    | OffloadFailed
    | CheckpointSaved
    | SessionReset
    | MemoryRecalled
    | PruneStarted
    | Pruned
    | CompactionStarted
    | CompactionFinished
    | FlushStarted
    | FlushFinished
    | WindowLearned
    | TroubleNoticed
)
