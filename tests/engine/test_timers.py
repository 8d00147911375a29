"""Timers: each time once, whatever the clocks, the processes and the people do."""

from __future__ import annotations

import asyncio
import random
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.gateway.gateways import make_gateway

from holdfast import Session, config
from holdfast.core.log.ids import SessionKey
from holdfast.core.owners import ANY_OWNER, NO_OWNER, NamedOwner
from holdfast.core.text.typed import convert_typed
from holdfast.core.timers import Clocks, Timer
from holdfast.engine.gateway.gateway import GatewayOptions
from holdfast.engine.timers import (
    LOCAL_ZONE,
    LOOK_SECONDS,
    TIMERS_MAX,
    SessionTimers,
    Timers,
    TimerService,
)
from holdfast.errors import BadSetting, UsageError
from holdfast.ports import NewMessage
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.ports import QueuedMessage

KEY = SessionKey("main", "a")
ALICE, BOB = NamedOwner("alice"), NamedOwner("bob")
BERLIN = ZoneInfo("Europe/Berlin")
HOUR, DAY = 3_600.0, 86_400.0
ROOMY = GatewayOptions(waiting_max=100_000)


_OPEN: list[World] = []


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    while _OPEN:
        world = _OPEN.pop()
        world.runner.close()
        world.store.close()


def moment(text: str, zone: ZoneInfo = BERLIN) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


class World:
    """A machine whose clocks a test sets, and the store of a gateway on it."""

    def __init__(self, now: str = "2026-11-18T12:00") -> None:
        self.store = MemoryStore()
        _OPEN.append(self)
        self.store.create(KEY)
        self.wall, self.growing, self.boot = moment(now), 1_000.0, "first"
        self.timers = Timers(self.store, clocks=self.clocks)
        self.service = self.gateway()
        self.runner = asyncio.Runner()

    def gateway(self) -> TimerService:
        return TimerService(make_gateway(self.store, options=ROOMY), clocks=self.clocks)

    def clocks(self) -> Clocks:
        return Clocks(self.wall, self.growing, self.boot)

    def wait(self, seconds: float) -> None:
        self.wall += seconds
        self.growing += seconds

    def restart(self) -> None:
        """Start the machine again: the growing clock begins anew."""
        self.boot, self.growing = self.boot + "+", 5.0

    def look(self) -> float:
        """Do what a gateway does at one look."""
        return asyncio.run(self.service.look())

    def waiting(self) -> list[tuple[QueuedMessage, Timer]]:
        """Return the messages of the timers ahead."""
        found = self.store.queues.messages("timers", owner=ANY_OWNER, states=("waiting",))
        return [(message, convert_typed(message.body, Timer)) for message in found]

    def run_for(self, seconds: float, step: float = 60.0) -> None:
        for _ in range(int(seconds / step)):
            self.wait(step)
            self.look()

    @property
    def sent(self) -> list[str]:
        """The words of all messages, the oldest first."""
        found = self.store.queues.messages("inbox", owner=ANY_OWNER, limit=10_000)
        return [str(message.body["content"]) for message in reversed(found)]

    @property
    def times(self) -> list[float]:
        """The times that the messages were for."""
        found = self.store.queues.messages("inbox", owner=ANY_OWNER, limit=10_000)
        return [message.body["extra"]["timer"]["at"] for message in reversed(found)]

    def set(self, when: str, text: str = "wake up", **more: Any) -> Timer:
        given: dict[str, Any] = {"owner": NO_OWNER, "zone": "Europe/Berlin"} | more
        return self.timers.set(KEY, when, text, **given)


