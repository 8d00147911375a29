"""The events that a session emits to its listeners.

A listener that returns `Deny` for a `…Started` event stops the tool, call or compaction that the
event announces, where its docstring says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from holdfast.core.failures.classify import Failure
    from holdfast.core.models.messages import ToolCall
    from holdfast.core.models.replies import Reply
    from holdfast.core.models.usage import Usage

Purpose = Literal["turn", "summary", "notes"]
"""The reason for a model call: answer the user, summarise, or take notes."""
Reason = Literal["asked", "full", "cold", "overflow"]
"""The reason for a compaction: the caller asked for it, the budget is used up, the prompt cache is
cold, or the provider refused the request."""


class TurnWaiting(msgspec.Struct, frozen=True):
    """Another turn of the session is running, and this one waits for it. Nothing is stored yet."""

    holder: str
    """The process and the turn that it waits for."""
    since: float
    """When that turn began, in seconds since 1970."""
    seconds: float
    """The longest time to wait."""


class TurnStarted(msgspec.Struct, frozen=True):
    """The user's message is in the log."""

    record: str


class TurnFinished(msgspec.Struct, frozen=True):
    """The turn has its final reply, which is in the log."""

    reply: Reply
    steps: int


class TurnFailed(msgspec.Struct, frozen=True):
    """The turn ended without a reply. The log has everything up to this point."""

    reason: str


class TurnCancelled(msgspec.Struct, frozen=True):
    """The turn was cancelled; `interrupted` are the tool calls that were running."""

    interrupted: tuple[str, ...] = ()


class Interrupted(msgspec.Struct, frozen=True):
    """Tool calls of an earlier run that never got a result were answered as interrupted."""

    calls: tuple[str, ...]


class CallStarted(msgspec.Struct, frozen=True):
    """A request is about to be sent. Can be denied."""

    purpose: Purpose
    tokens: int
    budget: int
    window: int
    attempt: int = 1
    """1 for the first attempt; higher after a failure."""


class CallFinished(msgspec.Struct, frozen=True):
    """A model call returned a reply."""

    purpose: Purpose
    tokens: int
    """Our estimate of the input."""
    usage: Usage | None
    """The usage that the provider reported; None where it is missing or not plausible."""
    cost: float | None
    """In dollars, by list price."""
    stop: str
    seconds: float = 0.0


class CallFailed(msgspec.Struct, frozen=True):
    """A model call failed; `next` is the step that follows."""

    purpose: Purpose
    failure: Failure
    next: Literal["wait", "lower-output", "shrink", "drop-media", "drop-thinking", "give-up"]
    detail: str = ""
    seconds: float = 0.0
    """Length of the wait, if `next` is `wait`."""


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
    """A large payload was moved out of a record before it is stored; its blob is durable."""

    tool: str
    """The tool that returned it; empty for content of a user message."""
    sha256: str
    bytes: int
    kind: str


class OffloadFailed(msgspec.Struct, frozen=True):
    """A payload could not be stored. Of a text, a bounded part is kept and the rest is lost."""

    tool: str
    bytes: int
    reason: str


class SecretFound(msgspec.Struct, frozen=True):
    """A stored record holds what looks like a credential that nobody registered. Emitted once per
    kind and session object; it has no part of the value beyond what all of the kind begin with."""

    record: str
    type: str
    """The type of the record."""
    kind: str
    """The shape: the fixed beginning of such tokens (`ghp_`), or words such as `private key`."""
    is_stored: bool
    """True where the value is in the log, False where a handle is in its place."""


class CheckpointSaved(msgspec.Struct, frozen=True):
    """A checkpoint of the session's state is in the log."""

    record: str
    trigger: str


class SessionReset(msgspec.Struct, frozen=True):
    """A fresh session continues another one, starting from its checkpoint."""

    old: str
    new: str
    reason: str


class MemoryRecalled(msgspec.Struct, frozen=True):
    """Memory had hits for the user's message; they are stored before it as data."""

    record: str
    chars: int


class PruneStarted(msgspec.Struct, frozen=True):
    """Old tool results are about to be shortened in the view. If denied, that happens only if the
    request does not fit without it."""

    trimmed: int
    cleared: int
    tokens_before: int
    tokens_after: int
    reason: str


class Pruned(msgspec.Struct, frozen=True):
    """Old tool results are shortened in the view from now on."""

    record: str
    trimmed: int
    cleared: int
    tokens_before: int
    tokens_after: int
    reason: str


class CompactionStarted(msgspec.Struct, frozen=True):
    """A compaction is about to start. If denied, it happens only if the request does not fit
    without it."""

    reason: Reason
    detail: str
    tokens: int
    covers: tuple[str, str] | None
    messages: int
    protected: int = 0
    """Protected steps that the cut is forced to take, too."""


class CompactionFinished(msgspec.Struct, frozen=True):
    """The result of a compaction. Only `applied` moved the boundary."""

    outcome: Literal["applied", "skipped", "preview"]
    reason: Reason
    detail: str = ""
    """The reason why it was skipped, or why the summary was made without a model."""
    method: Literal["model", "extract"] | None = None
    record: str = ""
    covers: tuple[str, str] | None = None
    tokens_before: int = 0
    tokens_after: int = 0
    summary: str = ""
    """The text that replaces the messages that were cut."""
    calls: int = 0
    """Number of model calls it took."""
    cost: float | None = None
    protected: int = 0
    """Protected steps that were cut, too: the view would not have fitted with them."""


FlushTrigger: TypeAlias = Literal["compaction", "threshold"]


class FlushStarted(msgspec.Struct, frozen=True):
    """Notes are about to be saved: before a compaction, or because the view passed the policy's
    `flush` threshold. Can be denied."""

    covers: tuple[str, str] | None
    trigger: FlushTrigger = "compaction"


class FlushFinished(msgspec.Struct, frozen=True):
    """Notes were saved, or could not be."""

    outcome: Literal["saved", "nothing", "skipped", "failed"]
    notes: tuple[str, ...] = ()
    record: str = ""
    detail: str = ""
    trigger: FlushTrigger = "compaction"


class WindowLearned(msgspec.Struct, frozen=True):
    """The provider's error message states the size of the context window."""

    tokens: int
    before: int
    source: str


class TroubleNoticed(msgspec.Struct, frozen=True):
    """A model call succeeded but looks wrong."""

    kind: Literal["over-window", "cut-silently", "zero-usage", "empty-reply", "window-stop"]
    detail: str


Event: TypeAlias = (
    TurnWaiting
    | TurnStarted
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
    | SecretFound
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
"""Everything that a session reports; `session.on(handler)` subscribes to all of it."""
