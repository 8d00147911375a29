"""An `AsyncSession` leaves the event loop to others while it plans."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncSession
from holdfast.core.log.records import Assistant, User
from holdfast.core.turn.run import RunState
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from holdfast.core.log.records import Record

WORDS = "some words about the work at hand " * 12


async def long_session(count: int) -> AsyncSession:
    """A session that was never cut and whose next turn has to cut."""
    session = await AsyncSession.open("a", model="offline", store=MemoryStore(), window=32_000)
    records: list[Record] = []
    for number in range(count // 2):
        records.append(User(content=f"Look at src/part_{number}.py, bug {number}. {WORDS}"))
        records.append(Assistant(content=f"I changed compute_{number}. {WORDS}"))
    session.store.append(session.key, records, expect=ANY_HEAD)
    return session


async def calls_on_loop(session: AsyncSession, text: str) -> int:
    """Python functions that a turn calls in the thread of the loop: they hold it."""
    count = 0

    def see(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(see)
    try:
        await session.say(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.sampled(1 / 2, "count")
@pytest.mark.parametrize("count", [400, 1_000])
def test_first_cut_leaves_the_loop_to_others(count: int) -> None:
    """What the loop has to do for a turn does not depend on what the turn has to cut."""

    async def measure() -> tuple[int, int, bool]:
        session = await long_session(count)
        first = await calls_on_loop(session, "What now?")
        following = await calls_on_loop(session, "And now?")
        found = session.store.last(session.key, 40)
        return first, following, any(record.kind == "compaction" for record in found)

    first, following, was_cut = asyncio.run(measure())

    assert was_cut
    assert first <= 5 * following


def test_cancelled_plan_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is cancelled while its thread plans ends after it: no flow runs in two places."""
    planning, go_on = threading.Event(), threading.Event()
    plan = RunState.plan

    def plan_slowly(self: RunState, *args: Any, **kwargs: Any) -> Any:
        planning.set()
        go_on.wait(30)
        return plan(self, *args, **kwargs)

    async def cancel_twice() -> None:
        session = await AsyncSession.open("a", model="offline", store=MemoryStore())
        monkeypatch.setattr(RunState, "plan", plan_slowly)
        turn = asyncio.create_task(session.say("Hello!"))
        await asyncio.to_thread(planning.wait, 30)
        for _ in range(2):
            turn.cancel()
            await asyncio.sleep(0.01)
        assert not turn.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await turn
        reply = await session.say("Are you there?")
        assert reply.text

    asyncio.run(cancel_twice())
