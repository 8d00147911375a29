"""A recorded agent session, replayed through the whole engine: session, flows, store on disk.

The agent says what it said when it was recorded, and its tools return what they returned then. All
else is real: requests are projected, checked and rendered, the provider's limit is enforced, notes
and summaries are made, every record goes to disk. What happens is told in frames.
"""

from __future__ import annotations

import gzip
import os
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core import events
from holdfast.core.dialects import target
from holdfast.core.facts import title_of
from holdfast.core.findings import Flaw
from holdfast.core.ids import SessionKey
from holdfast.core.messages import Tool, read_blocks, read_pieces
from holdfast.core.prices import price_of
from holdfast.core.records import Assistant, Checkpoint, ToolResult, User, decode, text_of
from holdfast.core.replies import Reply
from holdfast.core.tokens import ANSWER_TOKENS, MESSAGE_TOKENS, Estimator, count_block
from holdfast.core.window import Window
from holdfast.engine.session import Session
from holdfast.engine.tools import ToolFunction, ToolOutput
from holdfast.errors import UsageError
from holdfast.providers.measuring import Meter, PromptTooLong, count_request
from holdfast.providers.offline import OfflineModel
from holdfast.stores.jsonl import JsonlStore
from holdfast.surfaces.cli import demo_frames as frames

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.messages import ToolCall
    from holdfast.core.prices import Price
    from holdfast.core.records import Json, Record
    from holdfast.ports import Appended, Durability, Hear

    Emit = Callable[[frames.Frame], None]

KEY: Final = SessionKey("main", "demo")
PRICED_AS: Final = "claude-sonnet-4-5"
"""Whose list price the demo reckons with; no model of that name is asked."""
SHIPPED: Final = os.path.join(os.path.dirname(__file__), "recording.jsonl.gz")
_HANG_SECONDS: Final = 600.0
"""A tool that will not return before somebody kills it."""
_PARTS: Final = {"user": "user", "assistant": "agent", "tool_result": "results"}
_COUNTER: Final = Estimator()
_BEHIND_SECONDS: Final = 0.5
"""How much of a delay is made up for by shorter pauses."""
_LINGER: Final[dict[type, int]] = {
    frames.Refused: 16,
    frames.Learned: 12,
    frames.Pruned: 12,
    frames.Compacted: 6,
    frames.Noted: 6,
    frames.Told: 16,
}
"""How many pauses it takes to read what happened."""


class Fact(msgspec.Struct, frozen=True):
    """Something that was planted and must not be forgotten."""

    what: str
    text: str


class _State(msgspec.Struct, frozen=True):
    """What a recording says about itself in its first record."""

    title: str = ""
    system: str = ""
    tools: list[Tool] = []
    facts: list[Fact] = []
    interrupt: str = ""
    away_seconds: list[float] = []


class Recording(msgspec.Struct, frozen=True):
    """An agent's session, as somebody recorded it."""

    title: str
    system: str
    tools: tuple[Tool, ...]
    facts: tuple[Fact, ...]
    interrupt: str
    """The call during which the agent is killed."""
    users: tuple[str, ...]
    away_seconds: tuple[float, ...]
    """How long each of the user's messages was in coming."""
    replies: tuple[tuple[Json, ...], ...]
    results: dict[str, ToolResult]
    """By the id of their call."""
    whole: tuple[int, ...]
    """For each reply, what a request with the whole history would have taken."""

    @property
    def calls(self) -> list[str]:
        return list(self.results)


def load(path: str | None = None) -> Recording:
    """Read a recording; without a path, the one that is shipped."""
    path = path or SHIPPED
    try:
        with open(path, "rb") as file:
            data = file.read()
        lines = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).splitlines()
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise UsageError(f"the recording `{path}` cannot be read: {error}") from error
    records = [decode(line) for line in lines if line.strip()]
    flaw = next((one for one in records if isinstance(one, Flaw)), None)
    if flaw is not None:
        raise UsageError(
            f"`{path}` is no recording: {flaw.detail}",
            hint="make one with `python -m holdfast.testing.recorder`, or give a session's log",
        )
    return _read([one for one in records if not isinstance(one, Flaw)], path)


