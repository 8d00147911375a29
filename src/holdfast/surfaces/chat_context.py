"""What a person sits at: one session, and how to get at the others."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

from holdfast.core.log.ids import Named, SessionKey, new_session_id, resolve
from holdfast.core.log.listing import checked_label
from holdfast.engine.memory.notes import newest
from holdfast.engine.session.base import FIRST_LABEL
from holdfast.engine.session.session import Session
from holdfast.engine.tools import Toolbox
from holdfast.providers.models import model as find_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.engine.session.base import Options
    from holdfast.engine.session.status import Status
    from holdfast.ports import Clock, Model, SessionInfo, SessionStore
    from holdfast.stores.notes.notes import Note


class Desk:
    """The current session. Another one takes its place only once it is open."""

    def __init__(
        self,
        store: SessionStore,
        agent: str,
        model: Model,
        options: Options,
        *,
        listen: Callable[[Any], Any] | None = None,
        clock: Clock = time.time,
    ) -> None:
        self.store = store
        self.agent = agent
        self._model = model
        self._options = options
        self._listen = listen
        self._clock = clock
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        assert self._session is not None, "a desk is sat at once a session is open"
        return self._session

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that the model may use."""
        return tuple(tool.name for tool in Toolbox(self._options.get("tools", ())).tools)

    def infos(self) -> list[SessionInfo]:
        """The agent's sessions, the most recently active first."""
        return self.store.sessions(agent=self.agent)

    def info(self) -> SessionInfo | None:
        """The small facts about the current session."""
        return next((one for one in self.infos() if one.key == self.session.key), None)

    @property
    def label(self) -> str:
        info = self.info()
        return info.label if info is not None else ""

    def find(self, name: str) -> SessionKey:
        """The session meant by an id, a label, or the beginning of one."""
        return resolve(name, (Named(info.key, info.label) for info in self.infos()))

    def open(self, key: SessionKey) -> Session:
        """Sit down at another session."""
        return self.take(Session(self.store, key, self._model, self._options, clock=self._clock))

    def open_newest(self) -> bool:
        """Sit down at the session that was last active, or at a first one; whether it is new."""
        infos = self.infos()
        if infos:
            self.open(infos[0].key)
        else:
            self.start(FIRST_LABEL)
        return not infos

    def start(self, label: str = "") -> Session:
        """Make a session and sit down at it."""
        key = SessionKey(self.agent, new_session_id(random.getrandbits(48)))
        self.store.create(key, label=checked_label(label))
        return self.open(key)

    def take(self, session: Session) -> Session:
        """Sit down at a session that is open already."""
        if self._listen is not None:
            session.on(self._listen)
        self._session = session
        self.agent = session.key.agent
        return session

    def use(self, model: str) -> Session:
        """Go on with another model. The session and everything in it stays."""
        found = find_model(model)
        session = Session(self.store, self.session.key, found, self._options, clock=self._clock)
        before, self._model = self._model, found
        _close(before)
        return self.take(session)

    def status(self) -> Status:
        return self.session.status()

    def notes(self, words: str = "") -> list[Note]:
        """What was noted for the agent, of all sessions, the newest first."""
        store = self.session.note_store
        return newest(store.notes(), words=words) if store is not None else []

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        _close(self._model)


def _close(model: Model) -> None:
    close = getattr(model, "close", None)
    if close is not None:
        close()
