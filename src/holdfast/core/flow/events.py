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
    from holdfast.core.models.replies import ReasoningReport, Reply
    from holdfast.core.models.usage import Usage

Purpose = Literal["turn", "summary", "notes", "draft"]
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
    """The record of the user's message."""


class TurnFinished(msgspec.Struct, frozen=True):
    """The turn has its final reply, which is in the log."""

    reply: Reply
    """The final reply."""
    steps: int
    """Number of model calls that the turn took."""


class TurnFailed(msgspec.Struct, frozen=True):
    """The turn ended without a reply. The log has everything up to this point."""

    reason: str
    """The error, in words."""


class TurnCancelled(msgspec.Struct, frozen=True):
    """The turn was cancelled; `interrupted` are the tool calls that were running."""

    interrupted: tuple[str, ...] = ()
    """The ids of those calls."""


class Interrupted(msgspec.Struct, frozen=True):
    """Tool calls of an earlier run that never got a result were answered as interrupted."""

    calls: tuple[str, ...]
    """The ids of those calls."""


class CallStarted(msgspec.Struct, frozen=True):
    """A request is about to be sent. Can be denied."""

    purpose: Purpose
    """The reason for the call."""
    tokens: int
    """Our count of the request."""
    budget: int
    """Tokens that the messages of a request may take."""
    window: int
    """The model's context window."""
    attempt: int = 1
    """1 for the first attempt; higher after a failure."""


class CallFinished(msgspec.Struct, frozen=True):
    """A model call returned a reply."""

    purpose: Purpose
    """The reason for the call."""
    tokens: int
    """Our estimate of the input."""
    usage: Usage | None
    """The usage that the provider reported; None where it is missing or not plausible."""
    cost: float | None
    """In dollars, by list price."""
    stop: str
    """Why the reply ended, as `Reply.stop`."""
    seconds: float = 0.0
    """Length of the call."""


class CallFailed(msgspec.Struct, frozen=True):
    """A model call failed; `next` is the step that follows."""

    purpose: Purpose
    """The reason for the call."""
    failure: Failure
    """The error, classified."""
    next: Literal[
        "wait",
        "lower-output",
        "shrink",
        "drop-media",
        "drop-thinking",
        "drop-field",
        "leave-out",
        "end-turn",
        "give-up",
    ]
    """The step that follows."""
    detail: str = ""
    """More about that step, for people."""
    seconds: float = 0.0
    """Length of the wait, if `next` is `wait`."""


class ToolStarted(msgspec.Struct, frozen=True):
    """The call is in the log and about to run. Can be denied."""

    call: ToolCall
    """The call, with its arguments."""


class ApprovalAsked(msgspec.Struct, frozen=True):
    """A tool call waits for the approval of a person; the turn ends without its result."""

    call: ToolCall
    """The call."""
    key: str
    """Its key, by which it is approved or denied."""
    reason: str
    """Why it needs approval."""
    until: float | None
    """The time after which no one may approve it."""


class ToolFinished(msgspec.Struct, frozen=True):
    """The result is in the log."""

    call: ToolCall
    """The call, with its arguments."""
    record: str
    """The record of the result."""
    is_error: bool
    """True where the tool failed."""
    chars: int
    """Length of the result."""
    seconds: float
    """Length of the run."""


class OutputOffloaded(msgspec.Struct, frozen=True):
    """A large payload was moved out of a record before it is stored; its blob is durable."""

    tool: str
    """The tool that returned it; empty for content of a user message."""
    sha256: str
    """The digest of the payload, by which it is found."""
    bytes: int
    """Its size."""
    kind: str
    """The shape of a text, `details`, or a media type."""


class OffloadFailed(msgspec.Struct, frozen=True):
    """A payload could not be stored. Of a text, a bounded part is kept and the rest is lost."""

    tool: str
    """The tool that returned it."""
    bytes: int
    """Its size."""
    reason: str
    """The error of the store."""


class PictureScaled(msgspec.Struct, frozen=True):
    """A picture above the provider's limits was scaled down before it was stored. Its record has
    the ref of the original."""

    tool: str
    """The tool that returned it; empty for the user's own."""
    original: str
    """The SHA-256 of the picture as it came."""
    bytes_before: int
    """Its size."""
    bytes_after: int
    """The size of the picture that is sent."""
    width: int
    """Pixels of the picture that is sent."""
    height: int
    """Pixels of the picture that is sent."""


class ScalingFailed(msgspec.Struct, frozen=True):
    """A picture above the provider's limits could not be scaled down: a note with a ref is sent in
    its place."""

    tool: str
    """The tool that returned it; empty for the user's own."""
    bytes: int
    """Its size."""
    reason: str
    """Why, and what to install if that is the reason."""


class SecretFound(msgspec.Struct, frozen=True):
    """A stored record holds what looks like an unregistered credential. Emitted once per
    kind and session object; it has no part of the value beyond what all of the kind begin with."""

    record: str
    """The record that holds it."""
    type: str
    """The type of the record."""
    kind: str
    """The shape: the fixed beginning of such tokens (`ghp_`), or words such as `private key`."""
    is_stored: bool
    """True where the value is in the log, False where a handle is in its place."""


class CheckpointSaved(msgspec.Struct, frozen=True):
    """A checkpoint of the session's state is in the log."""

    record: str
    """Its record."""
    trigger: str
    """The reason for it."""


class SessionReset(msgspec.Struct, frozen=True):
    """A fresh session continues another one, starting from its checkpoint."""

    old: str
    """The session that ended."""
    new: str
    """The session that goes on."""
    reason: str
    """Why, as the caller gave it."""


class MemoryRecalled(msgspec.Struct, frozen=True):
    """Memory had hits for the user's message; they are stored before it as data."""

    record: str
    """The record of the hits."""
    chars: int
    """Length of their text."""


