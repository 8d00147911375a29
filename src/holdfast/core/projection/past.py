"""The records before a cut, and the carry-over that they become."""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from holdfast.core.extract.names import identifiers
from holdfast.core.extract.shell_commands import command_in, same_command
from holdfast.core.extract.touched_files import find_touches
from holdfast.core.log.records import Assistant, Compaction, InjectedContext, User
from holdfast.core.models.messages import Other, ToolAnswer, ToolCall, arguments_json
from holdfast.core.narrative.carryover import carry_digests
from holdfast.core.narrative.digest import arguments_text
from holdfast.core.projection.units import LEAST_SUMMARY, is_opaque
from holdfast.core.projection.view import opening_of, turn_records
from holdfast.core.refusals import as_sent, read_left_out
from holdfast.core.text.cut import has_lone_surrogates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.narrative.digest import Digest
    from holdfast.core.projection.draft import ViewDraft
    from holdfast.core.projection.request import ProjectionRequest
    from holdfast.core.projection.sizes import Correction, Scale
    from holdfast.core.projection.units import ContextUnit, MessagePart

NEW_SUMMARY: Final = "(new)"
"""The id of a decision's record before it is appended."""
_TOLD_SHARE: Final = 0.4
"""Of the tokens that a cut takes away, what the story of them may take."""
_FENCE_TOKENS: Final = 100
"""Tokens of the label and the tags around a carry-over, and of the line about what was cut."""


