"""Rules for how long sessions are kept: by age, by size, and other ones for some owners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DAY_SECONDS: Final = 86_400.0
_DAYS_MAX: Final = 36_500
"""A century: anyone who means for ever leaves the number out."""

Days = Annotated[float, Meta(ge=1, le=_DAYS_MAX)]
DaysUnused = Annotated[
    Days | None, Meta(description="Move sessions without a new record for this many days.")
]
BytesKept = Annotated[
    Annotated[int, Meta(ge=0)] | None,
    Meta(
        description="The bytes that the logs of each owner may take; the longest unused go first."
    ),
]
RetentionReason = Literal["age", "size"]
"""`age`: without a record for too long. `size`: the newer ones of its owner take the room."""


class RetentionRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule for how long sessions are kept. Without a number, for ever."""

    days: DaysUnused = None
    """Days since the newest record, after which a session goes."""
    bytes: BytesKept = None
    """Bytes of logs that each owner may have; the sessions unused for longest go first."""


class Retention(RetentionRule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rule for everybody, and those of some owners in its place."""

    owners: dict[str, RetentionRule] = msgspec.field(default_factory=dict)
    """By the name of the owner; the empty name is for sessions without an owner."""
    trash_days: Days | None = None
    """Days after which what is in the trash is deleted. Without it, nothing is."""


class Kept(Protocol):
    """The facts of a session that a rule needs."""

    @property
    def owner(self) -> Any:
        """Whose it is."""

    @property
    def last_active(self) -> float:
        """The time of its newest record."""

    @property
    def bytes(self) -> int:
        """The size of its log."""


class Due(NamedTuple):
    """A session that goes, and the reason."""

    session: Any
    why: RetentionReason


def due_sessions(newest_first: Iterable[Kept], rule: RetentionRule, now: float) -> Iterator[Due]:
    """Yield the sessions that a rule lets go. They come in any order of owners, each owner's from
    the newest to the oldest."""
    sizes: dict[Any, int] = {}
    for session in newest_first:
        size = sizes[session.owner] = sizes.get(session.owner, 0) + session.bytes
        if rule.days is not None and session.last_active < now - rule.days * DAY_SECONDS:
            yield Due(session, "age")
        elif rule.bytes is not None and size > rule.bytes:
            yield Due(session, "size")
