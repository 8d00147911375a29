"""The settings of a session's run, and the state that its flows share while it runs."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import WINDOW_FLOOR_TOKENS
from holdfast.core.log.records import Assistant, Compaction, Epoch, Mode, ModelChange
from holdfast.core.models.generation import traits_of
from holdfast.core.models.pace import CacheOffer, Pace, offer_of
from holdfast.core.models.prices import AUTOMATIC, LIFETIMES
from holdfast.core.models.window import budget_for, largest_prompt, output_reserve, window_in
from holdfast.core.outputs.offload import room_for
from holdfast.core.projection.policy import Policy, PromptCache, policy_of
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.refusals import (
    REFUSED,
    as_sent,
    read_left_out,
    read_refused_fields,
)
from holdfast.core.secrets.found import SecretWatch
from holdfast.core.secrets.vault import Vault
from holdfast.core.turn.calls import NO_HOME, lasting_states
from holdfast.core.turn.options import RunOptions
from holdfast.core.window import Window
from holdfast.errors import CannotFit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.dialects.prefix import SentRequest
    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Tool
    from holdfast.core.models.prices import CacheLifetime, Price
    from holdfast.core.models.totals import PriceFor
    from holdfast.core.outputs.offload import Room
    from holdfast.core.projection.project import Plan
    from holdfast.core.projection.request import Pressure
    from holdfast.core.projection.view import ProjectionCache

POOR_SUMMARIES_MAX: Final = 2
"""After so many unusable summaries in a row, the model is not asked for a while."""


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's options together with what follows from the model and the tools."""

    target: Target
    window: Window
    options: RunOptions = RunOptions()
    tools: tuple[Tool, ...] = ()
    safe_to_retry: frozenset[str] = frozenset()
    """The tools whose calls may be run again where their outcome is unknown."""
    gated: frozenset[str] = frozenset()
    """The tools of which a call may need the approval of a person."""
    context_tool: Tool | None = None
    """Reads back what was moved out of the log or cut."""
    floor: int = WINDOW_FLOOR_TOKENS
    """The smallest window to accept."""
    price: Price | None = None
    """The price of the session's own model now."""
    is_price_stated: bool = False
    """The caller states it; it then holds for every call to that model, whenever it was made."""
    list_price: PriceFor = lambda _model, _provider, _at: None
    """The list price of any model, at its provider and at a moment; 0 for now."""
    summary_target: Target | None = None
    summary_window: Window | None = None
    """The target and window of another model for summaries; None for the session's own."""

    def price_for(self, model: str, provider: str = "", at: float = 0.0) -> Price | None:
        """The price of a model: the stated one for the session's own, list prices for others."""
        if self.is_price_stated and model == self.target.model:
            return self.price
        return self.list_price(model, provider, at)


class Bounds(msgspec.Struct, frozen=True):
    """Bounds of a request beside its window, set after another one was refused."""

    at_most: int | None = None
    """Tokens of the whole request."""
    output: int | None = None
    """Tokens of the reply."""
    target: Target | None = None
    """The target with tighter limits."""


def _make_cache(run: RunState) -> ProjectionCache:
    return run.make_cache()