@pytest.mark.parametrize(
    ("when", "at"),
    [
        ("2026-11-19T09:00", "2026-11-19T09:00"),
        ("2026-11-19 09:00:30", "2026-11-19T09:00:30"),
        ("2026-11-19T08:00Z", "2026-11-19T09:00"),
        ("2026-11-19T13:30+05:30", "2026-11-19T09:00"),
        ("09:00", "2026-11-19T09:00"),
        ("13:15", "2026-11-18T13:15"),
        ("30m", "2026-11-18T12:30"),
        ("PT1H30M", "2026-11-18T13:30"),
        ("P1DT1H", "2026-11-19T13:00"),
        ("R/PT1H", "2026-11-18T13:00"),
        ("R/2h", "2026-11-18T14:00"),
        ("0 9 * * 1-5", "2026-11-19T09:00"),
        ("2027-03-28T02:30", "2027-03-28T03:30"),  # no clock shows it: as much later
        ("2027-10-31T02:30", "2027-10-31T02:30"),  # two: the first
    ],
)
def test_a_time_is_read_as_people_write_it(when: str, at: str) -> None:
    assert World().set(when).next.at == moment(at)


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("tomorrow", "cannot be read"),
        ("", "cannot be read"),
        ("P", "cannot be read"),
        ("P1M", "cannot be read"),  # how long is a month?
        ("R/10s", "too often"),
        ("2026-11-18T11:00", "is past"),
        ("2050-01-01T00:00", "too far ahead"),
        ("999999999w", "too far ahead"),
        ("99 9 * * *", "cron expression"),
        ("0 0 31 2 *", "cron expression"),
    ],
)
def test_a_time_that_cannot_be_kept_is_refused(when: str, said: str) -> None:
    world = World()
    with pytest.raises(UsageError, match=said):
        world.set(when)
    assert world.timers.ahead(ANY_OWNER) == []


