"""`Session`: a durable conversation with a model, driven on the calling thread."""

from __future__ import annotations

import contextvars
import queue
import threading
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from holdfast.core.limits import TURN_WAIT_SECONDS
from holdfast.engine import session as parts
from holdfast.engine.session.base import ClosedOnExit, SessionBase

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self, Unpack

    from holdfast.core.flow.effects import Flow
    from holdfast.core.flow.events import CompactionFinished, Event
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Content, Json, Record
    from holdfast.core.models.replies import Delta, Reply
    from holdfast.core.owners import OwnerFilter
    from holdfast.core.projection.project import Plan
    from holdfast.engine.session.drivers.blocking import BlockingDriver
    from holdfast.engine.session.drivers.lease import TurnScope
    from holdfast.engine.session.handles.own_loop import OwnLoop
    from holdfast.engine.session.handles.tool_calls import ToolCalls
    from holdfast.engine.session.options import OptionKeywords, SessionOptions
    from holdfast.engine.session.rewinding import Undone
    from holdfast.engine.session.status import Status
    from holdfast.ports import Clock, Model, OnDelta, SessionStore

T = TypeVar("T")
MODEL: Final = "offline"
"""The default model: it needs no key and no network."""


class Session(ClosedOnExit, SessionBase):
    """A durable session whose requests fit the model's window. Open one with `Session.open`."""

    def __init__(
        self,
        store: SessionStore,
        key: SessionKey,
        model: Model,
        options: SessionOptions | None = None,
        *,
        summariser: Model | None = None,
        clock: Clock | None = None,
        owned: Sequence[Any] = (),
    ) -> None:
        if options is not None and summariser is None:
            summariser = parts.find_summariser(options, parts.model)
            owned = [*owned, *parts.created_here((options.summarising.model, summariser))]
        self._writer = parts.ThreadWriter(model, summariser)
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
    def open(
        cls,
        name: str | None = None,
        *,
        model: str | Model = MODEL,
        agent: str | None = None,
        store: str | os.PathLike[str] | SessionStore | None = None,
        owner: str | OwnerFilter = "",
        create: bool = True,
        **options: Unpack[OptionKeywords],
    ) -> Self:
        """Open the session with exactly that id, or create it; without a name, open the newest.

        `model` is a name (`anthropic:…`, `openai:…`, `local:…`, `offline`) or anything that has
        `target`, `window` and `send`. It is contacted only when a turn starts. An `owner` is
        written into a new session, and a session of another owner is refused; without one, every
        session that has an owner is. `ANY_OWNER` is for an operator: it opens a session of
        any owner. A label never opens a session. `store` is an address, such as a path, or an open
        store. All other keyword arguments are fields of `SessionOptions`.
        """
        whose = parts.owner_argument(owner)
        main = parts.model(model) if isinstance(model, str) else parts.check_model(model)
        chosen = parts.read_options(options)
        parts.check_window(chosen, main)
        other = parts.find_summariser(chosen, parts.model)
        store, agent, is_ours = parts.choose_store(store, agent)
        ours = store if is_ours else None
        owned = parts.created_here((model, main), (chosen.summarising.model, other), (None, ours))
        with parts.close_on_error(ours):
            key = parts.find_session(store, name, agent, create=create, owner=whose)
            return cls(store, key, main, chosen, summariser=other, owned=owned)

    def close(self) -> None:
        """Close what was opened here: the store, and a model that was given by name.

        Every message is durable already. A closed object takes no more of them."""
        if self._is_closed:
            return
        self._writer.stop()
        if self._owned:
            self._run(parts.checkpoint_on_close(self._state))
        self._is_closed = True
        for thing in self._owned:
            close = getattr(thing, "close", None)
            if close is not None:
                close()

    # Holdfast runs the loop

    def say(
        self,
        content: Content,
        *,
        on_delta: OnDelta | None = None,
        key: str | None = None,
        extra: Json | None = None,
        wait: float = TURN_WAIT_SECONDS,
    ) -> Reply:
        """Send a message and return the reply, after all tool calls. `on_delta` gets the reply
        piece by piece. While another turn of the session runs, in whichever process, this one
        waits for so many seconds, then raises `TurnInProgress`; nothing is stored before its turn.

        A message with the `key` of an earlier one, however old, is not stored again: its answer is
        returned, or it is answered now. The fields of `extra` are kept in the record.
        """
        parts.check_message(content)
        parts.check_ready(self._model)
        self._renew(key, wait, scope := parts.TurnScope(self._lease_seconds))
        flow = parts.turn(self._state.run, content, key=key, extra=extra)
        return self._run_turn(flow, on_delta, wait=wait, scope=scope)

    def resume(
        self, *, on_delta: OnDelta | None = None, wait: float = TURN_WAIT_SECONDS
    ) -> Reply | None:
        """Answer a message that an earlier run left unanswered; None where there is none."""
        parts.check_ready(self._model)
        return self._run_turn(parts.resume(self._state.run), on_delta, wait=wait)

    def stream(
        self,
        content: Content,
        *,
        key: str | None = None,
        extra: Json | None = None,
        wait: float = TURN_WAIT_SECONDS,
    ) -> Iterator[Delta | Event]:
        """Like `say`, piece by piece: deltas and events, the last of them a `TurnFinished`."""
        pieces: queue.SimpleQueue[Any] = queue.SimpleQueue()
        end, scope = object(), parts.TurnScope(self._lease_seconds)

        def work() -> None:
            try:
                parts.check_message(content)
                parts.check_ready(self._model)
                self._renew(key, wait, scope)
                flow = parts.turn(self._state.run, content, key=key, extra=extra)
                self._run_turn(flow, pieces.put, wait=wait, watch=pieces.put, scope=scope)
            except BaseException as error:
                pieces.put(error)
            pieces.put(end)

        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(work,), daemon=True)
        thread.start()
        try:
            while (piece := pieces.get()) is not end:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            scope.is_cancelled.set()  # this turn and no other, also while it waits for its turn
            thread.join()

    # Context and log

    @property
    def own_loop(self) -> OwnLoop:
        """The same for a loop of your own: you make the calls and run the tools."""
        return parts.OwnLoop(lambda: self._state, self._run, self._run_turn)

    @property
    def calls(self) -> ToolCalls:
        """The tool calls whose last word was not said: deliver results that come late."""
        return parts.ToolCalls(lambda: self._state, self._run)

    def compact(
        self, focus: str = "", *, preview: bool = False, wait: float = TURN_WAIT_SECONDS
    ) -> CompactionFinished:
        """Compact the view now. With `preview`, only report what that would do."""
        flow = parts.compact(self._state.run, focus, is_preview=preview)
        return self._run(flow) if preview else self._run_turn(flow, wait=wait)

    def undo(self, record: str | None = None, *, wait: float = TURN_WAIT_SECONDS) -> Undone:
        """Take back the last rewind, compaction or turn, or the compaction with that record id."""
        return self._run_turn(parts.undo(self._state, record), wait=wait)

    def rewind(
        self, to: str | None = None, *, turns: int = 1, wait: float = TURN_WAIT_SECONDS
    ) -> Undone:
        """Go back to a record, or to before the last turns. Later records stay as a branch."""
        return self._run_turn(parts.rewind(self._state, to, turns), wait=wait)

    def plan(self, *, is_held: bool = False) -> Plan:
        """Return the next request with its ledger. Nothing is stored. With `is_held` it is the view
        as it is now, which `status` counts: what a pause lets the next turn shorten is whole."""
        return parts.read_plan(self._state, is_held=is_held)

    def status(self) -> Status:
        """Return the fill level, the cost so far, and when the next compaction is due."""
        return parts.read_status(self._state)

    def messages(self, count: int = 20) -> list[Record]:
        """Return the newest messages, oldest first."""
        return parts.read_messages(self._state, count)

    def notes(self, last: int | None = None) -> list[str]:
        """Return the notes that were saved before compactions: all, or the newest `last`, which
        are read from the end of the log."""
        return parts.read_notes(self._state, last)

    def rename(self, label: str) -> None:
        """Give the session another label."""
        self._run(parts.rename(self._state, label))

    def checkpoint(self, trigger: str = "asked", **fields: Any) -> str:
        """Store a checkpoint of the session's state; returns its record id.

        You can set `fields` of the state, which stay until you set them again:
        `current_objective`, `pending_tasks`, `key_decisions`… (docs/checkpoints.md).
        """
        return self._run(parts.checkpoint(self._state, trigger, fields))

    def set_mode(self, mode: Literal["continue", "fresh"]) -> None:
        """Set how the session continues after a reply: in the same log, or in a fresh session that
        starts from this one's checkpoint. This object continues with it and emits
        `SessionReset`."""
        self._run(parts.set_mode(self._state, mode))

    def reset(
        self,
        label: str = "",
        *,
        moves_name: bool = False,
        carries: bool = True,
        wait: float = TURN_WAIT_SECONDS,
        at_once: bool = False,
    ) -> Self:
        """Return a fresh session that starts from this one's checkpoint. It takes over the store
        and the model, so this one can be closed. With `at_once`, a running turn is not waited for:
        the checkpoint is of the log as it is, and the turn ends in the session that is left.
        With `moves_name`, opening this session by its name leads to the fresh one.
        One that `carries` nothing knows nothing of this one."""
        parts.check_flag("at_once", at_once)
        flow = parts.reset(self._state, label, moves_name=moves_name, carries=carries)
        fresh = type(self)(
            self.store,
            self._run(flow) if at_once else self._run_turn(flow, wait=wait),
            self._model,
            self._options,
            summariser=self._summariser,
            clock=self._clock,
            owned=self._owned,
        )
        self._owned = []
        return fresh

    def _renew(self, message_key: str | None, wait: float, scope: TurnScope) -> None:
        """In fresh mode, continue in a session of its own before a turn."""
        if self._state.mode != "fresh":
            return
        old, flow = self.key, parts.renew(self._state, message_key)
        new = self._run_turn(flow, wait=wait, scope=scope)
        if new is None:
            return
        self._attach(new)
        self._run(parts.emit(parts.SessionReset(old.session, new.session, "fresh mode")))

    def _run(
        self,
        flow: Flow[T],
        on_delta: OnDelta | None = None,
        *,
        model: Model | None = None,
        watch: Callable[[Event], None] | None = None,
        scope: TurnScope | None = None,
    ) -> T:
        self._check_open()
        driver = self._driver(
            model or self._model, parts.check_on_delta(on_delta), watch, scope or parts.TurnScope()
        )
        try:
            return driver.run(flow)
        except parts.Cancelled as cancelled:
            if isinstance(cancelled.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise

    def _run_turn(
        self,
        flow: Flow[T],
        on_delta: OnDelta | None = None,
        *,
        wait: float = TURN_WAIT_SECONDS,
        model: Model | None = None,
        watch: Callable[[Event], None] | None = None,
        scope: TurnScope | None = None,
    ) -> T:
        """Run a flow that can be cancelled, while no other turn of the session runs."""
        scope = scope or parts.TurnScope(self._lease_seconds)
        self._scopes.append(scope)
        try:
            with scope.context():
                held = parts.hold_turn(flow, wait)
                result = self._run(held, on_delta, model=model, watch=watch, scope=scope)
        finally:
            self._scopes.remove(scope)
            scope.release()
        self._state.world.on_wait()
        return result

    def _driver(
        self,
        model: Model,
        on_delta: OnDelta | None,
        watch: Callable[[Event], None] | None,
        scope: TurnScope,
    ) -> BlockingDriver:
        """The driver of one flow; the simulator overrides this."""
        other = self._summariser or model
        return parts.BlockingDriver(self._state.world, model, other, on_delta, watch, scope)
