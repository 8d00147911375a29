"""What a flow asks of the world.

A flow is a generator: it yields effects and is sent what came of them. It decides, and touches
nothing; a driver carries the effects out: blocking, awaited, or in a simulation. One body, three
worlds. What an effect gives back stands in its docstring; a failed append or a cancelled call is
raised into the flow, which leaves the session sound and lets it pass.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.failures.classify import Failure
    from holdfast.core.flow.events import Event
    from holdfast.core.log.records import Content, Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Prompt, ToolCall
    from holdfast.core.models.replies import Reply

T = TypeVar("T")
Purpose = Literal["turn", "summary", "notes"]


class Now(msgspec.Struct, frozen=True):
    """Gives the time, in seconds since 1970."""


class Read(msgspec.Struct, frozen=True):
    """Gives the records that a window of this size looks at, as they are now."""

    window: int


class Append(msgspec.Struct, frozen=True):
    """Makes records durable, all or none, and gives them back with their ids.

    What another writer appended meanwhile comes before them. Gives None, and appends nothing, where
    `unless_cut` is set and the view was cut, or left, after the record `since`.
    """

    records: Sequence[Record]
    unless_cut: bool = False
    since: str = ""
    """The newest record that was looked at."""


class Keep(msgspec.Struct, frozen=True):
    """Makes a payload durable, before a record names it; gives its SHA-256, or the `StoreError`
    that says why not."""

    data: bytes


class Mark(msgspec.Struct, frozen=True):
    """Stores a checkpoint of the session as it is; gives a `Marked`, or None where that was not
    possible."""

    trigger: str


class Marked(msgspec.Struct, frozen=True):
    """A checkpoint that is in the log."""

    record: str
    pending: tuple[str, ...] = ()
    """What is still to be done."""


class Recall(msgspec.Struct, frozen=True):
    """Gives what memory has on something, as a block of data, or nothing. It never fails."""

    query: str


class Call(msgspec.Struct, frozen=True):
    """Sends a prompt; gives a `Reply` or a `Failed`."""

    prompt: Prompt
    target: Target
    purpose: Purpose = "turn"
    deadline_seconds: float | None = None


class Failed(msgspec.Struct, frozen=True):
    """A call that came to nothing, and why."""

    failure: Failure
    error: BaseException | None = None
    """What was raised."""
    partial: str = ""
    """Text that had arrived before."""


class Start(msgspec.Struct, frozen=True):
    """Starts tools, side by side; gives nothing."""

    calls: Sequence[ToolCall]


class Next(msgspec.Struct, frozen=True):
    """Gives the `Outcome` of one of the tools that were started, whichever is done first."""


class Outcome(msgspec.Struct, frozen=True):
    """What became of one tool call."""

    call_id: str
    content: Content
    is_error: bool = False
    details: Any = None
    seconds: float = 0.0


class Wait(msgspec.Struct, frozen=True):
    """Gives nothing, later."""

    seconds: float


class Tell(msgspec.Struct, frozen=True):
    """Tells everyone who listens; gives a `Deny` where one of them says no, else None."""

    event: Event


class Deny(msgspec.Struct, frozen=True):
    """A listener's no to what an event announces."""

    reason: str = "denied"


Effect: TypeAlias = Now | Read | Append | Keep | Mark | Recall | Call | Start | Next | Wait | Tell
Flow: TypeAlias = Generator[Effect, Any, T]


class Cancelled(BaseException):
    """Somebody called the turn off. Like the interrupts of Python, no failure is meant."""

    def __init__(self, partial: Reply | None = None) -> None:
        super().__init__("cancelled")
        self.partial = partial
        """What had arrived of the reply."""
