"""Erases sessions: their words are in no file, no index and no payload of the store afterwards.

Written above the ports. A session first leaves every listing; then everything that was made from
it is deleted, and its log last. An erasure that was cut off is finished by running it again.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.history.access import Access
from holdfast.core.log.ids import SessionKey  # noqa: TC001 - the schema of a report needs it
from holdfast.core.owners import (
    ANY_OWNER,
    NO_OWNER,
    UNKNOWN_OWNER,
    NamedOwner,
    OwnerFilter,
    owner_argument,
    owner_text,
)
from holdfast.core.text.cut import scrub
from holdfast.errors import NoSuchSession, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.ports import Clock, Notes, SessionInfo, SessionStore
    from holdfast.ports.sessions import ErasableSession

_LEASE_SECONDS: Final = 600.0
"""No turn begins meanwhile. An erasure reads all logs; a crash ends its lease."""

CopyKind = Literal["fork", "reset", "spawn", "reader", "notes", "unknown owner", "outside"]
"""`fork`, `reset` and `spawn`: sessions made from it. `reader`: a session that read it. `notes`:
notes that name no session. `outside`: what left the store."""


class ErasedSession(msgspec.Struct, frozen=True):
    """The parts of a session that were erased, or would be."""

    key: SessionKey
    logs: int
    """Logs: the session itself, and those of its id in the trash."""
    bytes: int
    """The size of its logs."""
    blobs: int
    """Payloads that no other session uses."""
    notes: int
    """Notes that were taken in it."""
    accesses: int
    """Entries of the audit log that no longer name it."""


class RemainingCopy(msgspec.Struct, frozen=True):
    """A place that may hold the same words and was not touched."""

    kind: CopyKind
    """The kind of place."""
    where: str
    """The session or the notes; empty outside the store."""
    why: str
    """The reason why it was not touched, and the next step."""


_OUTSIDE: Final = RemainingCopy(
    "outside", "", "exports, backups and what a model's provider was sent are not in the store"
)


class ErasureReport(msgspec.Struct, frozen=True):
    """The result of `erase`."""

    sessions: tuple[ErasedSession, ...]
    """One entry for each session."""
    remaining: tuple[RemainingCopy, ...]
    """Copies that it cannot reach, and what to do about them."""
    notes: int = 0
    """Notes of an owner that were deleted with everything else that is the owner's."""
    is_dry_run: bool = False
    """True where nothing was deleted."""


def erase(
    store: SessionStore,
    *keys: SessionKey,
    owner: str | OwnerFilter,
    dry_run: bool = False,
    clock: Clock = time.time,
) -> ErasureReport:
    """Erase sessions for good. Returns what is gone and what remains.

    A session goes with its log and those of its id in the trash, its running summary, repaired
    copies, payloads that nothing else uses, notes that came from it, its messages in queues, and
    its rows in every index.
    Only logs of `owner` go: an id can be used again after a removal. `ANY_OWNER` is an operator's.
    The audit log keeps who read something and when, and that something was erased, without names.
    `dry_run` changes nothing. An interrupted erasure is finished by the same call. Raises
    `NoSuchSession`, and `TurnInProgress` while a turn of a session runs.
    """
    whose = owner_argument(owner)
    plans = _plan(store, keys, whose)
    remaining = (*_remaining(store, plans), *_unsigned_notes(store, plans, whose), _OUTSIDE)
    if dry_run:
        return ErasureReport(_preview(store, plans, whose), remaining, 0, is_dry_run=True)
    with _leases(store, plans):
        erased, _notes = _erase_sessions(store, plans, whose, clock)
    return ErasureReport(erased, remaining)


def erase_owner(
    store: SessionStore,
    owner: str | NamedOwner,
    *,
    dry_run: bool = False,
    clock: Clock = time.time,
) -> ErasureReport:
    """Erase everything of an owner for good, as `erase` does: sessions, also removed ones, all
    notes, messages, and sums of budgets. Returns what is gone and what remains."""
    whose = NamedOwner(scrub(owner)) if isinstance(owner, str) else owner
    plans = _plan(store, _keys_of_owner(store, whose), whose)
    remaining = (*_remaining(store, plans), *_unknown(store.possible_copies(())), _OUTSIDE)
    scopes = [store.notes(agent, whose) for agent in sorted(store.agents())]
    if dry_run:
        notes = sum(1 for scope in scopes for _note in scope.notes())
        return ErasureReport(_preview(store, plans, whose), remaining, notes, is_dry_run=True)
    with _leases(store, plans):
        erased, notes = _erase_sessions(store, plans, whose, clock, scopes)
    store.queues.erase(whose)
    store.spending.erase(whose)
    store.audit.reduce(lambda access: _without_owner(access, whose), [whose.name])
    return ErasureReport(erased, remaining, notes)


