"""Runs the flow that writes a summary ahead: in a thread, or as a task, beside the turns."""

from __future__ import annotations

import contextlib
import contextvars
import threading
import warnings
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.core.flow.effects import Cancelled
from holdfast.engine.session.drivers.lease import TurnScope
from holdfast.engine.session.drivers.waiting import set_alarm
from holdfast.errors import HoldfastWarning

if TYPE_CHECKING:
    import asyncio  # a blocking program does not load it
    from collections.abc import Callable, Iterator

    from holdfast.core.flow.effects import Flow
    from holdfast.core.turn.run import DraftState, RunState
    from holdfast.engine.session.drivers.world import World
    from holdfast.ports import AsyncModel, Model


class _Writing(msgspec.Struct):
    """A summary that is being written: its own world, in which no one waits for its plans."""

    world: World
    scope: TurnScope
    flow: Flow[None]
    drafts: DraftState

    @contextlib.contextmanager
    def to_its_end(self) -> Iterator[None]:
        """Tell the session when it has ended, however that is; no error reaches a turn."""
        try:
            yield
        except Cancelled:
            pass
        except Exception as error:
            warnings.warn(
                f"no summary was written ahead, the next cut asks for one: {error}",
                HoldfastWarning,
                stacklevel=3,
            )
        finally:
            self.drafts.is_running = False


def _begin(world: World, run: RunState, draft: Callable[[RunState], Flow[None]]) -> _Writing | None:
    """Begin a summary, unless one is being written."""
    if run.drafts.is_running:
        return None
    from holdfast.core.turn.background import run_beside
    from holdfast.engine.session.prepare import cache_for

    world = msgspec.structs.replace(world, planning=contextlib.nullcontext(), on_wait=lambda: None)
    beside = run_beside(run, lambda: cache_for(run.settings.target))
    run.drafts.is_running = True
    return _Writing(world, TurnScope(), draft(beside), run.drafts)


class _CanCancel(Protocol):
    def cancel(self) -> object: ...


class _Writer(ABC):
    """Writes the summaries of a session ahead: at once where the next cut is near, or shortly
    before the prompt cache goes cold."""

    def __init__(self, set_alarm: Callable[[float, Callable[[], None]], _CanCancel]) -> None:
        self.set_alarm = set_alarm
        self._alarm: _CanCancel | None = None
        self._waiting: tuple[World, RunState] | None = None
        self._scope: TurnScope | None = None

    def on_wait(self, world: World, run: RunState) -> None:
        """Use the time in which a session waits."""
        from holdfast.core.turn.background import cold_draft_delay, draft_summary, is_draft_due

        self._cancel_alarm()
        if is_draft_due(run):
            self._write(world, run, draft_summary)
            return
        delay = cold_draft_delay(run)
        if delay is None:
            return
        self._waiting = (world, run)
        # A session that was forgotten without being closed is not kept for its alarm.
        writer, context = weakref.ref(self), contextvars.copy_context()

        def ring() -> None:
            if (alive := writer()) is not None:
                alive._write_before_cold()

        self._alarm = self.set_alarm(delay, lambda: context.run(ring))

    def _write_before_cold(self) -> None:
        from holdfast.core.turn.background import draft_before_cold

        if self._waiting is not None:
            self._write(*self._waiting, draft_before_cold)

    def _cancel_alarm(self) -> None:
        self._waiting = None
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    @abstractmethod
    def _write(self, world: World, run: RunState, draft: Callable[[RunState], Flow[None]]) -> None:
        """Run the flow of a draft beside the turns."""


class ThreadWriter(_Writer):
    """Writes the summaries of a `Session` ahead, each in a thread."""

    def __init__(self, model: Model, summariser: Model | None) -> None:
        super().__init__(set_alarm)
        self._models = (model, summariser)
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()

    def _write(self, world: World, run: RunState, draft: Callable[[RunState], Flow[None]]) -> None:
        with self._guard:  # an alarm rings in a thread of its own
            writing = _begin(world, run, draft)
        if writing is None:
            return
        from holdfast.engine.session.drivers.blocking import BlockingDriver

        driver = BlockingDriver(writing.world, *self._models, scope=writing.scope)

        def work() -> None:
            with writing.to_its_end():
                driver.run(writing.flow)

        context = contextvars.copy_context()
        self._scope = writing.scope
        thread = threading.Thread(target=context.run, args=(work,), daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread can be had: the cut asks for itself
            writing.drafts.is_running = False
        else:
            self._thread = thread

    def stop(self) -> None:
        """Cancel what is being written or is to be, and wait until it has ended."""
        self._cancel_alarm()
        if self._thread is not None and self._scope is not None:
            self._scope.is_cancelled.set()
            self._thread.join()


class TaskWriter(_Writer):
    """Writes the summaries of an `AsyncSession` ahead, each as a task."""

    def __init__(self, model: AsyncModel, summariser: AsyncModel | None) -> None:
        super().__init__(_call_later)
        self._models = (model, summariser)
        self._task: asyncio.Task[None] | None = None

    def _write(self, world: World, run: RunState, draft: Callable[[RunState], Flow[None]]) -> None:
        writing = _begin(world, run, draft)
        if writing is None:
            return
        import asyncio

        from holdfast.engine.session.drivers.awaiting import AwaitingDriver

        driver = AwaitingDriver(writing.world, *self._models, scope=writing.scope)

        async def work() -> None:
            with writing.to_its_end():
                await driver.run(writing.flow)

        self._scope = writing.scope
        self._task = asyncio.create_task(work())

    async def stop(self) -> None:
        """Cancel what is being written or is to be, and wait until it has ended."""
        self._cancel_alarm()
        if self._task is not None and self._scope is not None:
            import asyncio

            self._scope.is_cancelled.set()
            await asyncio.wait([self._task])


def _call_later(seconds: float, work: Callable[[], None]) -> asyncio.TimerHandle:
    import asyncio

    return asyncio.get_running_loop().call_later(seconds, work)
