"""The sessions of the proxy, and where their conversations stand. Memory is bounded."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from itertools import count
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import msgspec

from holdfast.core.limits import BATCH_RECORDS_MAX
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant
from holdfast.core.owners import owner_of, owner_text
from holdfast.core.proxy.branches import Branches
from holdfast.errors import AccessDenied, LogConflict, NoSuchSession, SessionExists
from holdfast.stores import ANY_HEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.owners import Owner
    from holdfast.ports import SessionStore

_SESSIONS_MAX: Final = 1_000
"""Sessions kept in memory, about 6 KB each beside their places; the log has every one."""
_PLACES_MAX: Final = 200_000
"""Places kept for all sessions together, about 60 MB."""
_NAME_DIGITS: Final = 24
_CANDIDATES_MAX: Final = 20
"""Sessions with one opening that are compared with a request which none in memory fits."""
_RESPONSE_SESSIONS_MAX: Final = 200
"""Sessions in which a response is looked for that this process has not seen."""
_GETS_BETWEEN_LOOKS: Final = 100
"""Uses of known sessions after which the size of all is added up again."""


def last_number(is_there: Callable[[int], bool]) -> int:
    """The last of the numbers 0, 1, 2… that are there, by few looks; -1 where there is none."""
    low, high = -1, 0
    while is_there(high):
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_there(middle) else (low, middle)
    return low


class LoggedSession:
    """One session and its branches. Take `lock` to use it."""

    def __init__(self, store: SessionStore, key: SessionKey, owner: Owner) -> None:
        self.key = key
        self.label = ""
        """The opening by which it is found; empty where it is found by its key alone."""
        self.lock = threading.RLock()
        self.branches = Branches()
        self._store = store
        self._owner = owner

    def refresh(self) -> bool:
        """Bring the branches up to date with the log; False where there is no such session."""
        try:
            head = self._store.head(self.key)
        except NoSuchSession:
            self.branches = Branches()
            return False
        if head != self.branches.head:
            if owner_of(self._store.header(self.key).owner) != self._owner:
                raise AccessDenied(
                    f"the session `{self.key.session}` belongs to another owner",
                    hint="choose another name",
                )
            self.branches = Branches()
            for entry in self._store.read_all(self.key):
                self.branches.add(entry.record)
        return True

    def replies(self) -> list[Assistant]:
        """Return the replies in the log, on every branch."""
        found = (entry.record for entry in self._store.read_all(self.key))
        return [record for record in found if isinstance(record, Assistant)]

    def create(self, label: str, parent: str | None = None) -> bool:
        """Make the session; False where another process has just made it."""
        is_new = True
        try:
            self._store.create(
                self.key,
                label=label,
                owner=self._owner,
                parent_session=parent,
                reason="spawn" if parent else None,
            )
        except SessionExists:
            is_new = False
        self.refresh()
        return is_new

    def append(self, records: Sequence[Record], after: str) -> str:
        """Make records durable after the record `after`, whatever the head is; returns the last.

        The first request of a long conversation may bring more than one append takes. What of them
        is stored is a beginning of it, from which the client's next request goes on.
        """
        for start in range(0, len(records), BATCH_RECORDS_MAX):
            after = self._append(records[start : start + BATCH_RECORDS_MAX], after)
        return after

    def _append(self, records: Sequence[Record], after: str) -> str:
        head = self.branches.head
        first = records[0]
        if after == head:
            try:
                done = self._store.append(self.key, records, expect=head)
                return self._take(records, done.ids, after)
            except LogConflict:  # another proxy appended to another branch
                self.refresh()
        placed = [msgspec.structs.replace(first, parent=after), *records[1:]]
        done = self._store.append(self.key, placed, expect=ANY_HEAD)
        return self._take(placed, done.ids, after)

    def _take(self, records: Sequence[Record], ids: Sequence[str], after: str) -> str:
        for record, id_ in zip(records, ids, strict=True):
            self.branches.add(msgspec.structs.replace(record, id=id_), after)
            after = id_
        return after


class SessionPool:
    """The sessions in use, the most recent ones in memory."""

    def __init__(self, store: SessionStore, agent: str, owner: Owner) -> None:
        self._store = store
        self._agent = agent
        self._owner = owner
        self._lock = threading.Lock()
        self._sessions: OrderedDict[SessionKey, LoggedSession] = OrderedDict()
        self._in_use: WeakValueDictionary[SessionKey, LoggedSession] = WeakValueDictionary()
        """Also those that were forgotten while an exchange goes on: a session has one lock."""
        self._keys: dict[str, OrderedDict[SessionKey, None]] = {}
        """Those in memory, by label."""
        self._gets = 0

    def get(self, key: SessionKey, label: str = "") -> LoggedSession:
        """The session of a key. With a label, `in_memory` finds it."""
        with self._lock:
            found = self._in_use.get(key)
            if found is None:
                found = self._in_use[key] = LoggedSession(self._store, key, self._owner)
            is_new = key not in self._sessions
            self._sessions[key] = found
            self._sessions.move_to_end(key)
            if label:
                found.label = label
            if found.label:
                self._keys.setdefault(found.label, OrderedDict())[key] = None
            self._gets += 1
            if len(self._sessions) > _SESSIONS_MAX:
                self._forget_oldest()
            if is_new or self._gets % _GETS_BETWEEN_LOOKS == 0:
                self._limit_places()
            return found

    def _limit_places(self) -> None:
        """Forget sessions until the places of the others are few enough; one always stays."""
        sizes = [1 + len(session.branches) for session in self._sessions.values()]
        total = sum(sizes)
        for size in sizes[:-1]:
            if total <= _PLACES_MAX:
                return
            total -= size
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        key, oldest = self._sessions.popitem(last=False)
        alike = self._keys.get(oldest.label, OrderedDict())
        alike.pop(key, None)
        if not alike:
            self._keys.pop(oldest.label, None)

    def in_memory(self, label: str) -> list[LoggedSession]:
        """The sessions with one opening that this process has used recently."""
        with self._lock:
            return [self._sessions[key] for key in self._keys.get(label, ())]

    def all_in_memory(self) -> list[LoggedSession]:
        """The sessions that this process has used recently, the newest first."""
        with self._lock:
            return list(reversed(self._sessions.values()))

    def in_store(self, label: str) -> list[LoggedSession]:
        """The newest sessions with one opening, whichever process made them."""
        newest = self._newest(label)
        numbers = range(max(0, newest + 1 - _CANDIDATES_MAX), newest + 1)
        return [self.get(self._key(label, number), label) for number in numbers]

    def make(self, label: str) -> LoggedSession:
        """Make a session with an opening."""
        for number in count(self._newest(label) + 1):
            session = self.get(self._key(label, number), label)
            with session.lock:
                if not session.refresh() and session.create(label):
                    return session
        raise AssertionError("numbers do not end")

    def _key(self, label: str, number: int) -> SessionKey:
        """The key of the session with this number among those of an owner with one opening. It
        follows from the opening, so that no one has to look through the store."""
        digest = hashlib.sha256(f"{owner_text(self._owner)}\n{label}".encode()).hexdigest()
        return SessionKey(self._agent, f"proxy-{digest[:_NAME_DIGITS]}-{number}")

    def _newest(self, label: str) -> int:
        def is_there(number: int) -> bool:
            try:
                return bool(self._store.head(self._key(label, number)))
            except NoSuchSession:
                return False

        return last_number(is_there)

    def newest(self) -> list[LoggedSession]:
        """The sessions of the store that were used last."""
        infos = self._store.sessions(
            agent=self._agent, owner=self._owner, limit=_RESPONSE_SESSIONS_MAX
        )
        return [self.get(info.key) for info in infos]
