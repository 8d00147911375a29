"""A view in the making: its units, their forms and sizes, and what was cut from it so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.log.records import Compaction, Prune, PruneDecision, to_json
from holdfast.core.log.refs import bare, named_outputs
from holdfast.core.projection.past import Past
from holdfast.core.projection.policy import StepSize
from holdfast.core.projection.prune import (
    as_shown,
    can_clear,
    can_trim,
    opaque_before,
    steps_to_hold,
)
from holdfast.core.projection.units import (
    NOTE_FIRST,
    join_opening,
    note,
)
from holdfast.core.projection.view import Form

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.projection.request import ProjectionRequest
    from holdfast.core.projection.sizes import Correction
    from holdfast.core.projection.units import ContextUnit, MessagePart
    from holdfast.core.projection.view import ProjectionCache, View
    from holdfast.core.window import Window

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
        self._note = self.tokens_of(NOTE_FIRST)
        self.close()
        self._places: dict[str, int] | None = None

    @property
    def total(self) -> int:
        """Tokens of the messages as they now are."""
        first = (self.opening or self.units[self.start : self.start + 1])[:1]
        is_answer = bool(first) and first[0].parts[0].role != "user"
        return self._rest + self._kept + (self._note if is_answer else 0)

    def shown(self) -> list[ContextUnit]:
        """The units of the request, in order."""
        kept = self.units[self.start :]
        shown = [self._cache.shown(unit, self.forms) for unit in (*self.opening, *kept)]
        return [*shown, *self.closing]

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
        trim = size - self._size_with(unit, Form("trim"), is_allowed)
        clear = size - self._size_with(unit, Form("clear"), is_allowed)
        return StepSize(size, max(0, trim), max(0, clear), quiet, is_superseded)

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
        nobody's here; what was learned about sizes there is forgotten here.
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
        shown = {
            part.record
            for unit in (*self.opening, *self.units[self.start :])
            for part in unit.parts
        }
        if self.summary is not None:
            made.append(self._compaction(window, before, reason))
        # After a cut, what was decided before it is out of sight, and is said again.
        changed = [
            PruneDecision(record=record, action=form.action, keep=form.keep)
            for record, form in self.forms.items()
            if record in shown and (made or self.view.forms.get(record) != form)
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
        """The tokens of many units; most logs have no forms in most of them."""
        forms = self.forms
        shown = [self._cache.shown(unit, forms) for unit in units] if forms else units
        weights = self._cache.scale.weights(shown)
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
