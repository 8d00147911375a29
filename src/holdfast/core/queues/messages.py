"""Messages in queues, and the reading of a stored one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.core.queues.bodies import decode_body

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.records import Json

MessageState = Literal["waiting", "running", "answered", "delivered", "failed", "dropped"]
"""`failed` is set aside after too many tries, `dropped` by a person; both can be tried again."""
MESSAGE_STATES: Final[tuple[MessageState, ...]] = (
    *("waiting", "running", "answered", "delivered", "failed", "dropped"),
)
FINISHED: Final[tuple[MessageState, ...]] = ("answered", "delivered", "failed", "dropped")
"""The states in which a message does not hold up its lane."""


class NewMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message for a queue."""

    queue: str
    """`inbox`, or the name of an outbox."""
    lane: str
    """Messages of one lane are worked on one after another."""
    key: str
    """Names the message: one with the same key, queue and owner is kept once."""
    body: Json
    """The content, as JSON."""
    owner: str = ""
    """The owner of the message."""
    session: str = ""
    """The session that it is about, `agent/id`; an erasure of the session takes it along."""


class QueuedMessage(NewMessage, frozen=True, kw_only=True):
    """A message in a queue, as it was when it was read."""

    id: int
    """Larger than that of every message before it in its lane. It is the time at which it came, in
    microseconds since 1970: a counter would tell each owner how much the others send."""
    state: MessageState
    """The state it is in."""
    tries: int
    """The tries with an outcome since it came, or since a person asked for another; with the
    one that runs."""
    lost_claims: int
    """The claims without an outcome in that time: the process that had it ended, or was stopped
    for longer than the claim."""
    claims: int
    """The number of claims ever; it names the newest one."""
    created: float
    """The time it came, in seconds since 1970."""
    changed: float
    """The time of its last change, in seconds since 1970."""
    due: float
    """Not tried before this time."""
    holder: str = ""
    """The one who works on it, in the words of `claim`."""
    since: float | None = None
    """The time of the claim."""
    reason: str = ""
    """The reason of the last failure, in a sentence."""
    result: Json | None = None
    """The outcome, once there is one."""


ID_STEP_MAX: Final = 1_000
"""The largest step from an id that is taken to the next try."""


def message_id(now: float, last_in_lane: int, step: int) -> int:
    """Return the id of a message that comes now. `step` is random, from 1 to `ID_STEP_MAX`: it
    counts where the clock did not go on since the last message of the lane."""
    moment = int(now * 1_000_000)
    return moment if moment > last_in_lane else last_in_lane + step


MESSAGE_COLUMNS: Final = (
    *("id", "queue", "lane", "owner", "session", "key", "body", "state", "tries", "lost_claims"),
    *("claims", "created", "changed", "due", "holder", "since", "reason", "result"),
)
"""The columns of a row that `read_message` reads, in their order: stores select them by name."""
MESSAGE_TEXTS: Final = ("lane", "owner", "session", "key", "holder", "reason")
"""The columns of any text; `queue` is one of our own names."""
_BODIES: Final = ("body", "result")


def read_message(row: Sequence[Any], text: Callable[[Any], str] = str) -> QueuedMessage:
    """Return the message of a row; `text` reads the columns that hold any text."""
    fields = dict(zip(MESSAGE_COLUMNS, row, strict=True))
    for name in MESSAGE_TEXTS:
        fields[name] = text(fields[name])
    for name in _BODIES:
        fields[name] = None if fields[name] is None else decode_body(fields[name])
    return QueuedMessage(**fields)
