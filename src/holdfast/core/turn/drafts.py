"""Drafts of summaries: written by a model before the cut that needs them, and kept in memory.

A draft stands for everything that was in view at its time. A cut that comes later takes a part of
that, and what was said after the draft is still in view behind it: then the draft is true as it is,
whoever has cut meanwhile. Where the cut takes newer records too, or the session was rewound to
before the draft, it is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.records import Compaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json, Record

_TRIES_MAX: Final = 2
"""Drafts between two cuts: a second one where the first is out of date or was not usable."""


class SummaryDraft(msgspec.Struct, frozen=True):
    """A model's summary of the view as it was."""

    text: str
    last: str
    """The newest record that it stands for."""
    boundary: str = ""
    """The newest compaction before it. After another one, the next cut will take more than it
    stands for."""


class DraftState:
    """The draft of a session, and what drafts have cost since its newest cut."""

    def __init__(self) -> None:
        self.draft: SummaryDraft | None = None
        self.is_running = False
        """A model is writing one now."""
        self.calls = 0
        self.usages: list[Json] = []
        self.costs: list[float] = []
        self._boundary: str | None = None
        self._tries = 0

    def begin(self, boundary: str) -> bool:
        """Count a try after this boundary; False where there were enough."""
        if boundary != self._boundary:
            self._boundary, self._tries = boundary, 0
        self._tries += 1
        return self._tries <= _TRIES_MAX

    def charge(self, calls: int, usage: Json | None, cost: float | None) -> None:
        """Add the cost of a draft, used or not, to that of the next cut."""
        self.calls += calls
        self.usages += [usage] if usage else []
        self.costs += [cost] if cost is not None else []

    def settle(self) -> None:
        """Forget the draft and its cost: a cut is in the log with both."""
        self.draft = None
        self.calls = 0
        self.usages, self.costs = [], []


def newest_cut(records: Sequence[Record]) -> str:
    """The id of the newest compaction; empty where there is none."""
    return next((rec.id for rec in reversed(records) if isinstance(rec, Compaction)), "")


def is_true_of(draft: SummaryDraft, records: Sequence[Record], last: str) -> bool:
    """True if a draft still stands for all that a cut up to the record `last` takes."""
    places = {record.id: place for place, record in enumerate(records)}
    if draft.last not in places or last not in places:
        return False
    return places[last] <= places[draft.last]
