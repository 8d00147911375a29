"""Who may read which session. One function decides for listing, reading and searching alike.

Deny by default: whatever is unknown is a refusal. And a refusal is the same sentence whether the
session does not exist or may not be seen, so that asking teaches nothing about other sessions.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, Protocol

import msgspec

from holdfast.core.limits import AUDIT_FIELD_CHARS_MAX, RECALL_LIMIT_MAX
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.owners import (
    ANY_OWNER,
    NO_OWNER,
    AnyOwner,
    FoundOwner,
    Owner,
    OwnerFilter,
    UnknownOwner,
    is_wanted,
    owner_text,
)
from holdfast.core.text.cut import cut, ellipsis
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable

    Find = Callable[[SessionKey], "Subject | None"]
    """The session of that key, or None where there is none or its header cannot be read."""

Visibility = Literal["self", "tree", "agent", "all"]
"""`self`: the caller's session and those it continues. `tree`: also those that descend from it.
`agent`: also those of its agent. `all`: also those of the agents named for it."""

Action = Literal[
    "list",
    "read",
    "search",
    "output",
    "reseed",
    "erase",
    "status",
    "compact",
    "checkpoint",
    "note",
    "context",
    "events",
    "create",
    "label",
    "fork",
    "rewind",
    "undo",
    "remove",
    "append",
    "send",
    "cancel",
    "retry",
    "drop",
    "timer",
    "approve",
    "token",
    "reload",
]

Right = Literal["read", "write", "admin"]
RIGHTS: Final[tuple[Right, ...]] = ("read", "write", "admin")
"""`read` looks, `write` also sends and changes, `admin` also erases and sees the server itself.
Each includes those before it."""

EVERY: Final = "*"
"""As the name of an agent: all of them."""

_CONTINUING: Final = frozenset(("reset", "fork", "repair"))
"""Why a session may have a parent that is its own past. A spawned one has only an employer."""

_SCOPES: Final[dict[str, str]] = {
    "self": "its own session and those that this one continues",
    "tree": "its own session, those that this one continues and those that descend from it",
    "agent": "the sessions of its agent and those that descend from its own",
    "all": (
        "the sessions of its agent, of the agents named for it, and those that descend from its own"
    ),
}


class Caller(msgspec.Struct, frozen=True):
    """Who asks, and what the application lets it see. Never taken from what a model says."""

    agent: str
    """The agent that asks."""
    session: str | None
    """The session it asks from."""
    owner: Owner = NO_OWNER
    """The person it asks for."""
    visibility: Visibility = "tree"
    """The sessions that it may see."""
    agents: tuple[str, ...] = ()
    """Other agents whose sessions it may read with `all`; `*` is every agent."""
    owners: tuple[Owner, ...] | AnyOwner = ()
    """Other owners whose sessions it may read; `ANY_OWNER` is every owner."""

    def __post_init__(self) -> None:
        for owner in (self.owner, *(() if isinstance(self.owners, AnyOwner) else self.owners)):
            owner_text(owner)  # raises for what is no owner, such as a plain name


OPERATOR: Final = Caller("", None, visibility="all", agents=(EVERY,), owners=ANY_OWNER)
"""Anyone who has the files in hand, such as a person at the command line."""


class Subject(msgspec.Struct, frozen=True):
    """The facts of a session that the decision needs."""

    key: SessionKey
    owner: FoundOwner
    """Unknown where the header that would say so is damaged."""
    parent: SessionKey | None = None
    reason: str | None = None
    """Why it has a parent."""


class Described(Protocol):
    """The source of these facts: a header, or a listing."""

    @property
    def parent_session(self) -> str | None: ...
    @property
    def reason(self) -> str | None: ...


class AccessDecision(msgspec.Struct, frozen=True):
    """Yes or no, and a sentence that a model can be given as it is."""

    is_allowed: bool
    reason: str


class Access(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the audit log: who asked for what, and what came of it. Never what was read."""

    ts: float
    """In seconds since 1970."""
    action: Action
    """The operation that was asked for."""
    agent: str
    """The caller's; empty for the operator."""
    session: str | None
    """The session that was asked for."""
    owner: str
    """The owner of the caller."""
    target: str
    """The session that was asked for, as it was spelled."""
    is_allowed: bool
    """True where the caller got it."""
    reason: str
    """The rule that decided."""
    bytes: int = 0
    """Bytes handed out."""
    hits: int | None = None
    """Number of passages that a search of memory found; None for anything else."""
    shown: tuple[str, ...] = ()
    """The sessions that these are from."""


def subject_of(key: SessionKey, described: Described, owner: FoundOwner) -> Subject:
    """The session of that key as its header, or a listing, describes it."""
    if isinstance(owner, UnknownOwner):
        return Subject(key, owner)  # who does not know whose it is knows nothing of its descent
    parent = _key_in(described.parent_session or "")
    return Subject(key, owner, parent, described.reason)


def readable_owners(caller: Caller) -> tuple[OwnerFilter, ...]:
    """The owners whose sessions a caller may read at most."""
    if isinstance(caller.owners, AnyOwner):
        return (ANY_OWNER,)
    return tuple(dict.fromkeys((caller.owner, *caller.owners)))


def own_key(caller: Caller) -> SessionKey | None:
    """Return the session that a caller asks from; None where it has none."""
    if caller.session is None or not (is_name(caller.agent) and is_name(caller.session)):
        return None
    return SessionKey(caller.agent, caller.session)


def readable_agents(caller: Caller) -> tuple[str | None, ...]:
    """The agents all of whose sessions a caller may read, of its owners; None is every agent."""
    if caller.visibility == "agent":
        return (caller.agent,)
    if caller.visibility == "all":
        return (
            (None,)
            if EVERY in caller.agents
            else tuple(dict.fromkeys((caller.agent, *caller.agents)))
        )
    return ()


