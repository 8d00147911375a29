"""The driver of `AsyncSession`: performs effects on an event loop, and what blocks in threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import inspect
import threading
import time
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import msgspec

from holdfast.core.flow.effects import (
    CallModel,
    Cancelled,
    Deny,
    Emit,
    NextToolResult,
    Now,
    Outcome,
    Sleep,
    StartTools,
)
from holdfast.engine.session.drivers.lease import TurnScope
from holdfast.engine.session.drivers.waiting import frequent_switches
from holdfast.engine.session.drivers.world import (
    POLL_SECONDS,
    TOOLS_AT_ONCE,
    as_cancelled,
    warn_of_listener,
)
from holdfast.engine.tool_values import outcome_of, outcome_of_error
from holdfast.errors import BadSetting
from holdfast.providers.replies import keep_partial, partial_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from holdfast.core.flow.effects import Effect, FailedCall, Flow
    from holdfast.core.flow.events import Event
    from holdfast.core.log.ids import CallKey
    from holdfast.core.models.messages import ToolCall
    from holdfast.core.models.replies import Reply
    from holdfast.engine.session.drivers.world import World
    from holdfast.ports import AsyncModel, OnDelta

T = TypeVar("T")
P = ParamSpec("P")
_END_SECONDS: Final = 10.0
"""A client closes its stream in far less; one that hangs must not hold a cancelled turn."""
_INTERRUPTS: Final = (KeyboardInterrupt, asyncio.CancelledError)


class _Finished(msgspec.Struct, frozen=True):
    """The result of a flow that has ended."""

    value: Any


class AwaitingDriver:
    """Runs flows on an event loop."""

    def __init__(
        self,
        world: World,
        model: AsyncModel | None,
        summariser: AsyncModel | None = None,
        on_delta: OnDelta | None = None,
        watch: Callable[[Event], None] | None = None,
        scope: TurnScope | None = None,
    ) -> None:
        """`watch` gets the events of the flows that this driver runs, and no others."""
        self._world = world
        self._scope = scope or TurnScope()
        self._watch = watch
        self._model = model
        self._summariser = summariser or model
        self._on_delta = on_delta
        self._done: asyncio.Queue[Outcome] = asyncio.Queue()
        self._running: set[asyncio.Task[None]] = set()

    async def run(self, flow: Flow[T]) -> T:
        self._scope.is_log_known = False
        value: Any = None
        error: BaseException | None = None
        is_ending = False  # the flow knows that it was cancelled, and leaves a sound session behind
        try:
            while True:
                step, cancelled = await self._advance(flow, value, error)
                if isinstance(step, _Finished):
                    if cancelled is not None:
                        raise cancelled
                    result: T = step.value
                    return result
                value, error = None, None
                try:
                    if cancelled is not None and not is_ending:
                        raise cancelled
                    effect = step
                    await self._check(effect)
                    value = await (
                        _undisturbed(self.perform(effect)) if is_ending else self.perform(effect)
                    )
                    is_watched = self._watch is not None
                    self._world.note(effect, value, self._scope, is_watched=is_watched)
                except BaseException as raised:
                    self._scope.is_log_known = False
                    error = as_cancelled(raised, _INTERRUPTS)
                    is_ending = is_ending or isinstance(error, Cancelled)
                    await self._stop_tools()
        finally:
            await self._stop_tools()

    async def _advance(
        self, flow: Flow[T], value: Any, error: BaseException | None
    ) -> tuple[Effect | _Finished, asyncio.CancelledError | None]:
        """The flow's next effect, decided in a thread: planning a cut can take seconds, in which
        the loop serves others.

        A cancelled task waits until the thread is done, however often it is cancelled: a flow runs
        in one place at a time.
        """

        def work() -> Effect | _Finished:
            with self._world.planning, frequent_switches:
                try:
                    return flow.send(value) if error is None else flow.throw(error)
                except StopIteration as done:
                    return _Finished(done.value)

        task = asyncio.ensure_future(asyncio.to_thread(work))
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as raised:
                cancelled = raised
        return task.result(), cancelled

    async def perform(self, effect: Effect) -> Any:
        match effect:
            case CallModel():
                return await self._call(effect)
            case StartTools():
                return self._start(effect)
            case NextToolResult():
                return await self._unless_cancelled(self._done.get())
            case Now():
                return self._world.clock()
            case Sleep():
                return await self._sleep(effect.seconds)
            case Emit():
                return await self._emit(effect.event)
            case _:  # a `StoreEffect`: its own match is closed
                return await run_in_thread(self._world.perform, effect, self._scope)

    async def _check(self, effect: Effect | None = None) -> None:
        """Raise where the turn was cancelled or taken over; renewing a lease must not block."""
        if self._scope.is_overdue:
            await run_in_thread(self._scope.renew)
        if effect is None:
            self._scope.check_running()
        else:
            self._scope.check(effect)

    async def _call(self, call: CallModel) -> Reply | FailedCall:
        model = self._model if call.purpose == "turn" else self._summariser
        assert model is not None, "a session without a model makes no calls"
        on_delta = (
            self._world.guard_on_delta(self._on_delta, self._scope)
            if call.purpose == "turn"
            else None
        )
        try:
            request = await run_in_thread(self._world.request, call)
            sent = self._world.begin_call(model, call).send(request, on_delta)
            if not inspect.isawaitable(sent):
                raise BadSetting(
                    f"`{type(model).__name__}` is a blocking model",
                    hint="use `Session`, or `async_model(…)`, or "
                    "`holdfast.providers.callables.as_async(model)`, which runs it in a thread",
                )
            return await self._answer(sent, call.deadline_seconds)
        except Exception as error:
            return self._world.failed_call(error, call)

    async def _answer(self, sent: Awaitable[Reply], seconds: float | None) -> Reply:
        """Await a reply. Whatever ends the wait has the part of the reply that came: asyncio
        raises an exception of its own for the one that the model had."""
        left: list[BaseException] = []

        async def answer() -> Reply:
            try:
                return await sent
            except BaseException as error:
                left.append(error)
                raise

        try:
            return await self._unless_cancelled(asyncio.wait_for(answer(), seconds))
        except BaseException as error:
            partial = partial_of(left[0]) if left else None
            if partial is not None:
                keep_partial(error, partial)
            raise

    def _start(self, started: StartTools) -> None:
        self._world.on_wait()
        free = asyncio.Semaphore(TOOLS_AT_ONCE)

        async def work(call: ToolCall, key: CallKey) -> None:
            async with free:
                await self._check()  # this tool may have waited for others
                self._done.put_nowait(await self._run(call, key))

        for call, key in zip(started.calls, started.keys, strict=True):
            task = asyncio.create_task(work(call, key))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _run(self, call: ToolCall, key: CallKey) -> Outcome:
        found = self._world.toolbox.prepare(call, key)
        if isinstance(found, Outcome):
            return found
        tool, arguments = found
        started = time.monotonic()
        try:
            if tool.is_async:
                value = await tool.function(**arguments)
            else:
                value = await run_in_own_thread(lambda: tool.function(**arguments))
                if inspect.isawaitable(value):
                    value = await value
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, KeyboardInterrupt) or (task is not None and task.cancelling() > 0):
                raise  # the turn was cancelled; a tool may also cancel something of its own
            return outcome_of_error(call.id, error, time.monotonic() - started)
        return outcome_of(call.id, value, time.monotonic() - started)

    async def _unless_cancelled(self, something: Coroutine[Any, Any, T]) -> T:
        """Await something, and stop waiting for it if the turn is cancelled meanwhile."""
        task = asyncio.ensure_future(something)
        try:
            while not (await asyncio.wait([task], timeout=POLL_SECONDS))[0]:
                await self._check()
        except BaseException:
            await _end(task)
            raise
        return task.result()

    async def _stop_tools(self) -> None:
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(set(self._running))

    async def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._scope.is_cancelled.is_set():
            await asyncio.sleep(min(left, POLL_SECONDS))

    async def _emit(self, event: Event) -> Deny | None:
        denied = None
        if self._watch is not None:
            self._watch(event)
        for handler in self._world.listeners.of(event):
            try:
                answer = handler(event)
                if inspect.isawaitable(answer):
                    answer = await answer
            except Exception as error:
                warn_of_listener(handler, event, error)
                continue
            if isinstance(answer, Deny):
                denied = denied or answer
        return denied


async def _end(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait until it has ended, however often the one that waits is cancelled;
    a task that does not end is left alone after some seconds."""
    task.cancel()
    until = time.monotonic() + _END_SECONDS
    while not task.done() and (left := until - time.monotonic()) > 0:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task], timeout=left)
    if task.done() and not task.cancelled():
        task.exception()  # else asyncio reports that no one asked for it


