"""Timers of sessions: kept in a queue of the store, sent by anyone who runs a gateway over it.

Each time of a timer is a message of the queue with a key of its own, and so is what it sends. So
nothing is claimed: whatever two processes or a crash do twice is done once.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from contextlib import suppress
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, assert_never

import msgspec

from holdfast import config
from holdfast.core.flow.arguments import check_message
from holdfast.core.owners import ANY_OWNER, owner_of, owner_text
from holdfast.core.text.typed import convert_typed
from holdfast.core.timers import (
    LATE_SECONDS,
    Clocks,
    NotYet,
    PassOver,
    SendNow,
    Timer,
    check_hours,
    check_jitter,
    check_zone,
    decide,
    due_at,
    first_moment,
    following,
    read_schedule,
)
from holdfast.engine.gateway.gateway import ServiceStatus, session_key
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.engine.spending.meter import Paying, paying, who_pays
from holdfast.errors import BadSetting, HoldfastError, KeyReused, UsageError
from holdfast.ports import NewMessage
from holdfast.ports.side_stores import this_boot, uptime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.core.owners import Owner, OwnerFilter
    from holdfast.core.timers import Missed
    from holdfast.engine.gateway.gateway import Gateway, ServiceState
    from holdfast.engine.session.base import SessionBase
    from holdfast.ports import QueuedMessage, Queues, SideStores

QUEUE: Final = "timers"
TIMERS_MAX: Final = 100
"""Timers of one owner at a time."""
LOOK_SECONDS: Final = 5.0
"""Between two looks: for timers that another process set, and for clocks that were set."""
_PAUSE_SECONDS: Final = 0.05
"""The shortest pause between two looks."""
_PAGE: Final = 500
"""Timers that are read at once where all are asked for."""
_NEWEST: Final = 20
_IN_TURN: Final = 100
"""Timers that each look reads: the newest, and some of the others."""
_SHOWN: Final = 5
SENT, MISSED = "sent", "missed"
_CANCELLED, _CHANGED = "cancelled", "changed"
NAME_CHARS_MAX: Final = 100
_TRIES: Final = 20
"""Changes of one timer by others at the same moment."""

LOCAL_ZONE: Final = "local"
"""The zone of this machine, by its name: that name is kept, wherever the timer is read."""

log = logging.getLogger(__name__)


def machine_zone() -> str:
    """Return the name of this machine's time zone, UTC where it has none."""
    for name in config.zone_names():
        with suppress(BadSetting):
            check_zone(name)
            return name
    return "UTC"


def read_clocks() -> Clocks:
    """Return what the clocks of this machine say."""
    return Clocks(time.time(), uptime(), this_boot())


