"""Carries the flows of a turn out by hand: on a list, without a session, a store or a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from tests.conversations import said

from holdfast.core.dialects.registry import target
from holdfast.core.flow.effects import (
    AcquireTurn,
    Append,
    CallModel,
    Deny,
    Emit,
    IsTurnRunning,
    NextToolResult,
    Now,
    Outcome,
    Read,
    Sleep,
    StartTools,
)
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.turn.run import RunSettings, RunState
from holdfast.core.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.errors import TurnInProgress

SETTINGS = RunSettings(
    target=target("anthropic", provider="anthropic", model="m"), window=Window(64_000)
)


def call_block(call_id: str, name: str = "look") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


class Hand:
    """Carries a flow out on a list; the answers of the model are given one by one."""

    def __init__(
        self,
        records: Sequence[Record] = (),
        answers: Sequence[Any] = (),
        settings: RunSettings = SETTINGS,
    ) -> None:
        self.records: list[Record] = said(records)
        self.answers = list(answers)
        self.state = RunState(settings, ProjectionCache)
        self.effects: list[str] = []
        self.events: list[Any] = []
        self.denied: tuple[type, ...] = ()
        """Kinds of events that a listener denies."""
        self.calls: list[CallModel] = []
        self.started: list[Any] = []
        self.is_turn_running = False
        self.busy: list[TurnInProgress] = []
        """The answers to the next looks at the lease; then it is free."""
        self.slept: list[float] = []

    def run(self, flow: Any) -> Any:
        value: Any = None
        while True:
            try:
                effect = flow.send(value)
            except StopIteration as done:
                return done.value
            self.effects.append(self._name(effect))
            value = self.perform(effect)

    def of(self, kind: type) -> list[Any]:
        """The events of a kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    def _name(self, effect: Any) -> str:
        if isinstance(effect, Append):
            return "+" + "+".join(record.kind for record in effect.records)
        return type(effect).__name__

    def perform(self, effect: Any) -> Any:
        """Carry one effect out; returns what the flow gets for it."""
        match effect:
            case Read():
                return tuple(self.records)
            case Now():
                return 1_700_000_000.0
            case Append():
                stored = [
                    msgspec.structs.replace(one, id=f"n{len(self.records) + place:04d}")
                    for place, one in enumerate(effect.records)
                ]
                self.records += stored
                return tuple(stored)
            case CallModel():
                self.calls.append(effect)
                return self.answers.pop(0)
            case StartTools():
                self.started += effect.calls
            case NextToolResult():
                return Outcome(self.started.pop().id, "seen")
            case IsTurnRunning():
                return self.is_turn_running
            case AcquireTurn():
                return self.busy.pop(0) if self.busy else None
            case Sleep():
                self.slept.append(effect.seconds)
            case Emit():
                self.events.append(effect.event)
                return Deny("no") if isinstance(effect.event, self.denied) else None
        return None
