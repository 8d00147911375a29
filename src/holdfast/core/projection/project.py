"""`project`: from the log to a request that fits, with a ledger that accounts for every record.

Pure: equal requests give the same bytes. Its decisions come back as records; once they are
appended, the next projection sees the same view and decides nothing.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.dialects.prefix import prefixes_later, provable
from holdfast.core.log.records import Compaction, Prune
from holdfast.core.log.replay import with_ids
from holdfast.core.models.messages import Prompt, Text, Thinking
from holdfast.core.models.window import RATIO_ESTIMATED, Budget, budget_for
from holdfast.core.projection.draft import ViewDraft, count_cut_steps
from holdfast.core.projection.fit import CUT_REASONS, advise, cut_now, force, press
from holdfast.core.projection.ledger import LedgerLine, write_ledger
from holdfast.core.projection.media import fit_count, fit_media
from holdfast.core.projection.sizes import Correction, Weight
from holdfast.core.projection.steps import ViewRepair
from holdfast.core.projection.units import open_with_user
from holdfast.core.projection.view import ProjectionCache, turns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.dialects.prefix import Prefixes, SentRequest
    from holdfast.core.log.records import Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Message
    from holdfast.core.projection.policy import Policy
    from holdfast.core.projection.request import ProjectionRequest
    from holdfast.core.projection.units import ContextUnit, MessagePart
    from holdfast.core.projection.view import View
    from holdfast.core.window import Window

_HIDDEN_TOKENS: Final = 500
_ANCHOR_SHARE: Final = 0.1
"""A reported size that differs by more than this share is not of the request that we see."""
_SCALE_MIN: Final = 0.3
"""Neither is one that would make our counts three times as small or as large."""


class Tokens(msgspec.Struct, frozen=True):
    """The size of the request, as the provider will count it."""

    total: int
    """All of it."""
    messages: int
    """The messages."""
    system: int
    """The system prompt."""
    tools: int
    """The declarations of the tools."""
    hidden: int
    """Measured by the provider beyond what we see."""
    basis: Literal["measured", "exact", "estimated"]
    """`measured`: starts from a size the provider reported. `exact`: the model's own vocabulary."""
    factor: float
    """The provider's count for one token of ours."""
    per_result: float
    """Tokens that the provider counts beside the text of each tool result."""
    counter: str
    """The name of our counter."""


class ViewLimits(msgspec.Struct, frozen=True):
    """The sizes of messages that a view is measured by."""

    compact_at: int
    """Beyond it, the view is cut."""
    warn_at: int
    """From it on, a plan has a warning: one more turn may reach `compact_at`."""