class Timers:
    """The timers of a store."""

    def __init__(self, store: SideStores, *, clocks: Callable[[], Clocks] = read_clocks) -> None:
        self._queues = store.queues
        self._clocks = clocks

    def set(
        self,
        session: SessionKey,
        when: str,
        text: str,
        *,
        owner: Owner,
        name: str = "",
        zone: str = LOCAL_ZONE,
        hours: str = "",
        missed: Missed = "once",
        jitter: float = 0.0,
        silent: bool = False,
    ) -> Timer:
        """Send a session a message at a time. The same timer again is the same one."""
        zone = machine_zone() if zone == LOCAL_ZONE else zone
        check_message(text)
        _check_name(name)
        clocks = self._clocks()
        schedule = read_schedule(when, zone, clocks)
        hours = check_hours(hours, schedule)
        check_jitter(jitter)
        channel, about = self._way_back(str(session))
        wanted = Timer(
            name=name or secrets.token_hex(4),
            session=str(session),
            origin=secrets.token_hex(8),
            text=text,
            schedule=schedule,
            next=first_moment(schedule, hours, zone, clocks),
            hours=hours,
            zone=zone,
            missed=missed,
            jitter=jitter,
            silent=silent,
            channel=channel,
            about=about,
            paid_by=who_pays().token,
        )
        for _ in range(_TRIES):
            last = self._last(wanted.name, owner)
            if last is not None and last.state == "waiting":
                known = _read(last)
                if _is_same(known, wanted):
                    return known
                raise UsageError(
                    f"the timer `{wanted.name}` exists already",
                    hint="change or cancel it, or give this one another name",
                )
            ahead = self._queues.counts(QUEUE, owner=owner).get("waiting", 0)
            if ahead >= TIMERS_MAX:
                raise UsageError(
                    f"there are already {ahead} timers, the most that are allowed",
                    hint="cancel one, or let one of them repeat",
                )
            number = 1 if last is None else _read(last).number + 1
            with suppress(KeyReused):  # another process was quicker
                return _read(self._put(msgspec.structs.replace(wanted, number=number), owner))
        raise _busy(wanted.name)

    def ahead(
        self, owner: OwnerFilter, *, session: SessionKey | None = None
    ) -> list[tuple[Owner, Timer]]:
        """Return the timers ahead, the next one first."""
        found = [
            (owner_of(message.owner), _read(message))
            for message in self._waiting(owner)
            if session is None or message.session == str(session)
        ]
        return sorted(found, key=lambda each: each[1].next.at)

    def find(self, name: str, owner: OwnerFilter) -> tuple[Owner, Timer]:
        """Return a timer. Raises `UsageError`."""
        known = self.ahead(owner)
        found = [each for each in known if each[1].name == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                f"{len(found)} owners have a timer `{name[:100]}`", hint="name its owner"
            )
        names = ", ".join(f"`{timer.name}`" for _owner, timer in known[:_SHOWN])
        raise UsageError(
            f"there is no timer `{name[:100]}`",
            hint=f"the next ones are {names}" if names else "there are none",
        )

    def change(self, name: str, owner: OwnerFilter, *, when: str = "", text: str = "") -> Timer:
        """Give a timer another time, other words, or both."""
        if not when and not text:
            raise UsageError("nothing is to be changed", hint="give a time or words")
        whose, timer = self.find(name, owner)
        if text:
            check_message(text)
            timer = msgspec.structs.replace(timer, text=text)
        if when:
            clocks = self._clocks()
            schedule = read_schedule(when, timer.zone, clocks)
            hours = check_hours(timer.hours, schedule)
            moment = first_moment(schedule, hours, timer.zone, clocks)
            timer = msgspec.structs.replace(timer, schedule=schedule, next=moment, hours=hours)
        for _ in range(_TRIES):
            if not self._end(name, whose, _CHANGED):
                break  # its last time came meanwhile, or it was cancelled
            last = self._last(name, whose)
            number = timer.number + 1 if last is None else _read(last).number + 1
            with suppress(KeyReused):  # it went on to its next time, which is ended in turn
                return _read(self._put(msgspec.structs.replace(timer, number=number), whose))
        raise _busy(name)

    def cancel(self, name: str, owner: OwnerFilter) -> Timer:
        """End a timer. What it has sent already stays sent."""
        whose, timer = self.find(name, owner)
        while self._end(name, whose, _CANCELLED):
            pass  # it may have gone on to its next time meanwhile
        return timer

    def decide(self, timer: Timer) -> NotYet | SendNow | PassOver:
        """Decide what is to be done now."""
        return decide(timer, self._clocks())

    def go_on(self, message: QueuedMessage, timer: Timer, reason: str) -> None:
        """Put the next time of a timer, and end this one."""
        moment = following(timer, self._clocks())
        after = None
        if moment is not None:
            then = msgspec.structs.replace(timer, next=moment, number=timer.number + 1)
            try:
                after = self._put(then, owner_of(message.owner))
            except KeyReused:  # another process put it a moment before
                after = None
        if self._queues.drop(message.id, reason) or after is None:
            return
        found = self._queues.message(message.id)
        if found is None or found.reason in (_CANCELLED, _CHANGED):
            self._queues.drop(after.id, _CANCELLED)  # a person was quicker

    def _put(self, timer: Timer, owner: Owner) -> QueuedMessage:
        whose = owner_text(owner)
        return self._queues.put(
            NewMessage(
                queue=QUEUE,
                lane=_lane(timer.name, owner),
                key=f"{timer.name}\n{timer.number}",
                body=msgspec.to_builtins(timer),
                owner=whose,
                session=timer.session,
            )
        )

    def _end(self, name: str, owner: Owner, reason: str) -> bool:
        """Drop what waits of a timer; returns whether something did."""
        waiting = self._queues.messages(
            QUEUE, owner=ANY_OWNER, lane=_lane(name, owner), states=("waiting",)
        )
        ended = [self._queues.drop(message.id, reason) for message in waiting]
        return any(ended)

    def _last(self, name: str, owner: Owner) -> QueuedMessage | None:
        found = self._queues.messages(QUEUE, owner=ANY_OWNER, lane=_lane(name, owner), limit=1)
        return found[0] if found else None

    def _waiting(self, owner: OwnerFilter) -> Iterator[QueuedMessage]:
        before: int | None = None
        while True:
            page = _page(self._queues, owner, before, _PAGE)
            yield from page
            if len(page) < _PAGE:
                return
            before = page[-1].id

    def _way_back(self, session: str) -> tuple[str, Any]:
        """Return the channel that the session's newest message came by."""
        for message in self._queues.messages("inbox", owner=ANY_OWNER, lane=session, limit=20):
            if channel := message.body.get("channel"):
                about = dict(message.body.get("about") or {})
                about.pop("reply_to", None)  # it answers no message
                return str(channel), about
        return "", None


