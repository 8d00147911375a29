"""The two drivers that carry flows out: one blocks, one awaits. The simulator is the third.

Whatever an effect raises is raised into the flow, so that it can leave the session sound; what a
model or a tool raises is a result like any other. An append that has begun is always finished.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import inspect
import queue
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any, Final, TypeVar, assert_never

import msgspec

from holdfast.core.flow.effects import (
    Append,
    CallModel,
    Cancelled,
    Deny,
    Emit,
    FailedCall,
    NextToolResult,
    Now,
    Outcome,
    PutBlob,
    Read,
    RunBlocking,
    SaveCheckpoint,
    SearchMemory,
    Sleep,
    StartTools,
)
from holdfast.engine.session.prepare import checked
from holdfast.engine.tools import outcome_of, outcome_of_error
from holdfast.errors import BadSetting, HoldfastWarning, InvalidRequest, StoreError, UsageError
from holdfast.providers.failures import name_failure
from holdfast.providers.replies import keep_partial, partial_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from holdfast.core.failures.classify import Rule
    from holdfast.core.flow.effects import Effect, Flow, SavedCheckpoint
    from holdfast.core.flow.events import Event
    from holdfast.core.log.records import Json
    from holdfast.core.models.messages import ToolCall
    from holdfast.core.models.replies import Delta, Reply
    from holdfast.engine.session.session_log import Log
    from holdfast.engine.tools import Toolbox
    from holdfast.ports import AsyncModel, BlobStore, Clock, Hear, Model

T = TypeVar("T")

_TOOLS_AT_ONCE: Final = 8
_POLL_SECONDS: Final = 0.1
"""How soon somebody who waits finds out that the turn was called off."""
_CAN_BE_CANCELLED: Final = (CallModel, StartTools, NextToolResult, Sleep)
"""Effects that a cancelled turn does not begin; what tidies up after it is still carried out."""


class Listeners:
    """Who is told what."""

    def __init__(self) -> None:
        self._handlers: list[tuple[type | tuple[type, ...], Callable[[Any], Any]]] = []

    def add(self, handler: Callable[[Any], Any], kinds: type | tuple[type, ...]) -> None:
        self._handlers.append((kinds, handler))

    def remove(self, handler: Callable[[Any], Any]) -> None:
        self._handlers = [one for one in self._handlers if one[1] is not handler]

    def of(self, event: Event) -> list[Callable[[Any], Any]]:
        return [handler for kinds, handler in self._handlers if isinstance(event, kinds)]


class World(msgspec.Struct, kw_only=True):
    """What the effects of one session reach."""

    log: Log
    listeners: Listeners
    toolbox: Toolbox
    blobs: BlobStore | None = None
    mark: Callable[[str], SavedCheckpoint | None] = lambda _trigger: None
    """Stores a checkpoint."""
    recall: Callable[[str], str] = lambda _query: ""
    """Gives what memory has on something."""
    rules: Sequence[Rule] = ()
    """The caller's own rules for naming failures."""
    clock: Clock = time.time
    is_cancelled: threading.Event = msgspec.field(default_factory=threading.Event)

    def check(self, effect: Effect) -> None:
        if self.is_cancelled.is_set() and isinstance(effect, _CAN_BE_CANCELLED):
            raise Cancelled

    def request(self, call: CallModel) -> Json:
        return checked(call.prompt, call.target)

    def keep(self, data: bytes) -> str | StoreError:
        """Put a payload away. That the disk says no is an answer like another."""
        assert self.blobs is not None, "nothing is moved out where there is no place for it"
        try:
            return self.blobs.put(data)
        except StoreError as error:
            return error

    def failed(self, error: Exception, call: CallModel) -> FailedCall:
        """What a model raised, named. That it cannot be reached, or asked this, is the caller's to
        hear, unless it was only to help."""
        if isinstance(error, UsageError | InvalidRequest) and call.purpose == "turn":
            raise error
        partial = partial_of(error)
        text = partial.text if partial is not None else ""
        return FailedCall(name_failure(error, self.rules), error, text)

    def hearing(self, hear: Hear | None) -> Hear | None:
        """Passes pieces of a reply on until the turn is cancelled."""
        if hear is None:
            return None

        is_deaf = False

        def heard(delta: Delta) -> None:
            nonlocal is_deaf
            if self.is_cancelled.is_set():
                raise Cancelled
            if is_deaf:
                return
            try:
                hear(delta)
            except Exception as error:
                # What it shows is a matter of its own; the reply is still wanted.
                is_deaf = True
                _warn_of_listener(hear, delta, error)

        return heard


