"""A recorded agent session, replayed through the whole engine: session, flows, store on disk.

The agent says what it said when it was recorded, and its tools return what they returned then. All
else is real: requests are projected, checked and rendered, the provider's limit is enforced, notes
and summaries are made, every record goes to disk. What happens is told in frames.
"""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.flow import events
from holdfast.core.limits import REF_CHARS
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.listing import title_of
from holdfast.core.log.records import Assistant, User, text_of
from holdfast.core.models.dialects import target
from holdfast.core.models.prices import price_of
from holdfast.core.models.replies import Reply
from holdfast.core.models.window import Window
from holdfast.core.tokens.counting import Estimator
from holdfast.engine.session.session import Session
from holdfast.engine.tools import ToolFunction, ToolOutput
from holdfast.providers.offline.measuring import Meter, PromptTooLong, count_request
from holdfast.providers.offline.model import OfflineModel
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.surfaces.cli.demo import frames
from holdfast.surfaces.cli.demo.recording import load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.messages import Tool, ToolCall
    from holdfast.core.models.prices import Price
    from holdfast.ports import Appended, Durability, Hear
    from holdfast.surfaces.cli.demo.recording import Recording

    Emit = Callable[[frames.Frame], None]

KEY: Final = SessionKey("main", "demo")
PRICED_AS: Final = "claude-sonnet-4-5"
"""Whose list price the demo reckons with; no model of that name is asked."""
_HANG_SECONDS: Final = 600.0
"""A tool that will not return before somebody kills it."""
_PARTS: Final = {"user": "user", "assistant": "agent", "tool_result": "results"}
_COUNTER: Final = Estimator()
_THE_END: Final[list[Json]] = [{"type": "text", "text": "(The recording ends here.)"}]
_BEHIND_SECONDS: Final = 0.5
"""How much of a delay is made up for by shorter pauses."""
_LINGER: Final[dict[type, int]] = {
    frames.Refused: 16,
    frames.Learned: 12,
    frames.Pruned: 12,
    frames.MovedOut: 4,
    frames.Compacted: 6,
    frames.Noted: 6,
    frames.Told: 16,
}
"""How many pauses it takes to read what happened."""


# The agent, its tools and its disk


class RecordedAgent:
    """Says what was recorded, one reply after the other, to every request that is not too long."""

    def __init__(self, recording: Recording, *, stated: int, real: int, done: int) -> None:
        self.target = target("anthropic", provider="recording", model="recorded-agent")
        self.window = Window(stated, "stated for the demo")
        self.done = done
        """Replies that were given, by this process or an earlier one."""
        self.last_request: Json = {}
        self.said = ""
        self._recording = recording
        self._real = real
        self._meter = Meter(_COUNTER, self.target)

    def forget_cache(self) -> None:
        """What a provider does a few minutes after the last call."""
        self._meter = Meter(_COUNTER, self.target)

    def next_reply(self) -> list[Json]:
        replies = self._recording.replies
        return list(replies[self.done]) if self.done < len(replies) else _THE_END

    def send(self, request: Json, hear: Hear | None = None) -> Reply:  # noqa: ARG002 - a port
        tokens = count_request(request, _COUNTER)
        if tokens > self._real:
            raise PromptTooLong(tokens, self._real)
        content = self.next_reply()
        self.done += 1
        self.last_request, self.said = request, text_of(content)
        has_calls = any(block.get("type") == "tool_use" for block in content)
        return Reply(
            content=content,
            stop="tools" if has_calls else "end",
            stop_reason="tool_use" if has_calls else "end_turn",
            usage=self._meter.usage(request, content),
            provider=self.target.provider,
            model=self.target.model,
        )


class ReplayedTool(ToolFunction):
    """Returns what the tool returned when it was recorded, and leaves a line that it ran."""

    def __init__(self, tool: Tool, run: Callable[[ToolCall], ToolOutput]) -> None:
        super().__init__(run, tool, dict)

    def bind(self, call: ToolCall) -> dict[str, Any]:
        return {"call": call}


