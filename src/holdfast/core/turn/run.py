"""What a session's flows share: the terms it runs on, and what was learned while it ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.core.limits import WINDOW_FLOOR_TOKENS
from holdfast.core.log.records import Assistant, Compaction, Mode, Model
from holdfast.core.log.refs import holds_outputs
from holdfast.core.models.prices import price_of
from holdfast.core.models.window import Window, budget_for, output_reserve
from holdfast.core.outputs.offload import room_for
from holdfast.core.projection.policy import Cache, Policy
from holdfast.core.projection.project import project
from holdfast.core.secrets.vault import Vault
from holdfast.errors import BadSetting, CannotFit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Tool
    from holdfast.core.models.prices import Price
    from holdfast.core.models.usage import Usage
    from holdfast.core.outputs.offload import Room
    from holdfast.core.projection.project import Plan, Pressure
    from holdfast.core.projection.view import Remembered

_TTL_SECONDS: Final = {"5m": 300.0, "1h": 3_600.0}


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is run. Made once, checked once."""

    target: Target
    window: Window
    system: str = ""
    tools: tuple[Tool, ...] = ()
    output_tool: Tool | None = None
    """What reads an output back that was moved out; offered once there is one."""
    output_tokens: int | None = None
    """What a reply may take; a part of the window where nobody says."""
    policy: Policy = Policy()
    floor: int = WINDOW_FLOOR_TOKENS
    price: Price | None = None
    summary: Literal["model", "extract"] = "model"
    """Who writes about what is cut: a model, beside what code leaves, or code alone."""
    summary_target: Target | None = None
    summary_window: Window | None = None
    """Another model for summaries; the session's own where there is none."""
    summary_calls: int = 3
    """The most a compaction may ask of it."""
    summary_tokens: int = 1_500
    summary_seconds: float = 120.0
    notes: Literal["extract", "model", "off"] = "extract"
    """Who says what is worth noting before a cut."""
    checkpoints: Literal["cuts", "turns", "off"] = "cuts"
    """When what the session is doing is stored as a state: before each cut, or also after each turn
    and when it is closed."""
    steps: int = 50
    """Steps of one turn, at most."""
    recovery_calls: int = 4
    """Calls beyond the first that one answer may take to get through."""
    waits: int = 4
    wait_seconds: float = 60.0
    """How often, and for how long at most, a provider that is busy is waited for."""

    def price_for(self, model: str) -> Price | None:
        """What a model costs: as was stated for the session's own, by list price for others."""
        return self.price if model == self.target.model else price_of(model)

    def __post_init__(self) -> None:
        for name in ("summary_calls", "steps", "recovery_calls", "waits"):
            least = 1 if name in ("steps", "summary_calls") else 0
            if getattr(self, name) < least:
                raise BadSetting(
                    f"`{name}` cannot be {getattr(self, name)}", hint=f"give at least {least}"
                )


class Bounds(msgspec.Struct, frozen=True):
    """What a request must keep to beside its window, because another one was refused."""

    at_most: int | None = None
    """Tokens of the whole request."""
    output: int | None = None
    """Tokens of the reply."""
    target: Target | None = None
    """The target with tighter limits."""


