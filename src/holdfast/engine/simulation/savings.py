"""The cost of a conversation as Holdfast would have sent it, and the facts it would have lost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.projection.policy import POLICIES
from holdfast.engine.simulation.policies import Compact, Holdfast
from holdfast.engine.simulation.sessions import RecordedCuts
from holdfast.engine.simulation.simulate import STATIC_TOKENS, offer_for, simulate
from holdfast.engine.simulation.transcripts import Transcript
from holdfast.errors import CannotFit
from holdfast.providers.known_models.lookup import price_of
from holdfast.providers.tokenizers import counter_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.inspection.inspect import Inspection
    from holdfast.core.log.records import Record
    from holdfast.core.models.prices import Price
    from holdfast.core.tokens.counting import Counter as TokenCounter
    from holdfast.core.window import Window
    from holdfast.engine.simulation.policies import Plays
    from holdfast.engine.simulation.simulate import Run

CALLS_MIN: Final = 10
"""A conversation with fewer has nothing to save."""
_LOST_NAMED: Final = 5
"""Lost facts that are named: those that later calls used most often."""


class Saving(msgspec.Struct, frozen=True):
    """One conversation, replayed with Holdfast and without it.

    Both are simulated with the same prices and the same cache, so they differ by what was sent.
    """

    window: Window
    """The window that it was replayed at: the conversation's own, or else its model's."""
    calls: int
    """The calls that were replayed."""
    is_ours: bool
    """The conversation ran under Holdfast: `after` is what was sent, and `before` has a model's
    summary at 85 % of the window. Else `before` is what was sent, and `after` is Holdfast."""
    before: float
    """Dollars for the input without Holdfast."""
    after: float
    """Dollars for the input with Holdfast."""
    cuts: int
    """Cuts with Holdfast."""
    recall: float
    """Of the facts that later calls used, the share that their requests have with Holdfast."""
    recall_before: float
    """The same without it."""
    facts_lost: int
    """Uses of a fact that the request with Holdfast does not have."""
    lost: tuple[str, ...]
    """The facts that most of these uses are of."""

    @property
    def share(self) -> float:
        """The share of the cost that is saved; negative where Holdfast costs more."""
        return 1 - self.after / self.before if self.before else 0.0


def find_saving(
    records: Sequence[Record],
    looked: Inspection,
    window: Window,
    *,
    provider: str,
    model: str,
    is_ours: bool,
) -> Saving | None:
    """Replay a conversation as its inspection counts it; None where its model has no price, too."""
    price = price_of(model, provider)
    if price is None:
        return None
    return measure_saving(
        records,
        window,
        model=model,
        price=price,
        static=looked.static or STATIC_TOKENS,
        counter=counter_for(model or None),
        is_ours=is_ours,
    )


def measure_saving(
    records: Sequence[Record],
    window: Window,
    *,
    model: str,
    price: Price,
    static: int,
    counter: TokenCounter,
    is_ours: bool = False,
) -> Saving | None:
    """Replay a conversation; None where it is too short, or cannot be sent in its window."""
    transcript = Transcript(records, counter)
    if len(transcript.calls) < CALLS_MIN:
        return None
    lost: Counter[int] = Counter()

    def play(policy: Plays, on_lost: Callable[[Sequence[int]], None] | None = None) -> Run:
        return simulate(
            transcript,
            policy,
            window=window,
            static=static,
            price=price,
            offer=offer_for(model, price),
            on_lost=on_lost,
        )

    without: Plays = Compact() if is_ours else RecordedCuts()
    ours: Plays = RecordedCuts() if is_ours else Holdfast(POLICIES["balanced"], is_judged=False)
    try:
        before, after = play(without), play(ours, lost.update)
    except CannotFit:
        return None
    names = transcript.fact_names
    return Saving(
        window=window,
        calls=after.requests,
        is_ours=is_ours,
        before=before.cost,
        after=after.cost,
        cuts=after.cuts,
        recall=after.recall.pooled_share,
        recall_before=before.recall.pooled_share,
        facts_lost=after.facts_lost,
        lost=tuple(names[fact] for fact, _times in lost.most_common(_LOST_NAMED)),
    )