class AcknowledgingStore(JsonlStore):
    """Says which records are durable as soon as the store has said so."""

    def __init__(self, root: str, emit: Emit) -> None:
        super().__init__(root)
        self._emit = emit

    def append(
        self,
        key: SessionKey,
        records: Sequence[Record],
        *,
        expect: str | None,
        durability: Durability = "synced",
    ) -> Appended:
        done = super().append(key, records, expect=expect, durability=durability)
        self._emit(frames.Stored(list(done.ids)))
        return done


class Scenario(msgspec.Struct, frozen=True):
    """How a replay is run."""

    root: str
    journal: str
    """A file that gets a line for every tool that runs: what really happened outside."""
    recording: str | None = None
    stated: int = 48_000
    """The window Holdfast is told."""
    real: int = 24_000
    """The window the provider has."""
    pause_seconds: float = 0.0
    """After each call and each tool."""
    hangs: bool = False
    """Whether the tool that is to be interrupted never returns."""


class Replay:
    """One process's share of the session: from where the log ends to the end of the recording."""

    def __init__(self, scenario: Scenario, emit: Emit) -> None:
        self._scenario = scenario
        self._emit = emit
        self._recording = load(scenario.recording)
        self._turn = 0
        self._covered = 0
        self._refused_tokens = 0
        self._due = time.monotonic()

    def run(self) -> None:
        recording = self._recording
        with AcknowledgingStore(self._scenario.root, self._emit) as store:
            said = self._said(store)
            replies = sum(isinstance(one, Assistant) for one in said)
            turns = sum(isinstance(one, User) for one in said)
            agent = RecordedAgent(
                recording, stated=self._scenario.stated, real=self._scenario.real, done=replies
            )
            with self._session(store, agent) as session:
                session.on(lambda event: self._hear(event, session, agent))
                if turns:
                    self._turn = turns
                    session.resume()
                for number in range(turns, len(recording.users)):
                    if recording.away_seconds[number]:
                        agent.forget_cache()
                    self._ask(number + 1)
                    session.say(recording.users[number])
            self._emit(frames.Finished(_texts(agent.last_request)))

    def _said(self, store: JsonlStore) -> list[Record]:
        """What an earlier process left behind."""
        known = any(info.key == KEY for info in store.sessions(agent=KEY.agent))
        return list(store.read(KEY)) if known else []

    def _session(self, store: JsonlStore, agent: RecordedAgent) -> Session:
        recording = self._recording
        tools: list[Any] = [ReplayedTool(tool, self._run_tool) for tool in recording.tools]
        return Session.open(
            KEY.session,
            store=store,
            agent=KEY.agent,
            label=recording.title,
            model=agent,
            summary_model=OfflineModel(window=self._scenario.real),
            system=recording.system,
            tools=tools,
            price=price(),
            steps=1_000,
            clock=self._clock,
        )

    def _clock(self) -> float:
        """The time of the session: the hours that its user was away pass at once."""
        return time.time() - sum(self._recording.away_seconds[self._turn :])

    def _ask(self, turn: int) -> None:
        recording = self._recording
        self._turn = turn
        away = recording.away_seconds[turn - 1]
        text = recording.users[turn - 1]
        self._emit(frames.Asked(turn, len(recording.users), text, away))

    def _run_tool(self, call: ToolCall) -> ToolOutput:
        with open(self._scenario.journal, "a", encoding="utf-8") as journal:
            journal.write(f"{call.id} {call.name}\n")
        self._emit(frames.ToolBegan(call.id, call.name, _what(call)))
        if self._scenario.hangs and call.id == self._recording.interrupt:
            time.sleep(_HANG_SECONDS)
        self._pause()
        recorded = self._recording.results.get(call.id)
        if recorded is None:
            return ToolOutput("(The recording has no result of this call.)", is_error=True)
        return ToolOutput(recorded.content, recorded.is_error)

    def _pause(self, times: int = 1) -> None:
        """Wait for the time at which the next thing is due; work that was slow is made up for."""
        if self._scenario.pause_seconds:
            now = time.monotonic()
            self._due = max(self._due, now - _BEHIND_SECONDS) + times * self._scenario.pause_seconds
            time.sleep(max(0.0, self._due - now))

    def _hear(self, event: object, session: Session, agent: RecordedAgent) -> None:
        match event:
            case events.CallStarted(purpose="turn"):
                self._refused_tokens = event.tokens
                self._emit(self._calling(event, session, agent))
                self._pause()
            case events.CallFinished():
                self._emit(_answered(event, agent.said))
            case events.CompactionStarted():
                self._covered = event.messages
            case _:
                frame = self._frame(event)
                if frame is not None:
                    self._emit(frame)
                    self._pause(_LINGER.get(type(frame), 0))

    def _frame(self, event: object) -> frames.Frame | None:
        match event:
            case events.ToolFinished(call=call):
                return frames.ToolEnded(call.id, event.record, event.chars, event.is_error)
            case events.OutputOffloaded():
                return frames.MovedOut(event.sha256[:REF_CHARS], event.bytes, event.kind)
            case events.Pruned():
                counts = (event.trimmed, event.cleared, event.tokens_before, event.tokens_after)
                return frames.Pruned(event.record, *counts)
            case events.CompactionFinished(outcome="applied"):
                return frames.Compacted(
                    event.record,
                    event.method or "",
                    event.reason,
                    self._covered,
                    event.tokens_before,
                    event.tokens_after,
                    _COUNTER.count(event.summary),
                )
            case events.FlushFinished(outcome="saved"):
                return frames.Noted(event.record, list(event.notes))
            case events.CallFailed():
                failure = event.failure
                said, tokens = failure.message, self._refused_tokens
                return frames.Refused(failure.kind, said, event.detail, tokens)
            case events.WindowLearned():
                return frames.Learned(event.tokens, event.before)
            case events.Interrupted():
                return frames.Told(list(event.calls))
            case events.TroubleNoticed():
                return frames.Noticed(event.kind, event.detail)
            case _:
                return None

    def _calling(
        self, event: events.CallStarted, session: Session, agent: RecordedAgent
    ) -> frames.Calling:
        plan = session.plan()
        parts: defaultdict[str, int] = defaultdict(int)
        parts["fixed"] = plan.tokens.total - plan.tokens.messages
        for line in plan.ledger:
            name = "summary" if line.action == "injected" else _PARTS.get(line.kind)
            if name is not None and line.after:
                parts[name] += line.after
        return frames.Calling(
            call=agent.done + 1,
            attempt=event.attempt,
            tokens=event.tokens,
            window=event.window,
            parts=dict(parts),
            whole=self._recording.whole[min(agent.done, len(self._recording.whole) - 1)],
        )


def _answered(event: events.CallFinished, text: str) -> frames.Answered:
    usage = event.usage
    return frames.Answered(
        event.purpose,
        usage.prompt if usage else event.tokens,
        usage.cached_read if usage else 0,
        (usage.output or 0) if usage else 0,
        event.cost or 0.0,
        text if event.purpose == "turn" else "",
    )


def price() -> Price:
    """The list price that the demo reckons with."""
    found = price_of(PRICED_AS)
    assert found is not None, "the table has the model"
    return found


def _what(call: ToolCall) -> str:
    """A call's arguments as a person would say them."""
    shown = [str(value) for name, value in call.arguments.items() if name not in ("text", "line")]
    return title_of(" ".join(shown))


def _texts(value: object) -> list[str]:
    """Every text in a JSON value."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for item in value.values() for text in _texts(item)]
        case list() | tuple():
            return [text for item in value for text in _texts(item)]
        case _:
            return []


def main() -> None:
    """The process that will be killed: a scenario as JSON in, frames out."""
    scenario = msgspec.json.decode(sys.argv[1], type=Scenario)

    def emit(frame: frames.Frame) -> None:
        os.write(sys.stdout.fileno(), frames.encoded(frame))

    Replay(scenario, emit).run()