class Blocking:
    """Carries a flow out on the calling thread."""

    def __init__(
        self,
        world: World,
        model: Model | None,
        summariser: Model | None = None,
        hear: Hear | None = None,
        watch: Callable[[Event], None] | None = None,
    ) -> None:
        """`watch` is told the events of this flow alone."""
        self._world = world
        self._watch = watch
        self._model = model
        self._summariser = summariser or model
        self._hear = hear
        self._done: queue.SimpleQueue[Outcome] = queue.SimpleQueue()

    def run(self, flow: Flow[T]) -> T:
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                effect = flow.send(value) if error is None else flow.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
            value, error = None, None
            try:
                self._world.check(effect)
                value = self.perform(effect)
            except BaseException as raised:
                error = self.failed(raised)

    def failed(self, raised: BaseException) -> BaseException:
        """What the flow is told of something that an effect raised."""
        return _as_cancelled(raised)

    def perform(self, effect: Effect) -> Any:
        world = self._world
        match effect:
            case Read():
                return world.log.read(effect.window)
            case Append():
                return world.log.append(
                    effect.records, unless_cut=effect.unless_cut, since=effect.since
                )
            case PutBlob():
                return world.keep(effect.data)
            case SaveCheckpoint():
                return world.mark(effect.trigger)
            case SearchMemory():
                return world.recall(effect.query)
            case CallModel():
                return self._call(effect)
            case StartTools():
                self._start(effect.calls)
            case NextToolResult():
                return _taken(self._done, None, world.is_cancelled)
            case Now():
                return world.clock()
            case Sleep():
                world.is_cancelled.wait(effect.seconds)
            case Emit():
                return self._tell(effect.event)
            case RunBlocking():
                return effect.work()
            case _:
                assert_never(effect)
        return None

    def _call(self, call: CallModel) -> Reply | FailedCall:
        model = self._model if call.purpose == "turn" else self._summariser
        assert model is not None, "a session without a model makes no calls"
        hear = self._world.hearing(self._hear) if call.purpose == "turn" else None
        try:
            request = self._world.request(call)
            if call.deadline_seconds is None:
                return _not_awaited(model.send(request, hear), model)
            return _within(
                call.deadline_seconds,
                lambda: _not_awaited(model.send(request, hear), model),
                self._world.is_cancelled,
            )
        except Exception as error:
            return self._world.failed(error, call)

    def _start(self, calls: Sequence[ToolCall]) -> None:
        if len(calls) == 1:
            self._done.put(self._run(calls[0]))  # an interrupt then reaches the tool itself
            return
        free = threading.Semaphore(_TOOLS_AT_ONCE)

        def work(call: ToolCall) -> None:
            with free:
                try:
                    outcome = self._run(call)
                except BaseException as error:  # or the turn would wait for it for ever
                    outcome = outcome_of_error(call.id, error, 0.0)
                self._done.put(outcome)

        for call in calls:
            context = contextvars.copy_context()
            thread = threading.Thread(target=context.run, args=(work, call), daemon=True)
            thread.start()

    def _run(self, call: ToolCall) -> Outcome:
        found = self._world.toolbox.prepared(call)
        if isinstance(found, Outcome):
            return found
        tool, arguments = found
        started = time.monotonic()
        try:
            value = tool.function(**arguments)
            if inspect.isawaitable(value):
                value = _run_awaitable(value)
        except (Exception, SystemExit) as error:
            return outcome_of_error(call.id, error, time.monotonic() - started)
        return outcome_of(call.id, value, time.monotonic() - started)

    def _tell(self, event: Event) -> Deny | None:
        denied = None
        if self._watch is not None:
            self._watch(event)
        for handler in self._world.listeners.of(event):
            try:
                said = handler(event)
            except Exception as error:
                _warn_of_listener(handler, event, error)
                continue
            if isinstance(said, Deny):
                denied = denied or said
        return denied


