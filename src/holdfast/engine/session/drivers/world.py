"""The parts of a session that effects reach, for both drivers."""

from __future__ import annotations

import threading
import time
import warnings
from typing import TYPE_CHECKING, Any, Final, assert_never

import msgspec

from holdfast.core.flow.effects import (
    AcquireTurn,
    Append,
    Cancelled,
    Emit,
    FailedCall,
    FindMessage,
    IsTurnRunning,
    JudgeCalls,
    Now,
    PutBlob,
    Read,
    ReadSince,
    RunBlocking,
    SaveCheckpoint,
    ScalePicture,
    SearchMemory,
)
from holdfast.core.log.records import CallState
from holdfast.core.turn.calls import PARKED
from holdfast.engine.pictures import scale_picture
from holdfast.errors import (
    BudgetSpent,
    HoldfastWarning,
    InvalidRequest,
    PriceUnknown,
    StoreError,
    UsageError,
)
from holdfast.providers.callables import CallerMistake
from holdfast.providers.replies import partial_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from holdfast.core.failures.classify import Rule
    from holdfast.core.flow.effects import (
        CallModel,
        Effect,
        SavedCheckpoint,
        StoredMessage,
        StoreEffect,
    )
    from holdfast.core.flow.events import Event
    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.replies import Delta
    from holdfast.engine.session.drivers.lease import TurnScope
    from holdfast.engine.session.prepare import RequestWriter
    from holdfast.engine.session.session_log import SessionLog
    from holdfast.engine.tools import Toolbox
    from holdfast.ports import BlobStore, Clock, OnDelta


class LogConversation:
    """The conversation in a log. What is retold goes to another program, so secrets are masked."""

    def __init__(self, log: SessionLog) -> None:
        self._log = log

    @property
    def name(self) -> str:
        return str(self._log.key)

    def back(self) -> Iterator[Record]:
        return self._log.store.back(self._log.key)

    def retell(self, chars: int) -> str:
        from holdfast.core.history.backends import before_newest
        from holdfast.core.history.reseed import reseed
        from holdfast.engine.redactor import redactor

        records = before_newest(self._log.store.live(self._log.key).records)
        return reseed(records, chars, source=self.name, redactor=redactor()).text


TOOLS_AT_ONCE: Final = 8
"""Threads or tasks for the tools of one reply: enough for what models ask for in one step."""
_RAISED: Final = (UsageError, InvalidRequest, BudgetSpent, PriceUnknown)
"""Errors of a call that no other request would avoid."""
POLL_SECONDS: Final = 0.1
"""The longest time until a waiting driver notices that its turn was cancelled."""


class Listeners:
    """The handlers of a session's events."""

    def __init__(self) -> None:
        self._handlers: list[tuple[type | tuple[type, ...], Callable[[Any], Any]]] = []

    def add(self, handler: Callable[[Any], Any], kinds: type | tuple[type, ...]) -> None:
        self._handlers.append((kinds, handler))

    def remove(self, handler: Callable[[Any], Any]) -> None:
        self._handlers = [entry for entry in self._handlers if entry[1] is not handler]

    def of(self, event: Event) -> list[Callable[[Any], Any]]:
        """The handlers for an event, in the order in which they were added."""
        return [handler for kinds, handler in self._handlers if isinstance(event, kinds)]


