"""One turn at a time: a flow begins once the lease is free, or says who has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.core.turn.hand import Hand

from holdfast.core.flow.effects import Emit
from holdfast.core.flow.events import TurnFailed, TurnWaiting
from holdfast.core.turn.turn import hold_turn
from holdfast.errors import TurnInProgress, UsageError

if TYPE_CHECKING:
    from holdfast.core.flow.effects import Flow

BUSY = TurnInProgress("s", "another process", 1_000.0)


def work() -> Flow[str]:
    yield Emit(TurnFailed("the flow itself"))
    return "done"


@pytest.mark.parametrize("looks", [0, 1, 3, 40])
def test_a_flow_begins_when_the_lease_is_free(looks: int) -> None:
    """A listener hears once who is waited for; nothing of the flow happens before."""
    hand = Hand()
    hand.busy = [BUSY] * looks
    assert hand.run(hold_turn(work(), 10.0)) == "done"
    waiting = [TurnWaiting("another process", 1_000.0, 10.0)] if looks else []
    assert hand.events == [*waiting, TurnFailed("the flow itself")]
    assert len(hand.slept) == looks
    assert all(0 < seconds <= 0.03 for seconds in hand.slept)
    assert hand.slept == sorted(hand.slept)


@pytest.mark.parametrize("wait", [0.001, 0.002, 0.25, 3, 60.0])
def test_a_wait_ends_after_the_time_that_was_asked_for(wait: float) -> None:
    """Not later, and not much sooner; the error has the session, the holder and the wait."""
    hand = Hand()
    hand.busy = [BUSY] * 10_000
    with pytest.raises(TurnInProgress, match="waited") as caught:
        hand.run(hold_turn(work(), wait))
    assert sum(hand.slept) == pytest.approx(wait)
    error = caught.value
    assert (error.session, error.holder, error.since) == ("s", "another process", 1_000.0)
    assert hand.of(TurnFailed) == []


def test_who_does_not_wait_hears_at_once() -> None:
    hand = Hand()
    hand.busy = [BUSY]
    with pytest.raises(TurnInProgress, match="another process, since") as caught:
        hand.run(hold_turn(work(), 0))
    assert "waited" not in str(caught.value)
    assert (hand.events, hand.slept) == ([], [])


@pytest.mark.parametrize("wait", [None, "5", True])
def test_a_wait_that_is_no_number_is_refused_by_its_name(wait: Any) -> None:
    """Before the lease is asked for."""
    hand = Hand()
    with pytest.raises(UsageError, match="`wait`"):
        hand.run(hold_turn(work(), wait))
    assert hand.effects == []
