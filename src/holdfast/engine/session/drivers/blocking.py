"""The driver of `Session`: performs effects on the calling thread. It never imports asyncio,
which a blocking program should not have to load."""

from __future__ import annotations

import contextvars
import inspect
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

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
    from collections.abc import Callable

    from holdfast.core.flow.effects import Effect, FailedCall, Flow
    from holdfast.core.flow.events import Event
    from holdfast.core.log.ids import CallKey
    from holdfast.core.models.messages import ToolCall
    from holdfast.core.models.replies import Reply
    from holdfast.engine.session.drivers.world import World
    from holdfast.ports import Model, OnDelta

T = TypeVar("T")


class BlockingDriver:
    """Runs flows on the calling thread."""

    def __init__(
        self,
        world: World,
        model: Model | None,
        summariser: Model | None = None,
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
        self._done: queue.SimpleQueue[Outcome] = queue.SimpleQueue()

    def run(self, flow: Flow[T]) -> T:
        world, self._scope.is_log_known = self._world, False
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                with world.planning:
                    effect = flow.send(value) if error is None else flow.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
            value, error = None, None
            try:
                self._scope.check(effect)
                value = self.perform(effect)
                world.note(effect, value, self._scope, is_watched=self._watch is not None)
            except BaseException as raised:
                self._scope.is_log_known = False
                error = self.error_for_flow(raised)

    def error_for_flow(self, raised: BaseException) -> BaseException:
        """The exception to raise into the flow for one that an effect raised."""
        # While asyncio is not loaded, nothing can have raised its `CancelledError`.
        asyncio = sys.modules.get("asyncio")
        interrupts = (KeyboardInterrupt, *((asyncio.CancelledError,) if asyncio else ()))
        return as_cancelled(raised, interrupts)

    def perform(self, effect: Effect) -> Any:
        scope = self._scope
        match effect:
            case CallModel():
                return self._call(effect)
            case StartTools():
                return self._start(effect)
            case NextToolResult():
                return _take(self._done, None, scope)
            case Now():
                return self._world.clock()
            case Sleep():
                scope.is_cancelled.wait(effect.seconds)
                return None
            case Emit():
                return self._emit(effect.event)
            case _:  # a `StoreEffect`: its own match is closed
                return self._world.perform(effect, scope)

    def _call(self, call: CallModel) -> Reply | FailedCall:
        model = self._model if call.purpose == "turn" else self._summariser
        assert model is not None, "a session without a model makes no calls"
        on_delta = (
            self._world.guard_on_delta(self._on_delta, self._scope)
            if call.purpose == "turn"
            else None
        )
        try:
            request = self._world.request(call)
            begun = self._world.begin_call(model, call)
            stop = getattr(begun, "stop", None)
            if call.deadline_seconds is None and stop is None:
                return _check_reply(model.send(request, on_delta), model)
            return _within(
                call.deadline_seconds,
                lambda: _check_reply(begun.send(request, on_delta), model),
                self._scope,
                stop,
            )
        except Exception as error:
            return self._world.failed_call(error, call)

    def _start(self, started: StartTools) -> None:
        self._world.on_wait()
        calls = list(zip(started.calls, started.keys, strict=True))
        if len(calls) == 1:
            self._done.put(self._run(*calls[0]))  # so that an interrupt reaches the tool itself
            return
        free = threading.Semaphore(TOOLS_AT_ONCE)

        def work(call: ToolCall, key: CallKey) -> None:
            with free:
                try:
                    outcome = self._run(call, key)
                except BaseException as error:  # or the turn would wait for it forever
                    outcome = outcome_of_error(call.id, error, 0.0)
                self._done.put(outcome)

        for call, key in calls:
            context = contextvars.copy_context()
            thread = threading.Thread(target=context.run, args=(work, call, key), daemon=True)
            thread.start()

    def _run(self, call: ToolCall, key: CallKey) -> Outcome:
        self._scope.check_running()  # this tool may have waited for others
        found = self._world.toolbox.prepare(call, key)
        if isinstance(found, Outcome):
            return found
        tool, arguments = found
        started = time.monotonic()
        try:
            value = tool.function(**arguments)
            if inspect.isawaitable(value):
                from holdfast.engine.session.drivers.awaiting import run_awaitable

                value = run_awaitable(value)
        except BaseException as error:
            if isinstance(self.error_for_flow(error), Cancelled | KeyboardInterrupt):
                raise
            return outcome_of_error(call.id, error, time.monotonic() - started)
        return outcome_of(call.id, value, time.monotonic() - started)

    def _emit(self, event: Event) -> Deny | None:
        denied = None
        if self._watch is not None:
            self._watch(event)
        for handler in self._world.listeners.of(event):
            try:
                answer = handler(event)
            except Exception as error:
                warn_of_listener(handler, event, error)
                continue
            if isinstance(answer, Deny):
                denied = denied or answer
        return denied


def _check_reply(reply: Any, model: Model) -> Reply:
    if inspect.isawaitable(reply):
        if inspect.iscoroutine(reply):
            reply.close()
        raise BadSetting(
            f"`{type(model).__name__}` is an asynchronous model",
            hint="use `AsyncSession`, or `holdfast.model(…)` instead of `async_model`",
        )
    answer: Reply = reply
    return answer


def _within(
    seconds: float | None,
    work: Callable[[], Reply],
    scope: TurnScope,
    stop: Callable[[], None] | None,
) -> Reply:
    """Run something in a thread and wait for its result, up to a deadline. With `stop`, it has
    ended when this returns, however that is."""
    done: queue.SimpleQueue[Reply | BaseException] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put(work())
        except BaseException as error:
            done.put(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), daemon=True).start()
    try:
        outcome = _take(done, seconds, scope)
    except queue.Empty:
        if stop is not None:
            stop()
            done.get()
        raise TimeoutError(f"no reply within {seconds:g} s") from None
    except BaseException as error:
        if stop is not None:
            stop()
            left = done.get()
            partial = partial_of(left) if isinstance(left, BaseException) else None
            if partial is not None:
                keep_partial(error, partial)
        raise
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _take(done: queue.SimpleQueue[T], seconds: float | None, scope: TurnScope) -> T:
    """The next item of a queue. Raises `Cancelled` or `LeaseLost` if the turn ends first, and
    `queue.Empty` when the time is up."""
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        left = POLL_SECONDS if until is None else until - time.monotonic()
        try:
            return done.get(timeout=max(0.0, min(POLL_SECONDS, left)))
        except queue.Empty:
            scope.check_running()
            if left <= 0:
                raise
