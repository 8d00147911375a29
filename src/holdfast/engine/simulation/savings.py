"""The cost of a conversation as Holdfast would have sent it, and the facts it would have lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.projection.policy import POLICIES
from holdfast.engine.simulation.policies import Holdfast
from holdfast.engine.simulation.sessions import RecordedCuts
from holdfast.engine.simulation.simulate import offer_for, simulate
from holdfast.engine.simulation.transcripts import Transcript
from holdfast.errors import CannotFit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.prices import Price
    from holdfast.core.tokens.counting import Counter
    from holdfast.core.window import Window
    from holdfast.engine.simulation.simulate import Run

CALLS_MIN: Final = 10
"""A conversation with fewer has nothing to save."""


class Saving(msgspec.Struct, frozen=True):
    """One conversation, replayed as it was and as Holdfast would have had it.

    Both are simulated with the same prices and the same cache, so they differ by what was sent.
    """

    window: Window
    """The window that it was replayed at: its model's own."""
    calls: int
    """The calls that were replayed."""
    before: float
    """Dollars for the input, as the conversation was sent."""
    after: float
    """Dollars for the input under Holdfast."""
    cuts: int
    """Cuts that Holdfast would have made."""
    recall: float
    """Of the facts that later calls used, the share that their requests would have had."""
    recall_before: float
    """The same of the requests that were sent."""
    facts_lost: int
    """Uses of a fact that the request would not have had."""

    @property
    def share(self) -> float:
        """The share of the cost that is saved; negative where Holdfast costs more."""
        return 1 - self.after / self.before if self.before else 0.0


def measure_saving(
    records: Sequence[Record],
    window: Window,
    *,
    model: str,
    price: Price,
    static: int,
    counter: Counter,
) -> Saving | None:
    """Replay a conversation; None where it is too short, or cannot be sent in its window."""
    transcript = Transcript(records, counter)
    if len(transcript.calls) < CALLS_MIN:
        return None

    def play(policy: Holdfast | RecordedCuts) -> Run:
        return simulate(
            transcript,
            policy,
            window=window,
            static=static,
            price=price,
            offer=offer_for(model, price),
        )

    try:
        before, after = play(RecordedCuts()), play(Holdfast(POLICIES["balanced"], is_judged=False))
    except CannotFit:
        return None
    return Saving(
        window=window,
        calls=after.requests,
        before=before.cost,
        after=after.cost,
        cuts=after.cuts,
        recall=after.recall.pooled_share,
        recall_before=before.recall.pooled_share,
        facts_lost=after.facts_lost,
    )