class RunState:
    """The state of one session while its process lives. A crash loses nothing that is here and
    needed afterwards."""

    cache = functools.cached_property(_make_cache)
    """Makes one projection after the other fast. Made by the first, which loads a tokenizer."""

    def __init__(self, settings: RunSettings, make_cache: Callable[[], ProjectionCache]) -> None:
        self.settings = settings
        self.make_cache = make_cache
        self.ceiling: int | None = None
        """A request of this size was refused, and the provider did not state its limit."""
        self.size_refusals = 0
        """Replies that came after refusals for a size, without a limit that was stated."""
        self.answered = 0
        """The largest input that the model answered, as the provider counted it."""
        self.recalled_window = False
        """The window was learned by an earlier run, and no event of this one said so."""
        self.output_cap: int | None = None
        """The longest reply that the provider accepts, from its own error message."""
        self.must_cut = False
        """Cut before the next call: a reply says that the window is full."""
        self.asked_cut: str | None = None
        """The focus of a cut that the model asked for: it comes before the next call."""
        self.is_checkpoint_asked = False
        """The model asked for a checkpoint: it is stored before the next call."""
        self.poor_summaries = 0
        """Unusable summaries in a row; after two, the model is not asked for a while."""
        self.drafts = DraftState()
        """The summary that was written ahead for the next cut."""
        self.flush_tried: str | None = None
        """The boundary after which notes were looked for at the threshold."""
        self.flushed_to = ""
        """The newest record that was read for notes then."""
        self._cut_forced_at: int | None = None
        self.is_fresh = False
        """The next request after a reply goes to a session of its own (fresh mode)."""
        self._learned: Window | None = None
        self.home = NO_HOME
        """The session, and which of the calls in its log it made."""
        self.vault = Vault({})
        """Secrets that are stored as handles."""
        self.secret_watch = SecretWatch(self.vault)
        """Looks for unregistered credentials."""
        self.searches_memory = False
        """Search the memory for everything the user says."""
        self.keeps_outputs = False
        """There is a blob store for large outputs."""
        self.budget_tokens: int | None = None
        """The tokens that the messages of the newest plan may take."""
        self.view_tokens = 0
        """The tokens that they take."""
        self.is_own_loop = False
        """The caller makes the calls: a request has to be whole without headers."""
        self._drops_context_tool = False
        self._refused_fields: tuple[str, ...] = ()
        self.last_sent: SentRequest | None = None
        """The newest request, for a reply that is broken off."""
        self._offer = _cache_offer(settings)
        self._pace = Pace(self._offer)
        self.lifetime = self._offer.start
        """The lifetime of the cached prefix that the newest request asked for."""

    @property
    def policy(self) -> Policy:
        """The policy of the options, by its thresholds."""
        return policy_of(self.options.policy)

    @property
    def options(self) -> RunOptions:
        return self.settings.options

    @property
    def window(self) -> Window:
        """The stated or known window, or the one that the provider stated if that is smaller."""
        learned, stated = self._learned, self.settings.window
        return learned if learned is not None and learned.tokens < stated.tokens else stated

    def learn_window(self, tokens: int, source: str) -> bool:
        """Take over a window that the provider stated; returns True if it is smaller than the
        known one, and neither below the floor nor below what was answered before."""
        least = max(self.settings.floor, self.answered)
        if not least <= tokens < self.window.tokens:
            return False
        if self.settings.window.confidence == "stated":
            source = f"{source}; {self.settings.window.tokens:,} was stated"
        self._learned = Window(tokens, source, "learned")
        return True

    def forget_window(self) -> ModelChange | None:
        """Return to the stated or known window; the record that makes it last, if it changed."""
        if self._learned is None:
            return None
        self._learned = self.ceiling = None
        self.recalled_window = False
        target = self.settings.target
        return ModelChange(model=target.model, provider=target.provider or None)

    def force_cut(self, tokens: int) -> None:
        """Cut before the next call: a request of this size was too large. A request that is no
        larger than one that already forced a cut does not force another, or a server that always
        reports too much would have everything cut away."""
        if self._cut_forced_at is None or tokens >= self._cut_forced_at:
            self.must_cut = True
            self._cut_forced_at = tokens

    def recall_window(self, records: Sequence[Record]) -> None:
        """Take over the window that an earlier run learned, and the sizes that were answered."""
        model = self.settings.target.model
        self.answered = max(self.answered, largest_prompt(records, model))
        window = window_in(records, model)
        if window is not None:
            self.recalled_window = self.learn_window(window.tokens, "learned earlier")

    def boundary_records(
        self, records: Sequence[Record] = (), kept: Sequence[Record] = ()
    ) -> list[Record]:
        """The records to repeat after every boundary: the next run reads only from there. Of
        `records`, what the provider refused of those that are `kept` in view stays left out."""
        target = self.settings.target
        maker = target.provider, target.model
        ids = {record.id for record in kept}
        found = read_left_out(records, *maker)
        left_out = {name: item for name, item in found.items() if name in ids}
        refused: list[Record] = []
        if left_out or self._refused_fields:
            repeated = Epoch(
                cause=REFUSED,
                detail="still left out after a cut",
                media=[name for name, item in left_out.items() if item.what == "media"],
                left_out={name: item.note for name, item in left_out.items() if item.what == "all"},
                fields=list(self._refused_fields),
                provider=target.provider or None,
                model=target.model or None,
            )
            refused.append(repeated)
        learned = self.window_record()
        fresh = [Mode(mode="fresh")] if self.is_fresh else []
        return [
            *fresh,
            *([learned] if learned is not None else []),
            *refused,
            *lasting_states(records, self.home),
        ]

    def window_record(self) -> ModelChange | None:
        """The record of a learned window, for the next run; None where nothing was learned."""
        if self._learned is None:
            return None
        target = self.settings.target
        return ModelChange(
            model=target.model, provider=target.provider or None, window=self._learned.tokens
        )

    def plan(
        self,
        records: Sequence[Record],
        now: float,
        bounds: Bounds | None = None,
        *,
        pressure: Pressure = "usual",
        prose: str = "",
        pending: Sequence[str] = (),
        output: int | None = None,
    ) -> Plan:
        """Project the next request after `records`."""
        from holdfast.core.projection.project import project  # not to open a session

        request = self.request(
            records,
            now,
            bounds,
            pressure=pressure,
            prose=prose,
            pending=pending,
            output=output,
        )
        try:
            plan = project(request, self.cache)
        except CannotFit:
            if request.tools == self.settings.tools:
                raise
            # The tool `context` must not cost the turn. Once left out it stays so:
            # coming and going would change the prefix each time.
            self._drops_context_tool = True
            plan = project(msgspec.structs.replace(request, tools=self.settings.tools), self.cache)
        self.budget_tokens = plan.budget.tokens
        self.view_tokens = plan.tokens.messages
        self._pace.read(records)
        self.lifetime = self._pace.choose(now)
        return msgspec.structs.replace(plan, target=_ask_for(self.lifetime, plan.target))

    def request(
        self,
        records: Sequence[Record],
        now: float,
        bounds: Bounds | None = None,
        *,
        pressure: Pressure = "usual",
        prose: str = "",
        pending: Sequence[str] = (),
        output: int | None = None,
    ) -> ProjectionRequest:
        """Return everything that the projection of the next request depends on."""
        settings, options, bounds = self.settings, self.options, bounds or Bounds()
        caps = [cap for cap in (bounds.at_most, self.ceiling) if cap is not None]
        if self.must_cut and pressure == "usual":
            pressure = "over"
        target = bounds.target or settings.target
        if self.is_own_loop:
            target = msgspec.structs.replace(target, adds_tools=False)
        self._refused_fields = read_refused_fields(records, target.provider, target.model)
        if self._refused_fields:
            target = msgspec.structs.replace(target, without=self._refused_fields)
        return ProjectionRequest(
            records,
            self.window,
            target,
            system=options.system,
            tools=self._tools(),
            output_tokens=self._output_tokens(
                output or bounds.output or options.limits.output_tokens
            ),
            policy=self.policy,
            prompt_cache=self.prompt_cache(records, now),
            # The floor is for windows that a person chose; the provider's own word is final.
            floor=min(settings.floor, self.window.tokens) if self._learned else settings.floor,
            at_most=min(caps) if caps else None,
            pressure=pressure,
            prose=prose,
            pending=pending,
        )

    def _tools(self) -> tuple[Tool, ...]:
        """The tools of the session and `context`, declared from the first request on: a tool that
        comes later changes the prefix of everything."""
        reader = self.settings.context_tool
        if reader is None or self._drops_context_tool:
            return self.settings.tools
        return (*self.settings.tools, reader)

    def output_room(self) -> Room:
        """The room of a request that one tool result may take."""
        tokens = self.budget_tokens
        if tokens is None:
            tokens = budget_for(self.window, floor=0).tokens
        return room_for(tokens, self.cache.scale.counter)

    def _output_tokens(self, wanted: int | None) -> int | None:
        """The tokens to reserve for the reply: no more than the model can give."""
        caps = [cap for cap in (self.output_cap, self.settings.target.output_max) if cap]
        if not caps:
            return wanted
        return min(output_reserve(self.window) if wanted is None else wanted, *caps)

    def prompt_cache(self, records: Sequence[Record], now: float) -> PromptCache:
        """The state of the provider's prompt cache at this moment."""
        price, offer = self.settings.price, self._offer
        last = next((rec for rec in reversed(records) if isinstance(rec, Assistant)), None)
        self._pace.read(records)
        newest = self._pace.newest
        # What the newest request asked for is what is kept now; the next one may ask for another.
        asked = self.lifetime if newest is None else self._pace.asked
        next_asked = self._pace.choose(now) or asked
        is_other = last is not None and last.model not in (None, "", self.settings.target.model)
        return PromptCache(
            idle_seconds=None if newest is None else max(0.0, now - newest.at),
            ttl_seconds=asked.seconds if asked is not None else None,
            read=offer.read if asked is not None else 1.0,
            write=max(offer.read, next_asked.write) if next_asked is not None else 1.0,
            is_broken=is_other,
            step_tokens=price.tiers[0].above if price is not None and price.tiers else None,
        )


def _ask_for(lifetime: CacheLifetime | None, target: Target) -> Target:
    if target.cache != "auto" or lifetime is None or lifetime.request == "automatic":
        return target
    return msgspec.structs.replace(target, cache=lifetime.name)


def _cache_offer(settings: RunSettings) -> CacheOffer:
    """The lifetimes that a run may choose from: the one that its caller states, or all."""
    target = settings.target
    if target.cache == "none":
        return CacheOffer()
    offer = offer_of(traits_of(target.provider, target.model), settings.price)
    if target.cache == "auto":
        return offer if offer.lifetimes else CacheOffer((AUTOMATIC,), offer.read)
    stated = [each for each in offer.lifetimes if each.name == target.cache]
    return CacheOffer(tuple(stated or (LIFETIMES[target.cache],)), offer.read)


def cut_in(plan: Plan) -> Compaction | None:
    """The compaction among a plan's decisions, if there is one."""
    return next((made for made in plan.decisions if isinstance(made, Compaction)), None)


def without_refused(
    run: RunState, records: Sequence[Record], log: Sequence[Record]
) -> list[Record]:
    """Return records without what the model refused by the `log`, for texts from them."""
    target = run.settings.target
    return as_sent(records, read_left_out(log, target.provider, target.model))


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
