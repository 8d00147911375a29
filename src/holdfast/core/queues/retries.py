"""The decision after a turn failed: try the message again, and when, or set it aside."""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.errors import (
    HoldfastError,
    LeaseLost,
    LogBusy,
    LogConflict,
    ModelError,
    StoreError,
    TurnInProgress,
)

TRIES_MAX: Final = 5
"""Tries of one message; a message that makes its process end counts, too."""
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


def is_exhausted(tries: int) -> bool:
    """Return whether a message was claimed too often without any outcome: it may be the cause."""
    return tries > TRIES_MAX


def reason_of(error: BaseException) -> str:
    """Return an error as a sentence for people: what happened, and what to do."""
    if isinstance(error, HoldfastError):
        hint = f" ({error.hint})" if error.hint else ""
        return f"{error}{hint}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
