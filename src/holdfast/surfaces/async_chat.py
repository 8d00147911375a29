"""Chats on an event loop: the one table of commands, over `AsyncSession`.

A command is an ordinary function. For a chat on a loop it runs in a thread of its own, and each
method of the session that it calls is awaited on the loop, on the very session that the chat's
turns run in. So nothing holds the loop, and a command sees the turn that runs.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdfast.core.owners import NO_OWNER
from holdfast.engine.session.async_session import AsyncSession
from holdfast.engine.session.drivers.awaiting import run_in_own_thread, run_in_thread
from holdfast.providers.models import async_model
from holdfast.surfaces.chat_context import ChatContext, options_for
from holdfast.surfaces.slash_commands import run_command
from holdfast.surfaces.slash_commands.turns import STOPS, Stops

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.owners import OwnerFilter
    from holdfast.engine.session.handles.own_loop import AsyncOwnLoop
    from holdfast.engine.session.handles.tool_calls import AsyncToolCalls
    from holdfast.engine.session.options import SessionOptions
    from holdfast.engine.session.session import Session
    from holdfast.ports import AsyncModel, Clock, SessionStore
    from holdfast.surfaces.answers import CommandAnswer
    from holdfast.surfaces.chat_context import Audience, Surface

T = TypeVar("T")
_LOOP: ContextVar[asyncio.AbstractEventLoop] = ContextVar("holdfast_loop")
"""The event loop of the command that the current thread runs."""


class AsyncChatContext:
    """The current `AsyncSession` of a chat on an event loop; `run_async` runs its commands."""

    def __init__(
        self,
        store: SessionStore,
        agent: str,
        model: AsyncModel,
        options: SessionOptions,
        *,
        owner: str | OwnerFilter = NO_OWNER,
        audience: Audience = "owner",
        surface: Surface = "api",
        cancel: Callable[[], bool] | None = None,
        listen: Callable[[Any], Any] | None = None,
        moves_name: bool = False,
        clock: Clock = time.time,
    ) -> None:
        """The arguments are those of `ChatContext`. The model stays the caller's: many chats can
        share it, and `close` leaves it open."""
        self.blocking: ChatContext = _LoopChat(
            store,
            agent,
            model,
            options,
            owner=owner,
            audience=audience,
            surface=surface,
            cancel=cancel,
            listen=listen,
            moves_name=moves_name,
            clock=clock,
        )
        """The same chat for the thread of a command."""

    @property
    def session(self) -> AsyncSession:
        return _async_session(self.blocking.session)

    async def open(self, key: SessionKey) -> AsyncSession:
        """Open a session and make it the current one. Raises `AccessDenied` for a session of
        another owner."""
        return _async_session(await run_in_thread(self.blocking.open, key))

    async def open_newest(self) -> bool:
        """Open the most recently active session, or create one; return True if it is new."""
        return await run_in_thread(self.blocking.open_newest)

    async def start(self, label: str = "") -> AsyncSession:
        """Create a session of the same owner and make it the current one."""
        return _async_session(await run_in_thread(self.blocking.start, label))

    async def take(self, session: AsyncSession) -> AsyncSession:
        """Make an open session of the same owner the current one."""
        return _async_session(await run_in_thread(self.blocking.take, _for_commands(session)))

    async def close(self) -> None:
        """Close the session, and a model that `/model` opened."""
        await _run_command(self.blocking.close)


async def run_command_async(text: str, chat: AsyncChatContext) -> CommandAnswer:
    """`run` for a chat on an event loop, which goes on meanwhile.

    Where the caller is cancelled, the command is, too: it stops waiting, for a turn or a model.
    """
    return await _run_command(lambda: run_command(text, chat.blocking))


async def _run_command(work: Callable[[], T]) -> T:
    stops = Stops()
    loop, stopping = _LOOP.set(asyncio.get_running_loop()), STOPS.set(stops)
    try:
        task: asyncio.Task[T] = asyncio.ensure_future(run_in_own_thread(work))
    finally:
        _LOOP.reset(loop)
        STOPS.reset(stopping)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stops.stop()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise


class _LoopChat(ChatContext):
    """A chat whose sessions are `AsyncSession`s, for the thread of a command."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._given_model = self._model

    def _make_session(self, key: SessionKey, model: Any) -> Session:
        options = options_for(model, self._options)
        return _for_commands(AsyncSession(self.store, key, model, options, clock=self._clock))

    def _find_model(self, name: str) -> AsyncModel:
        return async_model(name)

    def _close_model(self, model: Any) -> None:
        closing = None if model is self._given_model else getattr(model, "close", lambda: None)()
        if inspect.isawaitable(closing):
            _wait(closing)


class _BlockingSession:
    """An `AsyncSession`, its `own_loop` or its `calls`, whose methods block the thread of a command
    until the event loop has run them."""

    def __init__(self, awaited: AsyncSession | AsyncOwnLoop | AsyncToolCalls) -> None:
        self.awaited = awaited

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.awaited, name)
        if name in ("own_loop", "calls"):
            return _BlockingSession(found)
        if not inspect.iscoroutinefunction(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            value = _wait(found(*args, **named))
            return _for_commands(value) if isinstance(value, AsyncSession) else value

        return call


def _for_commands(session: AsyncSession) -> Session:
    """Return a session as commands know it."""
    return cast("Session", _BlockingSession(session))


def _async_session(session: Session) -> AsyncSession:
    return cast("AsyncSession", cast("_BlockingSession", session).awaited)


def _wait(awaitable: Awaitable[T]) -> T:
    """Run an awaitable on the loop, and wait in the thread of a command until it has ended, also
    where it is cancelled."""

    async def work() -> T:
        task, stops = asyncio.current_task(), STOPS.get()
        if task is not None and stops is not None:
            stops.add(task.cancel)
        return await awaitable

    return asyncio.run_coroutine_threadsafe(work(), _LOOP.get()).result()