@pytest.mark.parametrize(
    ("variable", "link", "name"),
    [
        ("Asia/Tokyo", "/usr/share/zoneinfo/Europe/Berlin", "Asia/Tokyo"),
        (":America/New_York", "/usr/share/zoneinfo/Europe/Berlin", "America/New_York"),
        (":/usr/share/zoneinfo/Asia/Tokyo", "/nowhere", "Asia/Tokyo"),
        ("", "/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "/var/db/timezone/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        ("", "/nowhere", "UTC"),
    ],
)
def test_dates_are_those_of_the_machine_unless_a_zone_is_given(
    variable: str, link: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", variable)
    file = tmp_path / "localtime"
    file.symlink_to(link)
    monkeypatch.setattr(config, "_ZONE_FILE", str(file))

    timer = World().set("2026-12-01T09:00", zone=LOCAL_ZONE)

    assert timer.zone == name
    assert timer.next.at == moment("2026-12-01T09:00", ZoneInfo(name))


def test_a_zone_that_is_not_known_is_refused() -> None:
    for zone in ("Mars/Base", "", "../etc/passwd", "a" * 500):
        with pytest.raises(BadSetting, match="time zone"):
            World().set("09:00", zone=zone)


def test_a_message_comes_once_at_its_time() -> None:
    world = World()
    world.set("13:00")
    world.run_for(HOUR - 60)
    assert world.sent == []
    world.run_for(120)
    assert world.sent == ["wake up"]
    world.run_for(DAY, step=HOUR)
    assert world.sent == ["wake up"]
    assert world.timers.ahead(ANY_OWNER) == []


def test_looks_wait_for_the_next_one() -> None:
    world = World()
    world.set("3s")
    assert world.look() == pytest.approx(3)


@pytest.mark.parametrize("crash", ["before the next time is put", "before the last one ends"])
def test_a_crash_amid_a_look_sends_nothing_twice(
    crash: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.set("R/PT1H")
    queues = world.store.queues
    name = "put" if crash == "before the next time is put" else "drop"
    real = getattr(queues, name)

    def fail(*given: Any, **more: Any) -> Any:
        if name == "drop" or given[0].queue == "timers":
            raise KeyboardInterrupt
        return real(*given, **more)

    world.wait(HOUR)
    with monkeypatch.context() as broken:
        broken.setattr(queues, name, fail)
        with pytest.raises(KeyboardInterrupt):
            world.look()
    assert world.sent == ["wake up"]
    world.wait(120)
    world.look()
    assert world.sent == ["wake up"]
    world.wait(HOUR)
    world.look()
    assert world.sent == ["wake up"] * 2
    assert len(world.timers.ahead(ANY_OWNER)) == 1


def test_two_processes_send_each_time_once() -> None:
    """Both look before either has done anything."""
    world = World()
    world.set("R/PT1H")
    world.wait(HOUR)
    first, second = world.gateway(), world.gateway()

    async def both() -> None:
        await asyncio.gather(first.look(), second.look())

    for _ in range(5):
        world.runner.run(both())
        world.wait(HOUR)
    assert len(world.sent) == 5
    assert len(world.timers.ahead(ANY_OWNER)) == 1


def test_a_duration_goes_by_the_growing_clock() -> None:
    """A wall clock that is set, ahead or back, moves no duration."""
    world = World()
    world.set("PT1H")
    world.wall += 10 * DAY
    world.look()
    assert world.sent == []
    world.wall -= 20 * DAY
    world.run_for(HOUR + 60)
    assert world.sent == ["wake up"]


def test_a_machine_that_slept_sends_what_is_due() -> None:
    world = World()
    world.set("PT1H", "duration")
    world.set("14:00", "date")
    world.wait(3 * HOUR)  # one step: nothing ran
    world.look()
    assert world.sent == ["duration", "date"]  # in the order of their times


def test_a_duration_over_a_restart_goes_by_the_wall_clock() -> None:
    world = World()
    world.set("PT1H")
    world.wait(HOUR / 2)
    world.restart()
    world.look()
    assert world.sent == []
    world.wait(HOUR / 2)
    world.look()
    assert world.sent == ["wake up"]


def test_a_date_goes_by_the_wall_clock() -> None:
    world = World()
    world.set("2026-11-20T09:00")
    world.wall = moment("2026-11-20T09:00:01")  # somebody sets it
    world.look()
    world.wall = moment("2026-11-18T12:00")  # and sets it back
    world.run_for(3 * DAY, step=HOUR)
    assert world.sent == ["wake up"]


@pytest.mark.parametrize(("missed", "sent"), [("once", 1), ("skip", 0)])
def test_missed_times_are_sent_once_or_passed_over(missed: Any, sent: int) -> None:
    world = World()
    world.set("0 * * * *", missed=missed)
    world.wait(10.5 * HOUR)
    world.look()
    assert len(world.sent) == sent
    world.run_for(HOUR)
    assert len(world.sent) == sent + 1
    assert world.times[-1] == moment("2026-11-18T23:00")


def test_a_missed_date_is_told_how_late_it_is() -> None:
    world = World()
    world.set("13:00")
    world.wait(2 * HOUR)
    world.look()
    [message] = world.store.queues.messages("inbox", owner=ANY_OWNER)
    assert message.body["extra"]["timer"]["late"] == HOUR


def test_nine_in_the_morning_stays_nine_in_the_morning() -> None:
    """Over both changes of the clocks, once each day."""
    world = World("2027-03-20T12:00")
    world.set("0 9 * * *")
    world.run_for(20 * DAY, step=HOUR / 2)
    assert [datetime.fromtimestamp(at, BERLIN).strftime("%H:%M") for at in world.times] == [
        "09:00"
    ] * 20
    assert len(set(world.times)) == 20


@pytest.mark.parametrize("day", ["2027-03-28", "2027-10-31"])
def test_half_past_two_comes_once_on_the_days_the_clocks_change(day: str) -> None:
    world = World(f"{day}T00:30")
    world.set("30 2 * * *")
    world.run_for(20 * HOUR, step=600)
    assert len(world.sent) == 1


def test_a_repeated_one_keeps_to_its_hours() -> None:
    world = World("2026-11-18T12:00")
    world.set("R/PT30M", hours="08:00-22:00")
    world.run_for(3 * DAY, step=300)
    hours = [datetime.fromtimestamp(at, BERLIN).hour for at in world.times]
    assert min(hours) == 8
    assert max(hours) == 21
    assert len(hours) == len(set(world.times)) == pytest.approx(3 * 28, abs=2)


def test_hours_may_go_over_midnight() -> None:
    world = World("2026-11-18T12:00")
    world.set("0 * * * *", hours="22:00-06:00")
    world.run_for(DAY, step=600)
    hours = [datetime.fromtimestamp(at, BERLIN).hour for at in world.times]
    assert hours == [22, 23, 0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("hours", ["8-22", "08:00-08:00", "25:00-26:00", "morning"])
def test_hours_that_cannot_be_read_are_refused(hours: str) -> None:
    with pytest.raises(UsageError, match="hours"):
        World().set("R/PT30M", hours=hours)


def test_hours_are_for_repeated_ones() -> None:
    with pytest.raises(UsageError, match="repeated"):
        World().set("PT30M", hours="08:00-22:00")


def test_jitter_spreads_alike_everywhere() -> None:
    world, other = World(), World()
    for each in (world, other):
        each.set("13:00", jitter=600.0, name="x")
    late = world.look()
    assert late <= 5
    world.wait(HOUR - 1)
    world.look()
    assert world.sent == []
    world.run_for(700)
    assert world.sent == ["wake up"]
    with pytest.raises(UsageError, match="jitter"):
        world.set("13:00", jitter=-1.0)


def test_the_same_timer_again_is_the_same() -> None:
    world = World()
    first = world.set("13:00", name="lunch")
    assert world.set("13:00", name="lunch") == first
    with pytest.raises(UsageError, match="already"):
        world.set("14:00", name="lunch")
    assert len(world.timers.ahead(ANY_OWNER)) == 1


def test_a_name_can_be_used_again_when_its_timer_has_ended() -> None:
    """The second message is another one, also for the log, which knows every key it ever had."""
    world = World()
    for day in range(3):
        world.set("13:00", name="lunch")
        world.run_for(DAY, step=HOUR)
        assert len(world.sent) == day + 1
        world.store.queues.forget(older_than_seconds=-1)
    keys = {m.key for m in world.store.queues.messages("inbox", owner=ANY_OWNER)}
    assert len(keys) == 3


def test_a_timer_can_be_changed_and_cancelled() -> None:
    world = World()
    world.set("13:00", name="lunch")
    world.timers.change("lunch", NO_OWNER, when="15:00", text="late lunch")
    world.run_for(2 * HOUR)
    assert world.sent == []
    world.run_for(HOUR + 60)
    assert world.sent == ["late lunch"]
    world.set("R/PT1H", name="again")
    world.timers.cancel("again", NO_OWNER)
    world.run_for(5 * HOUR)
    assert world.sent == ["late lunch"]
    with pytest.raises(UsageError, match="no timer `again`"):
        world.timers.cancel("again", NO_OWNER)


def test_a_timer_that_is_cancelled_while_it_is_sent_ends() -> None:
    """Between the message and the next time somebody cancels: there is no next time."""
    world = World()
    world.set("R/PT1H", name="again")
    world.wait(HOUR)
    [(message, timer)] = world.waiting()
    world.timers.cancel("again", NO_OWNER)
    world.timers.go_on(message, timer, "sent")
    assert world.timers.ahead(ANY_OWNER) == []


def test_a_look_costs_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads as few messages among ten thousand timers as among three hundred, and those that
    other processes set, change and cancel meanwhile are known all the same."""
    read: list[int] = []
    costs = []
    for number in (300, 10_000):
        world = World()
        timer = world.set("2026-12-24T18:00")
        for place in range(number):
            whose = NamedOwner(f"owner {place}")
            world.timers._put(msgspec.structs.replace(timer, name=f"t{place}"), whose)
        world.look()
        queues = world.store.queues
        messages, message = queues.messages, queues.message

        def counted(*args: Any, find: Any = messages, **more: Any) -> Any:
            found = find(*args, **more)
            read.append(len(found))
            return found

        def counted_one(number: int, find: Any = message) -> Any:
            read.append(1)
            return find(number)

        monkeypatch.setattr(queues, "messages", counted)
        monkeypatch.setattr(queues, "message", counted_one)
        soon = world.set("13:00", "soon", name="soon")
        world.timers.change("t7", NamedOwner("owner 7"), when="13:00", text="changed")
        world.timers.cancel("t8", NamedOwner("owner 8"))
        read.clear()
        world.wait(60)
        assert world.look() == LOOK_SECONDS
        costs.append([sum(read)])
        world.wait(HOUR)
        read.clear()
        world.look()
        costs[-1].append(sum(read))
        monkeypatch.setattr(queues, "messages", messages)
        monkeypatch.setattr(queues, "message", message)
        assert sorted(world.sent) == ["changed", soon.text]
    assert max(costs[0] + costs[1]) <= 125  # the newest, some in turn, and those that are due


def test_timers_whose_messages_come_late_are_found_in_turn() -> None:
    """A message may be older than those that a machine has seen: copied from another store, taken
    back by a person, or of a machine whose clock is behind."""
    world = World()
    timer = world.set("13:00", "late", name="late")
    [(message, _)] = world.waiting()
    world.store.queues.drop(message.id, "set aside")
    for place in range(250):
        whose = NamedOwner(f"owner {place}")
        far = world.timers._put(msgspec.structs.replace(timer, name=f"t{place}", text="x"), whose)
        world.store.queues.drop(far.id, "x") if place % 2 else None
    world.look()
    assert world.store.queues.retry(message.id)
    world.wait(HOUR)
    for _ in range(4):
        world.look()
    assert world.sent.count("late") == 1
    assert world.sent.count("x") == 125


def test_a_timer_belongs_to_its_owner() -> None:
    world = World()
    for owner in (ALICE, BOB):
        world.set("13:00", name="lunch", owner=owner)
    world.timers.cancel("lunch", ALICE)
    assert [owner for owner, _ in world.timers.ahead(ANY_OWNER)] == [BOB]
    assert world.timers.ahead(ALICE) == []
    with pytest.raises(UsageError, match="no timer `lunch`"):
        world.timers.find("lunch", ALICE)


def test_there_is_a_limit_for_each_owner() -> None:
    world = World()
    for number in range(TIMERS_MAX):
        world.set("13:00", name=str(number), owner=ALICE)
    with pytest.raises(UsageError, match="the most that are allowed"):
        world.set("13:00", owner=ALICE)
    world.set("13:00", owner=BOB)


def test_an_erasure_takes_timers_along() -> None:
    world = World()
    world.set("13:00", owner=ALICE)
    world.set("13:00", owner=BOB)
    world.store.queues.erase(ALICE)
    assert [owner for owner, _ in world.timers.ahead(ANY_OWNER)] == [BOB]
    world.store.queues.erase(str(KEY))
    assert world.timers.ahead(ANY_OWNER) == []


def test_the_answer_goes_back_the_way_the_person_came() -> None:
    world = World()
    world.store.queues.put(
        NewMessage(
            queue="inbox",
            lane=str(KEY),
            session=str(KEY),
            key="1",
            body={"content": "hi", "channel": "telegram", "about": {"chat": 7}},
        )
    )
    world.set("13:00")
    world.wait(HOUR)
    world.look()
    newest = world.store.queues.messages("inbox", owner=ANY_OWNER)[0]
    assert (newest.body["channel"], newest.body["about"]) == ("telegram", {"chat": 7})


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32))
def test_random_lives_send_each_time_once(seed: int) -> None:
    """Clocks that jump, sleep, restarts, two gateways, changes: no time is sent twice, every time
    that passed is sent or missed, and no timer is lost."""
    chance = random.Random(seed)
    world = World("2027-03-26T12:00")
    names = ["0 9 * * *", "R/PT2H", "30 2 * * *", "*/30 * * * *"]
    for name in names:
        world.set(name, name, name=name, missed=chance.choice(["once", "skip"]))
    world.set("2027-03-28T02:30", "date", name="date")
    for _ in range(chance.randrange(10, 30)):
        match chance.randrange(7):
            case 0:
                world.wall += chance.choice([-3 * HOUR, -60, 60, 5 * HOUR])
            case 1:
                world.wait(chance.choice([HOUR, 9 * HOUR]))
            case 2:
                world.restart()
            case _:
                world.run_for(chance.choice([1, 3]) * HOUR, step=chance.choice([600, 1_800]))
    world.wall = max(world.wall, moment("2027-03-29T12:00"))
    world.look()
    found = world.store.queues.messages("inbox", owner=ANY_OWNER, limit=10_000)
    told = [(m.body["content"], m.body["extra"]["timer"]["at"]) for m in found]
    by_wall = [each for each in told if each[0] != "R/PT2H"]
    assert len(by_wall) == len(set(by_wall))
    assert [words for words, _ in told].count("date") == 1
    assert sorted(timer.name for _, timer in world.timers.ahead(ANY_OWNER)) == sorted(names)
    for _, timer in world.timers.ahead(ANY_OWNER):
        assert timer.next.at > world.wall or timer.name == "R/PT2H"


def test_a_program_has_the_timers_of_its_session() -> None:
    """Set, listed, changed and cancelled by one object, and none of another session."""
    with (
        MemoryStore() as store,
        Session.open("a", model="offline", store=store, owner="ann") as session,
        Session.open("b", model="offline", store=store, owner="ann") as other,
    ):
        timers, others = SessionTimers(session), SessionTimers(other)
        made = timers.wake_at("30m", "look", name="soon", silent=True)
        others.wake_at("R/PT1H", "beat", name="beat", hours="08:00-22:00")
        assert [timer.name for timer in timers.ahead()] == ["soon"]
        assert timers.change("soon", text="look again").next == made.next
        for change in (timers.cancel, lambda name: timers.change(name, when="1h")):
            with pytest.raises(UsageError, match="no timer `beat`"):
                change("beat")
        assert timers.cancel("soon").text == "look again"
        assert timers.ahead() == []
        assert [timer.name for timer in others.ahead()] == ["beat"]
