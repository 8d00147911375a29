"""The store behind an adapter: sessions by the names of a framework."""

from __future__ import annotations

import copy
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.core.limits import BATCH_RECORDS_MAX, LABEL_CHARS_MAX
from holdfast.core.log.batch import new_header
from holdfast.core.log.ids import SessionKey
from holdfast.core.owners import owner_argument, owner_of, owner_text
from holdfast.core.text.cut import cut, ellipsis
from holdfast.engine.erasing import erase
from holdfast.engine.session.opening import check_owner, choose_store
from holdfast.errors import (
    AdapterClosed,
    BadSetting,
    HoldfastWarning,
    LogConflict,
    NoSuchSession,
    SessionExists,
)
from holdfast.integrations.common.names import (
    NAME_FIELD,
    PeerName,
    read_name,
    session_id_for,
    spell_name,
)
from holdfast.integrations.common.recent import RecentValues
from holdfast.integrations.common.stored_items import read_items, read_lines
from holdfast.ports import ANY_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.core.log.records import Header, Record
    from holdfast.core.owners import Owner
    from holdfast.integrations.common.stored_items import AnyLine, StoredItem
    from holdfast.ports import Clock, SessionStore

Delete = Literal["trash", "erase"]
"""`trash`: a deleted session can be restored. `erase`: it is gone, with everything made from it."""
_HEADS_MAX: Final = 256
"""Sessions whose head is remembered; another one is looked at before an append."""