def digest_of(key: SessionKey) -> str:
    """Return the name of an erased session in the audit log: no words, and the same for a key."""
    return "erased:" + hashlib.sha256(str(key).encode()).hexdigest()[:16]


def _keys_of_owner(store: SessionStore, owner: NamedOwner) -> list[SessionKey]:
    """The keys with a log of that owner: living, removed, or half erased."""
    keys = {info.key for info in store.sessions(owner=owner)}
    return sorted(keys | store.trash_keys(owner=owner))


def _plan(
    store: SessionStore,
    keys: Sequence[SessionKey],
    owner: OwnerFilter,
) -> list[ErasableSession]:
    """The logs of these sessions, and before each the repaired copies of it.

    In this order a session is there to be named until all its copies are gone.
    """
    copies: dict[SessionKey, ErasableSession] = {}
    names = {str(key) for key in keys}
    while names:  # also copies of copies
        found = {info.key for info in store.possible_copies(names) if info.reason == "repair"}
        found |= store.trash_keys(owner=owner, repaired_from=names)
        new = sorted(found - copies.keys())
        for key in new:
            with suppress(NoSuchSession):  # of another owner
                copies[key] = store.erasable(key, owner=owner)
        names = {str(key) for key in new}
    plans: dict[SessionKey, ErasableSession] = {}

    def add(key: SessionKey) -> None:
        found = store.erasable(key, owner=owner)
        for copy in list(copies.values()):
            if str(key) in copy.repaired_from and copy.key not in plans:
                plans[copy.key] = copy
                add(copy.key)
        plans.pop(key, None)
        plans[key] = found

    for key in dict.fromkeys(keys):
        add(key)
    return list(plans.values())


@contextmanager
def _leases(store: SessionStore, plans: Iterable[ErasableSession]) -> Iterator[None]:
    """Hold the turn of every session. Raises `TurnInProgress` before anything is erased."""
    tokens: dict[SessionKey, int] = {}
    try:
        for plan in plans:
            with suppress(NoSuchSession):  # only in the trash
                tokens[plan.key] = store.leases.acquire(plan.key, "an erasure", _LEASE_SECONDS)
        yield
    finally:
        for key, token in tokens.items():
            with suppress(NoSuchSession):  # erased
                store.leases.release(key, token)


def _preview(
    store: SessionStore, plans: Sequence[ErasableSession], owner: OwnerFilter
) -> tuple[ErasedSession, ...]:
    """Count what an erasure would delete."""
    return tuple(_count(store, plan, owner) for plan in plans)


def _count(store: SessionStore, plan: ErasableSession, owner: OwnerFilter) -> ErasedSession:
    name, scopes = str(plan.key), _scopes(store, plan, owner)
    notes = sum(note.session == name for scope in scopes for note in scope.notes())
    accesses = sum(
        _reduce(access, plan) != access for page in store.audit.pages() for access in page.accesses
    )
    blobs = len(_own_blobs(store, plan.key))
    return ErasedSession(plan.key, plan.logs, plan.bytes, blobs, notes, accesses)


def _erase_sessions(
    store: SessionStore,
    plans: Sequence[ErasableSession],
    owner: OwnerFilter,
    clock: Clock,
    scopes: Sequence[Notes] = (),
) -> tuple[tuple[ErasedSession, ...], int]:
    """Erase sessions, and all of these notes; returns the number of notes besides.

    What is made from all sessions together is gone through once. The logs go last, so that the
    same call finishes what was cut off.
    """
    keys = [plan.key for plan in plans]
    store.begin_erasure(*keys, owner=owner)
    for key in keys:
        store.summaries.forget(key)
    payloads = _discard_payloads(store, keys)
    erased = tuple(_erase_session(store, plan, owner, payloads[plan.key]) for plan in plans)
    notes = sum(scope.erase(None) for scope in scopes)
    if keys or scopes:
        store.erase_from_indexes(keys, [scope.scope for scope in scopes])
    for key in keys:
        store.audit.note(
            Access(
                ts=clock(),
                action="erase",
                agent="",
                session=None,
                owner="",
                target=digest_of(key),
                is_allowed=True,
                reason="",
            )
        )
    store.finish_erasure(*keys)
    return erased, notes


def _erase_session(
    store: SessionStore, plan: ErasableSession, owner: OwnerFilter, payloads: int
) -> ErasedSession:
    """Delete what names a session, in notes, queues and the audit log."""
    key = plan.key
    notes = sum(scope.erase(str(key)) for scope in _scopes(store, plan, owner))
    if not _is_in_use(store, key):
        store.queues.erase(str(key))
    accesses = store.audit.reduce(lambda access: _reduce(access, plan), plan.names)
    return ErasedSession(key, plan.logs, plan.bytes, payloads, notes, accesses)


