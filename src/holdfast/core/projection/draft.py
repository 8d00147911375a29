"""A view in the making: its units, their forms and sizes, what was cut and what is protected."""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from holdfast.core.dialects.prefix import ends_with_cut
from holdfast.core.extract.names import identifiers
from holdfast.core.extract.shell_commands import command_in, same_command
from holdfast.core.extract.touched_files import find_touches
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    InjectedContext,
    Prune,
    PruneDecision,
    User,
    to_json,
)
from holdfast.core.log.refs import bare, named_outputs
from holdfast.core.models.messages import (
    Block,
    Other,
    Text,
    Thinking,
    ToolAnswer,
    ToolCall,
    arguments_json,
)
from holdfast.core.narrative.carryover import carry_digests
from holdfast.core.narrative.digest import arguments_text
from holdfast.core.projection.policy import StepSize
from holdfast.core.projection.prune import as_shown, can_clear, can_trim
from holdfast.core.projection.units import (
    LEAST_SUMMARY,
    NOTE_FIRST,
    is_opaque,
    join_opening,
    note,
    opaque_in,
)
from holdfast.core.projection.view import Form, opening_of, turn_records
from holdfast.core.refusals import as_sent, read_left_out
from holdfast.core.text.cut import has_lone_surrogates
from holdfast.core.text.strings import name_pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.narrative.digest import Digest
    from holdfast.core.projection.policy import Policy
    from holdfast.core.projection.request import ProjectionRequest
    from holdfast.core.projection.sizes import Correction, Scale
    from holdfast.core.projection.units import ContextUnit, MessagePart
    from holdfast.core.projection.view import ProjectionCache, View
    from holdfast.core.window import Window


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
        self._target = target
        self._left_out = read_left_out(records, target.provider, target.model)
        self._records = as_sent(records, self._left_out) if self._left_out else records
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
        kept = self._records_kept(units, start)
        ended = [rec for rec in kept if ends_with_cut(self._target, rec)]
        text = carry_digests(
            self._digests(units, start, beside),
            previous=self._previous(),
            prose=self._request.prose,
            pending=self._request.pending,
            cap_tokens=max(0, math.floor(tokens / factor) - _FENCE_TOKENS),
            rest_tokens=self._rest_tokens(units, start, rest),
            kept=self._scale.digests(kept),
            thoughts=self._scale.digests(ended),
            counter=self._scale.counter,
            texts=self._scale.texts,
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
        if not wanted:
            return set()
        records = (self.by_id.get(part.record) for part in unit.parts)
        names = (self._scale.names(record) for record in records if record is not None)
        return {name for held in names for name in held & wanted}

    def covers(self, units: Sequence[ContextUnit], start: int) -> tuple[str, str] | None:
        """The ids of the first and the last record of the units before `start`. Where these hold
        nothing but what the cut before left, the new one stands for the same records as that."""
        (gone, _end), records = self._find_cut(units, start), self._records
        first = next((record.id for record in records if record.id in gone), None)
        last = next((record.id for record in reversed(records) if record.id in gone), None)
        if first is not None and last is not None:
            return first, last
        before = self._boundary
        return None if before is None else before.covers or (before.id, before.id)

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

    def _records_kept(self, units: Sequence[ContextUnit], start: int) -> list[Record]:
        """Return the records that stay, oldest first."""
        gone, end = self._find_cut(units, start)
        return [rec for rec in self._records[end:] if rec.id not in gone]

    def _words_beside(self) -> list[User | InjectedContext]:
        """The user's messages, and context, that stood beside the summary of the cut before."""
        found = turn_records(self._boundary) if self._boundary is not None else []
        sent = as_sent(found, self._left_out)
        kinds = (User, InjectedContext)
        return [rec for rec in sent if isinstance(rec, kinds) and rec.id not in self.by_id]

    def _previous(self) -> str | None:
        """The carry-over before."""
        before = self._boundary
        text = None if before is None else before.carry or before.summary
        return None if text == LEAST_SUMMARY else text


def _since(records: Sequence[Record], boundary: Compaction | None) -> Sequence[Record]:
    """The records that our newest cut keeps, and those behind it. The next cut goes on from its
    carry-over, whatever else is at hand: it costs what is new, and a session that was opened again
    makes the same."""
    if boundary is None or boundary.covers is None:
        return records
    start = 0
    for place in range(len(records) - 1, -1, -1):
        if records[place].id == (boundary.first_kept or boundary.id):
            return records[place:]
        if records[place].id == boundary.id:
            start = place
    return records[start:]


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

    def has(self, index: int) -> bool:
        """Return whether later steps replaced the results of a step."""
        return index in self.again or index in self.outdated


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


NOTE_LAST: Final = note("[Continue.]")


class ViewDraft:
    """A view that is being made to fit, and the decisions that did it."""

    def __init__(
        self,
        view: View,
        request: ProjectionRequest,
        cache: ProjectionCache,
        correction: Correction,
        budget: int,
    ) -> None:
        self.view = view
        self.units = view.units
        self.forms = dict(view.forms)
        self.start = 0
        self.opening = list(view.opening)
        self.closing: list[ContextUnit] = []
        self.repairs = view.repairs
        self.calibration = view.calibration
        """The calibration of the next projection, once everything is decided."""
        self.reasons: list[str] = []
        self.summary: str | None = None
        self._settled: tuple[int, list[str]] | None = None
        """The cut that was read again, and what it pinned."""
        self._carry_tokens = self._shown_tokens = 0
        """Tokens that a carry-over may take, and those that the shown one was given."""
        self._rest_tokens: int | None = None
        """Those that it may take beside the user's words."""
        self.pinned: list[ContextUnit] = []
        """Units from before the cut that stay: the question of the turn, and protected steps."""
        self.is_pressed = False
        """True while messages may still be shortened: the carry-over has their words until then."""
        self.held = steps_to_hold(view, request.policy)
        """Protected steps that a cut works around."""
        self.released: set[str] = set()
        """Those that had to go."""
        self.has_files = False
        self.opaque: dict[str, ContextUnit] = {}
        """Compactions that only their provider can read, as they stay, by record."""
        self._records = request.records
        self._request = request
        self.past = Past(request, view.boundary, cache.scale, correction, budget)
        self._cache = cache
        self._correction = correction
        self.sizes = self._weigh(view.units)
        self.has_files |= any(cache.scale.unit(unit).files for unit in view.opening)
        self._kept = sum(self.sizes)
        self._rest = 0
        self.close()
        self._places: dict[str, int] | None = None

    @property
    def total(self) -> int:
        """Tokens of the messages as they now are."""
        first = (self.opening or self.units[self.start : self.start + 1])[:1]
        is_answer = bool(first) and first[0].parts[0].role != "user"
        return self._rest + self._kept + (self._note if is_answer else 0)

    @functools.cached_property
    def _note(self) -> int:
        """The tokens of the note before an answer that nothing asked for."""
        return self.tokens_of(NOTE_FIRST)

    def shown(self) -> list[ContextUnit]:
        """The units of the request, in order."""
        kept = self.units[self.start :]
        return [*self._cache.show_units((*self.opening, *kept), self.forms), *self.closing]

    def latest_user(self) -> ContextUnit | None:
        """The newest message in the user's role, wherever it stands."""
        kept = (*self.opening, *self.units[self.start :])
        return next((unit for unit in reversed(kept) if unit.is_message), None)

    def turn_start(self) -> int:
        """The index at which the newest turn begins; behind the end where it began earlier.

        A message of a program begins no turn, unless there is nothing else."""
        kept = (*self.opening, *self.units[self.start :])
        newest = next((unit for unit in reversed(kept) if unit.is_said), self.latest_user())
        index = len(self.units)
        for place in range(len(self.units) - 1, self.start - 1, -1):
            unit, is_found = self.units[place], index < len(self.units)
            if unit is newest or (is_found and unit.is_user):
                index = place
            elif is_found:
                break
        return index

    def step_size(
        self,
        index: int,
        is_allowed: Callable[[MessagePart], bool] | None,
        quiet: int,
        quiet_after: int,
        *,
        is_superseded: bool,
    ) -> StepSize:
        """A unit as the policy sees it; without `is_allowed`, one that must not be pruned.

        What pruning would free takes a while to say, so it is said only where it could be done.
        """
        unit, size = self.units[index], self.sizes[index]
        if is_allowed is None or unit.is_user or not (is_superseded or quiet > quiet_after):
            return StepSize(size, quiet=quiet)
        trim, clear = self.frees_by_pruning(index, is_allowed)
        return StepSize(size, trim, clear, quiet, is_superseded)

    def frees_by_pruning(
        self, index: int, is_allowed: Callable[[MessagePart], bool]
    ) -> tuple[int, int]:
        """Return the tokens that trimming and clearing the results of a step would free."""
        unit, size = self.units[index], self.sizes[index]
        trim = size - self._size_with(unit, Form("trim"), is_allowed)
        clear = size - self._size_with(unit, Form("clear"), is_allowed)
        return max(0, trim), max(0, clear)

    def _size_with(
        self, unit: ContextUnit, form: Form, is_allowed: Callable[[MessagePart], bool]
    ) -> int:
        forms = {
            part.record: _stronger(self.forms.get(part.record), form)
            for part in unit.parts
            if is_allowed(part) and _CAN[form.action](part)
        }
        weight = self._cache.weigh((unit,), {**self.forms, **forms} if forms else self.forms)
        return self._correction.tokens(weight)

    # What can be done to it.

    def show(self, forms: Mapping[str, Form]) -> None:
        """Give records other forms."""
        for record, form in forms.items():
            before = self.view.forms.get(record)
            self.forms[record] = form if before is None else before.join(form)
        places = {self._place_of(record) for record in forms}
        kept = {place for place in places if place is not None and place >= self.start}
        for place in kept:
            self._reweigh(place)
        if places - kept:
            self._reweigh_rest()  # in an earlier cut's opening, or pinned by this one

    def prune(self, index: int, form: Form, is_allowed: Callable[[MessagePart], bool]) -> None:
        """Shorten the results of one step."""
        parts = [part for part in self.units[index].parts if is_allowed(part)]
        for part in filter(_CAN[form.action], parts):
            self.forms[part.record] = _stronger(self.forms.get(part.record), form)
        self._reweigh(index)

    def cut(self, start: int, carry_tokens: int, rest_tokens: int | None = None) -> None:
        """Leave out every unit before `start`, and leave a carry-over in their place."""
        assert self.start <= start <= len(self.units)
        self.pinned = self._pins(start)
        self._kept -= sum(self.sizes[self.start : start])
        self.start = start
        self._carry_tokens = max(self._carry_tokens, carry_tokens)
        self._rest_tokens = rest_tokens
        self.recarry(carry_tokens)

    def size_after_cut(self, start: int, carry_tokens: int, rest_tokens: int | None = None) -> int:
        """Return the tokens of the messages that a cut there would leave."""
        pins = self._pins(start)
        summary = self._carry(start, carry_tokens, rest_tokens, pins)
        opening = (*self.past.opening(self.units, start, summary), *pins, *self.closing)
        return sum(map(self.tokens_of, opening)) + sum(self.sizes[start:])

    def _pins(self, start: int) -> list[ContextUnit]:
        """The units that stay where a cut at `start` would leave them out: what the user said
        in the newest turn with its context, the newest message of a program, and protected
        steps."""
        turn, latest = self.turn_start(), self.latest_user()
        # The turn may have begun before everything that is still here.
        is_older = turn == len(self.units)
        units = [(unit, is_older) for unit in self.opening]
        if is_older or not self.held <= self.released:
            units += [(unit, False) for unit in self.units[self.start : min(turn, start)]]
        units += [(unit, True) for unit in self.units[max(turn, self.start) : start]]
        stays = [
            unit
            for unit, is_asked in units
            if (is_asked and unit.is_asked) or unit is latest or self.holds(unit)
        ]
        opaque = opaque_before(self, start)
        return stays if opaque is None else [opaque, *stays]

    def _carry(self, start: int, tokens: int, rest: int | None, pins: list[ContextUnit]) -> str:
        """The carry-over of a cut at `start`, without the user's words in units that stay."""
        said = () if self.is_pressed else [unit.parts for unit in pins if unit.is_user]
        beside = [self.shape(part) for parts in said for part in parts]
        return self.past.carry_over(self.units, start, tokens, rest, beside)

    def holds(self, unit: ContextUnit) -> bool:
        """Return whether a unit is a protected step that a cut works around."""
        return unit.first in self.held and unit.first not in self.released

    def frees(self, start: int) -> int:
        """Return the tokens that a cut there removes; the question of the newest turn stays, and
        so do protected steps."""
        freed = sum(self.sizes[self.start : start])
        stays = set(map(id, self._pins(start)))
        places = range(self.start, start) if stays else ()
        freed -= sum(self.sizes[place] for place in places if id(self.units[place]) in stays)
        opaque = opaque_before(self, start)
        is_counted = opaque is None or id(opaque) in map(id, (*self.opening, *self.units))
        return freed if opaque is None or is_counted else freed - self.tokens_of(opaque)

    def fit_carry(self, room: int, cap: int, least: int = 1) -> None:
        """Give the carry what the rest leaves free, and `least` tokens even where it has less."""
        self.recarry(0)
        free = min(room - self.total, cap)
        if free >= least:
            self.recarry(free)
            if self.total <= room:
                return
        self.recarry(least if least > 1 else 0)

    def leave_out_repeats(self, room: int) -> None:
        """Leave out of the carry-over what is said in messages that stay, now that their form is
        settled; where that does not fit, it stays as it is."""
        before, self.is_pressed = self.summary, False
        if before is None:
            return
        self.recarry(self._shown_tokens)
        if self.total > room:
            self.summary = before
            self.keep_pins(self.pinned)

    def recarry(self, tokens: int) -> None:
        """Make the carry-over again, within `tokens`."""
        self.summary = self._carry(self.start, tokens, self._rest_tokens, self.pinned)
        self._shown_tokens = tokens
        self.keep_pins(self.pinned)

    def keep_pins(self, pinned: list[ContextUnit]) -> None:
        """Of what is from before the cut, keep only these units."""
        self.pinned = pinned
        assert self.summary is not None
        summary = self.past.opening(self.units, self.start, self.summary)
        self.opening = join_opening(summary, self.pinned)
        self.close()

    def settle(self) -> None:
        """Read what a cut left as the next projection will: without what came before it.

        An id that was taken there is free here; a result that was late for a call there is
        no one's here; what was learned about sizes there is forgotten here.
        """
        left = (self.start, [unit.first for unit in self.pinned])
        if self.summary is None or left == self._settled:
            return
        self._settled = left
        window, target = self._request.window, self._request.target
        first = self.units[self.start].first if self.start < len(self.units) else None
        # What is left is near the end.
        backwards = range(len(self._records) - 1, -1, -1)
        places = (place for place in backwards if self._records[place].id == first)
        place = next(places, len(self._records))
        pinned = self.past.records_of_units(self.pinned)
        stale = frozenset(self.view.replies) - self.view.reasoning
        rest = self._cache.read_rest(self._records, place, window, target, pinned, stale)
        self.calibration = rest.calibration
        if not all(unit.is_user for unit in self.pinned):
            self.keep_pins(rest.opening)
        if first is None:
            return
        self.repairs = rest.repairs
        if rest.units == self.units[self.start :]:
            return
        self.units = [*self.units[: self.start], *rest.units]
        self.sizes = [*self.sizes[: self.start], *self._weigh(rest.units)]
        self._kept = sum(self.sizes[self.start :])
        self._places = None
        self.close()

    def close(self) -> None:
        """Put a note where the provider wants a user message and there is none."""
        last = (self.units[self.start :] or self.opening)[-1:]
        is_open = not last or last[0].parts[-1].role == "assistant"
        self.closing = [NOTE_LAST] if is_open else []
        self._reweigh_rest()

    def decisions(self, window: Window, before: int) -> tuple[Record, ...]:
        """Return the records to append so that the next projection sees the same."""
        reason = "; ".join(self.reasons)
        made: list[Record] = []
        if self.summary is not None:
            made.append(self._compaction(window, before, reason))
        # After a cut, what was decided before it is out of sight, and is said again.
        forms = {
            record: form
            for record, form in self.forms.items()
            if made or self.view.forms.get(record) != form
        }
        kept = (*self.opening, *self.units[self.start :]) if forms else ()
        shown = {part.record for unit in kept for part in unit.parts}
        changed = [
            PruneDecision(record=record, action=form.action, keep=form.keep)
            for record, form in forms.items()
            if record in shown
        ]
        if changed:
            made.append(Prune(decisions=changed, window=window.tokens, reason=reason))
        return tuple(made)

    def _compaction(self, window: Window, before: int, reason: str) -> Compaction:
        kept = self.units[self.start :]
        said = {unit.first: self.shape(unit.parts[0]) for unit in self.pinned if unit.is_user}
        pinned = [
            to_json(as_shown(rec, said[rec.id]) if rec.id in said and rec.id in self.forms else rec)
            for rec in self.past.records_of_units(self.pinned)
        ]
        whole = self.summary
        if self._shown_tokens != self._carry_tokens:
            whole = self._carry(self.start, self._carry_tokens, None, self.pinned)
        made = Compaction(
            summary=self.summary or "",
            carry=whole if whole != self.summary else None,
            first_kept=kept[0].first if kept else None,
            covers=self.past.covers(self.units, self.start),
            window=window.tokens,
            tokens_before=before,
            tokens_after=self.total,
            method="model" if self._request.prose else "extract",
            reason=reason,
            turn=pinned or None,
            outputs=named_outputs(self.past.records(self.units, self.start)) or None,
        )
        return bare(made)

    def tokens_of(self, unit: ContextUnit) -> int:
        return self._correction.tokens(self._cache.weigh((unit,), self.forms))

    def _weigh(self, units: Sequence[ContextUnit]) -> list[int]:
        """The tokens of many units."""
        weights = self._cache.scale.weights(self._cache.show_units(units, self.forms))
        self.has_files = any(weight.files for weight in weights)
        return self._correction.tokens_of_each(weights)

    def tokens_of_part(self, part: MessagePart) -> int:
        return self._correction.tokens(self._cache.scale.part(part))

    def shape(self, part: MessagePart) -> MessagePart:
        """A part in the form it has in the request."""
        return self._cache.shape(part, self.forms.get(part.record))

    def _reweigh(self, index: int) -> None:
        size = self.tokens_of(self.units[index])
        self._kept += size - self.sizes[index]
        self.sizes[index] = size

    def _reweigh_rest(self) -> None:
        self._rest = sum(map(self.tokens_of, (*self.opening, *self.closing)))

    def _place_of(self, record: str) -> int | None:
        if self._places is None:
            self._places = {
                part.record: index for index, unit in enumerate(self.units) for part in unit.parts
            }
        return self._places.get(record)


_CAN: Final = {"trim": can_trim, "clear": can_clear}


def _stronger(before: Form | None, form: Form) -> Form:
    """Return the stronger form: cleared stays cleared, trimmed is not trimmed again."""
    if before is None or (before.action == "trim" and form.action == "clear"):
        return form
    return before


# What a policy protects: from pruning, and from every cut that is not forced.


def prunable_results(policy: Policy) -> Callable[[MessagePart], bool]:
    """Which results may be pruned: deny wins, an empty allow list is everything."""
    allow, deny = name_pattern(policy.allow), name_pattern(policy.deny)

    def is_allowed(part: MessagePart) -> bool:
        if part.source != "tool_result":
            return False
        names = [block.name for block in part.blocks if type(block) is ToolAnswer]
        return all(
            not (deny and deny.fullmatch(name)) and (not allow or allow.fullmatch(name))
            for name in names
        )

    return is_allowed


def prunable(draft: ViewDraft, policy: Policy) -> range:
    """The units whose results may be pruned: after the first user message, before the last steps.

    What was read before anyone asked is what the agent works from; the last steps are what it
    works on.
    """
    units = draft.units
    users = (index for index, unit in enumerate(units) if unit.is_user)
    first = 0 if draft.opening else next(users, None)
    end = newest_steps(units, policy)
    if first is None or all(unit.is_user for unit in units[:end]):
        return range(0)
    return range(max(first, draft.start), max(end, draft.start))


def newest_steps(units: Sequence[ContextUnit], policy: Policy) -> int:
    """The index of the first of the newest steps, which the agent works on."""
    count = policy.protected_steps
    for index in range(len(units) - 1, -1, -1):
        if not count:
            return index + 1
        count -= not units[index].is_user
    return len(units) if count == policy.protected_steps else 0


def steps_to_hold(view: View, policy: Policy) -> frozenset[str]:
    """The steps that stay in view, whole, when what is around them is cut: those before the first
    user message, and those with a result of a tool on the deny list. Each by its first record.

    A cut stores them once more. So it holds no step with pictures, nor one that was shortened.
    Those of an earlier cut stay."""
    units, deny = view.units, name_pattern(policy.deny)
    firsts = (index for index, unit in enumerate(units) if unit.is_user)
    first = 0 if view.opening else next(firsts, 0)
    older = frozenset(
        unit.first
        for unit in view.opening
        if unit.parts[0].source in _STEP_SOURCES and not is_opaque(unit)
    )
    denied = [u for u in units[first:] if not u.is_user and _is_denied(u, deny)] if deny else []
    return older | frozenset(
        unit.first
        for unit in (*units[:first], *denied)
        if all(map(_is_plain, unit.parts))
        and not any(part.record in view.forms for part in unit.parts)
    )


def opaque_before(draft: ViewDraft, start: int) -> ContextUnit | None:
    """The newest compaction that only its provider can read, where a cut at `start` would leave it
    out; those before it are in it."""
    kept = [*draft.opening, *draft.units[draft.start :]]
    place = next((at for at in reversed(range(len(kept))) if opaque_in(kept[at])), None)
    if place is None or place - len(draft.opening) + draft.start >= start:
        return None
    unit = kept[place]
    return draft.opaque.setdefault(unit.first, opaque_in(unit) or unit)


def count_cut_steps(draft: ViewDraft, policy: Policy) -> int:
    """Return the number of protected steps that a draft no longer shows."""
    if draft.summary is None:
        return 0
    view = draft.view
    newest, held = newest_steps(view.units, policy), steps_to_hold(view, policy)
    kept = {unit.first for unit in (*draft.pinned, *draft.units[draft.start :])}
    older = [unit for unit in view.units[:newest] if unit.first in held] if held else []
    return sum(
        unit.first not in kept
        for unit in (*older, *view.units[newest:], *view.opening)
        if unit.parts[0].source in _STEP_SOURCES and not is_opaque(unit)
    )


def release(draft: ViewDraft, room: int) -> None:
    """Let protected steps from before the cut go, the oldest first, until the rest fits; with no
    room, all of them, also in later cuts."""
    over = draft.total - room
    gone: set[str] = set()
    for unit in draft.pinned:
        if over > 0 and draft.holds(unit):
            over -= draft.tokens_of(unit)
            gone.add(unit.first)
    draft.released |= gone
    if not room:
        draft.released |= draft.held
    if gone:
        draft.keep_pins([unit for unit in draft.pinned if unit.is_user or unit.first not in gone])


def _is_denied(unit: ContextUnit, deny: re.Pattern[str]) -> bool:
    return any(
        type(block) is ToolAnswer and deny.fullmatch(block.name) is not None
        for part in unit.parts
        for block in part.blocks
    )


_STEP_SOURCES: Final = ("assistant", "tool_result")


def _is_plain(part: MessagePart) -> bool:
    return part.source in _STEP_SOURCES and all(map(_is_text, part.blocks))


def _is_text(block: Block) -> bool:
    if isinstance(block, ToolAnswer):
        return all(type(piece) is Text for piece in block.content)
    return isinstance(block, Text | Thinking | ToolCall)