class Past:
    """The part of a log that a cut takes out of view: the units before the cut."""

    def __init__(
        self,
        request: ProjectionRequest,
        boundary: Compaction | None,
        scale: Scale,
        correction: Correction,
        budget: int,
    ) -> None:
        self._request = request
        self._way_back = request.way_back
        target, records = request.target, _since(request.records, boundary)
        left_out = read_left_out(records, target.provider, target.model)
        self._records = as_sent(records, left_out) if left_out else records
        """The records without what the target refused."""
        self._boundary = boundary
        self._scale = scale
        self._correction = correction
        self._budget = budget
        self._made: tuple[Sequence[ContextUnit], tuple[object, ...], str] | None = None
        self._cut: tuple[Sequence[ContextUnit], int, tuple[set[str], int]] | None = None

    @functools.cached_property
    def by_id(self) -> dict[str, Record]:
        """The records at hand."""
        return {record.id: record for record in self._records}

    def carry_over(
        self,
        units: Sequence[ContextUnit],
        start: int,
        tokens: int,
        rest: int | None = None,
        beside: Sequence[MessagePart] = (),
    ) -> str:
        """The carry-over of everything before `start`, within `tokens`; never empty.

        `rest` caps what is in it beside the user's words and a model's summary. `beside` are
        the user's messages that stay in view, as they are shown.
        """
        # A cut is sized before it is made, and asks for the same text twice.
        made = (start, tokens, rest, tuple(part.record for part in beside))
        if self._made is not None and self._made[0] is units and self._made[1] == made:
            return self._made[2]
        factor = self._correction.factor
        text = carry_digests(
            self._digests(units, start, beside),
            previous=self._previous(),
            prose=self._request.prose,
            pending=self._request.pending,
            cap_tokens=max(0, math.floor(tokens / factor) - _FENCE_TOKENS),
            rest_tokens=self._rest_tokens(units, start, rest),
            kept=self._digests_kept(units, start),
            counter=self._scale.counter,
        ).text
        self._made = (units, made, text or LEAST_SUMMARY)
        return self._made[2]

    def _rest_tokens(self, units: Sequence[ContextUnit], start: int, rest: int | None) -> int:
        """The tokens that may tell what was not said by the user: never more than a part of what
        goes, beside what an earlier carry-over took, so that a cut makes the view smaller."""
        gone = self._scale.units(units[:start]).counted
        before = self._boundary.carry or self._boundary.summary if self._boundary else ""
        most = int(gone * _TOLD_SHARE) + self._scale.counter.count(before)
        return most if rest is None else min(most, max(0, int(rest / self._correction.factor)))

    def records_of_units(self, pinned: Sequence[ContextUnit]) -> list[Record]:
        """The records of units from before a cut that stay, oldest first."""
        wanted = {part.record for unit in pinned for part in unit.parts if part.record}
        if not wanted:
            return []
        found = [record for record in self._records if record.id in wanted]
        wanted -= {record.id for record in found}
        older = turn_records(self._boundary) if wanted and self._boundary is not None else []
        kept = [*(record for record in older if record.id in wanted), *found]
        opaque = {unit.first: unit for unit in pinned if is_opaque(unit)}
        return [
            _with_opaque_alone(record, opaque[record.id])
            if record.id in opaque
            else _without_broken_thinking(record)
            for record in kept
        ]

    def names_held(self, unit: ContextUnit, wanted: set[str]) -> set[str]:
        """The names in a unit that are among those `wanted`."""
        records = (self.by_id.get(part.record) for part in unit.parts)
        names = (self._scale.names(record) for record in records if record is not None)
        return {name for held in names for name in held & wanted}

    def covers(self, units: Sequence[ContextUnit], start: int) -> tuple[str, str] | None:
        """The ids of the first and the last record of the units before `start`."""
        (gone, _end), records = self._find_cut(units, start), self._records
        first = next((record.id for record in records if record.id in gone), None)
        last = next((record.id for record in reversed(records) if record.id in gone), None)
        return None if first is None or last is None else (first, last)

    def opening(self, units: Sequence[ContextUnit], start: int, summary: str) -> list[ContextUnit]:
        """The unit that a summary of the units before `start` becomes."""
        covers = self.covers(units, start)
        return opening_of(NEW_SUMMARY, summary, covers[1] if covers else "", self._way_back)

    def _find_cut(self, units: Sequence[ContextUnit], start: int) -> tuple[set[str], int]:
        """The ids of the records of the units before `start`, and the place of the first record
        behind them. A cut asks for them more than once."""
        if self._cut is None or self._cut[0] is not units or self._cut[1] != start:
            parts = [unit.parts for unit in units[:start]]
            gone = {part.record for part in itertools.chain.from_iterable(parts)}
            kept = units[start].first if start < len(units) else None
            ids = [record.id for record in self._records]
            end = ids.index(kept) if kept in ids else len(ids)
            self._cut = (units, start, (gone, end))
        return self._cut[2]

    def records(self, units: Sequence[ContextUnit], start: int) -> list[Record]:
        """Every record from before the cut that an earlier cut of ours did not take."""
        records = self._records
        gone, end = self._find_cut(units, start)
        late = [record for record in records[end:] if record.id in gone]
        return [*records[:end], *late]

    def _digests(
        self, units: Sequence[ContextUnit], start: int, beside: Sequence[MessagePart]
    ) -> list[Digest]:
        """Return the digests of the records that are cut."""
        shown = {part.record for part in beside}
        digests = self._scale.digests([*self._words_beside(), *self.records(units, start)])
        return [_not_shown(item, shown) for item in digests] if shown else digests

    def _digests_kept(self, units: Sequence[ContextUnit], start: int) -> list[Digest]:
        """Return the digests of the records that stay, oldest first."""
        gone, end = self._find_cut(units, start)
        stays = (rec for rec in self._records[end:] if rec.id not in gone)
        return self._scale.digests(stays, with_story=False)

    def _words_beside(self) -> list[User | InjectedContext]:
        """The user's messages, and context, that stood beside the summary of the cut before."""
        found = turn_records(self._boundary) if self._boundary is not None else []
        kinds = (User, InjectedContext)
        return [rec for rec in found if isinstance(rec, kinds) and rec.id not in self.by_id]

    def _previous(self) -> str | None:
        """The carry-over before."""
        before = self._boundary
        text = None if before is None else before.carry or before.summary
        return None if text == LEAST_SUMMARY else text


