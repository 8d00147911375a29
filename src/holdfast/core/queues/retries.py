"""The decision after a try of a message: try it again, and when, or set it aside.

A try that ended with an error counts: the message may be wrong. A claim that was lost says that its
process ended, and most of the messages that a process had are not the cause: so lost claims have a
larger bound, and a message that lost some is tried beside others of its kind no more. The message
that ends its process each time is then the only one that goes on losing claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.errors import (
    HoldfastError,
    LeaseLost,
    LogBusy,
    LogConflict,
    ModelError,
    StoreError,
    TurnInProgress,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.queues.messages import QueuedMessage

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
