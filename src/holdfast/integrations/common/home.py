"""The store behind an adapter: sessions by the names of a framework, and calls off its event loop.

A framework names a conversation by a thread, a user, a path: texts of any length and script, or
several of them. A session id is short, plain, and told from others without regard to case. So a
name becomes an id by a rule, and the header of the session keeps the name itself.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import re
import threading
import time
import warnings
from collections import OrderedDict, deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypedDict, TypeVar

import msgspec

from holdfast.core.limits import BATCH_RECORDS_MAX, LABEL_CHARS_MAX
from holdfast.core.log.batch import new_header
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.log.records import MESSAGES, Rewind
from holdfast.core.owners import owner_argument, owner_of, owner_text
from holdfast.core.text.cut import cut, ellipsis
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.engine.erasing import erase
from holdfast.engine.session.drivers.lease import TurnScope, take_turn
from holdfast.engine.session.opening import check_owner, choose_store
from holdfast.errors import (
    AdapterClosed,
    BadSetting,
    HoldfastWarning,
    LogConflict,
    NoSuchSession,
    SessionExists,
)
from holdfast.integrations.common.originals import read_items, read_lines
from holdfast.ports import ANY_HEAD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence

    from holdfast.core.log.records import Header, Record
    from holdfast.core.owners import Owner
    from holdfast.integrations.common.originals import AnyLine, StoredItem
    from holdfast.ports import Clock, SessionStore


PeerName = tuple[str, ...]
"""The texts that name a conversation in another framework: one or several."""

NAME_FIELD: Final = "peer_name"
"""The field of a header that holds the name."""
_WORDS_CHARS: Final = 40
"""Of a name in the id that is made from it; the digest alone makes it unique."""
_DIGEST_CHARS: Final = 32
"""128 bits: no two names that anyone will ever have share a digest."""
_MADE: Final = lazy_pattern(rf".*-[0-9a-f]{{{_DIGEST_CHARS}}}")


def session_id_for(name: PeerName) -> str:
    """Return the session id of a name: a plain lower-case one is its own id.

    Any other has an id of its words and a digest. A name that looks like such an id has one made
    too, so that two names never have the same id.
    """
    plain = name[0] if len(name) == 1 else ""
    if is_name(plain) and plain == plain.lower() and not _MADE.fullmatch(plain):
        return plain
    words = "-".join(re.findall("[A-Za-z0-9]+", " ".join(name)[:1000]))[:_WORDS_CHARS]
    digest = hashlib.sha256(spell_name(name).encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{words or 'session'}-{digest}"


def spell_name(name: PeerName) -> str:
    """Return a name as ASCII text that `read_name` reads back, whatever is in it."""
    return json.dumps(name, separators=(",", ":"))


def read_name(header: Header) -> PeerName | None:
    """Return the name under which a framework made a session; None where none did."""
    try:
        parts: Any = json.loads(header.extra[NAME_FIELD])
    except (KeyError, TypeError, ValueError):
        return None
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        return None
    return tuple(parts)


_Name = TypeVar("_Name")
_Value = TypeVar("_Value")


class RecentValues(Generic[_Name, _Value]):
    """At most so many values by name; the one used longest ago makes room. Safe for threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[_Name, _Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: _Name) -> _Value | None:
        """Return a value; None where there is none, or no longer."""
        with self._lock:
            if name not in self._values:
                return None
            self._values.move_to_end(name)
            return self._values[name]

    def put(self, name: _Name, value: _Value) -> None:
        """Keep a value."""
        with self._lock:
            self._values[name] = value
            self._values.move_to_end(name)
            while len(self._values) > self._most:
                self._values.popitem(last=False)

    def forget(self, name: _Name) -> None:
        """Drop a value, if there is one."""
        with self._lock:
            self._values.pop(name, None)


_T = TypeVar("_T")
_State = TypeVar("_State")


async def read_in_thread(read: Callable[[], _T]) -> _T:
    """Return what a read returns. A cancelled caller does not wait for it."""
    return await asyncio.to_thread(read)


async def write_in_thread(write: Callable[[], _T]) -> _T:
    """Return what a write returns, once its outcome is known.

    A caller that is cancelled meanwhile waits for it. Then the cancellation goes on, with a note
    that says whether the write was committed.
    """
    task = asyncio.ensure_future(asyncio.to_thread(write))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        failed = task.exception()
        outcome = "was committed" if failed is None else f"failed, and stored nothing: {failed}"
        cancelled.add_note(f"the write {outcome}")
        raise cancelled
    return task.result()


def move_head(
    store: SessionStore, key: SessionKey, to: str, head: str, records: Sequence[Record] = ()
) -> bool:
    """Move the head from one record to another, and append; False where another writer was
    faster."""
    try:
        store.append(key, [Rewind(to=to), *records], expect=head)
    except LogConflict:
        return False
    return True


def try_append(
    store: SessionStore, key: SessionKey, records: Sequence[Record], head: str
) -> list[Record] | None:
    """Append to a session that ends with a record, and return what was appended, with ids.

    None where it is another one by now, or was removed. More than a batch can hold are added
    batch by batch.
    """
    stored: list[Record] = []
    try:
        for start in range(0, len(records), BATCH_RECORDS_MAX):
            batch = records[start : start + BATCH_RECORDS_MAX]
            done = store.append(key, batch, expect=head)
            head = done.head
            stored += [
                msgspec.structs.replace(record, id=record_id)
                for record, record_id in zip(batch, done.ids, strict=True)
            ]
    except (LogConflict, NoSuchSession):
        return None
    return stored


