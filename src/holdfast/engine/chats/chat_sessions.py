"""The sessions of chats with agents, found by what was said in them. Memory is bounded."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from holdfast.core.log.ids import SessionKey
from holdfast.core.owners import owner_of, owner_text
from holdfast.core.proxy.agent_history import AgentHistory
from holdfast.engine.proxy.session_branches import last_number
from holdfast.engine.session.opening import follow_continuation
from holdfast.errors import NoSuchRecord, NoSuchSession, SessionExists
from holdfast.ports.sessions import follower_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.owners import Owner
    from holdfast.engine.proxy.request import ClientRequest
    from holdfast.ports import SessionStore
    from holdfast.ports.sessions import Follower

_SESSIONS_MAX: Final = 500
"""Sessions whose places are kept in memory; the log has every one."""
_CANDIDATES_MAX: Final = 20
"""Sessions with one opening that are compared with a request, the newest first."""
_NAME_DIGITS: Final = 24
"""Of a digest, in the id of a session."""


class ChatSession:
    """One session, and the places of the conversation in it. Take `lock` to use it."""

    def __init__(self, store: SessionStore, key: SessionKey, show: Callable[[str], str]) -> None:
        self.key = key
        self.lock = threading.RLock()
        self.history = AgentHistory(show)
        self._store = store
        self._show = show
        self._log_key = key
        self._follower: Follower | None = None

    def refresh(self) -> bool:
        """Read what is new in the log; False where there is no such session."""
        try:
            self._read()
        except NoSuchSession:
            self._follower, self.history = None, AgentHistory(self._show)
            return False
        return True

    def _read(self) -> None:
        key = follow_continuation(self._store, self.key)
        if self._follower is not None and key == self._log_key:
            try:
                for record in self._follower.read():
                    self.history.add(record)
                return
            except NoSuchRecord:  # records were erased
                pass
        self._log_key, self.history = key, AgentHistory(self._show)
        for entry in self._store.read_all(key):
            self.history.add(entry.record)
        self._follower = follower_of(self._store, key, self.history.head)


class ChatSessions:
    """Finds the session of a request to an agent, for one owner. Safe for threads."""

    def __init__(
        self, store: SessionStore, agent: str, owner: Owner, show: Callable[[str], str]
    ) -> None:
        self._store = store
        self._agent = agent
        self._owner = owner
        self._show = show
        self._lock = threading.Lock()
        self._known: OrderedDict[SessionKey, ChatSession] = OrderedDict()

    def get(self, key: SessionKey) -> ChatSession:
        """Return a session, brought up to date by `refresh`."""
        with self._lock:
            found = self._known.setdefault(key, ChatSession(self._store, key, self._show))
            self._known.move_to_end(key)
            if len(self._known) > _SESSIONS_MAX:
                self._known.popitem(last=False)
            return found

    def open(self, key: SessionKey, label: str) -> ChatSession:
        """Return a session, made where it is missing. Raises `SessionExists` where it is another
        owner's."""
        found = self.get(key)
        with found.lock:
            if not found.refresh():
                self._store.create(key, label=label, owner=self._owner)
                found.refresh()
            elif owner_of(self._store.header(key).owner) != self._owner:
                raise SessionExists(key.session, key.session)
        return found

    def alike(self, request: ClientRequest) -> Iterator[ChatSession]:
        """Yield sessions that begin as a request does, the newest first."""
        newest = self._newest(request)
        for number in range(newest, max(-1, newest - _CANDIDATES_MAX), -1):
            found = self.get(self._key(request, number))
            with found.lock:
                if found.refresh():
                    yield found

    def make(self, request: ClientRequest) -> ChatSession:
        """Make a session that begins as a request does."""
        number = self._newest(request) + 1
        while True:
            found = self.get(self._key(request, number))
            number += 1
            try:
                self._store.create(found.key, label="chat", owner=self._owner)
            except SessionExists:  # another process made it a moment ago
                continue
            with found.lock:
                found.refresh()
            return found

    def _key(self, request: ClientRequest, number: int) -> SessionKey:
        """Return the key of a session by its number among those with one opening."""
        words = f"{owner_text(self._owner)}\n{request.opening}"
        digest = hashlib.sha256(words.encode()).hexdigest()[:_NAME_DIGITS]
        return SessionKey(self._agent, f"chat-{digest}-{number}")

    def _newest(self, request: ClientRequest) -> int:
        def is_there(number: int) -> bool:
            try:
                return bool(self._store.head(self._key(request, number)))
            except NoSuchSession:
                return False

        return last_number(is_there)
