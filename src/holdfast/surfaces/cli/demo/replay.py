"""Replays a recorded agent session through the whole engine: session, flows, store on disk.

The agent's replies and the results of its tools come from the recording. All else is real:
requests are projected, checked and rendered, the provider's limit is enforced, notes and summaries
are made, every record goes to disk. The scene has each step.

Two replays of a recording are the same: the clock, the record ids and the order of tools that run
side by side depend on the recording alone.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

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
from holdfast.surfaces.cli.demo.recording import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Tool, ToolCall
    from holdfast.core.models.prices import Price
    from holdfast.ports import Appended, OnDelta, SessionStore
    from holdfast.surfaces.cli.demo.recording import Recording

    Show = Callable[["Scene"], None]

KEY: Final = SessionKey("main", "demo")
PRICED_AS: Final = "claude-sonnet-5-5"
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
_FILE_CONTENTS: Final = ("text", "line")
_THE_END: Final[list[Json]] = [{"type": "text", "text": "(The recording ends here.)"}]
_BEHIND_SECONDS: Final = 0.5
"""Shorter pauses make up for a delay of at most this."""
_CUT_REASONS: Final = {
    "full": "full",
    "cold": "cold",
    "overflow": "refused",
    "asked": "asked for",
}


# The agent, its tools and its disk


class WrittenModel:
    """Replies with what is written down; sizes and the prompt cache are those of a real model."""

    def __init__(self, model: Target, tokens: int, price: Price | None) -> None:
        self.target = model
        self.window = Window(tokens, "stated for the demo")
        self.price = price
        self.forget_cache()

    def forget_cache(self) -> None:
        """Drop the prompt cache, as a provider does a few minutes after a call."""
        self._meter = Meter(_COUNTER, self.target)

    def reply(self, request: Json, content: list[Json]) -> Reply:
        has_calls = any(block.get("type") == "tool_use" for block in content)
        return Reply(
            content=content,
            stop="tools" if has_calls else "end",
            stop_reason="tool_use" if has_calls else "end_turn",
            raw_usage=self._meter.usage(request, content),
            provider=self.target.provider,
            model=self.target.model,
        )


class RecordedAgent(WrittenModel):
    """Answers each request that fits its window with the next recorded reply."""

    def __init__(self, recording: Recording, *, stated: int, real: int, done: int) -> None:
        agent = target("anthropic", provider="recording", model="recorded-agent")
        super().__init__(agent, stated, price())
        self.done = done
        """The number of replies so far, by this process and earlier ones."""
        self.last_request: Json = {}
        self.last_text = ""
        self._recording = recording
        self._real = real

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
        return self.reply(request, content)


class ReplayedTool(ToolFunction):
    """Returns the result that a function has for a call."""

    def __init__(self, tool: Tool, run: Callable[[ToolCall], ToolOutput]) -> None:
        super().__init__(run, tool, dict)

    def bind(self, call: ToolCall) -> dict[str, Any]:
        return {"call": call}


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

    def __init__(self, scenario: Scenario, scene: Scene, show: Show) -> None:
        self._scenario = scenario
        self._scene = scene
        self._shown = show
        self._showing = threading.Lock()
        self._recording = load(scenario.recording)
        self._turn = 0
        self._replies = 0
        self._started: list[str] = []
        """Calls without a result, in the order of the reply."""
        self._may_run = threading.Condition()
        self._covered = 0
        self._due = time.monotonic()

    def run(self) -> None:
        recording = self._recording
        # There is one writer, and ids count up: they need no random bits to be unique.
        root = self._scenario.root
        with open_store(root, clock=self._clock, entropy=lambda _bits: 0) as store:
            store.append = partial(self._append, store.append)  # type: ignore[method-assign]
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
                for number, words in enumerate(recording.users[turns:], turns + 1):
                    away = recording.away_seconds[number - 1]
                    if away:
                        agent.forget_cache()
                    self._turn = number
                    self._scene.ask(number, len(recording.users), words, away)
                    self._show()
                    session.say(words)
        self._scene.last_request = _texts(agent.last_request)

    def _show(self) -> None:
        """Show the scene; tools run side by side."""
        with self._showing:
            self._shown(self._scene)

    def _append(self, append: Callable[..., Appended], *args: Any, **options: Any) -> Appended:
        """Append, and show what is acknowledged."""
        done = append(*args, **options)
        self._scene.acknowledged += done.ids
        self._show()
        return done

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

    def _run_tool(self, call: ToolCall) -> ToolOutput:
        with self._may_run:
            self._may_run.wait_for(lambda: self._started[:1] == [call.id], _ORDER_SECONDS)
        with open(self._scenario.journal, "a", encoding="utf-8") as journal:
            journal.write(f"{call.id} {call.name}\n")
        shown = [str(value) for name, value in call.arguments.items() if name not in _FILE_CONTENTS]
        self._scene.tools.append(ToolLine(call.id, call.name, title_of(" ".join(shown))))
        self._show()
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
            case events.CallFinished():
                self._replies = agent.done
                self._add_reply(event, agent.last_text)
                self._show()
            case events.CompactionStarted():
                self._covered = event.messages
            case events.ToolStarted():
                self._started.append(event.call.id)
            case _:
                if isinstance(event, events.CallStarted) and event.purpose == "turn":
                    self._scene.calling = self._calling(event, session, agent)
                if isinstance(event, events.ToolFinished):
                    with self._may_run:
                        self._started.remove(event.call.id)
                        self._may_run.notify_all()
                pauses = self._tell(event)
                if pauses is not None:
                    self._show()
                    self._pause(pauses)

    def _tell(self, event: object) -> int | None:
        """Add an event to the scene; returns the pauses that a person needs to read it, or None for
        one that is not shown."""
        scene = self._scene
        match event:
            case events.CallStarted(purpose="turn"):
                return 1
            case events.ToolFinished():
                scene.end_tool(event.call.id, event.chars, is_error=event.is_error)
                return 0
            case events.OutputOffloaded():
                size = f"{event.bytes:,} bytes of {event.kind}"
                what = f"{size}: a preview stays, ref {event.sha256[:REF_CHARS]}"
                scene.add("cut", "offload", what)
                return 4
            case events.Pruned():
                scene.trimmed += event.trimmed
                scene.cleared += event.cleared
                counts = {"trimmed": event.trimmed, "cleared": event.cleared}
                what = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
                size = f"{event.tokens_before:,} → {event.tokens_after:,} tokens"
                scene.add("cut", "prune", f"old results {what}: {size}")
                return 12
            case events.CompactionFinished(outcome="applied"):
                cut = SceneCut(event.record, event.method or "", self._covered)
                scene.compactions.append(cut)
                size = f"{event.tokens_before:,} → {event.tokens_after:,} tokens"
                gone = f"{cut.messages} messages give" if cut.messages else "the summary gives"
                left = f"{gone} way to {_COUNTER.count(event.summary):,}"
                scene.add("cut", "compaction", f"{size}: {left} ({_CUT_REASONS[event.reason]})")
                return 6
            case events.FlushFinished(outcome="saved"):
                scene.notes += event.notes
                for note in event.notes:
                    scene.add("note", "noted", title_of(note))
                return 6
            case events.CallFailed():
                scene.refused += 1
                scene.add("bad", "refused", f"“{title_of(event.failure.message)}”")
                scene.add("note", "guard", f"made smaller and sent again: {event.detail}")
                return 16
            case events.WindowLearned():
                known = f"{event.tokens:,} tokens, not {event.before:,}"
                scene.add("note", "window", f"learned from the refusal: {known}")
                return 12
            case events.Interrupted():
                scene.told += event.calls
                calls = ", ".join(event.calls)
                what = f"the model knows that {calls} was interrupted; not rerun"
                scene.add("good", "told", what)
                return 16
            case events.TroubleNoticed():
                scene.add("bad", "noticed", f"{event.kind}: {event.detail}")
                return 0
            case _:  # the demo shows no other event
                return None

    def _add_reply(self, event: events.CallFinished, text: str) -> None:
        scene, usage = self._scene, event.usage
        prompt = usage.prompt if usage else event.tokens
        scene.cost += event.cost or 0.0
        if event.purpose == "turn":
            cached, output = (usage.cached_read, usage.output or 0) if usage else (0, 0)
            scene.add_reply(prompt, cached, output, text, price())
        else:
            scene.helper_calls += 1
            scene.helper_sent += prompt

    def _calling(
        self, event: events.CallStarted, session: Session, agent: RecordedAgent
    ) -> DemoRequest:
        plan = session.plan()
        parts: defaultdict[str, int] = defaultdict(int)
        parts["fixed"] = plan.tokens.total - plan.tokens.messages
        for line in plan.ledger:
            name = "summary" if line.action == "injected" else _PARTS.get(line.kind)
            if name is not None and line.after:
                parts[name] += line.after
        return DemoRequest(
            call=agent.done + 1,
            tokens=event.tokens,
            limit=event.window,
            parts=dict(parts),
            whole=self._recording.whole[min(agent.done, len(self._recording.whole) - 1)],
        )


def price() -> Price:
    """Return the list price that the demo uses."""
    found = price_of(PRICED_AS)
    assert found is not None, "the catalog has the model"
    return found


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

    scene = new_scene(scenario)

    def show(scene: Scene) -> None:
        os.write(sys.stdout.fileno(), msgspec.json.encode(scene) + b"\n")

    Replay(scenario, scene, show).run()


def new_scene(scenario: Scenario) -> Scene:
    """Return the scene before the first step."""
    title = load(scenario.recording).title
    return Scene(title=title, stated=scenario.stated, real=scenario.real)


Mood = Literal["good", "bad", "cut", "note", "plain"]


class ToolLine(msgspec.Struct):
    """A tool call and its result."""

    call: str
    tool: str
    what: str
    chars: int | None = None
    """None while its call is in the log and its result is not."""
    is_error: bool = False
    is_killed: bool = False


class Happening(msgspec.Struct, frozen=True):
    """A line about something the engine did."""

    call: int
    mood: Mood
    head: str
    text: str


class DemoRequest(msgspec.Struct, frozen=True):
    """A request as it is about to be sent."""

    call: int
    """The number of the recorded reply that it asks for, from 1."""
    tokens: int
    limit: int
    parts: dict[str, int]
    """Tokens by part: fixed (system prompt and tools), summary, user, agent, results."""
    whole: int
    """Tokens of the request if it contained the whole history."""


class SceneCut(msgspec.Struct, frozen=True):
    """A compaction."""

    record: str
    method: str
    messages: int


class Scene(msgspec.Struct, kw_only=True):
    """The demo so far; the killed process sends the whole of it after each step."""

    title: str
    stated: int
    real: int
    turn: int = 0
    turns: int = 0
    words: str = ""
    said: str = ""
    tools: list[ToolLine] = []
    happenings: list[Happening] = []
    calling: DemoRequest | None = None
    calls: int = 0
    """Requests that the agent answered."""
    helper_calls: int = 0
    """Requests for summaries and notes."""
    sent: int = 0
    helper_sent: int = 0
    cached: int = 0
    output: int = 0
    cost: float = 0.0
    largest: int = 0
    sizes: list[int] = []
    """Tokens of each answered request."""
    over_window: int = 0
    """Answered requests that were larger than the provider's window."""
    whole_sent: int = 0
    whole_largest: int = 0
    whole_cached: int = 0
    whole_cost: float = 0.0
    overflow_call: int | None = None
    """The first call at which the whole history no longer fits the provider's window."""
    refused: int = 0
    trimmed: int = 0
    cleared: int = 0
    compactions: list[SceneCut] = []
    notes: list[str] = []
    told: list[str] = []
    acknowledged: list[str] = []
    last_request: list[str] = []
    is_cold: bool = False

    @property
    def cache_share(self) -> float:
        """The share of the input that came from the provider's cache."""
        return self.cached / self.sent if self.sent else 0.0

    def add(self, mood: Mood, head: str, text: str) -> None:
        call = self.calling.call if self.calling else 0
        self.happenings.append(Happening(call, mood, head, text))

    def ask(self, turn: int, turns: int, words: str, away_seconds: float) -> None:
        """Let the user say something, after a pause."""
        self.turn, self.turns, self.words = turn, turns, words
        if away_seconds:
            self.is_cold = True
            minutes = f"{away_seconds / 60:.0f} minutes"
            self.add("plain", "away", f"the user was away for {minutes}: the cache is cold")

    def add_reply(self, prompt: int, cached: int, output: int, text: str, price: Price) -> None:
        """Count a reply, and what a client without compaction would have paid for it."""
        assert self.calling is not None
        self.calls += 1
        self.sent += prompt
        self.cached += cached
        self.output += output
        self.said = title_of(text) or self.said
        self.largest = max(self.largest, prompt)
        self.sizes.append(prompt)
        self.over_window += prompt > self.real
        whole = self.calling.whole
        # Such a client reads its last request from the cache and adds to it.
        before = 0 if self.is_cold else self.whole_largest
        self.is_cold = False
        paid = before * price.cache_read + (whole - before) * price.cache_write
        self.whole_cost += (paid + output * price.output) / 1_000_000
        self.whole_sent += whole
        self.whole_cached += before
        self.whole_largest = whole
        if self.overflow_call is None and whole > self.real:
            self.overflow_call = self.calling.call

    def end_tool(self, call: str, chars: int, *, is_error: bool) -> None:
        line = next((each for each in reversed(self.tools) if each.call == call), None)
        if line is not None:
            line.chars, line.is_error = chars, is_error