async def _undisturbed(work: Coroutine[Any, Any, T]) -> T:
    """Return what work returns, however often the task that awaits it is cancelled."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    return task.result()


async def run_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a thread, to its end however often the task that awaits it is cancelled."""

    def work() -> T:
        with frequent_switches:
            return function(*args, **kwargs)

    task = asyncio.ensure_future(asyncio.to_thread(work))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as raised:
            cancelled = raised
    if cancelled is not None:
        task.exception()  # else asyncio reports that no one asked for it
        raise cancelled
    return task.result()


async def run_in_own_thread(work: Callable[[], Any]) -> Any:
    """Run a blocking tool or command in a thread of its own. In the loop's pool, a few slow ones
    would keep every session of the process from its log, and the loop could not end before them."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    returned: list[Any] = []  # not the future's result: asyncio calls `repr` of those
    failed: list[BaseException] = []

    def settle() -> None:
        if not done.done():
            done.set_result(None)

    def run() -> None:
        try:
            returned.append(work())
        except BaseException as raised:
            failed.append(raised)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits for it
            loop.call_soon_threadsafe(settle)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), daemon=True).start()
    await done
    if failed:
        raise failed[0]
    return returned[0]


def run_awaitable(value: Awaitable[T]) -> T:
    """Run an asynchronous tool of a blocking session. This also works in a notebook, whose event
    loop already runs in this thread."""

    returned: list[T] = []  # not the task's result or exception: asyncio calls `repr` of those
    failed: list[BaseException] = []

    async def wait() -> None:
        try:
            returned.append(await value)
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise
        except BaseException as error:
            failed.append(error)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(wait())
    else:
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            thread.submit(contextvars.copy_context().run, asyncio.run, wait()).result()
    if failed:
        raise failed[0]
    return returned[0]
