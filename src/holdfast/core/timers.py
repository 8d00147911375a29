"""Timers: when a message is due, again and again or once. Decided here, done by `engine.timers`.

A date is read by the wall clock of its zone, also after a change of the zone's rules. A duration
counts by a clock that only grows, as long as the machine runs; after its next start, by the wall
clock.
"""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, assert_never

import msgspec

from holdfast.core.log.records import Json  # noqa: TC001 - read by msgspec
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import BadSetting, UsageError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


Missed = Literal["once", "skip"]
"""Of times that passed while nothing ran: one message for all of them, or none."""
REPEAT_SECONDS_MIN: Final = 60.0
"""Between two messages of one timer."""
AHEAD_SECONDS_MAX: Final = 10 * 366 * 86_400.0
JITTER_SECONDS_MAX: Final = 3_600.0
LATE_SECONDS: Final = 60.0
"""A message that is later than this missed its time."""
SILENT: Final = "NO_REPLY"
"""The whole of an answer that no one is to see."""
_UNITS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SHORT: Final = lazy_pattern(r"(\d{1,9})([smhdw])")
_ISO: Final = lazy_pattern(
    r"[Pp](?:(\d{1,9})[Ww])?(?:(\d{1,9})[Dd])?"
    r"(?:[Tt](?:(\d{1,9})[Hh])?(?:(\d{1,9})[Mm])?(?:(\d{1,9})[Ss])?)?"
)
_HOUR: Final = lazy_pattern(r"([01]\d|2[0-3]):[0-5]\d")
_HOURS: Final = lazy_pattern(r"((?:[01]\d|2[0-3]):[0-5]\d)-((?:[01]\d|2[0-3]):[0-5]\d)")
_CRON_FIELDS: Final = 5
_LOOKS_MAX: Final = 20_000
"""Times of a cron expression that are looked at for one in the hours."""


class Clocks(NamedTuple):
    """The time, by each clock."""

    now: float
    """The wall clock, in seconds since 1970."""
    up: float
    """Seconds since the start of the machine, those it slept included."""
    boot: str
    """The start of the machine that `up` counts from."""


class AtTime(msgspec.Struct, frozen=True, tag="time"):
    """Once, at a date and time by the wall clock."""

    local: str
    zone: str


class After(msgspec.Struct, frozen=True, tag="after"):
    """Once, after a duration."""

    seconds: float


class Repeat(msgspec.Struct, frozen=True, tag="repeat"):
    """Again and again, a duration apart."""

    seconds: float


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """By a cron expression, by the wall clock."""

    expression: str
    zone: str


Schedule = AtTime | After | Repeat | Cron


class Moment(msgspec.Struct, frozen=True):
    """A time at which a timer is due."""

    at: float
    """By the wall clock, in seconds since 1970; of a duration, as it was expected."""
    up: float | None = None
    """Of a duration: by the growing clock."""
    boot: str = ""
    """The start of the machine that `up` counts from."""


class Timer(msgspec.Struct, frozen=True, kw_only=True):
    """A timer, and its next time."""

    name: str
    """Unique among the timers of an owner."""
    session: str
    """The session that gets the message, as `agent/id`."""
    origin: str
    """Drawn when it was set: a later timer of the same name is another one."""
    text: str
    schedule: Schedule
    next: Moment
    number: int = 1
    """The number of its next message."""
    hours: str = ""
    """The hours in which a repeated one is sent, as `08:00-22:00`; empty for all."""
    zone: str = "UTC"
    missed: Missed = "once"
    jitter: float = 0.0
    """Seconds by which a message may be later, so that many do not come together."""
    silent: bool = False
    """The agent may have nothing to say, and then no one gets an answer."""
    channel: str = ""
    about: Json | None = None
    paid_by: str = ""
    """The name of the token that its messages are counted for."""

    @property
    def is_repeated(self) -> bool:
        return isinstance(self.schedule, Repeat | Cron)

    @property
    def message_key(self) -> str:
        """The key of the next message: it is taken once, however often it is sent."""
        return f"timer:{self.origin}:{self.number}"

    @property
    def content(self) -> str:
        """The words of the message."""
        if not self.silent:
            return self.text
        return f"{self.text}\n\n(If there is nothing to say, answer {SILENT} alone.)"


class NotYet(NamedTuple):
    """It is not due."""

    seconds: float
    """Until it is, if no clock is set meanwhile."""


class SendNow(NamedTuple):
    """It is due."""

    late: float


class PassOver(NamedTuple):
    """Its time passed while nothing ran, and it is not sent."""

    late: float


def read_schedule(when: str, zone: str, clocks: Clocks) -> Schedule:
    """Read a time as people, programs and models write it. Raises `UsageError`."""
    text = when.strip()
    check_zone(zone)
    repeats, duration = text[:2].upper() == "R/", text[2:] if text[:2].upper() == "R/" else text
    seconds = _seconds(duration)
    if seconds is not None:
        schedule: Schedule = Repeat(seconds) if repeats else After(seconds)
    elif len(text.split()) == _CRON_FIELDS:
        schedule = Cron(" ".join(text.split()), zone)
    else:
        schedule = _read_time(text, zone, clocks)
    _check(schedule, when, clocks)
    return schedule