class Plan(msgspec.Struct, frozen=True, dict=True):
    """A request that fits, the reasons for its shape, and the records that keep it that way."""

    prompt: Prompt
    """The request, in no provider's dialect."""
    tokens: Tokens
    """Its size, by parts."""
    budget: Budget
    """The room for messages, and how it was found."""
    window: Window
    """The model's context window."""
    target: Target
    """The model and API that it is for."""
    repairs: tuple[ViewRepair, ...]
    """Flaws of the log that were mended for it."""
    decisions: tuple[Record, ...]
    """Records to append before the request is sent."""
    tokens_before: int
    """The size of the messages if nothing had been decided."""
    protected_cut: int
    """The number of protected steps that a forced cut took, too."""
    reasoning: tuple[str, ...]
    """The replies whose reasoning is in the request, oldest first."""
    _limits: Callable[[], ViewLimits]
    _prefixes: Callable[[], Prefixes]
    _draft: ViewDraft
    _records: Sequence[Record]

    @functools.cached_property
    def limits(self) -> ViewLimits:
        """The sizes of messages at which a person is warned, and at which the view is cut; of the
        view as it was before this plan, as `tokens_before` is."""
        return self._limits()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Troubles that a person should know of."""
        fill = _fill_warning(self.tokens_before, self.limits)
        return tuple(filter(None, (self.window.warning, fill)))

    @property
    def prefixes(self) -> Prefixes:
        """The digests of the request, by which the next one knows that it goes on from this
        one."""
        return self._prefixes()

    @property
    def origin(self) -> SentRequest:
        """The request as the record of its reply has it."""
        newest = self._records[-1].id if self._records else ""
        return self.prefixes.make_origin(self.reasoning[-1] if self.reasoning else "", newest)

    @property
    def records(self) -> Sequence[Record]:
        """The records that the plan was made from, oldest first."""
        return self._records

    @property
    def parts_sent(self) -> list[MessagePart]:
        """The parts of the request, with the records that they are from."""
        return [part for unit in self._draft.shown() for part in unit.parts]

    @property
    def units(self) -> list[ContextUnit]:
        """The view as it was before this plan: each user message, each step."""
        return self._draft.units

    @property
    def units_kept(self) -> list[ContextUnit]:
        """The units that are in the request."""
        return self._draft.units[self._draft.start :]

    @property
    def lacks_question(self) -> bool:
        """True where a note stands for a message of the user that the provider wants."""
        return bool(self._draft.closing)

    @property
    def is_cut(self) -> bool:
        """True where the request begins after a cut, made now or earlier."""
        return self._draft.summary is not None or self._draft.view.boundary is not None

    @property
    def opening_units(self) -> list[ContextUnit]:
        """The units that stand for what was cut, as they are sent."""
        return self._draft.shown()[: len(self._draft.opening)]

    @property
    def units_sent(self) -> list[ContextUnit]:
        """`units_kept` as they are sent: some may be shortened."""
        first = len(self._draft.opening)
        return self._draft.shown()[first : first + len(self.units_kept)]

    @functools.cached_property
    def ledger(self) -> tuple[LedgerLine, ...]:
        """A line for every record, and for every text that was added beside them."""
        return write_ledger(self._draft, self._records, self.repairs)


def project(request: ProjectionRequest, cache: ProjectionCache | None = None) -> Plan:
    """Turn the log into the next model request.

    A `cache` that is passed to one projection of a session after the other makes them fast; it
    never changes their result. Raises `CannotFit`, with the sums, where no request fits.
    """
    cache = cache or ProjectionCache()
    request = msgspec.structs.replace(request, records=with_ids(request.records))
    window, target, policy = request.window, request.target, request.policy
    view = cache.read(
        request.records,
        window,
        target,
        request.system,
        request.tools,
        request.way_back,
    )
    learned = Correction(view.calibration.factor, view.calibration.per_result)
    system_tokens = learned.tokens(Weight(cache.scale.text(request.system)))
    tools_tokens = learned.tokens(Weight(cache.scale.tools(request.tools)))
    anchor = _anchor(view, cache, learned, system_tokens + tools_tokens)
    correction = learned if anchor is None else anchor.correction
    budget = budget_for(
        window,
        system=system_tokens,
        tools=tools_tokens,
        hidden=0 if anchor is None else anchor.hidden,
        output=request.output_tokens,
        is_anchored=anchor is not None,
        floor=request.floor,
        at_most=request.at_most,
    )
    draft = ViewDraft(view, request, cache, correction, budget.tokens)
    before = draft.total
    # For those who ask. What is decided below changes the sizes.
    limits = functools.partial(_limits, draft.units, list(draft.sizes), budget, policy)
    fit_media(draft, cache.scale, target.dialect, window)
    fit_count(draft, target.dialect, policy, budget.tokens)
    if request.pressure in CUT_REASONS:
        cut_now(draft, budget, policy, CUT_REASONS[request.pressure])
    elif request.pressure == "usual":
        static = system_tokens + tools_tokens + budget.hidden
        advise(draft, budget, policy, request.prompt_cache, static=static)
    _force(draft, request, cache, budget, _room_after_a_cut(budget, learned, correction))

    protected_cut = count_cut_steps(draft, policy)
    if protected_cut:
        draft.reasons.insert(0, f"{protected_cut:,} protected steps had to go, too")
    # The budget keeps room for all of the system prompt and the tools: the next request may have
    # others than the measured one. The sizes are those that were measured.
    share = 1.0 if anchor is None else anchor.share
    system_tokens, tools_tokens = round(share * system_tokens), round(share * tools_tokens)
    shown, opened = _open_with_user(draft.shown())
    decisions = draft.decisions(window, before)
    messages, prefixes, reasoning = _behind_own_prefix(
        cache.join(shown), request, view, is_same=not decisions and not draft.closing
    )
    if decisions:
        ended = len({message.record for message in messages} & (view.reasoning - set(reasoning)))
        decisions = tuple(_with_reasoning(made, ended) for made in decisions)
    return Plan(
        prompt=Prompt(
            messages=tuple(messages),
            system=request.system,
            tools=tuple(request.tools),
            output_tokens=budget.output_reserve,
            stable=_stable(messages, has_summary=bool(draft.opening)),
        ),
        tokens=Tokens(
            total=draft.total + system_tokens + tools_tokens + budget.hidden,
            messages=draft.total,
            system=system_tokens,
            tools=tools_tokens,
            hidden=budget.hidden,
            basis=_basis(cache, is_anchored=anchor is not None),
            factor=round(correction.factor, 4),
            per_result=round(correction.per_result, 2),
            counter=cache.scale.counter.name,
        ),
        budget=budget,
        window=window,
        target=target,
        repairs=(*draft.repairs, *opened, *_close_with_note(draft)),
        decisions=decisions,
        tokens_before=before,
        protected_cut=protected_cut,
        reasoning=reasoning,
        _limits=limits,
        _prefixes=prefixes,
        _draft=draft,
        _records=request.records,
    )


def _behind_own_prefix(
    messages: list[Message], request: ProjectionRequest, view: View, *, is_same: bool
) -> tuple[list[Message], Callable[[], Prefixes], tuple[str, ...]]:
    """Messages with the reasoning that stands behind its own prefix, their digests, and the
    records of that reasoning. Where the view was shortened, what comes after has lost its own."""
    prefixes, valid = view.prefixes, view.reasoning
    if not is_same:
        prefixes = prefixes_later(messages, request.system, request.tools, request.target)
        replies = view.replies
        valid = provable(messages, prefixes(), replies, request.target) if replies else frozenset()
        messages = [
            message if message.record in valid else _without_reasoning(message)
            for message in messages
        ]
    order = [message.record for message in messages if message.record in valid] if valid else ()
    return messages, prefixes, tuple(order)


def _without_reasoning(message: Message) -> Message:
    kept = tuple(block for block in message.blocks if not isinstance(block, Thinking))
    if len(kept) == len(message.blocks):
        return message
    return msgspec.structs.replace(message, blocks=kept or (Text("…"),))


def _with_reasoning(made: Record, ended: int) -> Record:
    """A decision with the number of replies whose reasoning ends with it."""
    if not ended or not isinstance(made, Compaction | Prune):
        return made
    return msgspec.structs.replace(made, reasoning=ended)


def _force(
    draft: ViewDraft,
    request: ProjectionRequest,
    cache: ProjectionCache,
    budget: Budget,
    room: int,
) -> None:
    """Make a draft fit, now and when the next projection reads and weighs it."""
    for _ in range(2):  # read again, the rest may pair calls differently
        force(draft, budget, request.policy, room)
        draft.settle()
    before = -1
    while draft.total != before and (over := _next_excess(draft, request, cache)) > 1:
        before = draft.total
        press(draft, budget, request.policy, min(before - 1, int(before / over)))
        draft.settle()
    assert draft.total <= budget.tokens


def _next_excess(draft: ViewDraft, request: ProjectionRequest, cache: ProjectionCache) -> float:
    """Return the size that the next projection sees, as a share of the budget that it has.

    Without a decision it sees what this one does, and the share is 0.
    """
    if draft.summary is None and draft.forms == draft.view.forms:
        return 0.0
    learned = Correction(draft.calibration.factor, draft.calibration.per_result)
    budget = budget_for(
        request.window,
        system=learned.tokens(Weight(cache.scale.text(request.system))),
        tools=learned.tokens(Weight(cache.scale.tools(request.tools))),
        output=request.output_tokens,
        floor=request.floor,
        at_most=request.at_most,
    )
    shown, _opened = _open_with_user(draft.shown())
    return sum(learned.tokens(cache.scale.unit(unit)) for unit in shown) / budget.tokens


def _room_after_a_cut(budget: Budget, learned: Correction, correction: Correction) -> int:
    """Return the tokens that the view may take now so that it still fits when it is weighed
    again: after a cut, the provider's measurement is of something else."""
    if correction is learned:
        return budget.tokens
    again = msgspec.structs.replace(budget, ratio=RATIO_ESTIMATED, hidden=0).tokens
    return int(again * min(1.0, correction.factor / learned.factor))


