"""Moves sessions that a rule lets go to the trash, from which they can be taken back.

A session whose turn runs stays, and so does one that has a message or a timer ahead, or was used
since it was listed. One whose header is damaged stays too: its owner is unknown.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.history.access import Access
from holdfast.core.owners import (
    ANY_OWNER,
    UNKNOWN_OWNER,
    owner_of,
    row_text,
)
from holdfast.core.retention import DAY_SECONDS, RetentionReason, due_sessions
from holdfast.engine.approval_links import LINKS
from holdfast.errors import NoSuchSession, TurnInProgress

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.owners import FoundOwner, OwnerFilter
    from holdfast.core.retention import Retention, RetentionRule
    from holdfast.ports import Clock, SessionInfo, SessionStore

_PAGE: Final = 500
"""Sessions that are listed at a time: a page of them is small."""
_LEASE_SECONDS: Final = 60.0
"""A removal takes moments; a crash ends its lease."""
_OPEN: Final = ("waiting", "running")
_REASONS: Final[dict[RetentionReason, str]] = {
    "age": "retention: it had no record for too long",
    "size": "retention: its owner has newer sessions that take the room",
}


class RetiredSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was moved to the trash, or would be."""

    agent: str
    """The agent of the session."""
    id: str
    """The id of the session."""
    owner: str
    """The owner; empty where it has none."""
    why: RetentionReason
    """`age`: without a record for too long. `size`: newer ones of its owner take the room."""
    last_active: float
    """The time of its newest record, in seconds since 1970."""
    bytes: int
    """The size of its log."""
    name: str = ""
    """Its name in the trash, for `restore`; empty in a dry run."""


def apply_rule(
    store: SessionStore,
    rule: RetentionRule,
    *,
    owner: OwnerFilter,
    besides: Collection[FoundOwner] = (),
    is_dry_run: bool = False,
    clock: Clock = time.time,
) -> list[RetiredSession]:
    """Move the sessions that a rule lets go to the trash, and return them.

    `besides` are owners with a rule of their own. Each session that goes is in the audit log.
    A dry run changes nothing.
    """
    now = clock()
    listed = _sessions_of(store, rule, owner, now)
    mine = (each for each in listed if each.owner not in (UNKNOWN_OWNER, *besides))
    busy = _busy_sessions(store)
    found = []
    for info, why in due_sessions(mine, rule, now):
        if str(info.key) in busy:
            continue
        retired = _row_of(info, why)
        if not is_dry_run:
            name = _remove(store, info)
            if name is None:
                continue
            retired = msgspec.structs.replace(retired, name=name)
            store.audit.note(_access(info, why, clock()))
        found.append(retired)
    return found


def apply_retention(
    store: SessionStore, retention: Retention, *, clock: Clock = time.time
) -> list[RetiredSession]:
    """Apply the rule for everybody and those of some owners, and delete what was in the trash for
    long enough. Returns the sessions that went to the trash."""
    owners = {owner_of(name): rule for name, rule in retention.owners.items()}
    found = apply_rule(store, retention, owner=ANY_OWNER, besides=owners.keys(), clock=clock)
    for owner, rule in owners.items():
        found += apply_rule(store, rule, owner=owner, clock=clock)
    if retention.trash_days is not None:
        store.empty_trash(older_than_seconds=retention.trash_days * DAY_SECONDS)
    return found


def _sessions_of(
    store: SessionStore, rule: RetentionRule, owner: OwnerFilter, now: float
) -> Iterator[SessionInfo]:
    """The sessions that a rule has to look at, the newest first: by age alone only the old ones."""
    if rule.days is None and rule.bytes is None:
        return
    after = None
    if rule.bytes is None and rule.days is not None:
        newest = store.sessions(owner=owner, limit=1)
        cutoff = now - rule.days * DAY_SECONDS
        after = msgspec.structs.replace(newest[0], last_active=cutoff) if newest else None
    while page := store.sessions(owner=owner, after=after, limit=_PAGE):
        yield from page
        after = page[-1]


def _busy_sessions(store: SessionStore) -> set[str]:
    """The sessions that have a message or a timer ahead."""
    found: set[str] = set()
    before: int | None = None
    while page := store.queues.messages(owner=ANY_OWNER, states=_OPEN, before=before, limit=_PAGE):
        found |= {message.session for message in page if message.queue != LINKS}
        before = page[-1].id
    return found


def _remove(store: SessionStore, info: SessionInfo) -> str | None:
    """Move a session to the trash, unless it is used or gone; returns its name there."""
    key: SessionKey = info.key
    with suppress(NoSuchSession, TurnInProgress):
        token = store.leases.acquire(key, "retention", _LEASE_SECONDS)
        try:
            if store.info(key).last_active == info.last_active:
                return store.remove(key).name
        finally:
            with suppress(NoSuchSession):
                store.leases.release(key, token)
    return None


def _row_of(info: SessionInfo, why: RetentionReason) -> RetiredSession:
    return RetiredSession(
        agent=info.key.agent,
        id=info.key.session,
        owner=row_text(info.owner) or "",
        why=why,
        last_active=info.last_active,
        bytes=info.bytes,
    )


def _access(info: SessionInfo, why: RetentionReason, now: float) -> Access:
    return Access(
        ts=now,
        action="remove",
        agent="",
        session=None,
        owner="",
        target=str(info.key),
        is_allowed=True,
        reason=_REASONS[why],
    )
