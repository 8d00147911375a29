"""A session as its users hold it: say something and be answered, or guard calls of your own."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from holdfast import config
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
from holdfast.engine.session.drivers import Blocking
from holdfast.engine.session.prepare import Prepared, prepared
from holdfast.providers.callables import from_callable
from holdfast.providers.models import model as find_model
from holdfast.providers.replies import read_reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self, Unpack

    from holdfast.core.flow.effects import Flow
    from holdfast.core.flow.events import CompactionFinished, Event
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Content, Json, Record
    from holdfast.core.outputs.excerpts import Excerpt
    from holdfast.core.projection.project import Plan
    from holdfast.engine.session.base import Undone
    from holdfast.engine.session.status import Status
    from holdfast.ports import BlobStore, Clock, Hear, Model, SessionStore

T = TypeVar("T")
MODEL: Final = config.MODEL_DEFAULT
"""The model where nobody names one: it needs no key and no network."""


class Session(Held):
    """A durable session whose requests fit. Open one with `Session.open`."""

    def __init__(
        self,
        store: SessionStore,
        key: SessionKey,
        model: Model,
        options: Options,
        *,
        summariser: Model | None = None,
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
        self._turn = threading.RLock()

    @classmethod
    def open(
        cls,
        name: str | None = None,
        *,
        model: str | Model = MODEL,
        summary_model: str | Model | None = None,
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
        """The session by that id or label, made where there is none; without a name the newest.

        `model` is a name (`anthropic:…`, `openai:…`, `local:…`, `offline`) or anything that has
        `target`, `window` and `send`. It is reached only when something is said. An `owner` is
        written into a new session, and one that belongs to another is refused.
        """
        main = find_model(model) if isinstance(model, str) else checked_model(model)
        ready = checked_options(options)
        check_window(ready, main)
        other = find_model(summary_model) if isinstance(summary_model, str) else summary_model
        if other is not None:
            checked_model(other, "summary_model")
        store, agent, is_ours = opened_store(store, root, agent)
        key = find_session(store, name, agent, create=create, label=label, owner=owner)
        owned = owned_of((model, main), (summary_model, other), (None if is_ours else store, store))
        return cls(store, key, main, ready, summariser=other, blobs=blobs, clock=clock, owned=owned)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of what was opened here: the store, and a model that was given by name.

        Everything that was said is durable already."""
        if self._owned:
            self._leave()
        for one in self._owned:
            close = getattr(one, "close", None)
            if close is not None:
                close()

    # Holdfast runs the loop

    def say(self, content: Content, *, hear: Hear | None = None) -> Reply:
        """Say something and get the answer, tools and all. `hear` gets the reply as it comes."""
        make_ready(self._model)
        self._begin()
        return self._drive(turn.turn(self._course, content), hear)

    def resume(self, *, hear: Hear | None = None) -> Reply | None:
        """Answer what an earlier run left unanswered; None where there is nothing."""
        make_ready(self._model)
        return self._drive(turn.resume(self._course), hear)

    def stream(self, content: Content) -> Iterator[Delta | Event]:
        """The same as `say`, piece by piece: deltas and events, the last a `TurnFinished`."""
        pieces: queue.SimpleQueue[Any] = queue.SimpleQueue()
        end, span = object(), _Span(self.cancel)

        def work() -> None:
            try:
                make_ready(self._model)
                self._begin()
                flow = turn.turn(self._course, content)
                self._drive(flow, pieces.put, watch=pieces.put, span=span)
            except BaseException as error:
                pieces.put(error)
            pieces.put(end)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while (piece := pieces.get()) is not end:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            if span.leave():
                thread.join()

    # The caller keeps the loop

    def add_user(self, content: Content, *, name: str | None = None) -> str:
        """Store what the user says; returns its record."""
        return self._drive(turn.add_user(self._course, content, name), is_turn=False)

    def add_result(
        self, call_id: str, content: Content, *, is_error: bool = False, details: Any = None
    ) -> str:
        """Store what a tool returned; returns its record."""
        flow = turn.add_result(self._course, call_id, content, is_error=is_error, details=details)
        return self._drive(flow, is_turn=False)

    def call(self, send: Callable[[Json], Any], *, hear: Hear | None = None) -> Reply:
        """Make one call with a client of your own: `send` gets a request that fits, the reply is
        stored, and a refusal is answered by a smaller request."""
        model = from_callable(send, self.target, self.window)
        return self._drive(turn.answer_once(self._course), hear, model=model)

    def prepare(self, *, failed: object = None) -> Prepared:
        """The next request, ready to be sent by anybody; `record` stores the reply.

        With the error of the last attempt in `failed`, one that is smaller in the way that was
        wrong; a rate limit is waited for first. `ModelError` where giving up is all that is left.
        """
        return prepared(self._drive(self._guard.prepare(failed)))

    def record(self, reply: object) -> Reply:
        """Store a reply: an SDK's object, its JSON, a stream of either, or a `Reply`."""
        found = reply if isinstance(reply, Reply) else read_reply(reply, self.target)
        return self._drive(self._guard.record(found))

    def output_read(
        self,
        ref: str,
        *,
        offset: int | None = None,
        lines: str | None = None,
        pattern: str | None = None,
        max_chars: int = EXCERPT_CHARS,
    ) -> Excerpt:
        """A part of an output that was moved out of the log, or of a record that is shown short.

        `lines` is `"120:180"`, `"-50:"`…; a `pattern` gives the lines that match.
        """
        return self._output_read(
            ref, offset=offset, lines=lines, pattern=pattern, max_chars=max_chars
        )

    # Care

    def compact(self, focus: str = "", *, preview: bool = False) -> CompactionFinished:
        """Cut now what can be cut. With `preview`, only say what that would do."""
        return self._drive(compact(self._course, focus, is_preview=preview))

    def undo(self, record: str | None = None) -> Undone:
        """Take back the last rewind, compaction or turn, or the compaction that is named."""
        with self._turn:
            return self._undo(record)

    def rewind(self, to: str | None = None, *, turns: int = 1) -> Undone:
        """Go back to a record, or to before the last turns. What came after stays a branch."""
        with self._turn:
            return self._rewind(to, turns)

    def plan(self) -> Plan:
        """What the next request would be, with its ledger. Nothing is stored."""
        return self._plan()

    def status(self) -> Status:
        """How full it is, what it has cost, and when the next compaction comes."""
        return self._status()

    def messages(self, count: int = 20) -> list[Record]:
        """The newest messages, oldest first."""
        return self._messages(count)

    def notes(self) -> list[str]:
        """What was noted before cuts."""
        return self._notes()

    def rename(self, label: str) -> None:
        """Give the session another label."""
        self._rename(label)

    def checkpoint(self, trigger: str = "asked", **fields: Any) -> str:
        """Store what the session is doing as a state; returns the record.

        `fields` of the state are set by you and hold until you set them otherwise:
        `current_objective`, `pending_tasks`, `key_decisions`… (docs/checkpoints.md).
        """
        with self._turn:
            return self._checkpoint(trigger, fields)

    @property
    def mode(self) -> Literal["continue", "fresh"]:
        """How the session goes on after an answer."""
        return self._mode

    def set_mode(self, mode: Literal["continue", "fresh"]) -> None:
        """`continue`: in the same log. `fresh`: what is said next starts a session that knows this
        one by its checkpoint; this object goes on with it, and `SessionReset` says so."""
        with self._turn:
            self._set_mode(mode)

    def _begin(self) -> None:
        """What comes before a turn: in fresh mode, a session of its own."""
        with self._turn:
            reset = self._renewed()
        if reset is not None:
            self._drive(turn.tell(reset), is_turn=False)

    def reset(self, label: str = "") -> Self:
        """A fresh session that still knows what this one was doing. It takes over what this one
        holds open, so this one can be closed."""
        fresh = type(self)(
            self.store,
            self._reset(label),
            self._model,
            self._options,
            summariser=self._summariser,
            blobs=self.blobs,
            clock=self._clock,
            owned=self._owned,
        )
        self._owned = []
        return fresh

    def _drive(
        self,
        flow: Flow[T],
        hear: Hear | None = None,
        *,
        model: Model | None = None,
        is_turn: bool = True,
        watch: Callable[[Event], None] | None = None,
        span: _Span | None = None,
    ) -> T:
        """Carry a flow out; turns one at a time, everything else at once."""
        driver = self._driver(model or self._model, checked_hear(hear), watch)
        if not is_turn:
            return driver.run(flow)
        with self._turn:
            self._world.is_cancelled.clear()
            try:
                if span is not None:
                    span.begin()
                return driver.run(flow)
            except Cancelled as cancelled:
                if isinstance(cancelled.__cause__, KeyboardInterrupt):
                    raise KeyboardInterrupt from None
                raise
            finally:
                if span is not None:
                    span.end()
                self._world.is_cancelled.clear()

    def _driver(
        self, model: Model, hear: Hear | None, watch: Callable[[Event], None] | None
    ) -> Blocking:
        """Who carries flows out; the simulator puts another in its place."""
        return Blocking(self._world, model, self._summariser or model, hear, watch)


class _Span:
    """From the beginning of one turn to its end: who leaves calls off this turn, and no other."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel
        self._mutex = threading.Lock()
        self._is_running = False
        self._is_left = False

    def begin(self) -> None:
        with self._mutex:
            if self._is_left:
                raise Cancelled  # before its turn came: nothing was said
            self._is_running = True

    def end(self) -> None:
        with self._mutex:
            self._is_running = False

    def leave(self) -> bool:
        """Nobody waits for it any more; whether it was running."""
        with self._mutex:
            self._is_left = True
            if self._is_running:
                self._cancel()
            return self._is_running