def _read(records: Sequence[Record], path: str) -> Recording:
    state = _State()
    if records and isinstance(records[0], Checkpoint):
        state = msgspec.convert(records[0].state, _State)
    said = [one for one in records if isinstance(one, User | Assistant | ToolResult)]
    results = {one.tool_use_id: one for one in said if isinstance(one, ToolResult)}
    if not results:
        raise UsageError(f"nothing in `{path}` calls a tool: there is nothing to show")
    called = [name for one in said for name in _names(one)]
    tools = state.tools or [Tool(name, parameters=_ANYTHING) for name in dict.fromkeys(called)]
    interrupt = state.interrupt
    if interrupt not in results:
        interrupt = list(results)[len(results) * 3 // 5]
    static = count_request(
        {"system": state.system, "tools": [_as_offered(tool) for tool in tools]}, _COUNTER
    )
    users = tuple(text_of(one.content) for one in said if isinstance(one, User))
    return Recording(
        title=state.title or os.path.basename(path),
        system=state.system,
        tools=tuple(tools),
        facts=tuple(state.facts),
        interrupt=interrupt,
        users=users,
        away_seconds=tuple([*state.away_seconds, *[0.0] * len(users)][: len(users)]),
        replies=tuple(
            tuple(_blocks(one)) for one in said if isinstance(one, Assistant) and one.content
        ),
        results=results,
        whole=tuple(_whole(said, static)),
    )


_ANYTHING: Final = {"type": "object"}


def _whole(said: Sequence[Record], static: int) -> list[int]:
    sizes, total = [], static
    for record in said:
        if isinstance(record, Assistant) and record.content:
            sizes.append(total)
        total += _size(record)
    return sizes


def _size(record: Record) -> int:
    if isinstance(record, ToolResult):
        pieces = read_pieces(record.content)
        return ANSWER_TOKENS + sum(count_block(piece, _COUNTER) for piece in pieces)
    assert isinstance(record, User | Assistant)
    blocks = read_blocks(record.content)
    return MESSAGE_TOKENS + sum(count_block(block, _COUNTER) for block in blocks)


def _blocks(record: Assistant) -> list[Json]:
    content = record.content
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _names(record: Record) -> list[str]:
    if not isinstance(record, Assistant):
        return []
    return [one["name"] for one in _blocks(record) if one.get("type") == "tool_use"]


def _as_offered(tool: Tool) -> Json:
    schema = tool.parameters
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


# The agent, its tools and its disk


class RecordedAgent:
    """Says what was recorded, one reply after the other, to every request that is not too long."""

    def __init__(self, recording: Recording, *, stated: int, real: int, done: int) -> None:
        self.target = target("anthropic", provider="recording", model="recorded-agent")
        self.window = Window(stated, "stated for the demo")
        self.done = done
        """Replies that were given, by this process or an earlier one."""
        self.last_request: Json = {}
        self._recording = recording
        self._real = real
        self._meter = Meter(_COUNTER, self.target)

    def forget_cache(self) -> None:
        """What a provider does a few minutes after the last call."""
        self._meter = Meter(_COUNTER, self.target)

    def send(self, request: Json, hear: Hear | None = None) -> Reply:  # noqa: ARG002 - a port
        tokens = count_request(request, _COUNTER)
        if tokens > self._real:
            raise PromptTooLong(tokens, self._real)
        content = list(self._recording.replies[self.done])
        self.done += 1
        self.last_request = request
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

    def bound(self, call: ToolCall) -> dict[str, Any]:
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


class Plan(msgspec.Struct, frozen=True):
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

    def __init__(self, plan: Plan, emit: Emit) -> None:
        self._plan = plan
        self._emit = emit
        self._recording = load(plan.recording)
        self._turn = 0
        self._covered = 0
        self._refused_tokens = 0
        self._due = time.monotonic()

    def run(self) -> None:
        recording = self._recording
        with AcknowledgingStore(self._plan.root, self._emit) as store:
            said = self._said(store)
            replies = sum(isinstance(one, Assistant) for one in said)
            turns = sum(isinstance(one, User) for one in said)
            agent = RecordedAgent(
                recording, stated=self._plan.stated, real=self._plan.real, done=replies
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
            summary_model=OfflineModel(window=self._plan.real),
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
        with open(self._plan.journal, "a", encoding="utf-8") as journal:
            journal.write(f"{call.id} {call.name}\n")
        self._emit(frames.ToolBegan(call.id, call.name, _what(call)))
        if self._plan.hangs and call.id == self._recording.interrupt:
            time.sleep(_HANG_SECONDS)
        self._pause()
        recorded = self._recording.results[call.id]
        return ToolOutput(recorded.content, recorded.is_error)

    def _pause(self, times: int = 1) -> None:
        """Wait for the time at which the next thing is due; work that was slow is made up for."""
        if self._plan.pause_seconds:
            now = time.monotonic()
            self._due = max(self._due, now - _BEHIND_SECONDS) + times * self._plan.pause_seconds
            time.sleep(max(0.0, self._due - now))

    def _hear(self, event: object, session: Session, agent: RecordedAgent) -> None:
        match event:
            case events.CallStarted(purpose="turn"):
                self._refused_tokens = event.tokens
                self._emit(self._calling(event, session, agent))
                self._pause()
            case events.CallFinished():
                self._emit(_answered(event, self._words(agent)))
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
            whole=self._recording.whole[agent.done],
        )

    def _words(self, agent: RecordedAgent) -> str:
        return text_of(list(self._recording.replies[agent.done - 1])) if agent.done else ""


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
    """The process that will be killed: a plan as JSON in, frames out."""
    plan = msgspec.json.decode(sys.argv[1], type=Plan)

    def emit(frame: frames.Frame) -> None:
        os.write(sys.stdout.fileno(), frames.encoded(frame))

    Replay(plan, emit).run()
