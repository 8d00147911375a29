"""Any function that takes a request and returns what an SDK returns, as a model."""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.window import Window, window_argument
from holdfast.errors import BadSetting
from holdfast.providers.known_models.lookup import window_of
from holdfast.providers.replies import read_reply, read_reply_async

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.replies import Delta, Reply
    from holdfast.core.window import GivenWindow
    from holdfast.ports import Model, OnDelta


def window_for(target: Target, window: GivenWindow) -> Window:
    """The window a caller stated, or what is known of the target's model."""
    if isinstance(window, Window):
        return window
    return window_argument(window) or window_of(target.model, target.provider)


_MISTAKES: Final = (
    *(TypeError, NameError, AttributeError, LookupError, ImportError, AssertionError),
    *(ArithmeticError, NotImplementedError),
)
"""Exceptions of Python for a mistake in the code. Clients report failures otherwise."""


class CallerMistake(Exception):
    """The function that sends requests has a mistake, which is raised as it is: `mistake`."""

    def __init__(self, mistake: Exception) -> None:
        super().__init__(str(mistake))
        self.mistake = mistake


class _OverFunction:
    def __init__(
        self,
        send: Callable[[Json], Any],
        target: Target,
        window: GivenWindow = None,
    ) -> None:
        self.target = target
        self.window = window_for(target, window)
        self._send = send


class CallableModel(_OverFunction):
    """A model behind a function. A stream that it returns is heard as it comes."""

    def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        try:
            raw = self._send(request)
        except _MISTAKES as error:
            raise CallerMistake(error) from error
        if inspect.isawaitable(raw) or hasattr(raw, "__aiter__"):
            if inspect.iscoroutine(raw):
                raw.close()
            raise BadSetting(
                "the function that sends the request is asynchronous, its caller is not",
                hint="use `AsyncSession`, or give a function that returns the reply itself",
            )
        return read_reply(raw, self.target, on_delta)


class AsyncCallableModel(_OverFunction):
    """The same for functions that return something to await; others do as well."""

    async def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        try:
            raw = self._send(request)
            raw = await raw if inspect.isawaitable(raw) else raw
        except _MISTAKES as error:
            raise CallerMistake(error) from error
        return await read_reply_async(raw, self.target, on_delta)


def from_callable(
    send: Callable[[Json], Any], target: Target, window: GivenWindow = None
) -> CallableModel:
    """`send` takes a request of the target's dialect and returns whatever its SDK returns."""
    return CallableModel(send, target, window)


def async_from_callable(
    send: Callable[[Json], Any], target: Target, window: GivenWindow = None
) -> AsyncCallableModel:
    """The same, awaited."""
    return AsyncCallableModel(send, target, window)


class Threaded:
    """A blocking model for asynchronous callers: each call has a thread of its own.

    Where the caller is cancelled, the call ends with the next piece that comes in.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def target(self) -> Target:
        return self._model.target

    @property
    def window(self) -> Window:
        return self._model.window

    async def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        import asyncio  # here, so that blocking callers never load it

        loop = asyncio.get_running_loop()
        is_left = threading.Event()

        async def told(delta: Delta) -> None:
            assert on_delta is not None
            on_delta(delta)

        def relay(delta: Delta) -> None:
            if is_left.is_set():
                raise _Left
            asyncio.run_coroutine_threadsafe(told(delta), loop).result()

        try:
            return await asyncio.to_thread(self._model.send, request, relay if on_delta else None)
        finally:
            is_left.set()


class _Left(Exception):
    """No one waits for the reply any more."""


def as_async(model: Model) -> Threaded:
    """A blocking model for asynchronous callers."""
    return Threaded(model)
