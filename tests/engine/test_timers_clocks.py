"""Timers over random clocks: what is sent is what an independent reading of the times says.

The times of each timer are found minute by minute in its zone, without the code that sends them.
Then machines look: two that sleep, start again and die in the middle, or one whose wall clock is
set. Between two looks, the first time that passed is sent once, or skipped where it is late.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_right
from contextlib import closing, suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.gateway.gateways import make_gateway
from tests.support.runs import examples

from holdfast.core.log.ids import SessionKey
from holdfast.core.owners import ANY_OWNER, NO_OWNER
from holdfast.core.timers import Clocks, Missed
from holdfast.engine.gateway.gateway import GatewayOptions
from holdfast.engine.timers import Timers, TimerService
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.importorskip("cronsim")

KEY = SessionKey("main", "a")
ROOMY = GatewayOptions(waiting_max=100_000)
MINUTE, HOUR, DAY = 60, 3_600, 86_400
DAYS = 8
LATE = 60
ZONES = (
    *("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"),
    *("America/St_Johns", "Africa/Cairo", "Asia/Kolkata", "Pacific/Chatham", "UTC"),
)
CRONS = (
    *("30 2 * * *", "0 0 * * *", "0,30 1,2,3 * * *", "0 9 * * 1-5", "59 23 * * 0"),
    *("*/30 * * * *", "0 */2 * * *", "15 * * * *"),
)
DURATIONS = {"45m": 45 * MINUTE, "30h": 30 * HOUR}
REPEATS = {"R/PT45M": 45 * MINUTE, "R/7h": 7 * HOUR, "R/1d": DAY}


# The times of a timer, read independently


def _changes(zone: ZoneInfo, year: int) -> list[int]:
    """Return the moments at which a zone's clocks are set, in a year."""
    start = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    hours = range(start, start + 365 * DAY, HOUR)
    found = [at for at in hours if _offset(zone, at) != _offset(zone, at + HOUR)]
    return [
        next(m for m in range(at, at + HOUR + 1, MINUTE) if _offset(zone, m) != _offset(zone, at))
        for at in found
    ]


def _offset(zone: ZoneInfo, at: int) -> timedelta | None:
    return datetime.fromtimestamp(at, zone).utcoffset()


