"""The state of a chat: the current session, and access to the agent's other sessions."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec

from holdfast.core.flow.arguments import shorten
from holdfast.core.log.ids import SessionKey, is_name, resolve
from holdfast.core.log.listing import check_label
from holdfast.core.owners import (
    ANY_OWNER,
    NO_OWNER,
    AnyOwner,
    is_wanted,
    owner_argument,
    owner_of,
)
from holdfast.core.secrets.found import secrets_of
from holdfast.core.secrets.redaction import Redactor
from holdfast.core.secrets.vault import Vault
from holdfast.engine.adoption import is_in_use
from holdfast.engine.history.lookup import find_named
from holdfast.engine.session.opening import FIRST_LABEL, check_owner, new_key
from holdfast.engine.session.session import Session
from holdfast.engine.tools import Toolbox
from holdfast.errors import (
    AccessDenied,
    BadSetting,
    CannotFit,
    NoSuchSession,
    StoreError,
    UsageError,
)
from holdfast.ports.sessions import names_of
from holdfast.providers.models import model as find_model
from holdfast.surfaces.formatting import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.owners import OwnerFilter
    from holdfast.engine.session.options import SessionOptions
    from holdfast.ports import Clock, Model, SessionInfo, SessionStore

Audience = Literal["guest", "owner", "operator"]
"""Who types, from the least trusted: a guest of the service, the owner of the sessions, or anyone
who runs the program. Each may run the commands of those before it."""
Surface = Literal["terminal", "messenger", "api"]
"""The kind of chat, which decides what commands make sense."""

_NEWEST_MAX: Final = 200
"""Sessions that are looked at for one that was used; more only where many were imported."""


class ChatContext:
    """The current session of a chat. It is replaced only after another one has been opened."""

    def __init__(
        self,
        store: SessionStore,
        agent: str,
        model: Model,
        options: SessionOptions,
        *,
        owner: str | OwnerFilter = NO_OWNER,
        audience: Audience = "owner",
        surface: Surface = "terminal",
        cancel: Callable[[], bool] | None = None,
        listen: Callable[[Any], Any] | None = None,
        moves_name: bool = False,
        clock: Clock = time.time,
    ) -> None:
        """Only sessions of `owner` are listed and opened; `ANY_OWNER` is for an operator, who may
        open those of every owner. `audience` and `surface` choose the commands. `cancel` stops the
        running turn and returns False where there is none; without it, a turn of the current
        session object is stopped. With `moves_name`, a session that a command starts is found by
        the name of the one before: a bot finds the session of a person by name."""
        for name, value, known in (
            ("audience", audience, get_args(Audience)),
            ("surface", surface, get_args(Surface)),
        ):
            if value not in known:
                raise BadSetting(
                    f"`{name}` cannot be {shorten(value)}", hint=f"pass {', '.join(known)}"
                )
        self._owner = owner_argument(owner)
        _check_memory(options, self._owner)
        self.store = store
        self.agent = agent
        self.audience: Audience = audience
        self.surface: Surface = surface
        self.cancel: Callable[[], bool] = cancel or (lambda: self.session.cancel())
        self.listen = listen
        self.moves_name = moves_name
        self._model = model
        self._options = options
        self._clock = clock
        self.redactor = Redactor(Vault(secrets_of(options.secrets).values).redactor_secrets)
        """Masks what commands show: registered values, and what looks like a credential."""
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        assert self._session is not None, "open a session first"
        return self._session

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that the model may call."""
        options = options_for(self._model, self._options)
        return tuple(tool.name for tool in Toolbox(options.tools).tools)

    def infos(self, limit: int | None = None) -> list[SessionInfo]:
        """List the agent's sessions, the most recently active first."""
        return self.store.sessions(agent=self.agent, owner=self._owner, limit=limit)

    def info(self) -> SessionInfo:
        """Return the listing of the current session."""
        return self.store.info(self.session.key)

    def find(self, name: str) -> SessionKey:
        """Find a session by its id, its label, or, of the newest ones, the beginning of one."""
        key = SessionKey(self.agent, name) if is_name(name) else None
        with suppress(NoSuchSession, StoreError):
            if key and is_wanted(owner_of(self.store.header(key).owner), self._owner):
                return key
        infos = find_named(self.store, name, owner=self._owner, agent=self.agent)
        return resolve(name, names_of(infos))

    def open(self, key: SessionKey) -> Session:
        """Open a session and make it the current one. Raises `AccessDenied` for a session of
        another owner."""
        check_owner(self.store, key, self._owner)
        return self.take(self._make_session(key, self._model))

    def open_newest(self) -> bool:
        """Open the session that was used last, or create one; return True if it is new.

        A session that was imported and not used since is opened by its name alone.
        """
        newest = self.store.sessions(agent=self.agent, owner=self._owner, limit=_NEWEST_MAX)
        used = (info.key for info in newest if is_in_use(self.store.back(info.key)))
        key = next(used, None)
        if key is not None:
            self.open(key)
        else:
            self.start(FIRST_LABEL)
        return key is None

    def start(self, label: str = "") -> Session:
        """Create a session of the same owner and make it the current one."""
        key = new_key(self.agent)
        owner = self._owner
        if isinstance(owner, AnyOwner):  # an operator goes on for whom the current session is
            now = self._session
            owner = NO_OWNER if now is None else owner_of(self.store.header(now.key).owner)
        self.store.create(key, label=check_label(label), owner=owner)
        return self.open(key)

    def take(self, session: Session) -> Session:
        """Make an open session of the same owner the current one. Raises `AccessDenied` for one of
        another owner."""
        if session.store is not self.store:
            raise UsageError(
                f"session `{session.key}` belongs to another store than this chat",
                hint="open it with the store of the chat",
            )
        check_owner(self.store, session.key, self._owner)
        if self.listen is not None:
            session.on(self.listen)
        self._session = session
        self.agent = session.key.agent
        return session

    def use(self, model: str) -> Session:
        """Continue the current session with another model."""
        found = self._find_model(model)
        session = self._make_session(self.session.key, found)
        before, self._model = self._model, found
        self._close_model(before)
        return self.take(session)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._close_model(self._model)

    # A chat on an event loop does these in its own way.

    def _make_session(self, key: SessionKey, model: Any) -> Session:
        options = options_for(model, self._options)
        return Session(self.store, key, model, options, clock=self._clock)

    def _find_model(self, name: str) -> Any:
        return find_model(name)

    def _close_model(self, model: Any) -> None:
        close = getattr(model, "close", None)
        if close is not None:
            close()


def options_for(model: Any, options: SessionOptions) -> SessionOptions:
    """Return the options of a chat for a model: one that runs its own tools gets none of ours."""
    if not getattr(model, "runs_own_tools", False):
        return options
    return msgspec.structs.replace(options, tools=())


def size_text(chat: ChatContext) -> str:
    """Describe the size of the current session, in view and in the log."""
    in_log = chat.info().messages
    try:
        in_view = sum(len(unit.parts) for unit in chat.session.plan(is_held=True).units)
    except CannotFit:  # the next turn explains why
        return f"{in_log:,} messages in the log, more than any request can hold"
    text = count(in_view, "message")
    return text if in_log <= in_view else f"{text} in view, {in_log:,} in the log"


def _check_memory(options: SessionOptions, owner: OwnerFilter) -> None:
    """Refuse a memory that would show a chat the words of other owners."""
    owners = getattr(options.memory, "owners", (owner,))
    if owner != ANY_OWNER and set(owners) - {owner}:
        raise AccessDenied(
            "the memory of this chat can read sessions of other owners",
            hint="pass one whose `caller` has the owner of the chat and no others",
        )