def _scopes(store: SessionStore, plan: ErasableSession, owner: OwnerFilter) -> list[Notes]:
    """The notes that these logs may have written to; of any owner, also those without an owner."""
    owners = {*plan.owners, *([NO_OWNER] if owner == ANY_OWNER else [])}
    return [store.notes(plan.key.agent, each) for each in sorted(owners, key=owner_text)]


def _is_in_use(store: SessionStore, key: SessionKey) -> bool:
    """Return whether the id of an erasure that has begun is that of a session of another owner."""
    try:
        store.header(key)
    except NoSuchSession:
        return False
    except StoreError:
        return True
    return True


def _own_blobs(store: SessionStore, key: SessionKey) -> set[str]:
    """The payloads that only the logs of this key mention."""
    own = set(store.blobs).intersection(store.hash_candidates(of=key))
    if own:
        own.difference_update(store.hash_candidates(besides=key))
    return own


def _discard_payloads(store: SessionStore, keys: Sequence[SessionKey]) -> dict[SessionKey, int]:
    """Delete the payloads that only logs in erasure mention: others of an id may be another
    owner's. Returns how many went with each session; one of several counts for the last."""
    stored = set(store.blobs)
    own = {
        key: stored.intersection(store.hash_candidates(of=key)) if stored else set() for key in keys
    }
    wanted = set().union(*own.values())
    if wanted:
        wanted.difference_update(store.hash_candidates())
    left = set(store.blobs.discard(wanted))
    counts: dict[SessionKey, int] = {}
    for key in reversed(keys):
        counts[key] = len(own[key] & left)
        left -= own[key]
    return counts


def _reduce(access: Access, plan: ErasableSession) -> Access:
    """An access without the names of an erased session: who, when and how much stay."""
    key = plan.key
    if access.agent == key.agent and access.session == key.session:
        access = msgspec.structs.replace(access, session="", reason="")
    if access.action != "erase" and access.target in plan.names:
        access = msgspec.structs.replace(access, target="", reason="")
    if not plan.names.isdisjoint(access.shown):
        left = tuple(name for name in access.shown if name not in plan.names)
        access = msgspec.structs.replace(access, shown=left)
    return access


def _without_owner(access: Access, owner: NamedOwner) -> Access:
    return msgspec.structs.replace(access, owner="") if access.owner == owner.name else access


def _remaining(store: SessionStore, plans: Sequence[ErasableSession]) -> list[RemainingCopy]:
    """The sessions that were made from those, or read them."""
    gone = {plan.key for plan in plans}
    names = {str(key) for key in gone}
    found: list[RemainingCopy] = []
    for info in store.possible_copies(names):
        if info.key not in gone and info.parent_session in names:
            kind: CopyKind = "reset" if info.reason == "reset" else "fork"
            kind = "spawn" if info.reason == "spawn" else kind
            why = f"it was made from {info.parent_session} ({info.reason or 'no reason given'})"
            found.append(RemainingCopy(kind, str(info.key), why))
    return [*found, *_readers(store, plans, gone)]


def _unknown(infos: Iterable[SessionInfo]) -> list[RemainingCopy]:
    """The sessions that may be of any owner."""
    why = "its header is damaged, so its owner is unknown"
    return [
        RemainingCopy("unknown owner", str(info.key), why)
        for info in infos
        if info.owner == UNKNOWN_OWNER
    ]


def _readers(
    store: SessionStore, plans: Iterable[ErasableSession], gone: set[SessionKey]
) -> list[RemainingCopy]:
    """The sessions that read one of those erased, by the audit log."""
    names = {name for plan in plans for name in plan.names}
    readers = {
        f"{access.agent}/{access.session}"
        for page in store.audit.pages()
        for access in page.accesses
        if access.is_allowed and access.session and names & {access.target, *access.shown}
    }
    why = "it read the session, and may have kept words of it"
    return [
        RemainingCopy("reader", name, why) for name in sorted(readers - {str(key) for key in gone})
    ]


def _unsigned_notes(
    store: SessionStore, plans: Iterable[ErasableSession], owner: OwnerFilter
) -> list[RemainingCopy]:
    """Notes that name no session: people wrote them, or a model with the memory tool."""
    scopes = {scope.scope: scope for plan in plans for scope in _scopes(store, plan, owner)}
    found = []
    for name, scope in sorted(scopes.items()):
        number = sum(not note.session for note in scope.notes())
        if number:
            why = f"{number} notes name no session: look at them"
            found.append(RemainingCopy("notes", name, why))
    return found
