"""Replays a recorded agent session through the whole engine: session, flows, store on disk.

The agent's replies and the results of its tools come from the recording. All else is real:
requests are projected, checked and rendered, the provider's limit is enforced, notes and summaries
are made, every record goes to disk. Frames report each step.

Two replays of a recording are the same: the clock, the record ids and the order of tools that run
side by side depend on the recording alone.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.dialects.registry import target
from holdfast.core.flow import events
from holdfast.core.limits import REF_CHARS
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.listing import title_of
from holdfast.core.log.records import Assistant, User, text_of
from holdfast.core.models.replies import Reply
from holdfast.core.owners import ANY_OWNER
from holdfast.core.text.typed import decode_typed
from holdfast.core.tokens.counting import Estimator
from holdfast.core.turn.options import Limits, Summary
from holdfast.core.window import Window
from holdfast.engine.session.session import Session
from holdfast.engine.tool_values import ToolOutput
from holdfast.engine.tools import ToolFunction
from holdfast.providers.known_models.lookup import price_of
from holdfast.providers.offline.measuring import Meter, PromptTooLong, count_request
from holdfast.providers.offline.model import OfflineModel
from holdfast.stores.opening import open_store
from holdfast.surfaces.cli.demo import frames
from holdfast.surfaces.cli.demo.recording import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.messages import Tool, ToolCall
    from holdfast.core.models.prices import Price
    from holdfast.ports import Appended, OnDelta, SessionStore
    from holdfast.surfaces.cli.demo.recording import Recording

    Emit = Callable[[frames.Frame], None]

KEY: Final = SessionKey("main", "demo")
PRICED_AS: Final = "claude-sonnet-4-6"
"""The model whose list price is used; it is never called."""
_HANG_SECONDS: Final = 600.0
"""The interrupted tool runs until its process is killed."""
_START: Final = 1_767_600_000.0
"""The time of the first record: 5 January 2026, 8:00 UTC."""
_STEP_SECONDS: Final = 5.0
"""The time that each reply takes on the clock of the session."""
_ORDER_SECONDS: Final = 5.0
"""A tool waits this long for the tools before it; more of them than threads must not deadlock."""
_PARTS: Final = {"user": "user", "assistant": "agent", "tool_result": "results"}
_COUNTER: Final = Estimator()
_THE_END: Final[list[Json]] = [{"type": "text", "text": "(The recording ends here.)"}]
_BEHIND_SECONDS: Final = 0.5
"""Shorter pauses make up for a delay of at most this."""
_LINGER: Final[dict[type, int]] = {
    frames.RefusalFrame: 16,
    frames.WindowFrame: 12,
    frames.PruneFrame: 12,
    frames.OffloadFrame: 4,
    frames.CompactionFrame: 6,
    frames.NotesFrame: 6,
    frames.InterruptFrame: 16,
}
"""The number of pauses that a person needs to read a frame."""


# The agent, its tools and its disk


class RecordedAgent:
    """Answers each request that fits its window with the next recorded reply."""

    def __init__(self, recording: Recording, *, stated: int, real: int, done: int) -> None:
        self.target = target("anthropic", provider="recording", model="recorded-agent")
        self.window = Window(stated, "stated for the demo")
        self.price = price()
        self.done = done
        """The number of replies so far, by this process and earlier ones."""
        self.last_request: Json = {}
        self.last_text = ""
        self._recording = recording
        self._real = real
        self._meter = Meter(_COUNTER, self.target)

    def forget_cache(self) -> None:
        """Drop the prompt cache, as a provider does a few minutes after a call."""
        self._meter = Meter(_COUNTER, self.target)

    def next_reply(self) -> list[Json]:
        replies = self._recording.replies
        return list(replies[self.done]) if self.done < len(replies) else _THE_END

    def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:  # noqa: ARG002 - a port
        tokens = count_request(request, _COUNTER)
        if tokens > self._real:
            raise PromptTooLong(tokens, self._real)
        content = self.next_reply()
        self.done += 1
        self.last_request, self.last_text = request, text_of(content)
        has_calls = any(block.get("type") == "tool_use" for block in content)
        return Reply(
            content=content,
            stop="tools" if has_calls else "end",
            stop_reason="tool_use" if has_calls else "end_turn",
            raw_usage=self._meter.usage(request, content),
            provider=self.target.provider,
            model=self.target.model,
        )


class ReplayedTool(ToolFunction):
    """Returns the recorded result of a call."""

    def __init__(self, tool: Tool, run: Callable[[ToolCall], ToolOutput]) -> None:
        super().__init__(run, tool, dict)

    def bind(self, call: ToolCall) -> dict[str, Any]:
        return {"call": call}


def open_acknowledging(address: str, emit: Emit, clock: Callable[[], float]) -> SessionStore:
    """Open a store that emits a frame for every append that it has acknowledged."""
    # There is one writer, and ids count up: they need no random bits to be unique.
    store = open_store(address, clock=clock, entropy=lambda _bits: 0)
    append = store.append

    def append_and_tell(*args: Any, **options: Any) -> Appended:
        done = append(*args, **options)
        emit(frames.StoredFrame(list(done.ids)))
        return done

    store.append = append_and_tell  # type: ignore[method-assign]
    return store


class Scenario(msgspec.Struct, frozen=True):
    """The settings of a replay."""

    root: str
    journal: str
    """A file outside the session that gets a line for every tool that runs."""
    recording: str | None = None
    stated: int = 48_000
    """The window that Holdfast is configured with."""
    real: int = 24_000
    """The window that the provider enforces."""
    pause_seconds: float = 0.0
    """After each call and each tool."""
    hangs: bool = False
    """The interrupted tool does not return, so that the process can be killed."""


class Replay:
    """Continues a session from the end of its log to the end of the recording."""

    def __init__(self, scenario: Scenario, emit: Emit) -> None:
        self._scenario = scenario
        self._emit = emit
        self._recording = load(scenario.recording)
        self._turn = 0
        self._replies = 0
        self._started: list[str] = []
        """Calls without a result, in the order of the reply."""
        self._may_run = threading.Condition()
        self._covered = 0
        self._refused_tokens = 0
        self._due = time.monotonic()

    def run(self) -> None:
        recording = self._recording
        with open_acknowledging(self._scenario.root, self._emit, self._clock) as store:
            records = self._earlier_records(store)
            self._replies = sum(isinstance(record, Assistant) for record in records)
            self._turn = turns = sum(isinstance(record, User) for record in records)
            if not records:
                store.create(KEY, label=recording.title)
            agent = RecordedAgent(
                recording,
                stated=self._scenario.stated,
                real=self._scenario.real,
                done=self._replies,
            )
            with self._session(store, agent) as session:
                session.on(lambda event: self._on_event(event, session, agent))
                if turns:
                    session.resume()
                for number in range(turns, len(recording.users)):
                    if recording.away_seconds[number]:
                        agent.forget_cache()
                    self._ask(number + 1)
                    session.say(recording.users[number])
            self._emit(frames.EndFrame(_texts(agent.last_request)))

    def _earlier_records(self, store: SessionStore) -> list[Record]:
        """Read the records of an earlier process."""
        known = any(info.key == KEY for info in store.sessions(agent=KEY.agent, owner=ANY_OWNER))
        return list(store.read(KEY)) if known else []

    def _session(self, store: SessionStore, agent: RecordedAgent) -> Session:
        recording = self._recording
        tools: list[Any] = [ReplayedTool(tool, self._run_tool) for tool in recording.tools]
        return Session.open(
            KEY.session,
            store=store,
            agent=KEY.agent,
            model=agent,
            summary=Summary(model=OfflineModel(window=self._scenario.real)),
            system=recording.system,
            tools=tools,
            limits=Limits(steps=1_000),
        )

    def _clock(self) -> float:
        """Return the time of the session, which depends only on the progress of the recording."""
        away = sum(self._recording.away_seconds[: self._turn])
        return _START + away + _STEP_SECONDS * self._replies

    def _ask(self, turn: int) -> None:
        recording = self._recording
        self._turn = turn
        away = recording.away_seconds[turn - 1]
        text = recording.users[turn - 1]
        self._emit(frames.TurnFrame(turn, len(recording.users), text, away))

    def _run_tool(self, call: ToolCall) -> ToolOutput:
        with self._may_run:
            self._may_run.wait_for(lambda: self._started[:1] == [call.id], _ORDER_SECONDS)
        with open(self._scenario.journal, "a", encoding="utf-8") as journal:
            journal.write(f"{call.id} {call.name}\n")
        self._emit(frames.ToolStartFrame(call.id, call.name, _arguments(call)))
        if self._scenario.hangs and call.id == self._recording.interrupt:
            time.sleep(_HANG_SECONDS)
        self._pause()
        recorded = self._recording.results.get(call.id)
        if recorded is None:
            return ToolOutput("(The recording has no result of this call.)", is_error=True)
        return ToolOutput(recorded.content, recorded.is_error)

    def _pause(self, times: int = 1) -> None:
        """Wait until the next step is due; a pause after slow work is shorter."""
        if self._scenario.pause_seconds:
            now = time.monotonic()
            self._due = max(self._due, now - _BEHIND_SECONDS) + times * self._scenario.pause_seconds
            time.sleep(max(0.0, self._due - now))

    def _on_event(self, event: object, session: Session, agent: RecordedAgent) -> None:
        match event:
            case events.CallStarted(purpose="turn"):
                self._refused_tokens = event.tokens
                self._emit(self._calling(event, session, agent))
                self._pause()
            case events.CallFinished():
                self._replies = agent.done
                self._emit(_reply_frame(event, agent.last_text))
            case events.CompactionStarted():
                self._covered = event.messages
            case events.ToolStarted():
                self._started.append(event.call.id)
            case _:
                if isinstance(event, events.ToolFinished):
                    with self._may_run:
                        self._started.remove(event.call.id)
                        self._may_run.notify_all()
                frame = self._frame(event)
                if frame is not None:
                    self._emit(frame)
                    self._pause(_LINGER.get(type(frame), 0))

    def _frame(self, event: object) -> frames.Frame | None:
        match event:
            case events.ToolFinished(call=call):
                return frames.ToolEndFrame(call.id, event.record, event.chars, event.is_error)
            case events.OutputOffloaded():
                return frames.OffloadFrame(event.sha256[:REF_CHARS], event.bytes, event.kind)
            case events.Pruned():
                counts = (event.trimmed, event.cleared, event.tokens_before, event.tokens_after)
                return frames.PruneFrame(event.record, *counts)
            case events.CompactionFinished(outcome="applied"):
                return frames.CompactionFrame(
                    event.record,
                    event.method or "",
                    event.reason,
                    self._covered,
                    event.tokens_before,
                    event.tokens_after,
                    _COUNTER.count(event.summary),
                )
            case events.FlushFinished(outcome="saved"):
                return frames.NotesFrame(event.record, list(event.notes))
            case events.CallFailed():
                failure = event.failure
                tokens = self._refused_tokens
                return frames.RefusalFrame(failure.kind, failure.message, event.detail, tokens)
            case events.WindowLearned():
                return frames.WindowFrame(event.tokens, event.before)
            case events.Interrupted():
                return frames.InterruptFrame(list(event.calls))
            case events.TroubleNoticed():
                return frames.TroubleFrame(event.kind, event.detail)
            case _:  # the demo shows no other event
                return None

    def _calling(
        self, event: events.CallStarted, session: Session, agent: RecordedAgent
    ) -> frames.RequestFrame:
        plan = session.plan()
        parts: defaultdict[str, int] = defaultdict(int)
        parts["fixed"] = plan.tokens.total - plan.tokens.messages
        for line in plan.ledger:
            name = "summary" if line.action == "injected" else _PARTS.get(line.kind)
            if name is not None and line.after:
                parts[name] += line.after
        return frames.RequestFrame(
            call=agent.done + 1,
            attempt=event.attempt,
            tokens=event.tokens,
            window=event.window,
            parts=dict(parts),
            whole=self._recording.whole[min(agent.done, len(self._recording.whole) - 1)],
        )


def _reply_frame(event: events.CallFinished, text: str) -> frames.ReplyFrame:
    usage = event.usage
    return frames.ReplyFrame(
        event.purpose,
        usage.prompt if usage else event.tokens,
        usage.cached_read if usage else 0,
        (usage.output or 0) if usage else 0,
        event.cost or 0.0,
        text if event.purpose == "turn" else "",
    )


def price() -> Price:
    """Return the list price that the demo uses."""
    found = price_of(PRICED_AS)
    assert found is not None, "the catalog has the model"
    return found


def _arguments(call: ToolCall) -> str:
    """Return the arguments of a call, without file contents."""
    shown = [str(value) for name, value in call.arguments.items() if name not in ("text", "line")]
    return title_of(" ".join(shown))


def _texts(value: object) -> list[str]:
    """Collect the strings in a JSON value."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for item in value.values() for text in _texts(item)]
        case list() | tuple():
            return [text for item in value for text in _texts(item)]
        case _:  # numbers, booleans and null
            return []


def main() -> None:
    """Run a scenario, given as JSON on stdin; the process is killed before it ends."""
    scenario = decode_typed(sys.stdin.buffer.read(), Scenario)

    def emit(frame: frames.Frame) -> None:
        os.write(sys.stdout.fileno(), frames.encode(frame))

    Replay(scenario, emit).run()
