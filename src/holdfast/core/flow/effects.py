"""Effects: the operations that a flow asks a driver to perform.

A flow is a generator. It yields effects and is sent their results; it decides everything and
touches nothing outside itself. A driver performs the effects: blocking, awaiting, or in a
simulation. One body, three worlds. Each effect's docstring names its result. An append that fails
and a call that is cancelled are raised into the flow, which leaves the session in a sound state
and re-raises.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.failures.classify import Failure
    from holdfast.core.flow.events import Event, Purpose
    from holdfast.core.log.ids import CallKey
    from holdfast.core.log.records import Assistant, Content, Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Prompt, ToolCall
    from holdfast.core.models.replies import Reply
    from holdfast.core.window import Window

T = TypeVar("T")


class Now(msgspec.Struct, frozen=True):
    """Returns the time, in seconds since 1970."""


class Read(msgspec.Struct, frozen=True):
    """Returns the records that a window of this size looks at, as they are now."""

    window: Window


class ReadSince(msgspec.Struct, frozen=True):
    """Returns the records of the path from this one on, however old it is; none where it is not on
    the path."""

    record: str
    every_branch: bool = False
    """True for the records that were written since it, on whichever branch."""


class Append(msgspec.Struct, frozen=True):
    """Makes records durable, all or none, and returns them with their ids.

    Records that another writer appended meanwhile come before them. A run that has lost the
    session's turn writes nothing: `LeaseLost` is raised. With `unless`, nothing is
    appended and None is returned where its branch was left, or where that is true of the records
    of the view as they are then.
    """

    records: Sequence[Record]
    unless: Callable[[Sequence[Record]], bool] | None = None
    unless_key: str = ""
    """With a key, nothing is appended and None is returned where a message has it already."""


class FindMessage(msgspec.Struct, frozen=True):
    """Returns the `StoredMessage` with this key, however old it is, or None."""

    key: str


class StoredMessage(msgspec.Struct, frozen=True):
    """A user message that is in the log."""

    record: str
    answer: Assistant | None = None
    """The reply that it got."""


class AcquireTurn(msgspec.Struct, frozen=True):
    """Takes the lease of the session's turn, which this run holds to its end. Returns None, or the
    `TurnInProgress` that names its holder."""

    is_queued: bool = False
    """True to keep a place in the queue until the next try."""


class IsTurnRunning(msgspec.Struct, frozen=True):
    """Returns True if another run, in whichever process, has the lease of the session's turn."""


class PutBlob(msgspec.Struct, frozen=True):
    """Makes a payload durable before a record refers to it. Returns its SHA-256, or the
    `StoreError` that prevented it."""

    data: bytes


class ScalePicture(msgspec.Struct, frozen=True):
    """Makes a picture smaller before any request has it. Returns a `ScaledPicture`, or the reason
    why there is none."""

    data: bytes
    edge_max: int
    """Pixels of the longer edge; 0 for no limit."""
    chars_max: int
    """Characters of base64; 0 for no limit."""
    kinds: tuple[str, ...]
    """Media types that its provider takes."""


class ScaledPicture(msgspec.Struct, frozen=True):
    """A picture within the limits."""

    data: bytes
    media_type: str
    width: int
    height: int


class SaveCheckpoint(msgspec.Struct, frozen=True):
    """Stores a checkpoint of the session. Returns a `SavedCheckpoint`, or None if that failed."""

    trigger: str


class SavedCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint that is in the log."""

    record: str
    pending: tuple[str, ...] = ()
    """Tasks that are still open."""


class SearchMemory(msgspec.Struct, frozen=True):
    """Returns the memory's hits for a query as a block of data, or an empty string. Never fails."""

    query: str


class CallModel(msgspec.Struct, frozen=True):
    """Sends a prompt. Returns a `Reply` or a `FailedCall`."""

    prompt: Prompt
    target: Target
    purpose: Purpose = "turn"
    deadline_seconds: float | None = None


class FailedCall(msgspec.Struct, frozen=True):
    """A model call without a usable reply, and its classified failure."""

    failure: Failure
    error: BaseException | None = None
    """The exception, if one was raised."""
    partial: str = ""
    """Text that arrived before the failure."""


class JudgeCalls(msgspec.Struct, frozen=True):
    """Returns an `ApprovalNeed` for each call that a person has to approve, and None for others."""

    calls: Sequence[ToolCall]


class StartTools(msgspec.Struct, frozen=True):
    """Starts tools in parallel. Returns nothing."""

    calls: Sequence[ToolCall]
    keys: Sequence[CallKey]
    """The key of each call."""


class NextToolResult(msgspec.Struct, frozen=True):
    """Returns the `Outcome` of the started tool that finishes next."""


class Outcome(msgspec.Struct, frozen=True):
    """The result of one tool call."""

    call_id: str
    content: Content
    is_error: bool = False
    details: Any = None
    seconds: float = 0.0
    refused: str | None = None
    """The reason for which it was not run; None where it was."""
    pending: bool = False
    """True where the result comes later, by the key of the call."""


class Sleep(msgspec.Struct, frozen=True):
    """Returns nothing after some seconds, or sooner if the turn is cancelled."""

    seconds: float


class Emit(msgspec.Struct, frozen=True):
    """Passes an event to all listeners. Returns a `Deny` if one of them denies it, else None."""

    event: Event


class Deny(msgspec.Struct, frozen=True):
    """Returned by a listener to stop the operation that a `…Started` event announces."""

    reason: str = "denied"
    """Told to the model or raised, so that it can be acted on."""


class RunBlocking(msgspec.Struct, frozen=True):
    """Runs a function that blocks and returns its result.

    For operations of the engine that only touch the store. The awaiting driver runs it in a
    thread, to its end even if the task is cancelled.
    """

    work: Callable[[], Any]


StoreEffect: TypeAlias = (
    Read
    | ReadSince
    | Append
    | FindMessage
    | AcquireTurn
    | IsTurnRunning
    | PutBlob
    | ScalePicture
    | SaveCheckpoint
    | SearchMemory
    | JudgeCalls
    | RunBlocking
)
"""Effects that block a thread: they reach a store, or other work."""
Effect: TypeAlias = StoreEffect | Now | CallModel | StartTools | NextToolResult | Sleep | Emit
Flow: TypeAlias = Generator[Effect, Any, T]


class Cancelled(BaseException):
    """The turn was cancelled. Like `KeyboardInterrupt`, it is no `Exception`: a handler for
    failures must not swallow it."""

    def __init__(self, partial: Reply | None = None, *, is_by_user: bool = True) -> None:
        super().__init__("cancelled")
        self.partial = partial
        """The part of the reply that had arrived."""
        self.is_by_user = is_by_user
        """False where the program ended the turn: a time limit, a claim that was lost, its end."""
