"""The decision whether a message begins a fresh session."""

from __future__ import annotations

from typing import Final, Literal

ResetReason = Literal["", "idle", "daily"]
"""`idle`: nothing was said for too long. `daily`: not since the hour of the day at which sessions
begin anew. Empty: none is due."""
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