def decide(caller: Caller, subject: Subject | None, find: Find) -> AccessDecision:
    """Return whether `caller` may read `subject`. None stands for one that could not be found."""
    return Gate(caller, find).verdict(subject)


def decide_change(caller: Caller, subject: Subject | None, find: Find) -> AccessDecision:
    """Return whether `caller` may change `subject`: compact it, or store a checkpoint in it.

    It must be able to read it. Beyond that a session is changed for its own agent and owner alone:
    a grant to read another's is no grant to write there. A caller without an agent is a person, who
    may change what is the owner's own with every agent.
    """
    verdict = decide(caller, subject, find)
    if subject is None or not verdict.is_allowed or _sees_everything(caller):
        return verdict
    if caller.agent in ("", subject.key.agent) and subject.owner == caller.owner:
        return verdict
    return AccessDecision(
        False,
        "Refused: this caller may read the session, and not change it: it belongs to another agent "
        "or owner. Ask the application that works for them.",
    )


class Gate:
    """Decides for one caller and remembers what it looked up: for many sessions at once."""

    def __init__(self, caller: Caller, find: Find) -> None:
        self._caller = caller
        self._find = find
        self._own = own_key(caller)
        self._reaches: dict[SessionKey, bool] = {}
        """True if a session is the caller's own or descends from it."""

    def verdict(self, subject: Subject | None) -> AccessDecision:
        visibility = self._caller.visibility
        if visibility not in _SCOPES:
            name = cut(str(visibility), 40, keep="head", marker=ellipsis).text
            return AccessDecision(
                False,
                f"Refused: the visibility `{name}` of this caller is not one of "
                f"{', '.join(_SCOPES)}, so it may read nothing. The application must correct it.",
            )
        rule = None if subject is None else self._rule_for(subject)
        return (
            AccessDecision(False, _refusal(self._caller))
            if rule is None
            else AccessDecision(True, rule)
        )

    def _rule_for(self, subject: Subject) -> str | None:
        """The rule that lets the caller read this session. The cheap ones are asked first."""
        caller, agent = self._caller, subject.key.agent
        if _sees_everything(caller):
            return "Allowed: every session is open to this caller."
        if not _is_of_readable_owner(caller, subject):
            return None
        if subject.key == self._own:
            return "Allowed: it is the caller's own session."
        if caller.visibility in ("agent", "all") and agent == caller.agent:
            return "Allowed: it is a session of the caller's agent."
        if caller.visibility == "all" and (agent in caller.agents or EVERY in caller.agents):
            return "Allowed: it is a session of an agent that was named for this caller."
        if subject.key in self.past:
            return "Allowed: the caller's session continues it."
        if caller.visibility != "self" and self._is_descendant(subject):
            return "Allowed: it descends from the caller's session."
        return None

    @cached_property
    def past(self) -> frozenset[SessionKey]:
        """The sessions that the caller's own continues: of its agent, as far as it may read."""
        past: set[SessionKey] = set()
        session = None if self._own is None else self._find_subject(self._own)
        while session is not None and session.reason in _CONTINUING:
            parent = session.parent
            if parent is None or parent in past or parent.agent != self._caller.agent:
                break
            session = self._find_subject(parent)
            if session is None or not _is_of_readable_owner(self._caller, session):
                break
            past.add(parent)
        return frozenset(past)

    def _is_descendant(self, subject: Subject) -> bool:
        """Return whether the way up from it leads to the caller's session. Circles lead nowhere."""
        way: dict[SessionKey, None] = {}
        key = subject.parent
        while key is not None and key != self._own and key not in self._reaches and key not in way:
            way[key] = None
            session = self._find_subject(key)
            key = None if session is None else session.parent
        is_reached = key is not None and (key == self._own or self._reaches.get(key, False))
        self._reaches.update(dict.fromkeys(way, is_reached))
        return is_reached

    def _find_subject(self, key: SessionKey) -> Subject | None:
        """Look up a session; one that cannot be looked up is refused."""
        try:
            return self._find(key)
        except HoldfastError:
            return None


def bound(access: Access) -> Access:
    """The same with every text short enough for a line of the audit log."""

    def shorten(text: str) -> str:
        return cut(text, AUDIT_FIELD_CHARS_MAX, keep="head").text

    short = {
        name: shorten(value)
        for name, value in msgspec.structs.asdict(access).items()
        if isinstance(value, str)
    }
    shown = tuple(map(shorten, access.shown[:RECALL_LIMIT_MAX]))
    return msgspec.structs.replace(access, **short, shown=shown)


def _refusal(caller: Caller) -> str:
    """The sentence depends on the caller alone: it must not tell what exists."""
    if _sees_everything(caller):
        return "Refused: there is no such session, or its header cannot be read."
    without = "" if own_key(caller) else ", and it has no session of its own"
    return (
        "Refused: there is no such session, or it is outside what this caller may read: with the "
        f"visibility `{caller.visibility}`, {_SCOPES[caller.visibility]}{without}; of other "
        "owners, only what was granted. To read it, the application would have to grant a wider "
        "visibility, its agent or its owner; asking again changes nothing."
    )


def _sees_everything(caller: Caller) -> bool:
    return caller.visibility == "all" and EVERY in caller.agents and caller.owners == ANY_OWNER


def _is_of_readable_owner(caller: Caller, subject: Subject) -> bool:
    return any(is_wanted(subject.owner, wanted) for wanted in readable_owners(caller))


def _key_in(text: str) -> SessionKey | None:
    """The key that `agent/session` spells."""
    agent, _, session = text.partition("/")
    return SessionKey(agent, session) if is_name(agent) and is_name(session) else None
