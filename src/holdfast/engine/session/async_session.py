"""`AsyncSession`: the surface and the flows of `Session`, driven on an event loop."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from holdfast.core.limits import TURN_WAIT_SECONDS
from holdfast.engine import session as parts
from holdfast.engine.session.base import ClosedOnAsyncExit, SessionBase
from holdfast.engine.session.session import MODEL

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Sequence
    from typing import Self, Unpack

    from holdfast.core.flow.effects import Flow
    from holdfast.core.flow.events import CompactionFinished, Event
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Content, Json, Record
    from holdfast.core.models.replies import Delta, Reply
    from holdfast.core.owners import OwnerFilter
    from holdfast.core.projection.project import Plan
    from holdfast.engine.session.drivers.lease import TurnScope
    from holdfast.engine.session.handles.own_loop import AsyncOwnLoop
    from holdfast.engine.session.handles.tool_calls import AsyncToolCalls
    from holdfast.engine.session.options import OptionKeywords, SessionOptions
    from holdfast.engine.session.rewinding import Undone
    from holdfast.engine.session.status import Status
    from holdfast.ports import AsyncModel, Clock, OnDelta, SessionStore

T = TypeVar("T")


class AsyncSession(ClosedOnAsyncExit, SessionBase):
    """A durable session whose requests fit the model's window. Open one with
    `await AsyncSession.open(…)`. Its methods are those of `Session`, awaited."""

    def __init__(
        self,
        store: SessionStore,
        key: SessionKey,
        model: AsyncModel,
        options: SessionOptions | None = None,
        *,
        summariser: AsyncModel | None = None,
        clock: Clock | None = None,
        owned: Sequence[Any] = (),
    ) -> None:
        if options is not None and summariser is None:
            summariser = parts.find_summariser(options, parts.async_model)
            owned = [*owned, *parts.created_here((options.summarising.model, summariser))]
        self._writer = parts.TaskWriter(model, summariser)
        super().__init__(
            store,
            key,
            model,
            options,
            summariser=summariser,
            clock=clock,
            owned=owned,
            on_wait=self._writer.on_wait,
        )
        self._model = model
        self._summariser = summariser

    @classmethod
    async def open(
        cls,
        name: str | None = None,
        *,
        model: str | AsyncModel = MODEL,
        agent: str | None = None,
        store: str | os.PathLike[str] | SessionStore | None = None,
        owner: str | OwnerFilter = "",
        create: bool = True,
        **options: Unpack[OptionKeywords],
    ) -> Self:
        """See `Session.open`; a model's `send` is awaited here."""
        whose = parts.owner_argument(owner)
        main = parts.async_model(model) if isinstance(model, str) else parts.check_model(model)
        chosen = parts.read_options(options)
        parts.check_window(chosen, main)
        other = parts.find_summariser(chosen, parts.async_model)
        opened, who, is_ours = await parts.run_in_thread(parts.choose_store, store, agent)
        ours = opened if is_ours else None
        owned = parts.created_here((model, main), (chosen.summarising.model, other), (None, ours))
        with parts.close_on_error(ours):
            key = await parts.run_in_thread(
                parts.find_session,
                opened,
                name,
                who,
                create=create,
                owner=whose,
            )
            return cls(opened, key, main, chosen, summariser=other, owned=owned)

    async def close(self) -> None:
        if self._is_closed:
            return
        await self._writer.stop()
        if self._owned:
            await self._run(parts.checkpoint_on_close(self._state))
        self._is_closed = True
        for thing in self._owned:
            close = getattr(thing, "close", None)
            if thing is self.store:
                await parts.run_in_thread(self.store.close)
            elif close is not None:
                closing = close()
                if inspect.isawaitable(closing):
                    await closing

    # Holdfast runs the loop

    async def say(
        self,
        content: Content,
        *,
        on_delta: OnDelta | None = None,
        key: str | None = None,
        extra: Json | None = None,
        wait: float = TURN_WAIT_SECONDS,
    ) -> Reply:
        parts.check_message(content)
        parts.check_ready(self._model)
        await self._renew(key, wait)
        flow = parts.turn(self._state.run, content, key=key, extra=extra)
        return await self._run_turn(flow, on_delta, wait=wait)

    async def resume(
        self, *, on_delta: OnDelta | None = None, wait: float = TURN_WAIT_SECONDS
    ) -> Reply | None:
        parts.check_ready(self._model)
        return await self._run_turn(parts.resume(self._state.run), on_delta, wait=wait)

    async def stream(
        self,
        content: Content,
        *,
        key: str | None = None,
        extra: Json | None = None,
        wait: float = TURN_WAIT_SECONDS,
    ) -> AsyncIterator[Delta | Event]:
        pieces: asyncio.Queue[Any] = asyncio.Queue()
        end = object()

        async def work() -> None:
            try:
                parts.check_message(content)
                parts.check_ready(self._model)
                await self._renew(key, wait)
                flow = parts.turn(self._state.run, content, key=key, extra=extra)
                put = pieces.put_nowait
                await self._run_turn(flow, put, wait=wait, watch=put)
            finally:
                pieces.put_nowait(end)

        task = asyncio.create_task(work())
        try:
            while (piece := await pieces.get()) is not end:
                yield piece
            await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])

    # Context and log

    @property
    def calls(self) -> AsyncToolCalls:
        return parts.AsyncToolCalls(lambda: self._state, self._run)

    @property
    def own_loop(self) -> AsyncOwnLoop:
        """The same for a loop of your own: you make the calls and run the tools."""
        return parts.AsyncOwnLoop(lambda: self._state, self._run, self._run_turn)

    async def compact(
        self, focus: str = "", *, preview: bool = False, wait: float = TURN_WAIT_SECONDS
    ) -> CompactionFinished:
        flow = parts.compact(self._state.run, focus, is_preview=preview)
        return await (self._run(flow) if preview else self._run_turn(flow, wait=wait))

    async def undo(self, record: str | None = None, *, wait: float = TURN_WAIT_SECONDS) -> Undone:
        return await self._run_turn(parts.undo(self._state, record), wait=wait)

    async def rewind(
        self, to: str | None = None, *, turns: int = 1, wait: float = TURN_WAIT_SECONDS
    ) -> Undone:
        return await self._run_turn(parts.rewind(self._state, to, turns), wait=wait)

    async def plan(self, *, is_held: bool = False) -> Plan:
        return await parts.run_in_thread(parts.read_plan, self._state, is_held=is_held)

    async def status(self) -> Status:
        return await parts.run_in_thread(parts.read_status, self._state)

    async def messages(self, count: int = 20) -> list[Record]:
        return await parts.run_in_thread(parts.read_messages, self._state, count)

    async def notes(self, last: int | None = None) -> list[str]:
        return await parts.run_in_thread(parts.read_notes, self._state, last)

    async def rename(self, label: str) -> None:
        await self._run(parts.rename(self._state, label))

    async def checkpoint(self, trigger: str = "asked", **fields: Any) -> str:
        return await self._run(parts.checkpoint(self._state, trigger, fields))

    async def set_mode(self, mode: Literal["continue", "fresh"]) -> None:
        await self._run(parts.set_mode(self._state, mode))

    async def reset(
        self,
        label: str = "",
        *,
        moves_name: bool = False,
        carries: bool = True,
        wait: float = TURN_WAIT_SECONDS,
        at_once: bool = False,
    ) -> Self:
        parts.check_flag("at_once", at_once)
        flow = parts.reset(self._state, label, moves_name=moves_name, carries=carries)
        key = await (self._run(flow) if at_once else self._run_turn(flow, wait=wait))
        fresh = await parts.run_in_thread(
            type(self),
            self.store,
            key,
            self._model,
            self._options,
            summariser=self._summariser,
            clock=self._clock,
            owned=self._owned,
        )
        self._owned = []
        return fresh

    async def _renew(self, message_key: str | None, wait: float) -> None:
        """In fresh mode, continue in a session of its own before a turn."""
        if self._state.mode != "fresh":
            return
        old, flow = self.key, parts.renew(self._state, message_key)
        new = await self._run_turn(flow, wait=wait)
        if new is None:
            return
        await parts.run_in_thread(self._attach, new)
        await self._run(parts.emit(parts.SessionReset(old.session, new.session, "fresh mode")))

    async def _run(
        self,
        flow: Flow[T],
        on_delta: OnDelta | None = None,
        *,
        model: AsyncModel | None = None,
        watch: Callable[[Event], None] | None = None,
        scope: TurnScope | None = None,
    ) -> T:
        self._check_open()
        main, deltas = model or self._model, parts.check_on_delta(on_delta)
        other = self._summariser or main
        driver = parts.AwaitingDriver(self._state.world, main, other, deltas, watch, scope)
        try:
            return await driver.run(flow)
        except parts.Cancelled as cancelled:
            if isinstance(cancelled.__cause__, asyncio.CancelledError):
                raise cancelled.__cause__ from None
            raise

    async def _run_turn(
        self,
        flow: Flow[T],
        on_delta: OnDelta | None = None,
        *,
        wait: float = TURN_WAIT_SECONDS,
        model: AsyncModel | None = None,
        watch: Callable[[Event], None] | None = None,
    ) -> T:
        """Run a flow that can be cancelled, while no other turn of the session runs."""
        scope = parts.TurnScope(self._lease_seconds)
        self._scopes.append(scope)
        try:
            with scope.context():
                held = parts.hold_turn(flow, wait)
                result = await self._run(held, on_delta, model=model, watch=watch, scope=scope)
        finally:
            self._scopes.remove(scope)
            await parts.run_in_thread(scope.release)
        self._state.world.on_wait()
        return result
