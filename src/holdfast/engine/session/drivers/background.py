"""Runs the flow that writes a summary ahead: in a thread, or as a task, beside the turns."""

from __future__ import annotations

import contextlib
import contextvars
import threading
import warnings
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.flow.effects import Cancelled
from holdfast.core.turn.background import draft_summary, is_draft_due, run_beside
from holdfast.engine.session.drivers.blocking import BlockingDriver
from holdfast.engine.session.drivers.lease import TurnScope
from holdfast.engine.session.prepare import cache_for
from holdfast.errors import HoldfastWarning

if TYPE_CHECKING:
    import asyncio  # a blocking program does not load it
    from collections.abc import Iterator

    from holdfast.core.flow.effects import Flow
    from holdfast.core.turn.drafts import DraftState
    from holdfast.core.turn.run import RunState
    from holdfast.engine.session.drivers.world import World
    from holdfast.ports import AsyncModel, Model


class _Writing(msgspec.Struct):
    """A summary that is being written: its own world, in which nobody waits for its plans."""

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


def _begin(world: World, run: RunState) -> _Writing | None:
    """Begin a summary where one is due and none is being written."""
    if not is_draft_due(run):
        return None
    world = msgspec.structs.replace(world, planning=contextlib.nullcontext(), on_wait=lambda: None)
    beside = run_beside(run, cache_for(run.settings.target))
    run.drafts.is_running = True
    return _Writing(world, TurnScope(), draft_summary(beside), run.drafts)


class ThreadWriter:
    """Writes the summaries of a `Session` ahead, each in a thread."""

    def __init__(self, model: Model, summariser: Model | None) -> None:
        self._models = (model, summariser)
        self._scope: TurnScope | None = None
        self._thread: threading.Thread | None = None

    def on_wait(self, world: World, run: RunState) -> None:
        """Use the time in which a session waits."""
        writing = _begin(world, run)
        if writing is None:
            return
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
        """Cancel what is being written, and wait until it has ended."""
        if self._thread is not None and self._scope is not None:
            self._scope.is_cancelled.set()
            self._thread.join()


class TaskWriter:
    """Writes the summaries of an `AsyncSession` ahead, each as a task."""

    def __init__(self, model: AsyncModel, summariser: AsyncModel | None) -> None:
        self._models = (model, summariser)
        self._scope: TurnScope | None = None
        self._task: asyncio.Task[None] | None = None

    def on_wait(self, world: World, run: RunState) -> None:
        """Use the time in which a session waits."""
        writing = _begin(world, run)
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
        """Cancel what is being written, and wait until it has ended."""
        if self._task is not None and self._scope is not None:
            import asyncio

            self._scope.is_cancelled.set()
            await asyncio.wait([self._task])
