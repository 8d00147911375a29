"""The parts of `Session` and `AsyncSession` that need no driver."""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

from holdfast.core.limits import LEASE_SECONDS
from holdfast.engine import session as parts
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import ToolCall
    from holdfast.core.turn.run import RunState
    from holdfast.core.window import Window
    from holdfast.engine.session.drivers.lease import TurnScope
    from holdfast.engine.session.drivers.world import World
    from holdfast.engine.session.options import SessionOptions
    from holdfast.engine.tool_values import ToolOutput
    from holdfast.ports import AsyncModel, Clock, Model, Notes, SessionStore


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


class SessionBase:
    """An open session: its state, its listeners, and what it closes in the end."""

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
        self.blobs = store.blobs
        self._options = options or parts.SessionOptions()
        self._models = (model, summariser)
        self._owned = list(owned)
        """Closed with the session: only what it opened itself."""
        self._clock = clock or store.clock
        secrets = parts.secrets_of(self._options.secrets)
        self._vault = parts.Vault(secrets.values)
        self._watch = parts.SecretWatch(self._vault, secrets.found, os.urandom(6).hex())
        self._listeners = parts.Listeners()
        self.lease_seconds = LEASE_SECONDS
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
            blobs=self.blobs,
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
    def id(self) -> str:
        return self._state.key.session

    @property
    def target(self) -> Target:
        return self._state.run.settings.target

    @property
    def window(self) -> Window:
        return self._state.run.window

    @property
    def mode(self) -> Literal["continue", "fresh"]:
        """`continue`: the session stays in one log. `fresh`: each message after a reply starts a
        session of its own."""
        return self._state.mode

    @property
    def note_store(self) -> Notes | None:
        """The notes of this session's agent; None where its store keeps none."""
        return self._state.side_files.notes

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

    def answer_context(self, call: ToolCall) -> ToolOutput:
        """Answer a call of the tool `context`, for a loop of your own that declares it
        (`context_declaration`). A mistake of the model is an answer, too. It reads and blocks: on
        an event loop, call it in a thread."""
        return parts.answer_context(self._state, call)

    def resolve(self, arguments: Json, tool: str) -> Json:
        """Put the values of registered secrets into the arguments of a tool call, in place of
        their handles, for callers who run the tools themselves."""
        parts.check_argument("arguments", arguments, dict, "the arguments of a call")
        parts.check_text("tool", tool)
        return self._vault.resolve(arguments, tool)
