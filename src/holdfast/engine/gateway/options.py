"""The settings of a gateway."""

from __future__ import annotations

import msgspec

from holdfast.errors import BadSetting


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a gateway. Times are in seconds."""

    turns_max: int = 32
    """Turns that run at the same time in one process."""
    turn_seconds: float = 1_800.0
    """The longest turn; after it, the turn is cancelled and its message set aside."""
    waiting_max: int = 100
    """Messages that may wait in one session; more are refused until some are answered."""
    owner_waiting_max: int = 1_000
    """Messages that may wait for one owner."""
    sessions_max: int = 128
    """Sessions kept open; those used longest ago are closed, and opened again when a message comes.
    An open one holds its records in memory."""
    idle_seconds: float = 900.0
    """After which a session that nobody uses is closed."""
    claim_seconds: float = 30.0
    """After which another process takes over the message of one that died or was stopped, and the
    turn with it, if it is shorter than a turn's lease (30 s)."""
    poll_seconds: float = 1.0
    """Between two looks for messages that other processes put."""
    drain_seconds: float = 30.0
    """Time that running turns get to end when the gateway stops; then others go on with them."""
    keep_seconds: float = 7 * 86_400.0
    """After which messages that are done are forgotten; the logs keep what was said."""
    reset_idle_seconds: float = 0.0
    """Start a fresh session, with a checkpoint of the old one, after so long without a message;
    0 for never."""
    reset_daily_hour: int | None = None
    """Start a fresh session with the first message after this hour (UTC) of each day."""

    def __post_init__(self) -> None:
        for name in ("turns_max", "waiting_max", "owner_waiting_max", "sessions_max"):
            if getattr(self, name) < 1:
                raise BadSetting(f"`{name}` cannot be {getattr(self, name)}", hint="give 1 or more")
        for name in ("turn_seconds", "claim_seconds", "poll_seconds"):
            if not getattr(self, name) > 0:
                raise BadSetting(f"`{name}` cannot be {getattr(self, name)}", hint="give seconds")
        hour = self.reset_daily_hour
        if hour is not None and not 0 <= hour < 24:
            raise BadSetting(f"`reset_daily_hour` cannot be {hour}", hint="give 0 to 23")