class World(msgspec.Struct, kw_only=True):
    """Everything outside a flow that the effects of one session reach."""

    log: SessionLog
    listeners: Listeners
    toolbox: Toolbox
    blobs: BlobStore | None = None
    save_checkpoint: Callable[[str, int | None], SavedCheckpoint | None] = lambda *_: None
    """Stores a checkpoint, for a trigger, with the token of the turn's lease."""
    find_message: Callable[[str], StoredMessage | None] = lambda _key: None
    search_memory: Callable[[str], str] = lambda _query: ""
    rules: Sequence[Rule] = ()
    """The caller's own rules for classifying failures."""
    clock: Clock = time.time
    on_wait: Callable[[], None] = lambda: None
    """Called when the session begins to wait for tools."""
    planning: AbstractContextManager[Any] = msgspec.field(default_factory=threading.RLock)
    """Held by the thread that plans: what one plan leaves to the next is for one thread."""
    writer: RequestWriter | None = None
    """Writes the requests of turns; made when the first is sent."""

    def perform(self, effect: StoreEffect, scope: TurnScope) -> Any:
        """Perform an effect that blocks its thread, whichever driver it is of."""
        match effect:
            case Read():
                return self.log.read(effect.window, is_known=scope.is_log_known)
            case ReadSince():
                return self.log.since(effect.record, every_branch=effect.every_branch)
            case Append():
                self._list_parked(effect.records)
                return self.log.append(
                    effect.records,
                    unless=effect.unless,
                    unless_key=effect.unless_key,
                    token=scope.token,
                )
            case FindMessage():
                return self.find_message(effect.key)
            case AcquireTurn():
                return scope.acquire(self.log.store, self.log.key, is_queued=effect.is_queued)
            case IsTurnRunning():
                return (
                    not scope.has_turn and self.log.store.leases.current(self.log.key) is not None
                )
            case PutBlob():
                return self._put_blob(effect.data)
            case ScalePicture():
                return scale_picture(effect)
            case SaveCheckpoint():
                return self.save_checkpoint(effect.trigger, scope.token)
            case SearchMemory():
                return self.search_memory(effect.query)
            case JudgeCalls():
                return [self.toolbox.judge(call) for call in effect.calls]
            case RunBlocking():
                return effect.work()
            case _:
                assert_never(effect)

    def _list_parked(self, records: Sequence[Record]) -> None:
        """Put calls on the list of those that wait before the records that park them: a process
        that ends in between has put up too much, and no less."""
        parked = [rec.key for rec in records if type(rec) is CallState and rec.state == PARKED]
        if parked:
            from holdfast.engine.session.waiting_list import mark_waiting

            mark_waiting(self.log.store, self.log.key, parked)

    def note(self, effect: Effect, value: object, scope: TurnScope, *, is_watched: bool) -> None:
        """Note whether the log at hand is the store's still after an effect that gave a value: it
        was read or written, and nothing since took time or ran code of others."""
        match effect:
            case Read():
                scope.is_log_known = True
            case Append():
                scope.is_log_known = value is not None
            case Now():
                pass
            case Emit():
                is_heard = is_watched or bool(self.listeners.of(effect.event))
                scope.is_log_known = scope.is_log_known and not is_heard
            case _:  # everything else takes time, or runs code of others
                scope.is_log_known = False

    def begin_call(self, model: Any, call: CallModel) -> Any:
        """The object that sends one request: the model, or a call of a backend, which gets the log
        for the turn itself and nothing for a summary or notes."""
        begin = getattr(model, "begin", None)
        if begin is None:
            return model
        return begin(LogConversation(self.log) if call.purpose == "turn" else None)

    def request(self, call: CallModel) -> Json:
        # A summary or notes are asked for now and then, and begin with nothing that was before.
        writer = self.turn_writer() if call.purpose == "turn" else self._make_writer()
        return writer.write(call.prompt, call.target)

    def turn_writer(self) -> RequestWriter:
        """The writer of the requests of turns."""
        self.writer = self.writer or self._make_writer()
        return self.writer

    def _make_writer(self) -> RequestWriter:
        from holdfast.engine.session.prepare import RequestWriter

        return RequestWriter()

    def _put_blob(self, data: bytes) -> str | StoreError:
        assert self.blobs is not None, "without a blob store, no output is moved out"
        try:
            return self.blobs.put(data)
        except StoreError as error:
            return error

    def failed_call(self, error: Exception, call: CallModel) -> FailedCall:
        """Classify an exception of a model. A mistake of the caller (no key, an invalid request)
        and a budget that is spent are raised instead, unless the call was only for a summary or
        notes."""
        if isinstance(error, _RAISED) and call.purpose == "turn":
            raise error
        if isinstance(error, CallerMistake):
            raise error.mistake
        from holdfast.providers.failures import name_failure

        partial = partial_of(error)
        text = partial.text if partial is not None else ""
        return FailedCall(name_failure(error, self.rules), error, text)

    def guard_on_delta(self, on_delta: OnDelta | None, scope: TurnScope) -> OnDelta | None:
        """Wrap a callback for deltas: it stops when the turn is cancelled, and the first exception
        that it raises becomes a warning, because the reply is still wanted."""
        if on_delta is None:
            return None

        is_broken = False

        def guarded(delta: Delta) -> None:
            nonlocal is_broken
            if scope.is_cancelled.is_set():
                raise Cancelled
            if is_broken:
                return
            try:
                on_delta(delta)
            except Exception as error:
                is_broken = True
                warn_of_listener(on_delta, delta, error)

        return guarded


def as_cancelled(
    raised: BaseException, interrupts: tuple[type[BaseException], ...]
) -> BaseException:
    """Turn an interrupt into `Cancelled`, with the part of the reply that had arrived; return
    other exceptions as they are."""
    if not isinstance(raised, (Cancelled, *interrupts)):
        return raised
    is_by_user = raised.is_by_user if isinstance(raised, Cancelled) else _is_ctrl_c(raised)
    cancelled = Cancelled(partial_of(raised), is_by_user=is_by_user)
    cancelled.__cause__ = raised
    return cancelled


def _is_ctrl_c(raised: BaseException) -> bool:
    """Return whether an interrupt came from the keyboard, and not from the program itself."""
    return isinstance(raised, KeyboardInterrupt)


def warn_of_listener(handler: object, event: Event | Delta, error: Exception) -> None:
    name = getattr(handler, "__qualname__", repr(handler))
    warnings.warn(
        f"the listener `{name}` failed on `{type(event).__name__}`: {error}",
        HoldfastWarning,
        stacklevel=3,
    )
