"""A session from another tool's transcript: made once, continued when the transcript has grown."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.adoption.growth import ORIGIN, Growth, compare, mark, with_free_ids
from holdfast.core.log.ids import SessionKey, free_key
from holdfast.core.log.records import Header, Label, Rewind
from holdfast.core.owners import NO_OWNER, owner_of
from holdfast.errors import HoldfastError, NoSuchSession, SessionExists

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.core.owners import Owner
    from holdfast.ports import SessionStore

AdoptedState = Literal["new", "same", "grown", "revised", "forked", "renamed", "refused"]
"""`new`: the session was made. `same`: it has everything already. `grown` and `revised`: records
were added. `forked`: the source and the session differ from some record on, and a fork has what the
source has. `renamed`: another session has the id, so this one got another. `refused`: one of the
last two would be due, and the caller wants neither."""

_PIECE_RECORDS: Final = 250
"""Records in one append. Whoever opens the session reads the newest append whole, to know that no
page of it was lost; twice as many gain nothing when writing."""

_FORK, _OTHER = "fork", "adopted"


class AdoptedSession(msgspec.Struct, frozen=True):
    """The result for one session of a source."""

    key: SessionKey
    state: AdoptedState
    added: int
    """Records that were added; in a dry run, that would be."""
    records: int
    """Records that the source has."""
    beside: SessionKey | None = None
    """The session that has another version, where this is a fork or was renamed."""
    shared: int = 0
    """Records that a fork has in common with that session."""


class SessionAdopter:
    """Brings transcripts into a store as sessions of one agent and owner."""

    def __init__(
        self,
        store: SessionStore,
        *,
        owner: Owner = NO_OWNER,
        may_fork: bool = True,
        is_dry_run: bool = False,
    ) -> None:
        self._store = store
        self._owner = owner
        self._may_fork = may_fork
        self._is_dry_run = is_dry_run
        self._keys: dict[str, dict[str, SessionKey]] = {}

    def adopt(
        self, key: SessionKey, records: Sequence[Record], origin: Json, *, label: str = ""
    ) -> AdoptedSession:
        """Make the session, or add what it lacks. What both have is never written twice.

        A crash leaves a beginning, which the next call goes on from.
        """
        found = self._versions(key)
        if not found:
            return self._create(key, records, origin, label, AdoptedSession(key, "new", 0, 0))
        best: tuple[SessionKey, Growth] | None = None
        for version in found:
            growth = self._compare(version, records)
            if growth is not None and growth.state != "diverged":
                return self._continue(version, records, growth, origin, label)
            if growth is not None and (best is None or growth.shared > best[1].shared):
                best = version, growth
        if not self._may_fork:
            return AdoptedSession(found[0], "refused", 0, len(records), found[0])
        if best is not None and best[1].shared:
            return self._fork(*best, records, origin)
        other = free_key(key, _OTHER, self._ids_of(key.agent))
        about = AdoptedSession(other, "renamed", 0, 0, found[0])
        return self._create(other, records, origin, label, about)

    def _versions(self, key: SessionKey) -> list[SessionKey]:
        """Return the sessions that may be an earlier import of the same source."""
        taken = self._ids_of(key.agent)
        stem = key.session[:96].casefold()
        names = [key.session.casefold()]
        for suffix in (_FORK, _OTHER):
            number, name = 1, f"{stem}-{suffix}"
            while name in taken:
                names.append(name)
                number += 1
                name = f"{stem}-{suffix}-{number}"
        return [taken[name] for name in names if name in taken]

    def _ids_of(self, agent: str) -> dict[str, SessionKey]:
        """Return the sessions of an agent by their ids, case-folded."""
        if agent not in self._keys:
            keys = self._store.keys(agent)
            self._keys[agent] = {key.session.casefold(): key for key in keys}
        return self._keys[agent]

    def _compare(self, key: SessionKey, records: Sequence[Record]) -> Growth | None:
        """Compare a session with the source; None where it is another's, or something else."""
        try:
            header = self._store.header(key)
            stored = [each for each in self._store.read(key) if not isinstance(each, Header)]
        except NoSuchSession:
            return None
        if owner_of(header.owner) != self._owner:
            return None
        if not stored and header.ts != _start_time(records):
            return None  # an empty session that somebody made
        return compare(stored, records)

    def _create(
        self,
        key: SessionKey,
        records: Sequence[Record],
        origin: Json,
        label: str,
        about: AdoptedSession,
    ) -> AdoptedSession:
        if not self._is_dry_run:
            try:
                began = _start_time(records) or None
                self._store.create(key, label=label, owner=self._owner, created=began)
            except SessionExists:
                self._keys.pop(key.agent, None)  # made by another process meanwhile
                raise
            self._append(key, mark(records, origin))
        self._ids_of(key.agent)[key.session.casefold()] = key
        return msgspec.structs.replace(about, added=len(records), records=len(records))

    def _continue(
        self,
        key: SessionKey,
        records: Sequence[Record],
        growth: Growth,
        origin: Json,
        label: str,
    ) -> AdoptedSession:
        if growth.state == "same" or self._is_dry_run:
            state: AdoptedState = "same" if growth.state == "same" else "grown"
            self._name(key, label, origin)
            return AdoptedSession(key, state, len(growth.fresh), len(records))
        taken = {entry.record.id for entry in self._store.read_all(key)}
        fresh = mark(with_free_ids(growth.fresh, taken), origin)
        if growth.state == "revised":
            newest = self._store.info(
                key
            ).last_active  # the time of the source, not of the adoption
            to = growth.at or self._store.header(key).id
            back = Rewind(to=to, reason="adopt", ts=newest)
            self._store.append(key, [back], expect=self._store.head(key))
        self._append(key, fresh)
        self._name(key, label, origin)
        state = "revised" if growth.state == "revised" else "grown"
        return AdoptedSession(key, state, len(fresh), len(records))

    def _fork(
        self, key: SessionKey, growth: Growth, records: Sequence[Record], origin: Json
    ) -> AdoptedSession:
        new = free_key(key, _FORK, self._ids_of(key.agent))
        if not self._is_dry_run:
            self._store.fork(key, new, at=growth.at)
            self._append(new, mark(growth.fresh, origin))
        self._ids_of(key.agent)[new.session.casefold()] = new
        return AdoptedSession(
            new, "forked", len(growth.fresh), len(records), beside=key, shared=growth.shared
        )

    def _append(self, key: SessionKey, records: Sequence[Record]) -> None:
        head = self._store.head(key)
        for start in range(0, len(records), _PIECE_RECORDS):
            piece = records[start : start + _PIECE_RECORDS]
            head = self._store.append(key, piece, expect=head, durability="buffered").head
        self._store.sync(key)

    def _name(self, key: SessionKey, label: str, origin: Json) -> None:
        """Give a session the name that its source got later."""
        if not label or self._is_dry_run:
            return
        with suppress(HoldfastError):  # a name is no reason to fail
            if not self._store.info(key).label:
                newest = self._store.info(key).last_active
                named = Label(label=label, ts=newest, extra={ORIGIN: origin})
                self._store.append(key, [named], expect=self._store.head(key))


def is_in_use(records: Iterable[Record]) -> bool:
    """Return whether anything but imports is in a session; shown the path from the head back."""
    newest = next(iter(records), None)
    return newest is None or ORIGIN not in newest.extra


def _start_time(records: Iterable[Record]) -> float:
    return min((record.ts for record in records if record.ts > 0), default=0.0)