def _page(
    queues: Queues, owner: OwnerFilter, before: int | None, limit: int
) -> list[QueuedMessage]:
    """Return some of the timers ahead, those that were put last first."""
    return queues.messages(QUEUE, owner=owner, states=("waiting",), before=before, limit=limit)


def _read(message: QueuedMessage) -> Timer:
    return convert_typed(message.body, Timer)


def _lane(name: str, owner: Owner) -> str:
    return f"{owner_text(owner)}\n{name}"


def _is_same(known: Timer, wanted: Timer) -> bool:
    """Return whether a timer that waits is the one that is asked for."""
    names = ("session", "text", "schedule", "hours", "zone", "missed", "jitter", "silent")
    return all(getattr(known, name) == getattr(wanted, name) for name in names)


def _check_name(name: str) -> None:
    if not name.isprintable() or len(name) > NAME_CHARS_MAX or name != name.strip():
        raise UsageError(
            f"a timer cannot be called {name[:NAME_CHARS_MAX]!r}",
            hint=f"use at most {NAME_CHARS_MAX} characters that can be printed",
        )


def _busy(name: str) -> UsageError:
    return UsageError(
        f"the timer `{name}` was changed by others at the same time",
        hint="list the timers to see how it is now",
    )


class SessionTimers:
    """The timers of one session, for a program."""

    def __init__(self, session: SessionBase) -> None:
        """`session` is an open `Session` or `AsyncSession`."""
        self._session = session
        self._timers = Timers(session.store)

    def wake_at(
        self,
        when: str,
        text: str,
        *,
        name: str = "",
        zone: str = LOCAL_ZONE,
        hours: str = "",
        missed: Missed = "once",
        jitter: float = 0.0,
        silent: bool = False,
    ) -> Timer:
        """Send the session a message at a time, once or again and again; returns the timer. The
        same timer under the same name is set once. A gateway over the store sends it."""
        given: Any = {"hours": hours, "missed": missed, "jitter": jitter, "silent": silent}
        return self._timers.set(
            self._session.key, when, text, owner=self._owner, name=name, zone=zone, **given
        )

    def ahead(self) -> list[Timer]:
        """Return the timers ahead, the next one first."""
        found = self._timers.ahead(self._owner, session=self._session.key)
        return [timer for _owner, timer in found]

    def change(self, name: str, *, when: str = "", text: str = "") -> Timer:
        """Give a timer another time, other words, or both; returns it as it is then."""
        self._check_own(name)
        return self._timers.change(name, self._owner, when=when, text=text)

    def cancel(self, name: str) -> Timer:
        """End a timer and return it. What it has sent already stays sent."""
        self._check_own(name)
        return self._timers.cancel(name, self._owner)

    @property
    def _owner(self) -> Owner:
        return owner_of(self._session.store.header(self._session.key).owner)

    def _check_own(self, name: str) -> None:
        if name not in {timer.name for timer in self.ahead()}:
            raise UsageError(f"this session has no timer `{name[:100]}`", hint="list those ahead")