def describe_schedule(schedule: Schedule) -> str:
    """Return a schedule as `read_schedule` reads it."""
    match schedule:
        case AtTime(local=local):
            return local
        case After(seconds=seconds):
            return _duration(seconds)
        case Repeat(seconds=seconds):
            return f"R/{_duration(seconds)}"
        case Cron(expression=expression):
            return expression
        case _:
            assert_never(schedule)


def _duration(seconds: float) -> str:
    """Return a duration in the largest unit that it is a whole number of."""
    units = _UNITS.items()
    return next(f"{seconds // size:.0f}{unit}" for unit, size in units if seconds % size == 0)


def check_zone(zone: str) -> ZoneInfo:
    """Return a time zone. Raises `BadSetting`."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(zone)
    except (ValueError, OSError, KeyError) as error:
        raise BadSetting(
            f"the time zone `{zone[:100]}` is not known here",
            hint="use a name such as `Europe/Berlin`; `pip install tzdata` brings all of them",
        ) from error


def check_hours(hours: str, schedule: Schedule) -> str:
    """Return hours that can be used. Raises `UsageError`."""
    if not hours:
        return ""
    match = _HOURS.fullmatch(hours.strip())
    if match is None or match[1] == match[2]:
        raise UsageError(
            f"the hours `{hours[:50]}` cannot be read", hint="write them as `08:00-22:00`"
        )
    if not isinstance(schedule, Repeat | Cron):
        raise UsageError("only a repeated timer has hours", hint="leave them out")
    return hours.strip()


def check_jitter(seconds: float) -> None:
    """Raise `UsageError` where a jitter cannot be used."""
    if not 0 <= seconds <= JITTER_SECONDS_MAX:
        raise UsageError(
            f"a jitter of {seconds:g} s cannot be used",
            hint=f"give 0 to {JITTER_SECONDS_MAX:,.0f} seconds",
        )


def first_moment(schedule: Schedule, hours: str, zone: str, clocks: Clocks) -> Moment:
    """Return the first time of a schedule. Raises `UsageError` where there is none."""
    match schedule:
        case AtTime():
            return Moment(instant(schedule))
        case After(seconds=seconds):
            return Moment(clocks.now + seconds, clocks.up + seconds, clocks.boot)
        case Repeat(seconds=seconds):
            return _next_repeat(seconds, seconds, hours, zone, clocks)
        case Cron():
            return _next_cron(schedule, hours, clocks.now)
        case _:
            assert_never(schedule)


def following(timer: Timer, clocks: Clocks) -> Moment | None:
    """Return the time after this one; None where there is none."""
    match timer.schedule:
        case AtTime() | After():
            return None
        case Repeat(seconds=seconds):
            wait = seconds - _late(timer.next, clocks) % seconds
            return _next_repeat(seconds, wait, timer.hours, timer.zone, clocks)
        case Cron() as schedule:
            return _next_cron(schedule, timer.hours, max(clocks.now, timer.next.at))
        case _:
            assert_never(timer.schedule)


def decide(timer: Timer, clocks: Clocks) -> NotYet | SendNow | PassOver:
    """Decide whether a timer is due."""
    late = _late(_current(timer), clocks) - spread(timer)
    if late < 0:
        return NotYet(-late)
    return PassOver(late) if late > LATE_SECONDS and timer.missed == "skip" else SendNow(late)


def due_at(timer: Timer, clocks: Clocks) -> tuple[float, bool]:
    """Return when a timer is due, and whether that is by the growing clock."""
    moment = _current(timer)
    if moment.up is not None and moment.boot == clocks.boot:
        return moment.up + spread(timer), True
    return moment.at + spread(timer), False


def spread(timer: Timer) -> float:
    """Return how much later this message is for its jitter: the same on every machine."""
    if not timer.jitter:
        return 0.0
    digest = hashlib.sha256(timer.message_key.encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48 * timer.jitter


def is_silent(extra: Any, answer: str) -> bool:
    """Return True where an answer to a timer says that there is nothing to say."""
    about = extra.get("timer") if isinstance(extra, dict) else None
    may = isinstance(about, dict) and about.get("silent") is True
    return may and answer.strip() in ("", SILENT)


def is_within(hours: str, zone: str, at: float) -> bool:
    """Return whether a time lies in the hours of a day, which may go over midnight."""
    match = _HOURS.fullmatch(hours)
    if match is None:
        return True
    local = datetime.fromtimestamp(at, check_zone(zone)).strftime("%H:%M")
    begin, end = match[1], match[2]
    return begin <= local < end if begin < end else local >= begin or local < end


def instant(schedule: AtTime) -> float:
    """Return the moment of a date. One that a change to summer time leaves out is as much later;
    of two in autumn it is the first."""
    local = datetime.fromisoformat(schedule.local)
    return local.replace(tzinfo=check_zone(schedule.zone)).timestamp()


def _next_cron(schedule: Cron, hours: str, after: float) -> Moment:
    """Return the first time of a cron expression after a moment, in its hours."""
    cronsim = _cronsim()
    try:
        times = cronsim.CronSim(
            schedule.expression, datetime.fromtimestamp(after, check_zone(schedule.zone))
        )
        for each in islice(times, _LOOKS_MAX):
            if is_within(hours, schedule.zone, each.timestamp()):
                return Moment(each.timestamp())
    except cronsim.CronSimError as error:
        raise UsageError(
            f"the cron expression `{schedule.expression[:100]}` cannot be used: {error}",
            hint="it has five fields: minute, hour, day, month, day of the week",
        ) from error
    raise UsageError(
        f"the cron expression `{schedule.expression[:100]}` names no time that will come",
        hint="check its day and month, and the hours",
    )


@cache
def _cronsim() -> Any:
    try:
        import cronsim
    except ImportError:
        raise UsageError(
            "cron expressions need the package `cronsim`",
            hint="pip install 'holdfast[timers]', or repeat after a duration: `R/PT1H`",
        ) from None
    return cronsim


def _seconds(text: str) -> float | None:
    """Return the seconds of a duration; None where the text is none."""
    short = _SHORT.fullmatch(text)
    if short:
        return float(int(short[1]) * _UNITS[short[2]])
    match = _ISO.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    parts = [int(part or 0) for part in match.groups()]
    return float(sum(n * s for n, s in zip(parts, (604_800, 86_400, 3_600, 60, 1), strict=True)))


def _read_time(text: str, zone: str, clocks: Clocks) -> AtTime:
    if _HOUR.fullmatch(text):  # the next time that the clock shows it
        today = datetime.fromtimestamp(clocks.now, check_zone(zone))
        for days in (0, 1):
            day = (today + timedelta(days=days)).date().isoformat()
            found = AtTime(f"{day}T{text}:00", zone)
            if instant(found) > clocks.now:
                break
        return found
    try:
        given = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"the time `{text[:100]}` cannot be read",
            hint="write a date and time (2026-11-20T09:00), an hour (09:00), a duration (30m or "
            "PT30M), a repeated one (R/PT30M), or a cron expression (0 9 * * 1-5)",
        ) from error
    if given.tzinfo is not None:
        given, zone = given.astimezone(UTC), "UTC"
    return AtTime(given.replace(tzinfo=None).isoformat(), zone)


def _check(schedule: Schedule, when: str, clocks: Clocks) -> None:
    if isinstance(schedule, Repeat) and schedule.seconds < REPEAT_SECONDS_MIN:
        raise UsageError(
            f"`{when[:50]}` comes too often", hint=f"repeat after {REPEAT_SECONDS_MIN:g} s or more"
        )
    try:
        at = first_moment(schedule, "", "UTC", clocks).at
    except (OverflowError, ValueError) as error:
        raise UsageError(f"the time `{when[:50]}` is out of reach") from error
    if at - clocks.now > AHEAD_SECONDS_MAX:
        raise UsageError(f"`{when[:50]}` is too far ahead", hint="at most ten years")
    if isinstance(schedule, AtTime) and at < clocks.now - LATE_SECONDS:
        raise UsageError(
            f"the time `{when[:50]}` ({schedule.zone}) is past",
            hint="is the zone right? Name it, as `Europe/Berlin`",
        )


def _current(timer: Timer) -> Moment:
    """Return the next time by the rules that its zone has today."""
    schedule = timer.schedule
    return Moment(instant(schedule)) if isinstance(schedule, AtTime) else timer.next


def _late(moment: Moment, clocks: Clocks) -> float:
    """Return how long ago a moment was; less than 0 where it is ahead."""
    if moment.up is not None and moment.boot == clocks.boot:
        return clocks.up - moment.up
    return clocks.now - moment.at


def _next_repeat(seconds: float, wait: float, hours: str, zone: str, clocks: Clocks) -> Moment:
    """Return the first time after `wait`, in steps of `seconds`, that is in the hours."""
    if not is_within(hours, zone, clocks.now + wait):
        opening = _opening(hours, zone, clocks.now + wait) - clocks.now
        wait += seconds * math.ceil((opening - wait) / seconds)
        if not is_within(hours, zone, clocks.now + wait):
            wait = opening  # the hours are shorter than the steps
    return Moment(clocks.now + wait, clocks.up + wait, clocks.boot)


def _opening(hours: str, zone: str, after: float) -> float:
    """Return when the hours begin next."""
    begin = hours.partition("-")[0]
    day = datetime.fromtimestamp(after, check_zone(zone))
    found = (
        instant(AtTime(f"{(day + timedelta(days=days)).date().isoformat()}T{begin}:00", zone))
        for days in range(3)
    )
    return next((at for at in found if at >= after), after)
