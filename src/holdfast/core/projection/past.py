"""The records before a cut, and the carry-over that they become."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.core.extract.carryover import carry_digests, prose_of
from holdfast.core.log.records import Assistant, Compaction, User, from_json
from holdfast.core.projection.view import LEAST_SUMMARY, turn_records
from holdfast.core.text.cut import has_lone_surrogates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.extract.digest import Digest
    from holdfast.core.log.records import Record
    from holdfast.core.projection.request import ProjectionRequest
    from holdfast.core.projection.sizes import Correction, Scale
    from holdfast.core.projection.units import ContextUnit

_HORIZON_STEPS: Final = 80
"""A name last mentioned longer ago weighs less than a 16th, and is not looked for."""
_FENCE_TOKENS: Final = 60
"""Tokens of the label and the tags around a carry-over."""


class Past:
    """The part of a log that a cut takes out of view: the units before the cut."""

    def __init__(
        self,
        request: ProjectionRequest,
        boundary: Compaction | None,
        scale: Scale,
        correction: Correction,
    ) -> None:
        self._request = request
        self._boundary = boundary
        self._scale = scale
        self._correction = correction

    @functools.cached_property
    def by_id(self) -> dict[str, Record]:
        """The records at hand."""
        return {record.id: record for record in self._request.records}

    def carry_over(
        self, units: Sequence[ContextUnit], start: int, tokens: int, rest: int | None = None
    ) -> str:
        """The carry-over of everything before `start`, within `tokens`; never empty.

        `rest` caps what is in it beside the user's words and a model's summary.
        """
        factor = self._correction.factor
        shown = {part.record for unit in units[start:] for part in unit.parts}
        lines = self._request.recent_replies()
        text = carry_digests(
            self._digests(units, start),
            previous=self._previous(),
            prose=self._request.prose,
            lately=[line for record, line in lines if record not in shown],
            pending=self._request.pending,
            cap_tokens=max(0, math.floor(tokens / factor) - _FENCE_TOKENS),
            rest_tokens=None if rest is None else max(0, math.floor(rest / factor)),
            counter=self._scale.counter,
        ).text
        return text or LEAST_SUMMARY

    def records_of_units(self, pinned: Sequence[ContextUnit]) -> list[Record]:
        """The records of units from before a cut that stay, oldest first."""
        wanted = {part.record for unit in pinned for part in unit.parts if part.record}
        found = [record for record in self._request.records if record.id in wanted]
        wanted -= {record.id for record in found}
        older = turn_records(self._boundary) if wanted and self._boundary is not None else []
        kept = [*(record for record in older if record.id in wanted), *found]
        return [_without_broken_thinking(record) for record in kept]

    def cut_records(self, units: Sequence[ContextUnit], start: int) -> list[Record]:
        """The records of the units before `start`."""
        gone = {part.record for unit in units[:start] for part in unit.parts}
        return [record for record in self._request.records if record.id in gone]

    def records(self, units: Sequence[ContextUnit], start: int) -> list[Record]:
        """Every record at hand from before the cut, those that an earlier cut left out as well.

        An earlier carry-over may have had no room for them; the log still has them.
        """
        records = self._request.records
        gone = {part.record for unit in units[:start] for part in unit.parts}
        kept = units[start].first if start < len(units) else None
        places = (place for place, record in enumerate(records) if record.id == kept)
        end = next(places, len(records))
        late = [record for record in records[end:] if record.id in gone]
        return [*records[:end], *late]

    def _digests(self, units: Sequence[ContextUnit], start: int) -> list[Digest]:
        """Return the digests of the records that are cut; of old ones, only the user's words."""
        found: list[Digest] = []
        steps = 0
        for record in reversed([*self._words_beside(), *self.records(units, start)]):
            steps += type(record) is Assistant
            is_near = steps <= _HORIZON_STEPS or type(record) is User
            digest = self._scale.digest(record) if is_near else self._scale.glance(record)
            if digest is not None:
                found.append(digest)
        found.reverse()
        return found

    def _words_beside(self) -> list[User]:
        """The user's messages that a compaction of another tool kept beside its summary. A cut of
        ours has them in its carry-over."""
        before = self._boundary
        if before is None or before.covers is not None:
            return []
        found = map(from_json, before.turn or ())
        return [rec for rec in found if isinstance(rec, User) and rec.id not in self.by_id]

    def _previous(self) -> str | None:
        """The carry-over before, where it says what the records at hand do not."""
        before = self._boundary
        if before is None:
            return None
        records = self._request.records
        oldest = next((record for record in records if isinstance(record, Compaction)), before)
        is_whole = oldest.covers is not None and oldest.covers[0] in self.by_id
        text = before.carry or before.summary
        if text == LEAST_SUMMARY:
            return None
        return (prose_of(text) or None) if is_whole else text


def _without_broken_thinking(record: Record) -> Record:
    """The record without thinking that storing would mend: its signature is wrong then."""
    if not isinstance(record, Assistant) or not isinstance(record.content, list):
        return record
    sound = [
        block
        for block in record.content
        if block.get("type") != "thinking" or not has_lone_surrogates([block])
    ]
    return record if len(sound) == len(record.content) else replace(record, content=sound)
