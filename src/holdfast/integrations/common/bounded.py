"""Keeps the messages of another framework's loop within a window.

The framework sends a growing list; a request must fit. Its messages become records, Holdfast
projects them, and what is left alone goes out as the framework had it. A cut is remembered while
the list goes on, so that the prefix of the next request is the same.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.failures.classify import learned_window
from holdfast.core.log.records import Assistant, Compaction, Epoch, Prune
from holdfast.core.models.window import Window
from holdfast.core.projection.policy import policy_of
from holdfast.core.projection.project import Plan, project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.turn.refusals import (
    REPAIRS_MAX,
    Repair,
    find_repair,
    media_of,
    policy_record,
    repair_record,
)
from holdfast.engine.session.prepare import cache_for
from holdfast.providers.failures import name_failure
from holdfast.providers.known_models.lookup import window_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.failures.classify import Failure
    from holdfast.core.log.records import Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Tool
    from holdfast.core.projection.policy import Policy, PolicyName
    from holdfast.core.projection.units import ContextUnit, MessagePart

_CONVERSATIONS_MAX: Final = 64
"""Conversations whose cuts are remembered; an older one is cut again, and misses the cache once."""
_HARMLESS: Final = frozenset(
    (
        *("merged-roles", "no-opening", "no-question", "interrupted-call", "foreign-thinking"),
        *("moved-result", "empty-message", "empty-result"),
    )
)
"""Repairs of a view that leave the record they name as it was."""

TRIES_MAX: Final = 5
"""Smaller requests after a refusal. Each is at most seven tenths of the one before: the fifth is a
sixth of the first."""
_SMALLER_SHARE: Final = 0.7
"""Of a refused size, for the next request, where the provider states no limit."""
_LIMIT_MARGIN: Final = 0.9
"""Of a stated limit: our count and the provider's differ by a few per cent."""

_NAMED: Final = "m"
"""The beginning of the ids that messages get here."""

_Decision = tuple[str, "Record"]
"""The record after which something was decided, and the decision."""


class BoundedView(msgspec.Struct, frozen=True):
    """A list of messages that fits."""

    plan: Plan
    opening: tuple[ContextUnit, ...]
    """Units that take the place of the messages before `start`: the carry-over of a cut."""
    start: int
    """The first message that is kept."""
    changed: dict[str, tuple[MessagePart, ...]]
    """The parts of kept messages that are sent shortened or repaired, by record; a record without
    parts is left out."""
    added: dict[str, tuple[MessagePart, ...]]
    """Parts to send after a record: the answers of interrupted calls."""

    @property
    def is_unchanged(self) -> bool:
        """True where the list can be sent as it is."""
        return not self.start and not self.changed and not self.added and not self.opening


class ListBounds:
    """Fits lists of messages into a window, one conversation after the other or at once."""

    def __init__(
        self,
        target: Target,
        *,
        window: int | None = None,
        policy: Policy | PolicyName | None = None,
    ) -> None:
        self._target = target
        self._window = window_of(target.model) if window is None else Window(window)
        self._policy = policy_of(policy or "balanced")
        self._decided: OrderedDict[str, list[_Decision]] = OrderedDict()

    @property
    def window(self) -> Window:
        """The window that requests are fitted into."""
        return self._window

    def fit(
        self,
        records: Sequence[Record],
        *,
        system: str = "",
        tools: Sequence[Tool] = (),
        output_tokens: int | None = None,
        at_most: int | None = None,
    ) -> BoundedView:
        """Return a view of records, which have ids of `name_records`, that fits.

        With `at_most`, one of at most so many tokens: a larger one was refused. Raises
        `CannotFit`.
        """
        conversation = records[0].id if records else ""
        known = self._decided.get(conversation, [])
        path, standing = _insert(records, known)
        request = ProjectionRequest(
            records=path,
            window=self._window,
            target=self._target,
            system=system,
            tools=tools,
            output_tokens=output_tokens,
            policy=self._policy,
            floor=0,
            at_most=at_most,
            has_stored_ids=False,
        )
        plan = project(request, cache_for(self._target))
        after = records[-1].id if records else ""
        self._remember(conversation, standing, [(after, found) for found in plan.decisions])
        return _view(plan, records)

    @property
    def has_refusals(self) -> bool:
        """True where something is left out of a conversation because a provider refused it."""
        known = self._decided.values()
        return any(isinstance(made, Epoch) for decided in list(known) for _after, made in decided)

    def decide(self, plan: Plan, decision: Record) -> None:
        """Remember a decision about the conversation of a plan, behind its newest message."""
        said = [record for record in plan.records if record.id.startswith(_NAMED)]
        if said:
            standing = self._decided.get(said[0].id, [])
            self._remember(said[0].id, standing, [(said[-1].id, decision)])

    def forget(self, plan: Plan, count: int) -> None:
        """Take the newest decisions about the conversation of a plan back."""
        said = next((rec.id for rec in plan.records if rec.id.startswith(_NAMED)), "")
        standing = self._decided.get(said, [])
        if count and standing:
            refused = [made for made in standing if isinstance(made[1], Epoch)][-count:]
            self._remember(said, [made for made in standing if made not in refused], [])

    def _remember(
        self, conversation: str, standing: Sequence[_Decision], fresh: Sequence[_Decision]
    ) -> None:
        named = [
            (after, _with_id(decision, number))
            for number, (after, decision) in enumerate(fresh, len(standing))
        ]
        self._decided.pop(conversation, None)  # the newest is last, also while others are evicted
        self._decided[conversation] = [*standing, *named]
        while len(self._decided) > _CONVERSATIONS_MAX:
            self._decided.popitem(last=False)


