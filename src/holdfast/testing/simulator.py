"""The third driver: it carries flows out in a world that can end before or after any effect.

A `SimulatedSession` is a session whose process can be killed at a chosen point. Nothing is tidied
up when that happens, as nothing is when a real process dies: what the store had acknowledged is all
there is. Time is simulated, waiting takes none, and tools run one after the other in an order that
a seed decides, so that every run can be had again.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec

from holdfast.core.flow.effects import NextToolResult, Sleep, StartTools
from holdfast.engine.session.drivers.blocking import BlockingDriver
from holdfast.engine.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.flow.effects import Effect, Flow, Outcome
    from holdfast.core.flow.events import Event
    from holdfast.core.log.ids import CallKey
    from holdfast.core.models.messages import ToolCall
    from holdfast.engine.session.drivers.lease import TurnScope
    from holdfast.ports import Model, OnDelta

T = TypeVar("T")
FIRST_MOMENT: Final = 1_700_000_000.0
"""A date in 2023: any fixed time will do, and it looks like one in a log."""


class Kill(msgspec.Struct, frozen=True):
    """The death of a process: before or after its effect of this number, counted from 1."""

    effect: int
    """The number of the effect."""
    when: Literal["before", "after"] = "before"
    """Before or after that effect."""


class Killed(BaseException):
    """The process is dead. No flow sees this: it is raised to the one who drives the simulation."""

    def __init__(self, kill: Kill, effect: Effect) -> None:
        super().__init__(f"killed {kill.when} effect {kill.effect}, {type(effect).__name__}")
        self.kill = kill
        self.effect = effect


class SimulatedClock:
    """Time that passes only when someone says so, and a little with every look at it."""

    def __init__(self, now: float = FIRST_MOMENT, tick_seconds: float = 0.001) -> None:
        self.now = now
        self._tick = tick_seconds

    def __call__(self) -> float:
        self.now += self._tick
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Simulation:
    """The events so far, and the planned end. One for all sessions of a simulated process."""

    def __init__(
        self,
        kill: Kill | None = None,
        *,
        seed: int = 0,
        is_eager: bool = True,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self.kill = kill
        self.effects: list[Effect] = []
        """Those that were begun, in order."""
        self.waited: list[float] = []
        self.is_dead = False
        self.is_eager = is_eager
        """True if tools that are started run at once, or each when its outcome is asked for: a
        kill then finds all of them done, or only some."""
        self.random = random.Random(seed)  # noqa: S311
        self._sleep = sleep

    def begin(self, effect: Effect) -> None:
        if self.is_dead:
            raise AssertionError("a dead process does nothing")
        self.effects.append(effect)
        self._check(effect, "before")

    def end(self, effect: Effect) -> None:
        self._check(effect, "after")

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        if self._sleep is not None:
            self._sleep(seconds)

    def _check(self, effect: Effect, when: Literal["before", "after"]) -> None:
        kill = self.kill
        if kill is not None and kill.effect == len(self.effects) and kill.when == when:
            self.is_dead = True
            raise Killed(kill, effect)


class Simulated(BlockingDriver):
    """Carries a flow out until the simulation ends it."""

    def __init__(self, simulation: Simulation, *args: Any) -> None:
        super().__init__(*args)
        self._simulation = simulation
        self._started: list[tuple[ToolCall, CallKey]] = []
        self._outcomes: list[Outcome] = []

    def run(self, flow: Flow[T]) -> T:
        try:
            return super().run(flow)
        finally:
            if self._simulation.is_dead:
                flow.close()

    def perform(self, effect: Effect) -> Any:
        simulation = self._simulation
        simulation.begin(effect)
        match effect:
            case StartTools():
                self._begin(effect)
                value = None
            case NextToolResult():
                value = self._next()
            case Sleep():
                simulation.wait(effect.seconds)
                value = None
            case _:
                value = super().perform(effect)
        simulation.end(effect)
        return value

    def error_for_flow(self, raised: BaseException) -> BaseException:
        """The exception to raise into the flow; a dead process raises nothing there."""
        if isinstance(raised, Killed):
            raise raised
        return super().error_for_flow(raised)

    def _begin(self, started: StartTools) -> None:
        shuffled = list(zip(started.calls, started.keys, strict=True))
        self._simulation.random.shuffle(shuffled)
        self._started += shuffled
        if self._simulation.is_eager:
            self._outcomes += [self._run(*call) for call in shuffled]
            self._started.clear()

    def _next(self) -> Outcome:
        if not self._outcomes:
            self._outcomes.append(self._run(*self._started.pop(0)))
        return self._outcomes.pop(0)


class SimulatedSession(Session):
    """A session in a process that can be killed; open it like any other, then `simulate`."""

    simulation: Simulation | None = None
    """The simulation it runs in, once `simulate` has begun."""

    def simulate(self, simulation: Simulation) -> Simulation:
        """From here on everything goes through this simulation."""
        self.simulation = simulation
        return simulation

    def _driver(
        self,
        model: Model,
        on_delta: OnDelta | None,
        watch: Callable[[Event], None] | None,
        scope: TurnScope,
    ) -> BlockingDriver:
        if self.simulation is None:
            self.simulation = Simulation()
        other = self._summariser or model
        return Simulated(self.simulation, self._state.world, model, other, on_delta, watch, scope)