class Awaiting:
    """Carries a flow out on an event loop; what blocks is done in threads."""

    def __init__(
        self,
        world: World,
        model: AsyncModel | None,
        summariser: AsyncModel | None = None,
        hear: Hear | None = None,
        watch: Callable[[Event], None] | None = None,
    ) -> None:
        """`watch` is told the events of this flow alone."""
        self._world = world
        self._watch = watch
        self._model = model
        self._summariser = summariser or model
        self._hear = hear
        self._done: asyncio.Queue[Outcome] = asyncio.Queue()
        self._running: set[asyncio.Task[None]] = set()

    async def run(self, flow: Flow[T]) -> T:
        value: Any = None
        error: BaseException | None = None
        try:
            while True:
                try:
                    effect = flow.send(value) if error is None else flow.throw(error)
                except StopIteration as done:
                    result: T = done.value
                    return result
                value, error = None, None
                try:
                    self._world.check(effect)
                    value = await self.perform(effect)
                except BaseException as raised:
                    error = _as_cancelled(raised)
                    await self._stop_tools()
        finally:
            await self._stop_tools()

    async def perform(self, effect: Effect) -> Any:
        world = self._world
        match effect:
            case Read():
                return await finished(world.log.read, effect.window)
            case Append():
                return await finished(
                    world.log.append,
                    effect.records,
                    unless_cut=effect.unless_cut,
                    since=effect.since,
                )
            case PutBlob():
                return await finished(world.keep, effect.data)
            case SaveCheckpoint():
                return await finished(world.mark, effect.trigger)
            case SearchMemory():
                return await finished(world.recall, effect.query)
            case CallModel():
                return await self._call(effect)
            case StartTools():
                self._start(effect.calls)
            case NextToolResult():
                return await self._unless_cancelled(self._done.get())
            case Now():
                return world.clock()
            case Sleep():
                await self._wait(effect.seconds)
            case Emit():
                return await self._tell(effect.event)
            case RunBlocking():
                return await finished(effect.work)
            case _:
                assert_never(effect)
        return None

    async def _call(self, call: CallModel) -> Reply | FailedCall:
        model = self._model if call.purpose == "turn" else self._summariser
        assert model is not None, "a session without a model makes no calls"
        hear = self._world.hearing(self._hear) if call.purpose == "turn" else None
        try:
            request = self._world.request(call)
            sent = model.send(request, hear)
            if not inspect.isawaitable(sent):
                raise BadSetting(
                    f"`{type(model).__name__}` is a blocking model",
                    hint="use `Session`, or `async_model(…)`, or "
                    "`holdfast.providers.callables.as_async(model)`, which runs it in a thread",
                )
            answering = asyncio.wait_for(sent, call.deadline_seconds)
            return await self._unless_cancelled(answering)
        except Exception as error:
            return self._world.failed(error, call)

    def _start(self, calls: Sequence[ToolCall]) -> None:
        free = asyncio.Semaphore(_TOOLS_AT_ONCE)

        async def work(call: ToolCall) -> None:
            async with free:
                self._done.put_nowait(await self._run(call))

        for call in calls:
            task = asyncio.create_task(work(call))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _run(self, call: ToolCall) -> Outcome:
        found = self._world.toolbox.prepared(call)
        if isinstance(found, Outcome):
            return found
        tool, arguments = found
        started = time.monotonic()
        try:
            if tool.is_async:
                value = await tool.function(**arguments)
            else:
                value = await _in_own_thread(lambda: tool.function(**arguments))
                if inspect.isawaitable(value):
                    value = await value
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if _is_being_cancelled():
                raise
            return outcome_of_error(call.id, error, time.monotonic() - started)
        return outcome_of(call.id, value, time.monotonic() - started)

    async def _unless_cancelled(self, something: Coroutine[Any, Any, T]) -> T:
        """What it gives; where the turn is called off meanwhile, it is not waited for."""
        task = asyncio.ensure_future(something)
        try:
            while not (await asyncio.wait([task], timeout=_POLL_SECONDS))[0]:
                if self._world.is_cancelled.is_set():
                    raise Cancelled
        except BaseException as error:
            task.cancel()
            await asyncio.wait([task])
            left = task.exception() if not task.cancelled() else None
            partial = partial_of(left) if left is not None else None
            if partial is not None:
                keep_partial(error, partial)
            raise
        return task.result()

    async def _stop_tools(self) -> None:
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(set(self._running))

    async def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._world.is_cancelled.is_set():
            await asyncio.sleep(min(left, 0.1))

    async def _tell(self, event: Event) -> Deny | None:
        denied = None
        if self._watch is not None:
            self._watch(event)
        for handler in self._world.listeners.of(event):
            try:
                said = handler(event)
                if inspect.isawaitable(said):
                    said = await said
            except Exception as error:
                _warn_of_listener(handler, event, error)
                continue
            if isinstance(said, Deny):
                denied = denied or said
        return denied