class Refusals:
    """The refusals of one request, and what is sent after each, none twice: at most five smaller
    requests, or three where more than the size was refused."""

    def __init__(self, bounds: ListBounds) -> None:
        self._bounds = bounds
        self._repairs: list[Repair] = []
        self._tries = self._standing = 0

    def answer(self, error: Exception, plan: Plan, *, output_tokens: int = 0) -> NextRequest | None:
        """Return the next try after a request of a plan was refused; None where none would help.

        What the provider refused for another reason than its size is left out of this
        conversation's requests from now on, also where the error is the caller's to see.
        """
        self._tries += 1
        failure = name_failure(error)
        if failure.kind == "policy":
            record = policy_record(_as_answered(plan), failure.subclass or "policy")
            self._bounds.decide(plan, record)
            return None
        if self._tries > (REPAIRS_MAX if self._repairs else TRIES_MAX):
            self._bring_back(plan)
            return None
        if failure.is_overflow:
            return NextRequest(_smaller_size(failure, plan, output_tokens))
        is_too_large = failure.kind == "payload_too_large"
        repair = _without_media(plan) if is_too_large else None
        if repair is None and is_too_large:
            return NextRequest(int(_SMALLER_SHARE * plan.tokens.total))
        repair = repair or find_repair(failure, _as_answered(plan), self._repairs)
        if repair is None or repair.fields or self._tries > REPAIRS_MAX:
            self._bring_back(plan)
            return None
        if repair.brings_back:
            self._bring_back(plan)  # the media were not the cause
        self._repairs.append(repair)
        self._standing += 1
        self._bounds.decide(plan, repair_record(plan, repair))
        return NextRequest()

    def _bring_back(self, plan: Plan) -> None:
        """Bring back what was left out for nothing."""
        self._bounds.forget(plan, self._standing)
        self._standing = 0


class NextRequest(msgspec.Struct, frozen=True):
    """The next request after a refused one."""

    at_most: int | None = None
    """Tokens that it may have; None for as many as fit."""


def _as_answered(plan: Plan) -> Plan:
    """Return a plan whose replies are the target's: a framework's list does not say whose."""
    about = plan.target
    records = [
        msgspec.structs.replace(record, provider=about.provider, model=about.model)
        if isinstance(record, Assistant)
        else record
        for record in plan.records
    ]
    return msgspec.structs.replace(plan, _records=records)


def _without_media(plan: Plan) -> Repair | None:
    media = media_of(plan.parts_sent)
    return Repair("drop-media", "without the media", media) if media else None


def _smaller_size(failure: Failure, plan: Plan, output_tokens: int) -> int:
    refused = plan.tokens.total
    limit = learned_window(failure)
    if limit is None:
        return int(_SMALLER_SHARE * refused)
    return min(int(_LIMIT_MARGIN * refused), int(_LIMIT_MARGIN * limit) - output_tokens)


def name_records(records: Sequence[Record], spelled: Sequence[str]) -> list[Record]:
    """Return records with ids made from their contents: the same in the next, longer list."""
    seen: Counter[str] = Counter()
    named = []
    for record, text in zip(records, spelled, strict=True):
        digest = hashlib.sha256(text.encode()).hexdigest()[:20]
        seen[digest] += 1
        name = f"{_NAMED}{digest}-{seen[digest]}"
        named.append(msgspec.structs.replace(record, id=name, ts=1.0))
    return named


def _insert(
    records: Sequence[Record], known: Sequence[_Decision]
) -> tuple[list[Record], list[_Decision]]:
    """Return records with the decisions among them; those about other messages are dropped, with
    those that were made at once: a cut with the shortening of a result that is gone."""
    ids = {record.id for record in records}
    standing: list[_Decision] = []
    for after, made in groupby(known, key=itemgetter(0)):
        together = list(made)
        if after not in ids or not all(_names(decision) <= ids for _after, decision in together):
            break
        standing += together
    path: list[Record] = []
    for record in records:
        path.append(record)
        path += [decision for after, decision in standing if after == record.id]
    return path, standing


def _names(decision: Record) -> set[str]:
    """Return the records that a decision is about."""
    if isinstance(decision, Compaction):
        return {*(decision.covers or ()), *filter(None, [decision.first_kept])}
    if isinstance(decision, Prune):
        return {pruned.record for pruned in decision.decisions}
    if isinstance(decision, Epoch):
        return {*decision.media, *decision.left_out}
    return set()


def _with_id(decision: Record, number: int) -> Record:
    return msgspec.structs.replace(decision, id=f"d{number}", ts=1.0)


def _view(plan: Plan, records: Sequence[Record]) -> BoundedView:
    places = {record.id: place for place, record in enumerate(records)}
    first = next((unit.first for unit in plan.units_kept if unit.first in places), None)
    start = 0
    if plan.is_cut:
        start = len(records) if first is None else places[first]
    mended = {repair.record for repair in plan.repairs if repair.flaw not in _HARMLESS}
    changed: dict[str, tuple[MessagePart, ...]] = dict.fromkeys(mended & places.keys(), ())
    added: dict[str, tuple[MessagePart, ...]] = {}
    for unit, shown in zip(plan.units_kept, plan.units_sent, strict=True):
        is_mended = any(part.record in mended for part in unit.parts)
        before = ""
        for part, sent in zip(unit.parts, shown.parts, strict=True):
            if part.record not in places:
                added[before] = (*added.get(before, ()), sent)
                continue
            before = part.record
            if is_mended or sent != part:
                changed[before] = (*changed.get(before, ()), sent)
    return BoundedView(plan, tuple(plan.opening_units), start, changed, added)
