"""Copies everything of one store into another: written above the ports, for every pair of them."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.core.owners import ANY_OWNER, UNKNOWN_OWNER, AnyOwner, UnknownOwner, owner_of
from holdfast.errors import (
    HoldfastWarning,
    NoSuchSession,
    StoreError,
    StoreUnavailable,
    UsageError,
)
from holdfast.ports.copying import (
    CopiedNotes,
    CopiedSession,
    CopyProgress,
    CopyReport,
    OnProgress,
)
from holdfast.stores.copying.accesses import copy_accesses
from holdfast.stores.copying.messages import copy_messages
from holdfast.stores.copying.notes import copy_notes
from holdfast.stores.copying.payloads import Payloads
from holdfast.stores.copying.sessions import SessionCopy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.owners import Owner, OwnerFilter
    from holdfast.ports import SessionStore

_UNAVAILABLE_MAX: Final = 3
"""Sessions in a row that a store fails with: then it is the store, and the copy ends."""


def copy_store(
    source: SessionStore,
    target: SessionStore,
    *,
    agent: str | None = None,
    owner: OwnerFilter = ANY_OWNER,
    dry_run: bool = False,
    on_progress: OnProgress = lambda _progress: None,
) -> CopyReport:
    """Copy all sessions with their payloads, running summaries and notes, messages in queues and
    the audit log.

    Logs are the same bytes afterwards, and are compared again once they are written. Running it
    again goes on where it was, and brings up to date what has grown since. It deletes nothing,
    and a session or a file of notes that is another at the target is reported and not touched.
    With `agent`, or an `owner` other than `ANY_OWNER`, only their sessions, notes and messages,
    without the audit log.

    Raises `StoreUnavailable` where a store cannot be reached; what was copied until then stays.
    """
    if source.leases.place == target.leases.place:
        raise UsageError(
            f"cannot copy `{source.describe()}` into itself", hint="name another store"
        )
    keys = _list(source, agent, owner)
    payloads = Payloads(source.blobs, target.blobs, is_dry_run=dry_run)
    # Before the logs: a message that waits at the target, and is answered in its log, is not
    # answered again; one that is answered, and whose log lacks the answer, would be lost.
    messages = copy_messages(
        source.queues, target.queues, agent=agent, owner=owner, is_dry_run=dry_run
    )
    sessions = _copy_sessions(source, target, keys, payloads, dry_run, on_progress)
    is_whole = agent is None and owner == ANY_OWNER
    accesses, damaged = (
        copy_accesses(source.audit, target.audit, is_dry_run=dry_run) if is_whole else (0, 0)
    )
    agents = sorted(source.agents()) if agent is None else [agent]
    notes = _copy_notes(source, target, agents, keys, owner, dry_run=dry_run)
    return CopyReport(
        source=source.describe(),
        target=target.describe(),
        sessions=tuple(sessions),
        notes=tuple(notes),
        accesses=accesses,
        accesses_damaged=damaged,
        trashed=len(source.trash()),
        messages=messages,
        is_dry_run=dry_run,
    )


def _list(source: SessionStore, agent: str | None, owner: OwnerFilter) -> list[SessionKey]:
    """Return every session. One that cannot be listed would be missed, so it is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", HoldfastWarning)
        try:
            if isinstance(owner, AnyOwner):
                return sorted(source.keys(agent))
            return sorted(info.key for info in source.sessions(agent=agent, owner=owner))
        except HoldfastWarning as warning:
            raise StoreError(
                f"cannot list all sessions of `{source.describe()}`: {warning}",
                hint="nothing was copied; make everything there readable, or take it away",
            ) from None


def _copy_sessions(
    source: SessionStore,
    target: SessionStore,
    keys: list[SessionKey],
    payloads: Payloads,
    is_dry_run: bool,
    on_progress: OnProgress,
) -> list[CopiedSession]:
    done: list[CopiedSession] = []
    failures = 0
    for number, key in enumerate(keys, 1):

        def tell(size: int, key: SessionKey = key, number: int = number) -> None:
            on_progress(CopyProgress(key, number, len(keys), size))

        tell(0)
        copy = SessionCopy(source, target, key, payloads, is_dry_run=is_dry_run, on_bytes=tell)
        try:
            done.append(copy.run())
            failures = 0
        except StoreUnavailable as error:
            failures += 1
            if failures >= min(_UNAVAILABLE_MAX, len(keys)):
                raise
            done.append(CopiedSession(key, "failed", detail=str(error)))
    return done


def _owners(source: SessionStore, keys: Iterable[SessionKey]) -> set[Owner]:
    """Return every owner that has a session, or is in the trash or in the audit log."""
    owners = {owner_of(access.owner) for page in source.audit.pages() for access in page.accesses}
    for key in keys:
        with suppress(StoreError, NoSuchSession):  # damaged, or removed meanwhile
            owners.add(owner_of(source.header(key).owner))
    for key in {trashed.key for trashed in source.trash()}:
        with suppress(StoreError, NoSuchSession):
            owners |= source.erasable(key, owner=ANY_OWNER).owners
    return owners


def _copy_notes(
    source: SessionStore,
    target: SessionStore,
    agents: Iterable[str],
    keys: Iterable[SessionKey],
    owner: OwnerFilter,
    *,
    dry_run: bool,
) -> list[CopiedNotes]:
    is_every = isinstance(owner, AnyOwner)
    owners: set[Owner] = set() if isinstance(owner, AnyOwner) else {owner}
    done = []
    for agent in agents:
        scopes = source.note_scopes(agent)
        if (
            is_every and not owners and UNKNOWN_OWNER in scopes.values()
        ):  # of a folder from before it kept names
            owners = _owners(source, keys)
        known = {source.notes(agent, name).scope: name for name in owners}
        for scope, stored in sorted(scopes.items()):
            name = known.get(scope, stored if is_every else UNKNOWN_OWNER)
            if not isinstance(name, UnknownOwner):
                notes, there = source.notes(agent, name), target.notes(agent, name)
                done.append(copy_notes(notes, there, is_dry_run=dry_run))
            elif is_every:
                why = "nobody can tell whose notes these are: name their owner"
                done.append(CopiedNotes(scope, "failed", detail=why))
    return done