class Course:
    """One session while its process lives. Nothing here is needed to go on after a crash."""

    def __init__(self, terms: Terms, memory: Remembered) -> None:
        self.terms = terms
        self.memory = memory
        self.ceiling: int | None = None
        """A request of this size was refused, and nobody said what would not be."""
        self.output_cap: int | None = None
        """The provider said that a reply may not take more."""
        self.is_pressed = False
        """A reply said that the window is full, whatever we reckon."""
        self.poor_summaries = 0
        """In a row; two of them, and the model is not asked for a while."""
        self._pressed_at: int | None = None
        self.is_fresh = False
        """Whether the next request after an answer goes to a session of its own."""
        self.running: set[str] = set()
        """Tool calls that are being carried out: they have no result yet, and were not
        interrupted."""
        self._learned: Window | None = None
        self.vault = Vault({})
        """Values that are stored as handles."""
        self.lately: Callable[[Sequence[Record]], Sequence[tuple[str, str]]] = _nothing
        """The lines of the running summary after some records, each with the record it is of."""
        self.recalls = False
        """Whether memory is asked about what the user says."""
        self.keeps_outputs = False
        """Whether there is a place to move large outputs to."""
        self._budget_tokens: int | None = None
        self._reads_back = False

    @property
    def window(self) -> Window:
        """The window that counts: what was stated or known, unless the provider said less."""
        learned, stated = self._learned, self.terms.window
        return learned if learned is not None and learned.tokens < stated.tokens else stated

    def learn_window(self, tokens: int, source: str) -> bool:
        """Take the provider's word for it; whether that is news."""
        before = self.window.tokens
        if tokens >= before:
            return False
        self._learned = Window(tokens, source, "learned")
        return True

    def press(self, tokens: int) -> None:
        """Cut before the next call: a request of this size was too much. What is no larger than
        what was cut for that reason before is not cut again, or a server that always reports too
        much would have everything cut for ever."""
        if self._pressed_at is None or tokens >= self._pressed_at:
            self.is_pressed = True
            self._pressed_at = tokens

    def recall_window(self, records: Sequence[Record]) -> None:
        """What an earlier run learned."""
        for record in reversed(records):
            if isinstance(record, Model) and record.model == self.terms.target.model:
                if record.window is not None and record.window > 0:
                    self.learn_window(record.window, "learned from the provider")
                return

    def standing(self) -> list[Record]:
        """What every boundary repeats, or the next run would not see it behind it."""
        learned = self.window_record()
        fresh = [Mode(mode="fresh")] if self.is_fresh else []
        return [*fresh, *([learned] if learned is not None else [])]

    def window_record(self) -> Model | None:
        """What has to be in the log for the next run to know it too."""
        if self._learned is None:
            return None
        target = self.terms.target
        return Model(
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
        """The next request after `records`."""
        terms, bounds = self.terms, bounds or Bounds()
        most = [one for one in (bounds.at_most, self.ceiling) if one is not None]
        if self.is_pressed and pressure == "usual":
            pressure = "cut"
        options: dict[str, Any] = {
            "system": terms.system,
            "tools": self._tools(records),
            "output_tokens": self._output(output or bounds.output or terms.output_tokens),
            "policy": terms.policy,
            "cache": self.cache(records, now),
            # The floor is for windows that somebody chose; the provider's own word is final.
            "floor": min(terms.floor, self.window.tokens) if self._learned else terms.floor,
            "at_most": min(most) if most else None,
            "pressure": pressure,
            "prose": prose,
            "pending": pending,
            "lately": lambda: self.lately(records),
            "memory": self.memory,
        }
        target = bounds.target or terms.target
        try:
            plan = project(records, self.window, target, **options)
        except CannotFit:
            if options["tools"] == terms.tools:
                raise
            # To be able to read back must not cost the turn.
            plan = project(records, self.window, target, **{**options, "tools": terms.tools})
        self._budget_tokens = plan.budget.tokens
        return plan

    def _tools(self, records: Sequence[Record]) -> tuple[Tool, ...]:
        """The tools of the session; once something was moved out, one to read it as well."""
        reader = self.terms.output_tool
        # Once offered it stays: to come and go would break the cached prefix each time.
        self._reads_back = self._reads_back or holds_outputs(records)
        if reader is None or not self._reads_back:
            return self.terms.tools
        return (*self.terms.tools, reader)

    def output_room(self) -> Room:
        """What a tool's result may take of a request."""
        tokens = self._budget_tokens
        if tokens is None:
            tokens = budget_for(self.window, floor=0).tokens
        return room_for(tokens, self.memory.scale.counter)

    def _output(self, wanted: int | None) -> int | None:
        """What to keep free for the reply: no more than the model can give."""
        caps = [cap for cap in (self.output_cap, self.terms.target.output_max) if cap]
        if not caps:
            return wanted
        return min(output_reserve(self.window.tokens) if wanted is None else wanted, *caps)

    def cache(self, records: Sequence[Record], now: float) -> Cache:
        """What is known of the provider's prompt cache at this moment."""
        price, target = self.terms.price, self.terms.target
        last = next((one for one in reversed(records) if isinstance(one, Assistant)), None)
        read, write = (0.1, 1.25)
        if price is not None:
            read = min(1.0, price.cache_read / price.input)
            write = max(read, price.cache_write / price.input)
        is_other = last is not None and bool(last.model) and last.model != target.model
        return Cache(
            idle_seconds=None if last is None or last.ts <= 0 else max(0.0, now - last.ts),
            ttl_seconds=_TTL_SECONDS.get(target.cache, 300.0),
            read=1.0 if target.cache == "none" else read,
            write=max(write, 1.0) if target.cache == "none" else write,
            is_broken=is_other,
        )


def _nothing(_records: Sequence[Record]) -> Sequence[tuple[str, str]]:
    return ()


def cut_in(plan: Plan) -> Compaction | None:
    """The compaction that a plan wants to have appended."""
    found = [one for one in plan.decisions if isinstance(one, Compaction)]
    return found[0] if found else None


def cost_of(usage: Usage | None, price: Price | None) -> float | None:
    """What a call cost, in dollars, by list price."""
    if usage is None or price is None:
        return None
    hourly = price.cache_write_hour if price.cache_write_hour is not None else price.cache_write
    tokens = (
        usage.uncached * price.input
        + usage.cached_read * price.cache_read
        + (usage.cached_write - usage.cached_write_1h) * price.cache_write
        + usage.cached_write_1h * hourly
        + (usage.output or 0) * price.output
    )
    return tokens / 1_000_000
