"""Names: what an id may look like, how new ones are made, what a name stands for.

A caller that repeats a message under the same key means the first one.
"""

from __future__ import annotations

import hashlib
from itertools import count
from typing import TYPE_CHECKING, Final, NewType

import msgspec

from holdfast.core.limits import ID_CHARS_MAX
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import AmbiguousName, BadId, NoSuchSession

if TYPE_CHECKING:
    from collections.abc import Container, Iterable


# A record id is a number in hex: milliseconds since 1970, then random bits. As long as the digits
# are as many, it sorts as text like the number it stands for.
_RANDOM_BITS = 28
_OWN_ID = lazy_pattern("[0-9a-f]{18}")
_DIGEST_CHARS = 16  # of a session, in the keys of its calls

_NAME_RULE = (
    f"letters, digits, `-` and `_`, starting with a letter or digit, at most {ID_CHARS_MAX}"
)
_RECORD = lazy_pattern(rf"[A-Za-z0-9][A-Za-z0-9_.:-]{{0,{ID_CHARS_MAX - 1}}}")
_RECORD_RULE = (
    f"letters, digits, `-`, `_`, `.` and `:`, starting with a letter or digit, "
    f"at most {ID_CHARS_MAX}"
)


class SessionKey(msgspec.Struct, frozen=True, order=True):
    """Which session: the agent it belongs to and its id. Always valid once made."""

    agent: str
    """The agent that the session belongs to."""
    session: str
    """The id of the session."""

    def __post_init__(self) -> None:
        check_name("agent", self.agent)
        check_name("session", self.session)

    def __str__(self) -> str:
        return f"{self.agent}/{self.session}"


CallKey = NewType("CallKey", str)
"""The key of one tool call, the same however often the call is tried: give it to the one who
carries the effect out, as its idempotency key. A parameter of a tool that is annotated with it
gets the key of the call; the model does not see that parameter."""


def call_key(key: str, reply: str, place: int) -> CallKey:
    """Return the key of the call at a place of a reply, in the session `agent/id`.

    It tells the record of the reply, and not the name of the session, which may be a person's.
    """
    return CallKey(f"{_digest(key)}-{place}-{reply}")


class CallPlace(msgspec.Struct, frozen=True):
    """The place of a call in a session."""

    reply: str
    """The record of the reply that made it."""
    place: int
    """Its index among the calls of the reply."""


def place_of(key: str, call: str) -> CallPlace | None:
    """Return the place that a call key names; None where it is none of the session `agent/id`."""
    digest, _, rest = call.partition("-")
    place, _, reply = rest.partition("-")
    if digest != _digest(key) or not (place.isascii() and place.isdecimal()) or not reply:
        return None
    return CallPlace(reply, int(place))


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:_DIGEST_CHARS]


def check_name(kind: str, value: str) -> None:
    """Refuse an agent or session id that is not on the allow-list."""
    if not is_name(value):
        raise BadId(kind, value, _NAME_RULE)


def check_record_id(value: str) -> None:
    """Refuse a record id that is not on the allow-list (`@…` is kept for positions)."""
    if not _RECORD.fullmatch(value):
        raise BadId("record", value, _RECORD_RULE)


def is_name(value: str) -> bool:
    """Say whether a text may be an agent or session id."""
    # No pattern: modules make keys at import, and nothing is compiled there.
    bare = value.replace("-", "").replace("_", "")
    return len(value) <= ID_CHARS_MAX and bare.isascii() and bare.isalnum() and value[0].isalnum()


def positional_id(position: int) -> str:
    """The id of a record that was stored without one."""
    return f"@{position}"


def new_record_ids(count: int, *, now: float, random_bits: int, after: str) -> list[str]:
    """`count` ids that sort by time, and after `after` even if the clock went back."""
    first = (int(now * 1000) << _RANDOM_BITS) | (random_bits % (1 << _RANDOM_BITS))
    # As texts, ids of ours sort like their numbers: only one that is not older must be looked at.
    if after >= f"{first:018x}" and _OWN_ID.fullmatch(after):
        first = int(after, 16) + 1
    return [f"{number:018x}" for number in range(first, first + count)]


class IdOrder(msgspec.Struct):
    """Notices whether the ids of a log only grow, so that one can be found by halving.

    The header does not count: its id is the session's, which sorts anywhere.
    """

    newest: str = ""
    is_sorted: bool = True

    def add(self, record_id: str) -> None:
        """Take the next id as it is stored; an empty one is not in order."""
        if record_id <= self.newest:
            self.is_sorted = False
        else:
            self.newest = record_id


def new_session_id(random_bits: int) -> str:
    """Twelve characters, as easy to type as a short commit hash."""
    return f"{random_bits % (1 << 48):012x}"


class Named(msgspec.Struct, frozen=True):
    """A session as people may refer to it."""

    key: SessionKey
    label: str
    whose: str = ""
    """The name of its owner, where it has one."""


ELLIPSIS: Final = "…"
"""Stands for the middle of a long id; no id has it."""


def resolve(name: str, known: Iterable[Named]) -> SessionKey:
    """The one session meant by an id, a label, `agent/id`, a unique prefix of these, or both ends
    of an id as a list shows them (`3f2a…9c1d`).

    The exact beats the prefix and the id beats the label, so a name never changes its meaning
    because a longer one was added.
    """
    known = tuple(known)
    start, dots, end = name.partition(ELLIPSIS)

    def has_ends(one: Named) -> bool:
        whole = (one.key.session, str(one.key))
        return dots != "" and any(text.startswith(start) and text.endswith(end) for text in whole)

    for fits in (
        lambda one: name in (one.key.session, str(one.key)),
        lambda one: name == one.label,
        lambda one: any(
            text.startswith(name) for text in (one.key.session, str(one.key), one.label)
        ),
        lambda one: one.label.casefold().startswith(name.casefold()),
        has_ends,
    ):
        found = [item for item in known if name and fits(item)]
        if len(found) == 1:
            return found[0].key
        if found:
            raise AmbiguousName("session", name, [_spell_key(item) for item in found])
    raise NoSuchSession(name, [text for item in known for text in (item.label, item.key.session)])


def _spell_key(named: Named) -> str:
    owner = f"of {named.whose}" if named.whose else ""
    about = ", ".join(filter(None, (named.label, owner)))
    return f"{named.key} ({about})" if about else str(named.key)


def free_key(key: SessionKey, suffix: str, taken: Container[str]) -> SessionKey:
    """Return a key like `key` that is not taken; `taken` has the ids of its agent, case-folded."""
    stem = f"{key.session[:96]}-{suffix}"
    names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    return SessionKey(key.agent, next(name for name in names if name.casefold() not in taken))
