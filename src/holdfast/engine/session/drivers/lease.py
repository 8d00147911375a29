"""The lease of a turn while its flow runs: taken, renewed, checked before every effect, released.

A lease is renewed from a thread of its own, however long a model or a tool takes. A holder that
was paused for longer than its lease finds out by its own clock before the next effect: no call is
made and no tool is started for a turn that another holder has taken over.
"""

from __future__ import annotations

import os
import random
import threading
import time
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from holdfast.core.flow.effects import (
    AcquireTurn,
    CallModel,
    Cancelled,
    Emit,
    NextToolResult,
    Sleep,
    StartTools,
)
from holdfast.core.limits import LEASE_RENEW_SECONDS, LEASE_SECONDS
from holdfast.engine.session.drivers.waiting import LINE, QUEUE_SECONDS
from holdfast.errors import HoldfastError, LeaseLost, NoSuchSession, TurnInProgress, UsageError
from holdfast.ports import uptime
from holdfast.stores.changes import this_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.flow.effects import Effect, Flow
    from holdfast.core.flow.events import Event
    from holdfast.core.log.ids import SessionKey
    from holdfast.engine.session.drivers.waiting import Waiter
    from holdfast.ports import Leases, SessionStore

_STOPPABLE: Final = (AcquireTurn, CallModel, StartTools, NextToolResult, Sleep)
"""Effects that a turn does not begin once it is cancelled or its lease is lost; those that tidy up
after it are still performed."""
_RENEW_SHARE: Final = LEASE_RENEW_SECONDS / LEASE_SECONDS
"""Of the time of a lease, after which it is renewed."""
_NAME_CHARS: Final = 120
"""Of the process in a holder's name, which has to be short enough for every store."""
_RUNNING: ContextVar[frozenset[str]] = ContextVar("holdfast_turns", default=frozenset())
"""The holders of the turns that the current code runs in: a tool inherits them."""