def _since(records: Sequence[Record], boundary: Compaction | None) -> Sequence[Record]:
    """The records that our newest cut keeps, and those behind it. The next cut goes on from its
    carry-over, whatever else is at hand: it costs what is new, and a session that was opened anew
    makes the same."""
    if boundary is None or boundary.covers is None:
        return records
    first = boundary.first_kept or boundary.id
    places = (place for place in range(len(records) - 1, -1, -1) if records[place].id == first)
    return records[next(places, 0) :]


def quiet_steps(draft: ViewDraft, first: int) -> list[int]:
    """For each unit from `first` on, how many steps ago it came, or was last used.

    A call that names something uses the newest unit which held that name: what an agent has just
    read and is about to edit is not old, however long ago it was read.
    """
    units = draft.units[first:]
    holders: dict[str, int] = {}
    used = list(range(len(units)))
    called = [names_called(unit) for unit in units]
    wanted = {name for names in called for name in names}
    for index, unit in enumerate(units):
        for name in called[index]:
            if name in holders:
                used[holders[name]] = index
        holders.update(dict.fromkeys(draft.past.names_held(unit, wanted), index))
    steps = [0]
    for unit in units:
        steps.append(steps[-1] + (not unit.is_user))
    return [steps[-1] - steps[index + 1] for index in used]


class Superseded(NamedTuple):
    """Steps whose results a later step replaced, by index."""

    again: set[int]
    """Every call was made again, or failed and was run again."""
    outdated: set[int]
    """They show only files that were changed since: the change is in view, the rest may still be
    of use."""


def find_superseded(units: Sequence[ContextUnit], first: int) -> Superseded:
    """Return the steps from `first` on whose results were replaced by later ones."""
    calls: set[tuple[str, str]] = set()
    runs: set[str] = set()
    changed: set[str] = set()
    found = Superseded(set(), set())
    for index in range(len(units) - 1, first - 1, -1):
        made = [b for part in units[index].parts for b in part.blocks if type(b) is ToolCall]
        failed = _failures_in(units[index])
        is_again, is_outdated = bool(made), bool(made)
        keys: list[tuple[str, str]] = []
        commands: list[str] = []
        paths: list[str] = []
        for call in made:
            keys.append((call.name, arguments_json(call.arguments)))
            touches = find_touches(call.name, call.arguments)
            command = command_in(call.name, call.arguments)
            run = same_command(command) if command else ""
            is_again &= keys[-1] in calls or (call.id in failed and run in runs)
            is_outdated &= bool(touches) and all(
                touch.path in changed and not touch.is_change for touch in touches
            )
            commands += [run] if run else []
            paths += [touch.path for touch in touches if touch.is_change]
        if is_again:
            found.again.add(index)
        elif is_outdated:
            found.outdated.add(index)
        calls.update(keys)
        runs.update(commands)
        changed.update(paths)
    return found


def _failures_in(unit: ContextUnit) -> set[str]:
    """The ids of the calls of a unit whose results say that they failed."""
    return {
        block.call_id
        for part in unit.parts
        if part.is_failed
        for block in part.blocks
        if type(block) is ToolAnswer
    }


def names_called(unit: ContextUnit) -> list[str]:
    """Return the names in the arguments of a unit's calls."""
    return [
        name
        for part in unit.parts
        for block in part.blocks
        if type(block) is ToolCall
        for name in identifiers(arguments_text(block.arguments))
    ]


def _not_shown(digest: Digest, shown: set[str]) -> Digest:
    """A digest with a mark in the place of the words that stay in view."""
    if digest.record not in shown:
        return digest
    told = [
        replace(item, kind="below", text=f"{len(item.text):,} characters")
        if item.kind == "user"
        else item
        for item in digest.passages
        if item.kind != "program"
    ]
    return replace(digest, passages=tuple(told))


def _with_opaque_alone(record: Record, unit: ContextUnit) -> Record:
    """The record of a reply with nothing but the provider's compaction in it."""
    blocks = [block.raw for block in unit.parts[0].blocks if isinstance(block, Other)]
    assert isinstance(record, Assistant)
    return replace(record, content=blocks)


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
