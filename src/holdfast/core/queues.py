"""Messages in queues: their bodies, as stores keep them, and the decisions about them.

A message may begin a fresh session; after a try, it is tried again, or set aside; a copied one
keeps its place and its key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

import msgspec

from holdfast.core.text.cut import scrub, scrub_deep
from holdfast.errors import (
    BudgetSpent,
    HoldfastError,
    LeaseLost,
    LogBusy,
    LogConflict,
    ModelError,
    StoreError,
    TurnInProgress,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.records import Json


INBOX: Final = "inbox"
"""The queue of messages that wait for a turn."""
RESUMES: Final = "resumes"
PAID_BY: Final = "paid_by"
"""The key of a body for the name of the token that the work on a message is counted for."""
"""In the body of a message that has no words: its session goes on where it stopped."""
_encoder: Final = msgspec.json.Encoder(order="sorted")


class _Placed(Protocol):
    @property
    def lane(self) -> str: ...
    @property
    def session(self) -> str: ...
    @property
    def body(self) -> Json: ...


def encode_body(body: Json) -> bytes:
    """Encode a body; equal bodies give equal bytes. Lone surrogates become U+FFFD."""
    try:
        return _encoder.encode(body)
    except UnicodeEncodeError:
        return _encoder.encode(scrub_deep(body))


def decode_body(data: bytes) -> Json:
    body: Json = msgspec.json.decode(data)
    return body


def is_same(stored: _Placed, message: _Placed) -> bool:
    """Return whether a message with the key of a stored one is that message again."""
    return (
        stored.lane == scrub(message.lane)
        and stored.session == scrub(message.session)
        and _encode_unpaid(stored.body) == _encode_unpaid(message.body)
    )


def _encode_unpaid(body: Json) -> bytes:
    """Return a body without who pays for it: another token may send the same message again."""
    return encode_body({name: value for name, value in body.items() if name != PAID_BY})


MessageState = Literal["waiting", "running", "answered", "delivered", "failed", "dropped"]
"""`failed` is set aside after too many tries, `dropped` by a person; both can be tried again."""
MESSAGE_STATES: Final[tuple[MessageState, ...]] = (
    *("waiting", "running", "answered", "delivered", "failed", "dropped"),
)
FINISHED: Final[tuple[MessageState, ...]] = ("answered", "delivered", "failed", "dropped")
"""The states in which a message does not hold up its lane."""

OPEN: Final = frozenset[MessageState](("waiting", "running"))
"""The states in which it does."""


class WaitingMessages(NamedTuple):
    """The messages of a queue that are before a new one."""

    in_lane: int
    """Those of its lane that wait or run."""
    of_owner: int
    """Those of its owner that wait."""


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


MessageCopy = Literal["added", "updated", "same", "conflict"]
"""`added`: it was not at the target. `updated`: the target had an earlier state of it. `same`:
nothing was to be done. `conflict`: the target has another message with its id or its key, has gone
on with it, or is further in its lane; it was not touched."""

_MOMENT: Final = 0.001
"""Seconds within which two times are one: stores round them differently."""
_AS_THEY_ARE: Final = ("state", "tries", "lost_claims", "claims", "holder", "reason")
_TIMES: Final = ("created", "changed", "due")


def as_copy(message: QueuedMessage) -> QueuedMessage:
    """Return a message as another store gets it: one that is worked on waits there.

    Its claim is one without an outcome, as where a process ends that worked on it.
    """
    if message.state != "running":
        return message
    tries, lost = message.tries - 1, message.lost_claims + 1
    return msgspec.structs.replace(message, state="waiting", tries=tries, lost_claims=lost)


def compare_copy(
    copy: QueuedMessage,
    with_its_id: QueuedMessage | None,
    with_its_key: QueuedMessage | None,
    *,
    is_lane_further: bool,
) -> MessageCopy:
    """Decide about a copy, beside the messages of the target that have its id and its key.

    `is_lane_further` is True where a later message of its lane waits or is worked on there.
    """
    there = with_its_id
    is_free = with_its_id is None and with_its_key is None
    opens = copy.state not in FINISHED and (there is None or there.state in FINISHED)
    if opens and is_lane_further:
        return "conflict"  # it would be worked on beside the one that follows it
    if is_free:
        return "added"
    if there is None or with_its_key is None or with_its_key.id != there.id:
        return "conflict"
    if not is_same(there, copy):
        return "conflict"
    if is_equal(copy, there):
        return "same"
    is_earlier = there.claims <= copy.claims and there.changed <= copy.changed + _MOMENT
    return "updated" if is_earlier and there.state != "running" else "conflict"


def is_equal(copy: QueuedMessage, there: QueuedMessage) -> bool:
    """Return whether two stores say the same about a message."""
    times = [(getattr(copy, name), getattr(there, name)) for name in _TIMES]
    return (
        is_same(there, copy)
        and all(getattr(copy, name) == getattr(there, name) for name in _AS_THEY_ARE)
        and all(abs(ours - theirs) <= _MOMENT for ours, theirs in times)
        and encode_body(copy.result or {}) == encode_body(there.result or {})
    )


ResetReason = Literal["", "idle", "daily"]
"""`idle`: nothing was said for too long. `daily`: not since the hour of the day at which sessions
begin again. Empty: none is due."""
_DAY: Final = 86_400.0
_HOUR: Final = 3_600.0
"""In seconds."""


def reset_reason(
    last_active: float, now: float, *, idle_seconds: float, daily_hour: int | None
) -> ResetReason:
    """Return why a session is to be reset: it was last used too long ago, or before today's hour
    (UTC). A time in the future says nothing."""
    if last_active > now:
        return ""
    if idle_seconds and now - last_active >= idle_seconds:
        return "idle"
    if daily_hour is None:
        return ""
    boundary = now - (now - daily_hour * _HOUR) % _DAY
    return "daily" if last_active < boundary else ""


TRIES_MAX: Final = 5
"""Tries of one message that end with an error."""
LOST_CLAIMS_MAX: Final = 20
"""Lost claims of one message; a service that is restarted in a loop has its innocent messages
answered long before, because they are tried one after the other."""
SUSPECT_LOST_CLAIMS: Final = 3
"""Lost claims after which a message may be what ends its process."""
SUSPECT_SECONDS: Final = 1.0
"""Until a suspect is claimed again that found another one running."""
RETRY_SECONDS: Final = (5.0, 25.0, 120.0, 600.0)
"""Waits between the tries."""
_BUSY_SECONDS: Final = 1.0
"""Until the turn of another holder is asked for again."""


class NextTry(NamedTuple):
    """When to try a message again."""

    seconds: float
    is_counted: bool = True
    """False where the turn was not begun."""


def next_try(error: BaseException, tries: int) -> NextTry | None:
    """Return when a message is tried again that failed now, for the `tries`th time; None: never."""
    if isinstance(error, TurnInProgress | LeaseLost | LogBusy):
        return NextTry(_BUSY_SECONDS, is_counted=False)
    if isinstance(error, BudgetSpent) and error.is_held:
        return NextTry(error.retry_seconds, is_counted=False)
    if tries >= TRIES_MAX:
        return None
    seconds = RETRY_SECONDS[min(max(tries, 1), len(RETRY_SECONDS)) - 1]
    if isinstance(error, ModelError):
        failure = error.failure
        if not getattr(failure, "can_wait", False):
            return None
        return NextTry(max(seconds, getattr(failure, "retry_after", None) or 0.0))
    if isinstance(error, StoreError | LogConflict) or not isinstance(error, HoldfastError):
        return NextTry(seconds)
    return None


def reason_to_set_aside(message: QueuedMessage) -> str | None:
    """Return why a claimed message is not tried again, where its process ended too often."""
    if message.lost_claims < LOST_CLAIMS_MAX:
        return None
    return f"set aside: {message.lost_claims} times the process ended that worked on it"


def is_suspect(message: QueuedMessage) -> bool:
    """Return whether a message may be what ends the processes that work on it.

    One that lost too many claims is not tried again, so that it can end none.
    """
    return SUSPECT_LOST_CLAIMS <= message.lost_claims < LOST_CLAIMS_MAX


def choose_suspect(
    claimed: Sequence[QueuedMessage], *, has_suspect: bool
) -> tuple[list[QueuedMessage], list[QueuedMessage]]:
    """Split claimed messages into those to work on and those to give back: one suspect at a time.

    The suspect with the fewest lost claims goes first: what ends its process has the most.
    """
    suspects = sorted(filter(is_suspect, claimed), key=lambda message: message.lost_claims)
    held_back = suspects if has_suspect else suspects[1:]
    return [message for message in claimed if message not in held_back], held_back


def reason_of(error: BaseException) -> str:
    """Return an error as a sentence for people: what happened, and what to do."""
    if isinstance(error, HoldfastError):
        hint = f" ({error.hint})" if error.hint else ""
        return f"{error}{hint}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
