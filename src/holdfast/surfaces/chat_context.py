"""The state of a chat: the current session, and access to the agent's other sessions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from holdfast.core.log.ids import Named, SessionKey, resolve
from holdfast.core.log.listing import check_label
from holdfast.core.secrets.redaction import Redactor
from holdfast.core.secrets.vault import Vault
from holdfast.engine.memory.notes import newest
from holdfast.engine.session.opening import FIRST_LABEL, new_key
from holdfast.engine.session.session import Session
from holdfast.engine.tools import Toolbox
from holdfast.errors import CannotFit
from holdfast.providers.models import model as find_model
from holdfast.surfaces.formatting import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.memory.note_types import Note
    from holdfast.engine.session.options import SessionOptions
    from holdfast.ports import Clock, Model, SessionInfo, SessionStore


class ChatContext:
    """The current session of a chat. It is replaced only after another one has been opened."""

    def __init__(
        self,
        store: SessionStore,
        agent: str,
        model: Model,
        options: SessionOptions,
        *,
        owner: str | None = "",
        listen: Callable[[Any], Any] | None = None,
        clock: Clock = time.time,
    ) -> None:
        """Only sessions of `owner` are listed and opened; None is for an operator, who may open
        those of every owner."""
        self.store = store
        self.agent = agent
        self._owner = owner
        self._model = model
        self._options = options
        self._listen = listen
        self._clock = clock
        self.redactor = Redactor(Vault(options.secrets).redactor_secrets)
        """Masks what commands show: registered values, and what looks like a credential."""
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        assert self._session is not None, "open a session first"
        return self._session

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that the model may call."""
        return tuple(tool.name for tool in Toolbox(self._options.tools).tools)

    def infos(self) -> list[SessionInfo]:
        """List the agent's sessions, the most recently active first."""
        return self.store.sessions(agent=self.agent, owner=self._owner)

    def info(self) -> SessionInfo:
        """Return the listing of the current session."""
        return self.store.info(self.session.key)

    @property
    def label(self) -> str:
        return self.info().label

    def find(self, name: str) -> SessionKey:
        """Find a session by its id, its label, or the beginning of one."""
        infos = self.infos()
        return resolve(name, (Named(info.key, info.label, info.owner) for info in infos))

    def open(self, key: SessionKey) -> Session:
        """Open a session and make it the current one."""
        return self.take(Session(self.store, key, self._model, self._options, clock=self._clock))

    def open_newest(self) -> bool:
        """Open the most recently active session, or create one; return True if it is new."""
        newest = self.store.sessions(agent=self.agent, owner=self._owner, limit=1)
        if newest:
            self.open(newest[0].key)
        else:
            self.start(FIRST_LABEL)
        return not newest

    def start(self, label: str = "") -> Session:
        """Create a session of the same owner and make it the current one."""
        key = new_key(self.agent)
        owner = self._owner
        if owner is None and self._session is not None:
            owner = self.store.header(self._session.key).owner
        self.store.create(key, label=check_label(label), owner=owner or "")
        return self.open(key)

    def take(self, session: Session) -> Session:
        """Make an open session the current one."""
        if self._listen is not None:
            session.on(self._listen)
        self._session = session
        self.agent = session.key.agent
        return session

    def use(self, model: str) -> Session:
        """Continue the current session with another model."""
        found = find_model(model)
        session = Session(self.store, self.session.key, found, self._options, clock=self._clock)
        before, self._model = self._model, found
        _close(before)
        return self.take(session)

    def size_text(self) -> str:
        """Describe the size of the current session, in view and in the log."""
        in_log = self.info().messages
        try:
            in_view = sum(len(unit.parts) for unit in self.session.plan().units_kept)
        except CannotFit:  # the next turn explains why
            return f"{in_log:,} messages in the log, more than any request can hold"
        text = count(in_view, "message")
        return text if in_log <= in_view else f"{text} in view, {in_log:,} in the log"

    def notes(self, words: str = "") -> list[Note]:
        """List the agent's notes from all sessions, the newest first."""
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