class _DueTimes:
    """When each known timer is due, so that a look costs what is due and not what is ahead.

    A look reads what came since the last one, and a few of the others in turn: a message of another
    machine may come late, one may be taken back, and the rules of a zone may change.
    """

    def __init__(self, queues: Queues, boot: str) -> None:
        self.boot = boot
        self._queues = queues
        self._known: dict[int, tuple[float, bool]] = {}
        self._by_up: list[tuple[float, int]] = []
        self._by_wall: list[tuple[float, int]] = []
        self._due: set[int] = set()
        self._newest = 0
        self._round: int | None = None
        """The message that the next few come before."""
        self._round_newest = 0
        self._seen: set[int] = set()

    def find(self, clocks: Clocks) -> list[tuple[QueuedMessage, Timer]]:
        """Return the timers that are due, in the order of their times."""
        self._note_newest(clocks)
        self._note_some(clocks)
        for heap, now in ((self._by_up, clocks.up), (self._by_wall, clocks.now)):
            while heap and heap[0][0] <= now:
                self._due.add(heappop(heap)[1])
        found = {number: self._ready(number) for number in self._due}
        for number, ready in found.items():
            if ready is None:
                self.forget(number)
        due = [ready for ready in found.values() if ready is not None]
        return sorted(due, key=lambda each: each[1].next.at)

    def seconds(self, clocks: Clocks) -> float:
        """Return the time until the next one is due, if no clock is set meanwhile."""
        tops = ((self._by_up, clocks.up), (self._by_wall, clocks.now))
        return min((heap[0][0] - now for heap, now in tops if heap), default=LOOK_SECONDS)

    def put_back(self, message: QueuedMessage, clocks: Clocks) -> None:
        """Note that a timer is not due yet: a clock was set, or its times are others now."""
        self.forget(message.id)
        self._note(message, clocks)

    def forget(self, number: int) -> None:
        """Forget a message that does not wait any more."""
        self._due.discard(number)
        self._known.pop(number, None)

    def _note(self, message: QueuedMessage, clocks: Clocks) -> None:
        try:
            at, is_up = due = due_at(_read(message), clocks)
        except HoldfastError:  # a zone that is not known here: the sender says so
            at, is_up = due = -math.inf, True
        if self._known.get(message.id) != due:
            self._known[message.id] = due
            heappush(self._by_up if is_up else self._by_wall, (at, message.id))

    def _ready(self, number: int) -> tuple[QueuedMessage, Timer] | None:
        """Return a timer that waits still."""
        message = self._queues.message(number)
        is_waiting = message is not None and message.state == "waiting"
        return (message, _read(message)) if message is not None and is_waiting else None

    def _note_newest(self, clocks: Clocks) -> None:
        last, before, limit = self._newest, None, _NEWEST
        while True:
            page = _page(self._queues, ANY_OWNER, before, limit)
            new = [message for message in page if message.id > last]
            for message in new:
                self._note(message, clocks)
            self._newest = max(self._newest, *(message.id for message in new), 0)
            if len(new) < limit:
                return
            before, limit = page[-1].id, _PAGE

    def _note_some(self, clocks: Clocks) -> None:
        page = _page(self._queues, ANY_OWNER, self._round, _IN_TURN)
        for message in page:
            self._note(message, clocks)
            self._seen.add(message.id)
        if len(page) == _IN_TURN:
            self._round = page[-1].id
            return
        for number in [each for each in self._known if each <= self._round_newest]:
            if number not in self._seen:
                self.forget(number)
        self._round, self._round_newest = None, self._newest
        self._seen.clear()