def _field(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


def _cron_times(expression: str, zone: ZoneInfo, start: int, end: int) -> list[int]:
    """Fixed times are the wall clock's, once a day; those with a star are an interval apart."""
    minute, hour, _, _, weekday = expression.split()
    minutes, hours = _field(minute, 0, 59), _field(hour, 0, 23)
    weekdays = {(day - 1) % 7 for day in _field(weekday, 0, 6)}
    if "*" in minute + hour:
        walls = (
            (at, datetime.fromtimestamp(at, zone))
            for at in range(start - start % MINUTE, end, MINUTE)
        )
        return [
            at
            for at, wall in walls
            if at >= start and wall.minute in minutes and wall.hour in hours
        ]
    first = datetime.fromtimestamp(start, zone).date() - timedelta(days=1)
    days = [first + timedelta(days=number) for number in range(DAYS + 4)]
    found = {
        _instant(day, time(h, m), zone, is_cron=True)
        for day in days
        if day.weekday() in weekdays
        for h in hours
        for m in minutes
    }
    return sorted(at for at in found if start <= at < end)


def _instant(day: date, wall: time, zone: ZoneInfo, *, is_cron: bool) -> int:
    """Return the first moment at which a zone's clock shows a time; of one that is left out, the
    change itself for a cron expression, and as much later for a date."""
    at = int(datetime.combine(day, wall, zone).timestamp())
    if datetime.fromtimestamp(at, zone).time() == wall or not is_cron:
        return at
    return next(change for change in _changes(zone, day.year) if at - DAY < change <= at)


class Plan(NamedTuple):
    """A timer, and the times at which it is due."""

    when: str
    missed: Missed
    times: list[int]
    is_duration: bool
    """True where its times are those of the growing clock."""


def _plans(chance: random.Random, zone: ZoneInfo, start: int) -> list[Plan]:
    end = start + (DAYS + 2) * DAY
    missed: list[Missed] = list(get_args(Missed))
    crons = [
        Plan(cron, chance.choice(missed), _cron_times(cron, zone, start + 1, end), False)
        for cron in chance.sample(CRONS, 3)
    ]
    spans = [
        Plan(when, chance.choice(missed), [start + seconds], True)
        for when, seconds in DURATIONS.items()
    ]
    repeats = [
        Plan(when, chance.choice(missed), list(range(start + seconds, end, seconds)), True)
        for when, seconds in REPEATS.items()
    ]
    day = datetime.fromtimestamp(start, zone).date() + timedelta(days=chance.randint(1, 3))
    wall = time(chance.randint(0, 3), chance.choice((0, 15, 30)))
    date_at = _instant(day, wall, zone, is_cron=False)
    dated = Plan(f"{day}T{wall:%H:%M}", chance.choice(missed), [date_at], False)
    return [*crons, *spans, *repeats, dated]


class Sent(NamedTuple):
    """A message of a timer."""

    look: int
    """The number of the look at which it was sent."""
    at: int | None
    """The time that it was for; None where only the clock that grows tells."""


def _sent_of(plan: Plan, looks: list[tuple[int, int]], *, is_set: bool) -> list[Sent]:
    """Return what is to be sent, where machines look at these times: by the wall clock, and by the
    clock that grows."""
    sent, place = [], 0
    for number, (wall, growing) in enumerate(looks):
        now = growing if plan.is_duration else wall
        if place < len(plan.times) and plan.times[place] <= now:
            due = plan.times[place]
            if plan.missed == "once" or now - due <= LATE:
                sent.append(Sent(number, None if is_set and plan.is_duration else due))
            place = bisect_right(plan.times, max(now, due))
    return sent


# Machines


class Crash(BaseException):
    """The process dies."""


class Machine:
    """A computer, with a clock since its start."""

    def __init__(self, name: str, now: int) -> None:
        self.boot, self._started = name, now - 1_000
        self.service: TimerService | None = None

    def start_again(self, now: int) -> None:
        self.boot, self._started, self.service = f"{self.boot}+", now, None

    def clocks(self, now: int, wall: int) -> Clocks:
        return Clocks(float(wall), float(now - self._started), self.boot)


class Home:
    """Machines over one store, at a time that goes on, with a wall clock that may be wrong."""

    def __init__(self, chance: random.Random, start: int, *, is_set: bool) -> None:
        self.chance, self.now, self.error = chance, start, 0
        self.is_set = is_set
        self.store = MemoryStore()
        self.store.create(KEY)
        self.machines = [Machine("a", start)] if is_set else [Machine(n, start) for n in "ab"]
        self.looks: list[tuple[int, int]] = []
        self.sent: dict[str, list[Sent]] = {}
        self._noted = 0

    def clocks_of(self, machine: Machine) -> Callable[[], Clocks]:
        return lambda: machine.clocks(self.now, self.now + self.error)

    def set(self, plan: Plan, zone: str) -> None:
        timers = Timers(self.store, clocks=self.clocks_of(self.machines[0]))
        more: Any = {"name": plan.when, "zone": zone, "missed": plan.missed}
        timers.set(KEY, plan.when, plan.when, owner=NO_OWNER, **more)

    def go_on(self, times: list[int]) -> None:
        """Wait until shortly after a time, or sleep; then something looks."""
        wall = self.now + self.error
        ahead = [at - self.error for at in times if at > wall] or [self.now + HOUR]
        is_awake = self.chance.random() < 0.8
        self.now = min(ahead) if is_awake else self.now + self.chance.randint(1, 30 * HOUR)
        self.now += self.chance.choice((0, 1, 59, LATE, LATE + 1))
        if self.is_set and self.chance.random() < 0.2:
            self.error = self.chance.choice((0, -3 * HOUR, 3 * HOUR, -2 * DAY, 50 * MINUTE))
        if not self.is_set and self.chance.random() < 0.2:
            self.chance.choice(self.machines).start_again(self.now)
        self._look()

    def _look(self) -> None:
        self.looks.append((self.now + self.error, self.now))
        count = self.chance.randint(1, len(self.machines))
        looking = self.chance.sample(self.machines, count)
        if not self.is_set and self.chance.random() < 0.2:
            with suppress(Crash), self._dying():
                self._look_on(looking[:1])
            looking[0].start_again(self.now)
        self._look_on(looking)
        self._note_sent()

    def _look_on(self, machines: list[Machine]) -> None:
        async def look() -> None:
            services = [self._service_of(machine) for machine in machines]
            await asyncio.gather(*(service.look() for service in services))

        asyncio.run(look())

    def _service_of(self, machine: Machine) -> TimerService:
        """Return the service of a machine: it knows what it saw since its start."""
        if machine.service is None:
            gateway = make_gateway(self.store, options=ROOMY)
            machine.service = TimerService(gateway, clocks=self.clocks_of(machine))
        return machine.service

    def _dying(self) -> Any:
        """Let the process die before or after one of its next changes of the queues."""
        return _Dying(self.store.queues, self.chance.randint(1, 6), self.chance.random() < 0.5)

    def _note_sent(self) -> None:
        messages = self.store.queues.messages("inbox", owner=ANY_OWNER, limit=10_000)
        new = messages[: len(messages) - self._noted]
        self._noted = len(messages)
        for message in reversed(new):
            about = message.body["extra"]["timer"]
            sent = Sent(len(self.looks) - 1, round(about["at"]))
            self.sent.setdefault(about["name"], []).append(sent)


class _Dying:
    def __init__(self, queues: Any, number: int, is_done: bool) -> None:
        self._queues, self._left, self._is_done = queues, number, is_done

    def __enter__(self) -> None:
        for name in ("put", "drop"):
            setattr(self._queues, name, self._wrap(getattr(self._queues, name)))

    def __exit__(self, *_: object) -> None:
        for name in ("put", "drop"):
            delattr(self._queues, name)  # the method of the class is there again

    def _wrap(self, change: Any) -> Any:
        def wrapped(*args: Any, **more: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._is_done:
                raise Crash
            made = change(*args, **more)
            if self._left == 0:
                raise Crash
            return made

        return wrapped


def _life(seed: int, *, is_set: bool) -> Iterator[tuple[Plan, list[Sent], list[Sent]]]:
    """Live some days; yields each timer with what was to be sent, and what was."""
    chance = random.Random(seed)
    name = chance.choice(ZONES)
    zone = ZoneInfo(name)
    changes = _changes(zone, 2027) or [int(datetime(2027, 5, 1, tzinfo=UTC).timestamp())]
    start = chance.choice(changes) - chance.randint(1, 3) * DAY - chance.randint(0, DAY)
    plans = _plans(chance, zone, start)
    home = Home(chance, start, is_set=is_set)
    with closing(home.store):
        for plan in plans:
            home.set(plan, name)
        times = sorted(at for plan in plans for at in plan.times)
        while home.now < start + DAYS * DAY and len(home.looks) < 60:
            home.go_on(times)
        for plan in plans:
            sent = home.sent.get(plan.when, [])
            if is_set and plan.is_duration:  # its time by the wall clock is a guess
                sent = [each._replace(at=None) for each in sent]
            yield plan, _sent_of(plan, home.looks, is_set=is_set), sent


@pytest.mark.parametrize("is_set", [False, True], ids=["two machines", "a clock that is set"])
def test_what_is_sent_is_what_the_clocks_say(is_set: bool) -> None:
    """Each time once, over sleep, restarts, deaths, summer time and clocks that are set."""

    @examples(120)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        for plan, wanted, sent in _life(seed, is_set=is_set):
            assert sent == wanted, plan.when
            times = [each.at for each in sent if each.at is not None]
            assert len(times) == len(set(times))  # also where the clock was set back

    check()