async def _in_own_thread(work: Callable[[], Any]) -> Any:
    """What a blocking tool gives. It has a thread to itself: in the loop's pool, a few slow tools
    would keep every session of the process from its log, and the loop could not end before them."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((value, error))

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # nobody is there any more
            loop.call_soon_threadsafe(settle, value, error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), daemon=True).start()
    value, error = await done
    if error is not None:
        raise error
    return value


async def finished(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Do something in a thread, to its end, whoever is cancelled meanwhile."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise


def _is_being_cancelled() -> bool:
    """Whether somebody cancelled this task; a tool may also cancel what only it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _not_awaited(reply: Any, model: Model) -> Reply:
    if inspect.isawaitable(reply):
        if inspect.iscoroutine(reply):
            reply.close()
        raise BadSetting(
            f"`{type(model).__name__}` is an asynchronous model",
            hint="use `AsyncSession`, or `holdfast.model(…)` in place of `async_model`",
        )
    answer: Reply = reply
    return answer


def _run_awaitable(value: Awaitable[T]) -> T:
    """What an asynchronous tool of a blocking session gives; also in a notebook, whose own event
    loop runs in this thread and cannot run another."""

    async def awaited() -> T:
        return await value

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(awaited())
    with concurrent.futures.ThreadPoolExecutor(1) as one:
        return one.submit(contextvars.copy_context().run, asyncio.run, awaited()).result()


def _as_cancelled(raised: BaseException) -> BaseException:
    """An interrupt as the flow knows it, with what had arrived of the reply."""
    if isinstance(raised, KeyboardInterrupt | asyncio.CancelledError | Cancelled):
        cancelled = Cancelled(partial_of(raised))
        cancelled.__cause__ = raised
        return cancelled
    return raised


def _within(seconds: float, work: Callable[[], Reply], is_cancelled: threading.Event) -> Reply:
    """Do something in a thread and wait only so long for it."""
    done: queue.SimpleQueue[Reply | BaseException] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put(work())
        except BaseException as error:
            done.put(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), daemon=True).start()
    try:
        outcome = _taken(done, seconds, is_cancelled)
    except queue.Empty:
        raise TimeoutError(f"no reply within {seconds:g} s") from None
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _taken(done: queue.SimpleQueue[T], seconds: float | None, is_cancelled: threading.Event) -> T:
    """What comes out of a queue, unless the turn is called off or the time is up (`Empty`)."""
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        left = _POLL_SECONDS if until is None else until - time.monotonic()
        try:
            return done.get(timeout=max(0.0, min(_POLL_SECONDS, left)))
        except queue.Empty:
            if is_cancelled.is_set():
                raise Cancelled from None
            if left <= 0:
                raise


def _warn_of_listener(handler: object, event: Event | Delta, error: Exception) -> None:
    name = getattr(handler, "__qualname__", repr(handler))
    warnings.warn(
        f"the listener `{name}` failed on `{type(event).__name__}`: {error}",
        HoldfastWarning,
        stacklevel=3,
    )