class TurnScope:
    """One run of a flow: its cancellation, and the lease of the session's turn if it has one."""

    def __init__(self, lease_seconds: float = LEASE_SECONDS) -> None:
        """`lease_seconds` is how long the turn outlives a holder that stops."""
        self.lease_seconds = lease_seconds
        self.is_cancelled = threading.Event()
        name = str(this_process())[:_NAME_CHARS]
        self._holder = f"{name}, turn {random.getrandbits(32):08x}"
        self._leases: Leases | None = None
        self._key: SessionKey | None = None
        self._lost: HoldfastError | None = None
        self._until = 0.0
        self._number = LINE.number()
        self._waiter: Waiter | None = None
        self._queue: tuple[Leases, SessionKey] | None = None
        """The queue of the session in its store, if this turn has a place there."""
        self.token: int | None = None
        """The token that the appends of this run carry."""
        self.is_log_known = False
        """No one else can have written since the log was last read or written to."""

    @property
    def has_turn(self) -> bool:
        return self.token is not None

    @property
    def is_overdue(self) -> bool:
        """True if the lease may have run out, so that it has to be renewed before going on."""
        return self.token is not None and uptime() >= self._until

    @contextmanager
    def context(self) -> Iterator[None]:
        """Mark the code of a block, and the tools that it runs, as part of this turn."""
        before = _RUNNING.set(_RUNNING.get() | {self._holder})
        try:
            yield
        finally:
            _RUNNING.reset(before)

    def acquire(
        self, store: SessionStore, key: SessionKey, *, is_queued: bool = False
    ) -> TurnInProgress | None:
        """Take the lease; returns the error that names its holder where it is not free."""
        leases, start = store.leases, uptime()
        if self._waiter is None:
            asking = TurnInProgress(str(key), self._holder, time.time())
            self._waiter = LINE.join(f"{leases.place}\n{key}", self._number, asking)
        busy = LINE.ahead(self._waiter)
        if busy is not None:
            self._leave_queue()  # an earlier call came later, and would wait for this one
        else:
            try:
                self.token = leases.acquire(
                    key, self._holder, self.lease_seconds, queue_seconds=QUEUE_SECONDS * is_queued
                )
            except TurnInProgress as error:
                self._waiter.busy = busy = error
                if is_queued:
                    self._queue = (leases, key)
        if busy is not None:
            if busy.holder in _RUNNING.get():
                raise UsageError(
                    f"this code is part of the running turn of session `{key.session}`: a second "
                    "turn would wait for itself",
                    hint="return from the tool or listener first; `add_user` and `status` need "
                    "no turn",
                )
            return busy
        self._queue = None
        self._leave_line()
        self._leases, self._key, self._until = leases, key, start + self.lease_seconds
        _renewals.add(self)
        return None

    def _leave_queue(self) -> None:
        """Give up the place among other processes; one that stays runs out."""
        queue, self._queue = self._queue, None
        if queue is not None:
            leases, key = queue
            with suppress(HoldfastError, OSError):
                leases.leave_queue(key, self._holder)

    def _leave_line(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            LINE.leave(waiter)

    def check(self, effect: Effect) -> None:
        """Raise where a turn that was cancelled, or taken over, must not begin this effect."""
        if isinstance(effect, _STOPPABLE):
            self.check_running()

    def check_running(self) -> None:
        """Raise `Cancelled`, or `LeaseLost` where another holder has the turn."""
        if self.is_overdue and self._lost is None:
            self.renew()
        if self._lost is not None:
            raise self._lost
        if self.is_cancelled.is_set():
            raise Cancelled

    def renew(self) -> None:
        """Renew the lease. A failure counts once the lease may have run out."""
        token, leases, key, start = self.token, self._leases, self._key, uptime()
        if token is None or leases is None or key is None:
            return
        try:
            leases.renew(key, token, self.lease_seconds)
        except (LeaseLost, NoSuchSession) as error:
            self._lost = error
        except HoldfastError as error:  # a disk that fails now may work at the next try
            if self.is_overdue:
                self._lost = error
        else:
            self._until = start + self.lease_seconds

    def release(self) -> None:
        """End the lease, if there is one. It never fails: a lease that stays runs out."""
        self._leave_queue()
        self._leave_line()
        token, leases, key = self.token, self._leases, self._key
        self.token = None
        if token is None or leases is None or key is None:
            return
        _renewals.remove(self)
        try:
            leases.release(key, token)
        except (HoldfastError, OSError):
            return


@contextmanager
def hold_lease(store: SessionStore, key: SessionKey, *, wait_seconds: float = 0.0) -> Iterator[int]:
    """Hold the turn of a session for a block that appends to it; yields the token.

    Raises `TurnInProgress` where another holder has it for longer than `wait_seconds`.
    """
    scope = TurnScope()
    try:
        take_turn(store, key, wait_seconds, scope)
        assert scope.token is not None
        with scope.context():
            yield scope.token
    finally:
        scope.release()


def wait_for_turn(
    store: SessionStore,
    key: SessionKey,
    seconds: float,
    scope: TurnScope,
    emit: Callable[[Event], object] | None = None,
) -> None:
    """Block until the session's turn is free, in the order of all who wait for it.

    Raises `TurnInProgress` when the time is up, and `Cancelled` if the scope is cancelled. `emit`
    gets a `TurnWaiting` where there is something to wait for.
    """
    try:
        take_turn(store, key, seconds, scope, emit)
    finally:
        scope.release()


def take_turn(
    store: SessionStore,
    key: SessionKey,
    seconds: float,
    scope: TurnScope,
    emit: Callable[[Event], object] | None = None,
) -> None:
    """Block until a scope has the session's turn, like `wait_for_turn`; the caller releases it."""
    from holdfast.core.turn.turn import hold_turn

    flow = hold_turn(_do_nothing(), seconds)
    found: TurnInProgress | None = None
    try:
        while True:
            effect = flow.send(found)
            scope.check(effect)
            found = None
            if isinstance(effect, AcquireTurn):
                found = scope.acquire(store, key, is_queued=effect.is_queued)
            elif isinstance(effect, Sleep):
                scope.is_cancelled.wait(effect.seconds)
            elif isinstance(effect, Emit) and emit is not None:
                emit(effect.event)
    except StopIteration:
        return


def _do_nothing() -> Flow[None]:
    return
    yield


class _Renewals:
    """Renews the leases of this process in a thread that lives while there are any."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._scopes: set[TurnScope] = set()
        self._is_started = False
        self._is_new = threading.Event()
        """A lease came that may have to be renewed sooner than all others."""

    def add(self, scope: TurnScope) -> None:
        if self._pid != os.getpid():
            self._forget()  # a forked child has none of its parent's threads
        with self._mutex:
            self._scopes.add(scope)
            self._is_new.set()
            if not self._is_started:
                self._is_started = True
                thread = threading.Thread(target=self._run, name="holdfast-leases", daemon=True)
                thread.start()

    def remove(self, scope: TurnScope) -> None:
        if self._pid != os.getpid():
            return  # a forked child has none of its parent's leases, and must not wait for its lock
        with self._mutex:
            self._scopes.discard(scope)

    def _run(self) -> None:
        renewed: dict[TurnScope, float] = {}
        while True:
            self._is_new.clear()
            with self._mutex:
                scopes = list(self._scopes)
            now = uptime()
            renewed = {scope: renewed.get(scope, now) for scope in scopes}
            due = [renewed[scope] + scope.lease_seconds * _RENEW_SHARE for scope in scopes]
            if self._is_new.wait(min(due, default=now + LEASE_RENEW_SECONDS) - now):
                continue
            with self._mutex:
                if not self._scopes:
                    self._is_started = False
                    return
            now = uptime()
            for scope, moment in zip(scopes, due, strict=True):
                if moment <= now:
                    renewed[scope] = now
                    # A log that another process has locked must not delay the other leases.
                    threading.Thread(target=scope.renew, daemon=True).start()


_renewals = _Renewals()
