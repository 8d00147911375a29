"""While a thread plans, the interpreter's lock changes hands more often; afterwards as before."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncSession
from holdfast.core.turn.run import RunState
from holdfast.engine.session.drivers.waiting import SWITCH_SECONDS, FrequentSwitches
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERVAL = 0.004
"""The application's: not Python's own, and no multiple of ours."""


@pytest.fixture(autouse=True)
def interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(INTERVAL)
    yield
    sys.setswitchinterval(before)


def test_plans_are_made_with_a_short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn plans with it, and leaves the application's behind."""
    seen: list[float] = []
    plan = RunState.plan

    def watch(self: RunState, *args: Any, **kwargs: Any) -> Any:
        seen.append(sys.getswitchinterval())
        return plan(self, *args, **kwargs)

    monkeypatch.setattr(RunState, "plan", watch)

    async def talk() -> None:
        async with await AsyncSession.open("a", model="offline", store=MemoryStore()) as session:
            await asyncio.gather(session.say("Hello!"), session.say("Are you there?"))

    asyncio.run(talk())

    assert seen
    assert seen == pytest.approx([SWITCH_SECONDS] * len(seen))
    assert sys.getswitchinterval() == pytest.approx(INTERVAL)


def test_last_one_out_restores_the_interval() -> None:
    """Plans of several sessions overlap, and an error ends one of them."""
    switches = FrequentSwitches()
    with switches:
        with pytest.raises(ValueError, match="of a plan"), switches:
            raise ValueError("of a plan")
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    assert sys.getswitchinterval() == pytest.approx(INTERVAL)


@pytest.mark.parametrize("own", [SWITCH_SECONDS / 2, 0.02])
def test_interval_of_the_application_stays(own: float) -> None:
    """A shorter one is left alone, and so is one that is set in the meantime."""
    switches = FrequentSwitches()
    if own < SWITCH_SECONDS:
        sys.setswitchinterval(own)
    with switches:
        sys.setswitchinterval(own)
    assert sys.getswitchinterval() == pytest.approx(own)