class PeerHome:
    """Opens a store for an adapter, and finds its sessions by the names of a framework."""

    def __init__(
        self,
        who: str,
        *,
        root: str | None,
        store: SessionStore | None,
        agent: str | None,
        owner: str = "",
        delete: Delete = "trash",
        clock: Clock = time.time,
    ) -> None:
        if root is not None and store is not None:
            raise BadSetting("`root` and `store` exclude each other", hint="pass one of them")
        if delete not in ("trash", "erase"):
            raise BadSetting(
                f"`delete` is {delete!r}", hint="pass `trash` (can be restored) or `erase`"
            )
        self._who = who
        self._store, self.agent, self._is_ours = choose_store(store, root, agent)
        self.owner = owner_argument(owner)
        self._delete = delete
        self._clock = clock
        self._is_closed = False
        self._examined: set[SessionKey] = set()
        """Sessions that were looked at for damage; whoever uses one is told once."""
        self._heads: RecentValues[tuple[SessionKey, Owner], str] = RecentValues(_HEADS_MAX)
        """Heads that were written here, by session and owner."""

    @property
    def store(self) -> SessionStore:
        """The open store. Raises `AdapterClosed`."""
        if self._is_closed:
            raise AdapterClosed(f"{self._who} is closed", hint="make a new one")
        return self._store

    def key_for(self, name: PeerName) -> SessionKey:
        """Return the key of the session with a name, whether or not it exists."""
        return SessionKey(self.agent, session_id_for(name))

    def exists(self, key: SessionKey, *, is_read_whole: bool = False) -> bool:
        """Return whether there is such a session, of this owner. Raises `AccessDenied`.

        Warns once about damage. To know it, the store reads what it has not counted yet: not so
        with `is_read_whole`, where the caller goes through the log with `items` or `lines`.
        """
        try:
            check_owner(self.store, key, self.owner)
        except NoSuchSession:
            return False
        if not is_read_whole:
            _warn_of_damage(self.store, key, self._examined)
        return True

    def items(
        self, key: SessionKey, form: str, *, is_everything: bool = False
    ) -> Iterator[StoredItem]:
        """Yield the records of a session with their items, as `read_items` does. Warns once about
        damage."""
        return read_items(
            *(self.store, key, form),
            is_everything=is_everything,
            on_rules=lambda: _warn_of_damage(self.store, key, self._examined),
        )

    def lines(
        self, key: SessionKey, kind: type[AnyLine], *, is_everything: bool = False
    ) -> Iterable[AnyLine] | Iterable[Record]:
        """Return the records of a session as lines, as `read_lines` does. Warns once about
        damage."""
        return read_lines(
            *(self.store, key, kind),
            is_everything=is_everything,
            on_rules=lambda: _warn_of_damage(self.store, key, self._examined),
        )

    def is_head(self, key: SessionKey, head: str) -> bool:
        """True where a session still ends with a record."""
        try:
            return self.store.head(key) == head
        except NoSuchSession:
            return False

    def at(self, agent: str, owner: str) -> PeerHome:
        """Return the same home for the sessions of another agent and owner."""
        found = copy.copy(self)
        found.store  # noqa: B018 - refuses a closed one
        found.agent, found.owner, found._is_ours = agent, owner_argument(owner), False
        return found

    def ensure(
        self,
        name: PeerName,
        *,
        label: str | None = None,
        spawned_by: SessionKey | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> SessionKey:
        """Return the key of the session with a name, which is made where there is none.

        `label` is the name itself by default; `spawned_by` is the session that it works for;
        `extra` are more fields of the header.
        """
        key = self.key_for(name)
        if not self.exists(key):
            with suppress(SessionExists):  # made by another process a moment ago
                self.create(name, label=label, spawned_by=spawned_by, extra=extra)
            check_owner(self.store, key, self.owner)
        return key

    def create(
        self,
        name: PeerName,
        *,
        label: str | None = None,
        spawned_by: SessionKey | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Header:
        """Make the session with a name, and return its header. Raises `SessionExists`.

        `label` is the name itself by default; `extra` are more fields of the header.
        """
        key = self.key_for(name)
        text = " / ".join(name) if label is None else label
        header = new_header(
            key,
            now=self._clock(),
            label="" if text == key.session else cut(text, LABEL_CHARS_MAX, marker=ellipsis).text,
            owner=owner_text(self.owner),
            parent_session=None if spawned_by is None else str(spawned_by),
            reason=None if spawned_by is None else "spawn",
        )
        more = {NAME_FIELD: spell_name(name), **(extra or {})}
        header = msgspec.structs.replace(header, extra=more)
        self.store.create_log(key, [header])
        return header

    def append(
        self, name: PeerName, records: Sequence[Record], *, spawned_by: SessionKey | None = None
    ) -> None:
        """Add records to the session with a name, wherever it ends, all or none.

        A session that is not there is made. More than a batch can hold are added one by one.
        """
        key = self.key_for(name)
        place = (key, self.owner)
        head = self._heads.get(place)
        is_batch = len(records) <= BATCH_RECORDS_MAX
        if head is not None and is_batch:
            with suppress(LogConflict, NoSuchSession):  # others wrote, or removed it: look again
                self._heads.put(place, self.store.append(key, records, expect=head).head)
                return
        self.ensure(name, spawned_by=spawned_by)
        if is_batch:
            done = self.store.append(key, records, expect=ANY_HEAD)
        else:
            done = self.store.append_each(key, records)
        self._heads.put(place, done.head)

    def headers(self) -> Iterator[Header]:
        """Yield the headers of the owner's sessions that frameworks made."""
        for key in list(self.store.keys(self.agent)):
            with suppress(NoSuchSession):  # removed meanwhile
                header = self.store.header(key)
                name = read_name(header)
                if (
                    name is not None
                    and owner_of(header.owner) == self.owner
                    and self.key_for(name) == key
                ):
                    yield header

    def names(self) -> Iterator[tuple[PeerName, SessionKey]]:
        """Yield the names of the owner's sessions that frameworks made, with their keys."""
        for header in self.headers():
            name = read_name(header)
            assert name is not None
            yield name, self.key_for(name)

    def remove(self, key: SessionKey) -> None:
        """Move a session to the trash, or erase it. Does nothing where there is none."""
        if not self.exists(key):
            return
        with suppress(NoSuchSession):  # removed by another process meanwhile
            if self._delete == "erase":
                erase(self.store, key, owner=self.owner)
            else:
                self.store.remove(key)

    def close(self) -> None:
        """Close the store, if it was opened here. Using the adapter afterwards is an error."""
        if not self._is_closed:
            self._is_closed = True
            if self._is_ours:
                self._store.close()


def _warn_of_damage(store: SessionStore, key: SessionKey, examined: set[SessionKey]) -> None:
    """Warn about the damage of a session, if it is not among those that were looked at."""
    if key in examined:
        return
    examined.add(key)
    damaged = store.info(key).damaged
    if damaged:
        warnings.warn(
            f"session `{key}` has {damaged} damaged places; what was there is left out: "
            f"`holdfast verify {key.session}` tells more, with `--repair` it makes a copy",
            HoldfastWarning,
            stacklevel=3,
        )
