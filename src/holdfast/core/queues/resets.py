"""The decision whether a message begins a fresh session."""

from __future__ import annotations

from typing import Final

_DAY: Final = 86_400.0
_HOUR: Final = 3_600.0
"""In seconds."""


def is_reset_due(
    last_active: float, now: float, *, idle_seconds: float, daily_hour: int | None
) -> bool:
    """Return whether a session was last used too long ago, or before today's hour (UTC).

    A time in the future says nothing.
    """
    if last_active > now:
        return False
    if idle_seconds and now - last_active >= idle_seconds:
        return True
    if daily_hour is None:
        return False
    boundary = now - (now - daily_hour * _HOUR) % _DAY
    return last_active < boundary