class TimerService:
    """Sends what is due, for a gateway."""

    def __init__(self, gateway: Gateway, *, clocks: Callable[[], Clocks] = read_clocks) -> None:
        self._gateway = gateway
        self._timers = Timers(gateway.store, clocks=clocks)
        self._clocks = clocks
        self._times = _DueTimes(gateway.store.queues, "")
        self._status = ServiceStatus("timers", "stopped", since=gateway.now())
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def status(self) -> ServiceStatus:
        """The state, now."""
        return self._status

    def wake(self) -> None:
        """Look at the timers now: one was set."""
        self._wake.set()

    async def start(self) -> None:
        self._status = ServiceStatus("timers", "running", since=self._gateway.now())
        self._task = asyncio.create_task(self._run(), name="holdfast-timers")

    async def stop(self) -> None:
        """Send nothing more; what is due is sent after the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._status = ServiceStatus("timers", "stopped", since=self._gateway.now())

    async def close(self) -> None:
        """Do nothing: everything is stored."""

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            seconds = LOOK_SECONDS
            try:
                seconds = await self.look()
            except HoldfastError as error:  # the next look may work
                log.warning("cannot look at the timers: %s", error)
                self._set_state("failed", str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(max(seconds, _PAUSE_SECONDS)):
                    await self._wake.wait()

    async def look(self) -> float:
        """Send what is due; returns the seconds until the next is, or the next look."""
        failures = 0
        for message, timer in await run_in_thread(self._find_due):
            try:
                await self._tend(message, timer)
            except HoldfastError as error:  # the others go on
                failures += 1
                log.warning("the timer %s of %s waits: %s", timer.name, timer.session, error)
        detail = f"{failures} of the timers cannot be sent; the log says why" if failures else ""
        self._set_state("failed" if failures else "running", detail)
        return min(LOOK_SECONDS, self._times.seconds(self._clocks()))

    def _find_due(self) -> list[tuple[QueuedMessage, Timer]]:
        clocks = self._clocks()
        if clocks.boot != self._times.boot:  # the growing clock began again
            self._times = _DueTimes(self._gateway.store.queues, clocks.boot)
        return self._times.find(clocks)

    async def _tend(self, message: QueuedMessage, timer: Timer) -> None:
        """Send a timer if it is due."""
        match self._timers.decide(timer):
            case NotYet():
                self._times.put_back(message, self._clocks())
            case SendNow(late=late):
                await self._send(message, timer, late)
                await run_in_thread(self._timers.go_on, message, timer, SENT)
            case PassOver():
                await run_in_thread(self._timers.go_on, message, timer, MISSED)
            case _ as other:
                assert_never(other)

    async def _send(self, message: QueuedMessage, timer: Timer, late: float) -> None:
        about: Json = {"name": timer.name, "at": timer.next.at, "silent": timer.silent}
        about |= {"late": round(late)} if late > LATE_SECONDS else {}
        # Where the key is taken, it was sent before, a moment less late.
        with suppress(KeyReused), paying(Paying(timer.paid_by)):
            await self._gateway.submit(
                session_key(message),
                timer.content,
                message_key=timer.message_key,
                owner=owner_of(message.owner),
                channel=timer.channel,
                extra={"timer": about},
                about=timer.about,
            )

    def _set_state(self, state: ServiceState, detail: str = "") -> None:
        if (self._status.state, self._status.detail) != (state, detail):
            self._status = ServiceStatus("timers", state, detail, self._gateway.now())
