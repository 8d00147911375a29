"""The session of `session.py`, awaited. The same surface, the same flows, another driver."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from holdfast.core.flow.effects import Cancelled
from holdfast.core.limits import EXCERPT_CHARS
from holdfast.core.models.replies import Delta, Reply
from holdfast.core.turn import turn
from holdfast.core.turn.compact import compact
from holdfast.engine.session.base import (
    Held,
    Options,
    check_window,
    checked_hear,
    checked_model,
    checked_options,
    find_session,
    make_ready,
    opened_store,
    owned_of,
)
from holdfast.engine.session.drivers import Awaiting, finished
from holdfast.engine.session.prepare import Prepared, prepared
from holdfast.engine.session.session import MODEL
from holdfast.providers.callables import async_from_callable
from holdfast.providers.models import async_model as find_model
from holdfast.providers.replies import read_reply_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from typing import Self, Unpack

    from holdfast.core.flow.effects import Flow
    from holdfast.core.flow.events import CompactionFinished, Event
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Content, Json, Record
    from holdfast.core.outputs.excerpts import Excerpt
    from holdfast.core.projection.project import Plan
    from holdfast.engine.session.base import Undone
    from holdfast.engine.session.status import Status
    from holdfast.ports import AsyncModel, BlobStore, Clock, Hear, SessionStore

T = TypeVar("T")


class AsyncSession(Held):
    """A durable session whose requests fit. Open one with `await AsyncSession.open(…)`."""

    def __init__(
        self,
        store: SessionStore,
        key: SessionKey,
        model: AsyncModel,
        options: Options,
        *,
        summariser: AsyncModel | None = None,
        blobs: BlobStore | None = None,
        clock: Clock = time.time,
        owned: Sequence[Any] = (),
    ) -> None:
        super().__init__(
            store,
            key,
            model,
            options,
            summariser=summariser,
            blobs=blobs,
            clock=clock,
            owned=owned,
        )
        self._model = model
        self._summariser = summariser
        self._turn = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        name: str | None = None,
        *,
        model: str | AsyncModel = MODEL,
        summary_model: str | AsyncModel | None = None,
        root: str | None = None,
        agent: str | None = None,
        store: SessionStore | None = None,
        blobs: BlobStore | None = None,
        label: str = "",
        owner: str | None = None,
        create: bool = True,
        clock: Clock = time.time,
        **options: Unpack[Options],
    ) -> Self:
        """See `Session.open`; a model's `send` is awaited here."""
        main = find_model(model) if isinstance(model, str) else checked_model(model)
        ready = checked_options(options)
        check_window(ready, main)
        other = find_model(summary_model) if isinstance(summary_model, str) else summary_model
        if other is not None:
            checked_model(other, "summary_model")
        opened, who, is_ours = await finished(opened_store, store, root, agent)
        key = await finished(
            find_session, opened, name, who, create=create, label=label, owner=owner
        )
        ours = (None if is_ours else opened, opened)
        owned = owned_of((model, main), (summary_model, other), ours)
        return cls(
            opened, key, main, ready, summariser=other, blobs=blobs, clock=clock, owned=owned
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._owned:
            await finished(self._leave)
        for one in self._owned:
            close = getattr(one, "close", None)
            if one is self.store:
                await finished(self.store.close)
            elif close is not None:
                done = close()
                if inspect.isawaitable(done):
                    await done

    # Holdfast runs the loop

    async def say(self, content: Content, *, hear: Hear | None = None) -> Reply:
        make_ready(self._model)
        await self._begin()
        return await self._drive(turn.turn(self._course, content), hear)

    async def resume(self, *, hear: Hear | None = None) -> Reply | None:
        make_ready(self._model)
        return await self._drive(turn.resume(self._course), hear)

    async def stream(self, content: Content) -> AsyncIterator[Delta | Event]:
        pieces: asyncio.Queue[Any] = asyncio.Queue()
        end = object()

        async def work() -> None:
            try:
                make_ready(self._model)
                await self._begin()
                flow = turn.turn(self._course, content)
                await self._drive(flow, pieces.put_nowait, watch=pieces.put_nowait)
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

    # The caller keeps the loop

    async def add_user(self, content: Content, *, name: str | None = None) -> str:
        return await self._drive(turn.add_user(self._course, content, name), is_turn=False)

    async def add_result(
        self, call_id: str, content: Content, *, is_error: bool = False, details: Any = None
    ) -> str:
        flow = turn.add_result(self._course, call_id, content, is_error=is_error, details=details)
        return await self._drive(flow, is_turn=False)

    async def call(self, send: Callable[[Json], Any], *, hear: Hear | None = None) -> Reply:
        model = async_from_callable(send, self.target, self.window)
        return await self._drive(turn.answer_once(self._course), hear, model=model)

    async def prepare(self, *, failed: object = None) -> Prepared:
        return prepared(await self._drive(self._guard.prepare(failed)))

    async def record(self, reply: object) -> Reply:
        found = reply if isinstance(reply, Reply) else await read_reply_async(reply, self.target)
        return await self._drive(self._guard.record(found))

    async def output_read(
        self,
        ref: str,
        *,
        offset: int | None = None,
        lines: str | None = None,
        pattern: str | None = None,
        max_chars: int = EXCERPT_CHARS,
    ) -> Excerpt:
        return await finished(
            self._output_read,
            ref,
            offset=offset,
            lines=lines,
            pattern=pattern,
            max_chars=max_chars,
        )

    # Care

    async def compact(self, focus: str = "", *, preview: bool = False) -> CompactionFinished:
        return await self._drive(compact(self._course, focus, is_preview=preview))

    async def undo(self, record: str | None = None) -> Undone:
        async with self._turn:
            return await finished(self._undo, record)

    async def rewind(self, to: str | None = None, *, turns: int = 1) -> Undone:
        async with self._turn:
            return await finished(self._rewind, to, turns)

    async def plan(self) -> Plan:
        return await finished(self._plan)

    async def status(self) -> Status:
        return await finished(self._status)

    async def messages(self, count: int = 20) -> list[Record]:
        return await finished(self._messages, count)

    async def notes(self) -> list[str]:
        return await finished(self._notes)

    async def rename(self, label: str) -> None:
        await finished(self._rename, label)

    async def checkpoint(self, trigger: str = "asked", **fields: Any) -> str:
        async with self._turn:
            return await finished(self._checkpoint, trigger, fields)

    @property
    def mode(self) -> Literal["continue", "fresh"]:
        return self._mode

    async def set_mode(self, mode: Literal["continue", "fresh"]) -> None:
        async with self._turn:
            await finished(self._set_mode, mode)

    async def _begin(self) -> None:
        """What comes before a turn: in fresh mode, a session of its own."""
        async with self._turn:
            reset = await finished(self._renewed)
        if reset is not None:
            await self._drive(turn.tell(reset), is_turn=False)

    async def reset(self, label: str = "") -> Self:
        fresh = type(self)(
            self.store,
            await finished(self._reset, label),
            self._model,
            self._options,
            summariser=self._summariser,
            blobs=self.blobs,
            clock=self._clock,
            owned=self._owned,
        )
        self._owned = []
        return fresh

    async def _drive(
        self,
        flow: Flow[T],
        hear: Hear | None = None,
        *,
        model: AsyncModel | None = None,
        is_turn: bool = True,
        watch: Callable[[Event], None] | None = None,
    ) -> T:
        """Carry a flow out; turns one at a time, everything else at once."""
        main = model or self._model
        heard = checked_hear(hear)
        driver = Awaiting(self._world, main, self._summariser or main, heard, watch)
        if not is_turn:
            return await driver.run(flow)
        async with self._turn:
            self._world.is_cancelled.clear()
            try:
                return await driver.run(flow)
            except Cancelled as cancelled:
                if isinstance(cancelled.__cause__, asyncio.CancelledError):
                    raise cancelled.__cause__ from None
                raise
            finally:
                self._world.is_cancelled.clear()
