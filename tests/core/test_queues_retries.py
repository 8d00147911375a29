"""A message that ends its process is set aside, and those that ran beside it are answered."""

from __future__ import annotations

import contextlib
import random
import time
from typing import TYPE_CHECKING

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.owners import ANY_OWNER
from holdfast.core.queues import (
    LOST_CLAIMS_MAX,
    SUSPECT_LOST_CLAIMS,
    SUSPECT_SECONDS,
    NewMessage,
    choose_suspect,
    is_suspect,
    reason_to_set_aside,
)
from holdfast.stores.queues import SqliteQueues

if TYPE_CHECKING:
    from holdfast.core.queues import QueuedMessage

CLAIM_SECONDS = 30.0
POISON = "poison"


class SimulatedGateways:
    """Processes that share a queue; each ends where it works on poison, or where it is killed."""

    def __init__(self, processes: int, limit: int, luck: random.Random, kills: int = 0) -> None:
        self.now = 0.0
        self.queues = SqliteQueues(None, clock=time.time, awake_time=lambda: self.now)
        self.running: list[list[QueuedMessage]] = [[] for _process in range(processes)]
        self.limit = limit
        self.luck = luck
        self.kills = kills

    def put(self, lane: int, number: int, kind: str) -> None:
        key = f"{kind} {lane}.{number}"
        self.queues.put(NewMessage(queue="inbox", lane=str(lane), key=key, body={}))

    def run(self) -> list[QueuedMessage]:
        """Work until everything is done, and return it."""
        while self.queues.messages(states=("waiting", "running"), limit=1, owner=ANY_OWNER):
            for process in self.luck.sample(range(len(self.running)), len(self.running)):
                self._claim(process)
                self._work(process)
            self.now += SUSPECT_SECONDS
        done = self.queues.messages(limit=10_000, owner=ANY_OWNER)
        self.queues.close()
        return done

    def _claim(self, process: int) -> None:
        running = self.running[process]
        free = self.limit - len(running)
        claimed = self.queues.claim("inbox", str(process), CLAIM_SECONDS, limit=free)
        begun, held_back = choose_suspect(claimed, has_suspect=any(map(is_suspect, running)))
        assert sorted(begun + held_back, key=lambda message: message.id) == claimed
        for message in held_back:
            assert self.queues.postpone(message, SUSPECT_SECONDS, is_counted=False)
        for message in begun:
            if reason := reason_to_set_aside(message):
                assert self.queues.finish(message, "failed", reason=reason)
            else:
                running.append(message)
        assert sum(map(is_suspect, running)) <= 1

    def _work(self, process: int) -> None:
        running = self.running[process]
        self.luck.shuffle(running)
        while running and self.luck.random() < 0.9:
            is_killed = self.kills > 0 and self.luck.random() < 0.3
            if is_killed or running[-1].key.startswith(POISON):
                self.kills -= is_killed
                self._end_process(process)
                return
            assert self.queues.finish(running.pop(), "answered")

    def _end_process(self, process: int) -> None:
        """Let its claims run out, while the others keep theirs."""
        self.running[process].clear()
        self.now += CLAIM_SECONDS
        for message in (message for running in self.running for message in running):
            assert self.queues.renew(message, CLAIM_SECONDS)


@examples(100)
@given(
    processes=st.integers(1, 3),
    limit=st.integers(1, 12),
    lanes=st.integers(1, 30),
    poisoned=st.integers(1, 5),
    seed=st.integers(0, 2**32),
)
def test_poison_is_set_aside_and_nothing_else(
    processes: int, limit: int, lanes: int, poisoned: int, seed: int
) -> None:
    """Each poisoned message is tried as often as the bound says. A message beside them loses no
    more claims than make it a suspect, for each of them: it is answered."""
    luck = random.Random(seed)
    gateways = SimulatedGateways(processes, limit, luck)
    bad = set(luck.sample(range(lanes), min(poisoned, lanes)))
    for number in range(2):
        for lane in range(lanes):
            gateways.put(lane, number, POISON if lane in bad and not number else "good")
    for message in gateways.run():
        if message.key.startswith(POISON):
            assert (message.state, message.lost_claims) == ("failed", LOST_CLAIMS_MAX)
            assert str(LOST_CLAIMS_MAX) in message.reason
        else:
            assert message.state == "answered"
            assert message.lost_claims <= SUSPECT_LOST_CLAIMS * len(bad)


@examples(100)
@given(
    processes=st.integers(1, 3),
    limit=st.integers(1, 12),
    lanes=st.integers(1, 12),
    kills=st.integers(0, LOST_CLAIMS_MAX - 1),
    seed=st.integers(0, 2**32),
)
def test_kills_set_nothing_aside(
    processes: int, limit: int, lanes: int, kills: int, seed: int
) -> None:
    """Messages whose processes are killed fewer times than the bound are all answered."""
    gateways = SimulatedGateways(processes, limit, random.Random(seed), kills)
    for number in range(3):
        for lane in range(lanes):
            gateways.put(lane, number, "good")
    done = gateways.run()
    assert {message.state for message in done} == {"answered"}
    assert all(message.tries == 1 for message in done)


@given(lost=st.lists(st.integers(0, 2 * LOST_CLAIMS_MAX), max_size=8), has_suspect=st.booleans())
def test_what_lost_too_many_claims_is_set_aside_at_once(
    lost: list[int], *, has_suspect: bool
) -> None:
    """It is never held back: each further claim would be one more to lose."""
    with contextlib.closing(
        SqliteQueues(None, clock=lambda: 0.0, awake_time=lambda: 0.0)
    ) as queues:
        for number in range(len(lost)):
            queues.put(NewMessage(queue="inbox", lane=str(number), key=str(number), body={}))
        claimed = [
            msgspec.structs.replace(message, lost_claims=count)
            for message, count in zip(queues.claim("inbox", "a", 30, limit=8), lost, strict=True)
        ]
    begun, held_back = choose_suspect(claimed, has_suspect=has_suspect)
    assert not any(map(reason_to_set_aside, held_back))
    assert sum(map(is_suspect, begun)) <= (not has_suspect)