def _limits(
    units: Sequence[ContextUnit], sizes: Sequence[int], budget: Budget, policy: Policy
) -> ViewLimits:
    """Return the limits of a view, of which each turn that is in it may come again."""
    bounds = [*turns_of(units), len(units)]
    largest = max((sum(sizes[start:end]) for start, end in pairwise(bounds)), default=0)
    return ViewLimits(policy.full_at(budget.tokens), policy.warn_at(budget.tokens, largest))


def _fill_warning(tokens: int, limits: ViewLimits) -> str:
    """Return the warning about a view that the next turn may fill; empty if there is room."""
    if tokens <= limits.warn_at:
        return ""
    return (
        f"the messages take {tokens:,} tokens; the view is compacted when they take "
        f"{limits.compact_at:,}"
    )


def _open_with_user(shown: list[ContextUnit]) -> tuple[list[ContextUnit], list[ViewRepair]]:
    """Units that begin with the user."""
    opened = open_with_user(shown)
    return opened, [] if opened is shown else [ViewRepair("no-opening", shown[0].first)]


def _close_with_note(draft: ViewDraft) -> list[ViewRepair]:
    """Close the view with a note where the next user message is missing."""
    units = draft.units or draft.opening
    return [ViewRepair("no-question", units[-1].first if units else "")] if draft.closing else []


