"""Whose a thing is, and whose things are asked for, as closed types.

A record, a row or a request holds the owner as text, in which an empty text means no owner. Inside
the program nothing stands for something else: `NO_OWNER` and `ANY_OWNER` are written out. The
functions below are the only way between the two.
"""

from __future__ import annotations

from typing import Final, overload

import msgspec

from holdfast.core.text.cut import scrub
from holdfast.errors import UsageError


class NamedOwner(msgspec.Struct, frozen=True):
    """An owner with a name."""

    name: str
    """Never empty."""

    def __post_init__(self) -> None:
        if not self.name:
            raise UsageError(
                "the name of the owner is empty", hint="pass NO_OWNER for what has no owner"
            )


class NoOwner(msgspec.Struct, frozen=True):
    """The owner of what has no owner."""


class AnyOwner(msgspec.Struct, frozen=True):
    """Every owner and no owner: for an operator."""


class UnknownOwner(msgspec.Struct, frozen=True):
    """The owner of a session whose first line is damaged. It equals no other."""


NO_OWNER: Final = NoOwner()
"""No owner: what has none, not what has any."""
ANY_OWNER: Final = AnyOwner()
"""Every owner and no owner: for an operator."""
UNKNOWN_OWNER: Final = UnknownOwner()
"""The owner where a first line is damaged: it is unknown."""

Owner = NamedOwner | NoOwner
"""Whose a thing is."""
OwnerFilter = NamedOwner | NoOwner | AnyOwner
"""Whose things are asked for."""
FoundOwner = NamedOwner | NoOwner | UnknownOwner
"""Whose a stored thing is, as far as it can be read."""


@overload
def owner_argument(owner: str | Owner) -> Owner: ...
@overload
def owner_argument(owner: str | OwnerFilter) -> OwnerFilter: ...
def owner_argument(owner: object) -> OwnerFilter:
    """Return the owner that a caller of the library gives, by name or as a value."""
    if isinstance(owner, str):
        return owner_of(scrub(owner))  # as the log has it
    if isinstance(owner, NamedOwner | NoOwner | AnyOwner):
        return owner
    raise _not_an_owner(owner)


def owner_of(text: str) -> Owner:
    """Return the owner that a record or a request names; an empty text names no owner."""
    return NamedOwner(text) if text else NO_OWNER


def owner_text(owner: Owner) -> str:
    """Return an owner as records and rows hold it."""
    if isinstance(owner, NamedOwner):
        return owner.name
    if isinstance(owner, NoOwner):
        return ""
    raise _not_an_owner(owner)  # from a program without types: it is never taken for no owner


def owner_in_row(text: str | None) -> FoundOwner:
    """Return the owner in a row about a session; None where its first line is damaged."""
    return UNKNOWN_OWNER if text is None else owner_of(text)


def row_text(owner: FoundOwner) -> str | None:
    """Return an owner as a row about a session holds it."""
    return None if isinstance(owner, UnknownOwner) else owner_text(owner)


def filter_text(wanted: OwnerFilter) -> str | None:
    """Return the text that a column of owners has to equal; None where every row fits."""
    return None if isinstance(wanted, AnyOwner) else owner_text(wanted)


def is_wanted(owner: FoundOwner, wanted: OwnerFilter) -> bool:
    """Say whether a thing of this owner is among those that are asked for."""
    text = filter_text(wanted)
    return text is None or row_text(owner) == text


def _not_an_owner(value: object) -> UsageError:
    return UsageError(
        f"`owner` cannot be {value!r:.80}",
        hint="pass `NamedOwner(name)`, NO_OWNER or, as an operator, ANY_OWNER",
    )
