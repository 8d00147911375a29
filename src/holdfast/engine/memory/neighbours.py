"""The turns around a hit, read from the index: one look for all hits of a search."""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

from holdfast.core.limits import RECALL_TURN_CHARS_MAX, RECALL_TURNS_MAX
from holdfast.core.memory.hits import NeighbourTurn, cite_record
from holdfast.core.text.cut import cut
from holdfast.ports.side_stores import source_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.core.secrets.redaction import Redactor
    from holdfast.core.text.cut import Keep
    from holdfast.ports.side_stores import FoundPassage, SearchIndex

_REACH: Final = 12
"""Passages read on either side. In the middle of a longer message a hit has no turn beside it."""


class Neighbours:
    """The passages around the hits of one search."""

    def __init__(
        self,
        index: SearchIndex,
        rows: Sequence[FoundPassage],
        before: float | None,
        redactor: Redactor,
    ) -> None:
        """`rows` are the hits; turns that are not older than `before` are left out."""
        ids = {id_ for row in rows for step in (1, -1) for id_ in _ids(row, step)}
        found = index.passages(sorted(ids)) if ids else []
        self._rows: Mapping[int, FoundPassage] = {
            row.id: row for row in found if before is None or row.ts is None or row.ts < before
        }
        self._mask = redactor.text

    def before(self, row: FoundPassage, session: str) -> tuple[NeighbourTurn, ...]:
        """The end of each turn before a hit, the nearest last."""
        turns = [self._show(session, said[::-1], "tail") for said in self._turns(row, -1)]
        return tuple(reversed(turns))

    def after(self, row: FoundPassage, session: str) -> tuple[NeighbourTurn, ...]:
        """The beginning of each turn after a hit, the nearest first."""
        return tuple(self._show(session, said, "head") for said in self._turns(row, 1))

    def _turns(self, row: FoundPassage, step: int) -> list[list[FoundPassage]]:
        """The passages of the next other records in a direction, nearest first."""
        beside = (
            passage for passage in self._walk(_ids(row, step)) if passage.record != row.record
        )
        turns = groupby(beside, key=lambda passage: passage.record)
        return [list(said) for _record, said in islice(turns, RECALL_TURNS_MAX)]

    def _walk(self, ids: Iterable[int]) -> Iterator[FoundPassage]:
        """The passages that were read, up to one that is missing."""
        for id_ in ids:
            if id_ not in self._rows:
                return
            yield self._rows[id_]

    def _show(self, session: str, said: Sequence[FoundPassage], keep: Keep) -> NeighbourTurn:
        text = self._mask("".join(passage.text for passage in said))
        shown = cut(text, RECALL_TURN_CHARS_MAX, keep=keep).text
        return NeighbourTurn(said[0].role, cite_record(session, said[0].record), shown)


def _ids(row: FoundPassage, step: int) -> Iterator[int]:
    """The ids beside a passage in a direction, nearest first, within its source."""
    for distance in range(1, _REACH + 1):
        id_ = row.id + step * distance
        if id_ < 0 or source_of(id_) != row.source:
            return
        yield id_