def clear_path(store: SessionStore, key: SessionKey, also: str = "") -> None:
    """Move the head to the first record, if there are messages, or records of the type `also`."""
    while True:
        head, has_messages = "", False
        last: deque[Record] = deque(maxlen=1)
        for record in store.back(key):
            head = head or record.id
            has_messages = has_messages or record.kind in (*MESSAGES, also)
            last.append(record)
        if not has_messages or move_head(store, key, last[0].id, head):
            return


@asynccontextmanager
async def hold_turn(
    store: SessionStore, key: SessionKey, wait_seconds: float
) -> AsyncIterator[None]:
    """Hold the turn of a session for a block, waiting for it in a thread.

    Raises `TurnInProgress` when the time is up. A caller that is cancelled gives its place up.
    """
    scope = TurnScope()
    taking = asyncio.ensure_future(asyncio.to_thread(take_turn, store, key, wait_seconds, scope))
    try:
        try:
            await asyncio.shield(taking)
        except asyncio.CancelledError:
            scope.is_cancelled.set()
            await asyncio.wait({taking})  # it ends at once, and is told what it holds
            raise
        yield
    finally:
        await asyncio.to_thread(scope.release)


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
        self._store, self.agent, self._is_ours = choose_store(
            root if store is None else store, agent
        )
        self.owner = owner_argument(owner)
        self._delete = delete
        self._clock = clock
        self._closed = threading.Event()
        """Of this home and of those that `at` makes."""
        self._examined: set[SessionKey] = set()
        """Sessions that were looked at for damage; anyone who uses one is told once."""
        self._heads: RecentValues[tuple[SessionKey, Owner], str] = RecentValues(_HEADS_MAX)
        """Heads that were written here, by session and owner."""

    @property
    def store(self) -> SessionStore:
        """The open store. Raises `AdapterClosed`."""
        if self._closed.is_set():
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
        if not self._closed.is_set():
            self._closed.set()
            if self._is_ours:
                self._store.close()


class FoldedLogs(Generic[_State]):
    """Logs of an adapter, each folded into a state that is remembered with the head it is of.

    What is appended is made from the state, and names that head: where another writer came in
    between, the log is folded again, and the records are made again.
    """

    def __init__(
        self,
        home: PeerHome,
        most: int,
        *,
        fold: Callable[[SessionKey], _State],
        advance: Callable[[_State, list[Record]], None],
    ) -> None:
        """`fold` reads a log; `advance` brings its state up to date with what was appended here."""
        self._home = home
        self._fold = fold
        self._advance = advance
        self._known: RecentValues[SessionKey, tuple[str, _State]] = RecentValues(most)

    def find(self, key: SessionKey) -> _State | None:
        """Return the state of a log as it is now; None where there is no log."""
        known = self._known.get(key)
        if known is None or not self._home.is_head(key, known[0]):
            self._known.forget(key)
            if not self._home.exists(key, is_read_whole=True):
                return None
            known = (self._home.store.head(key), self._fold(key))
            self._known.put(key, known)
        return known[1]

    def append_new(
        self,
        name: PeerName,
        make: Callable[[_State], list[Record]],
        *,
        spawned_by: SessionKey | None = None,
    ) -> None:
        """Append what `make` makes of the state of a log, which is made where there is none."""
        key = self._home.key_for(name)
        while (known := self._known.get(key)) is None or not self._try_append(key, known, make):
            self._home.ensure(name, spawned_by=spawned_by)
            self.find(key)

    def _try_append(
        self,
        key: SessionKey,
        known: tuple[str, _State],
        make: Callable[[_State], list[Record]],
    ) -> bool:
        """Append to a log as it was; False where it is another one by now."""
        head, state = known
        records = make(state)
        if not records:
            return self._home.is_head(key, head)
        stored = try_append(self._home.store, key, records, head)
        if stored is None:
            self._known.forget(key)
            return False
        self._advance(state, stored)
        self._known.put(key, (stored[-1].id, state))
        return True

    def forget(self, key: SessionKey) -> None:
        """Forget a log that is deleted."""
        self._known.forget(key)


class StoreOptions(TypedDict, total=False):
    """Whose sessions an adapter keeps, and where."""

    root: str | None
    """The address of a store."""
    store: SessionStore | None
    """An open one, in its place."""
    agent: str | None
    owner: str


class DeletingOptions(StoreOptions, total=False):
    """The same, and what becomes of a session that is deleted."""

    delete: Delete


class StoreAdapter:
    """An adapter over a store: `root` is the address of one, `store` an open one."""

    def __init__(
        self,
        *,
        root: str | None = None,
        store: SessionStore | None = None,
        agent: str | None = None,
        owner: str = "",
        delete: Delete = "trash",
    ) -> None:
        name = type(self).__name__
        self._home = PeerHome(name, root=root, store=store, agent=agent, owner=owner, delete=delete)

    def close(self) -> None:
        """Release the store. Using the adapter afterwards is a `RuntimeError`."""
        self._home.close()


def _warn_of_damage(store: SessionStore, key: SessionKey, examined: set[SessionKey]) -> None:
    """Warn about the damage of a session, if it is not among those that were looked at."""
    if key in examined:
        return
    examined.add(key)
    damaged = store.info(key).damaged
    if damaged:
        warnings.warn(
            f"session `{key}` has {damaged} damaged places; what was there is left out: "
            f"`holdfast verify {key.session}` says more, and with `--repair` makes a copy",
            HoldfastWarning,
            stacklevel=3,
        )
