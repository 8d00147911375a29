"""The parts of `Session` and `AsyncSession` that need no driver."""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from holdfast.core.limits import LEASE_SECONDS
from holdfast.engine import session as parts
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.models.dialects import Target
    from holdfast.core.turn.run import RunState
    from holdfast.core.window import Window
    from holdfast.engine.session.drivers.lease import TurnScope
    from holdfast.engine.session.drivers.world import World
    from holdfast.engine.session.options import SessionOptions
    from holdfast.ports import AsyncModel, Clock, Model, SessionStore


class ClosedOnExit(ABC):
    """A session that a `with` block closes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None: ...


class ClosedOnAsyncExit(ABC):
    """A session that an `async with` block closes."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def close(self) -> None: ...


_MOVED = {
    **{
        name: f"own_loop.{name}"
        for name in (
            *("add_user", "add_result", "inject_context", "call", "prepare", "record"),
            *("resolve", "answer_context"),
        )
    },
    "output_read": "own_loop.read_output",
    "id": "key.session",
    "blobs": "store.blobs",
    "mode": "status().mode",
    "target": "status().model",
    "note_store": "store.notes(agent, owner)",
}
"""Names that a session had, and what has taken their place."""


def target_of(session: SessionBase) -> Target:
    """Return whom the session's requests are written for."""
    return session._state.run.settings.target


def limit_lease(session: SessionBase, seconds: float) -> None:
    """Let others take over the session's turns at most so long after its process stops."""
    session._lease_seconds = min(session._lease_seconds, seconds)


class SessionBase:
    """An open session: its state, its listeners, and what it closes in the end."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            kind = type(self).__name__
            if name in _MOVED:
                raise AttributeError(f"`{kind}` has no `{name}`: use `session.{_MOVED[name]}`")
            raise AttributeError(f"`{kind}` has no `{name}`", name=name, obj=self)

    def __init__(
        self,
        store: SessionStore,
        key: SessionKey,
        model: Model | AsyncModel,
        options: SessionOptions | None,
        *,
        summariser: Model | AsyncModel | None = None,
        clock: Clock | None = None,
        owned: Sequence[Any] = (),
        on_wait: Callable[[World, RunState], None],
    ) -> None:
        """`on_wait` uses the time in which the session waits for tools or the user."""
        self.store = store
        self._options = options or parts.SessionOptions()
        self._models = (model, summariser)
        self._owned = list(owned)
        """Closed with the session: only what it opened itself."""
        self._clock = clock or store.clock
        secrets = parts.secrets_of(self._options.secrets)
        self._vault = parts.Vault(secrets.values)
        self._watch = parts.SecretWatch(self._vault, secrets.found, os.urandom(6).hex())
        self._listeners = parts.Listeners()
        self._lease_seconds = LEASE_SECONDS
        """The time after which others may take over the turn of a process that stops."""
        self._scopes: list[TurnScope] = []
        """The turns that run or wait through this object."""
        self._is_closed = False
        self._use_wait = on_wait
        self._attach(parts.follow_continuation(store, key))

    def _check_open(self) -> None:
        if self._is_closed:
            raise UsageError(
                f"session `{self.key.session}` was closed through this object",
                hint="nothing was stored; open it again, and close it after the last message",
            )

    def _attach(self, key: SessionKey) -> None:
        """Continue with this session of the store; listeners stay."""
        model, summariser = self._models
        self._state = parts.SessionState(
            self.store,
            key,
            model,
            summariser,
            self._options,
            blobs=self.store.blobs,
            vault=self._vault,
            secret_watch=self._watch,
            listeners=self._listeners,
            clock=self._clock,
        )
        world = self._state.world
        world.on_wait = functools.partial(self._use_wait, world, self._state.run)

    @property
    def key(self) -> SessionKey:
        return self._state.key

    @property
    def window(self) -> Window:
        return self._state.run.window

    def on(self, handler: Callable[[Any], Any], *kinds: type) -> Callable[[], None]:
        """Call `handler` with every event, or with events of some kinds.

        Returns a function that removes the handler. A handler that returns `Deny` stops the
        operation that a `…Started` event announces.
        """
        parts.check_callable("handler", handler)
        for kind in kinds:
            parts.check_argument("kinds", kind, type, "types of events")
        self._listeners.add(handler, kinds or (object,))
        return lambda: self._listeners.remove(handler)

    def forget_window(self) -> bool:
        """Forget the window that the provider stated in a refusal, and go by the stated or known
        one again; returns whether one was learned. The choice is stored with one record."""
        record = self._state.run.forget_window()
        if record is not None:
            self._state.log.append([record])
        return record is not None

    def cancel(self) -> bool:
        """Cancel the running turn, from any thread; it ends at its next effect. Where none runs
        here, cancel those that wait for a turn of another holder. Returns False where this object
        has no turn at all."""
        scopes = list(self._scopes)
        chosen = [scope for scope in scopes if scope.has_turn] or scopes
        for scope in chosen:
            scope.is_cancelled.set()
        return bool(chosen)