class _Anchor(msgspec.Struct, frozen=True):
    """The difference between the provider's measurement and our count."""

    correction: Correction
    """Makes our sizes add up to the measured one."""
    hidden: int
    """Tokens that every request has beside our count."""
    share: float
    """The part of the system prompt and the tools that was measured: below 1 where the provider
    counts less, as a model does whose template has no place for tools."""


def _anchor(view: View, cache: ProjectionCache, learned: Correction, static: int) -> _Anchor | None:
    """From the last reported size; None where that was of something else than we see."""
    call = view.last_call
    if call is None:
        return None
    opening = len(view.opening)
    sent = cache.weigh_first((*view.opening, *view.units), view.forms, opening + call.unit)
    seen = learned.tokens(sent)
    beyond = call.usage.prompt - static - seen
    if abs(beyond) > max(_HIDDEN_TOKENS, _ANCHOR_SHARE * call.usage.prompt):
        return None
    # A few tokens are wrapping that is always there; more than that is in proportion, and goes
    # when messages go.
    hidden = min(max(0, beyond), _HIDDEN_TOKENS)
    # Some of it is due to the system prompt and the tools: a short conversation must not pay for
    # all of that, or its messages would weigh a hundred times what they do, or less than nothing.
    scale = 1.0 + (beyond - hidden) / (static + seen) if static + seen else 1.0
    if not _SCALE_MIN <= scale <= 1 / _SCALE_MIN:
        return None
    if beyond > 0:
        hidden += int((scale - 1.0) * static)
    correction = Correction(learned.factor * scale, learned.per_result * scale)
    return _Anchor(correction, hidden, min(1.0, scale))


def _basis(
    cache: ProjectionCache, *, is_anchored: bool
) -> Literal["measured", "exact", "estimated"]:
    if is_anchored:
        return "measured"
    return "exact" if cache.scale.counter.is_exact else "estimated"


def _stable(messages: Sequence[Message], *, has_summary: bool) -> tuple[int, ...]:
    """Return the stable boundaries: the end of the previous request, and of the summary."""
    backwards = range(len(messages) - 1, 0, -1)
    newest = next((index for index in backwards if messages[index].role == "assistant"), 0)
    ends = {0} if has_summary else set()
    ends |= {newest - 1} if newest else set()
    return tuple(sorted(ends))