class PruneStarted(msgspec.Struct, frozen=True):
    """Old tool results are about to be shortened in the view. If denied, that happens only if the
    request does not fit without it."""

    trimmed: int
    """Results that keep their beginning and end."""
    cleared: int
    """Results of which a note stays."""
    tokens_before: int
    """Size of the view now."""
    tokens_after: int
    """Size of the view without them."""
    reason: str
    """The reason, for people."""


class EpochBegun(msgspec.Struct, frozen=True):
    """Requests begin differently from now on, for another reason than a compaction or a prune."""

    record: str
    """Its record."""
    cause: str
    """The cause, in a word."""
    detail: str
    """The cause, for people."""
    reasoning: int
    """Replies in view whose reasoning is not sent again."""


class Pruned(msgspec.Struct, frozen=True):
    """Old tool results are shortened in the view from now on."""

    record: str
    """Its record."""
    trimmed: int
    """Results that keep their beginning and end."""
    cleared: int
    """Results of which a note stays."""
    tokens_before: int
    """Size of the view before."""
    tokens_after: int
    """Size of the view after it."""
    reason: str
    """The reason, for people."""


class CompactionStarted(msgspec.Struct, frozen=True):
    """A compaction is about to start. If denied, it happens only if the request does not fit
    without it."""

    reason: Reason
    """The reason for it."""
    detail: str
    """More about the reason, for people."""
    tokens: int
    """Size of the view now."""
    covers: tuple[str, str] | None
    """The first and the last record that the summary will stand for."""
    messages: int
    """Number of messages that it will stand for."""
    protected: int = 0
    """Protected steps that the cut is forced to take, too."""


class CompactionFinished(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a compaction. Only `applied` moved the boundary."""

    outcome: Literal["applied", "skipped", "preview"]
    """`applied`, `skipped`, or `preview` where only the text was asked for."""
    reason: Reason
    """The reason for it."""
    detail: str = ""
    """The reason why it was skipped, or why the summary was made without a model."""
    method: Literal["model", "extract"] | None = None
    """By a model, or by extracting from the log."""
    record: str = ""
    """Its record, where it was applied."""
    covers: tuple[str, str] | None = None
    """The first and the last record that the summary stands for."""
    tokens_before: int = 0
    """Size of the view before the cut."""
    tokens_after: int = 0
    """Size of the view after it."""
    summary: str = ""
    """The text that replaces the messages that were cut."""
    calls: int = 0
    """Number of model calls it took."""
    cost: float | None = None
    """Of its model calls, in dollars, by list price."""
    protected: int = 0
    """Protected steps that were cut, too: the view would not have fitted with them."""


class BackgroundSummary(msgspec.Struct, frozen=True):
    """A summary that was written ahead of its cut, and its use (`background_summary`). The first
    two outcomes come from the thread or task that wrote it."""

    outcome: Literal["ready", "failed", "used", "dropped"]
    """`ready` for the next cut, `failed`, `used` by a cut, or `dropped` by one that takes more
    than the summary stands for."""
    detail: str = ""
    """The reason, for people."""
    calls: int = 0
    """Number of model calls it took."""
    cost: float | None = None
    """Of its model calls, in dollars, by list price."""
    record: str = ""
    """The newest record that it stands for."""


FlushTrigger: TypeAlias = Literal["compaction", "threshold"]


class FlushStarted(msgspec.Struct, frozen=True):
    """Notes are about to be saved: before a compaction, or because the view passed the policy's
    `flush` threshold. Can be denied."""

    covers: tuple[str, str] | None
    """The first and the last record that notes are taken of."""
    trigger: FlushTrigger = "compaction"
    """The occasion."""


class FlushFinished(msgspec.Struct, frozen=True):
    """Notes were saved, or could not be."""

    outcome: Literal["saved", "nothing", "skipped", "failed"]
    """`saved`; `nothing` was worth a note; `skipped` by a listener or a limit; `failed`."""
    notes: tuple[str, ...] = ()
    """The notes that were saved."""
    record: str = ""
    """Its record, where notes were saved."""
    detail: str = ""
    """The reason where no note was saved."""
    trigger: FlushTrigger = "compaction"
    """The occasion."""


class WindowLearned(msgspec.Struct, frozen=True):
    """The provider's error message states the size of the context window."""

    tokens: int
    """The size that is believed from here on."""
    before: int
    """The size that was believed."""
    source: str
    """The origin of the new size, for people."""


class TroubleNoticed(msgspec.Struct, frozen=True):
    """A model call succeeded but looks wrong."""

    kind: Literal[
        "over-window",
        "cut-silently",
        "zero-usage",
        "empty-reply",
        "window-stop",
        "reasoning-dropped",
        "cache-missed",
    ]
    """The kind of trouble. The last two are reports of the provider."""
    detail: str
    """The numbers behind it, for people; for a missed cache the provider's reason."""
    reasoning: tuple[ReasoningReport, ...] = ()
    """Blocks of reasoning in the request that the provider did not accept as they were. The reason
    `prefix_binding_mismatch` says that the conversation was changed without a record; the others,
    that another model or account is asked."""


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
    | ApprovalAsked
    | ToolFinished
    | OutputOffloaded
    | OffloadFailed
    | PictureScaled
    | ScalingFailed
    | SecretFound
    | CheckpointSaved
    | SessionReset
    | MemoryRecalled
    | PruneStarted
    | Pruned
    | EpochBegun
    | CompactionStarted
    | CompactionFinished
    | BackgroundSummary
    | FlushStarted
    | FlushFinished
    | WindowLearned
    | TroubleNoticed
)
"""Everything that a session reports; `session.on(handler)` subscribes to all of it."""
