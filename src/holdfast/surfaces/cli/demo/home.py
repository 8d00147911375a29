"""The home that `holdfast serve --demo` shows: ten sessions of two owners, made by the engine.

What users and agents say is written down in `home.toml`; the longest session is the recording of
`holdfast demo`. All else is real: requests, sizes, cuts, costs by the list prices, the call that
waits for a person, the timer, the message that failed, the import. Only the clock is set back, so
that the newest session is an hour old.
"""

from __future__ import annotations

import os
import time
import tomllib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Json
from holdfast.core.models.messages import Tool
from holdfast.core.models.replies import Reply
from holdfast.core.owners import NO_OWNER, NamedOwner
from holdfast.core.queues import INBOX, NewMessage
from holdfast.core.text.typed import convert_typed
from holdfast.core.tokens.counting import Estimator
from holdfast.engine.adoption import SessionAdopter
from holdfast.engine.memory.search import Memory
from holdfast.engine.session.session import Session
from holdfast.engine.timers import Timers
from holdfast.engine.tool_values import ToolOutput
from holdfast.engine.tools import tool
from holdfast.providers.known_models.lookup import price_of
from holdfast.providers.models import model as known_model
from holdfast.stores.opening import open_store
from holdfast.surfaces.cli.demo.recording import load
from holdfast.surfaces.cli.demo.replay import ReplayedTool, WrittenModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.models.messages import ToolCall
    from holdfast.ports import OnDelta, SessionStore
    from holdfast.surfaces.cli.demo.recording import Recording

_SCRIPT: Final = os.path.join(os.path.dirname(__file__), "home.toml")
_RELEASE: Final = "release"
_RELEASE_MODEL: Final = "anthropic:claude-sonnet-5-5"
_RELEASE_WINDOW: Final = 24_000
"""As that of the other sessions of its agent."""
_RELEASE_HOURS: Final = 150.0
_CACHE_SECONDS: Final = 3_600.0
"""A provider forgets a prefix that no one asked for in that time."""
_CALL_SECONDS: Final = 9.0
"""The time that a reply takes on the clock of the demo."""
_FAILED: Final = "Is it the pool again? Checkout is slow."
_REASON: Final = "Your credit balance is too low to access the API. (status 400, billing_error)"
_PRODUCTS: Final = ("trail shoe", "rain shell", "camping stove", "head lamp", "dry bag")


class _Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tool: str
    arguments: Json
    result: str = ""
    recorded: str = ""
    """The call of the recording whose result it gets."""
    rows: int = 0
    """The rows of the table that it returns."""
    failed: bool = False


class _Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    calls: tuple[_Call, ...]
    say: str = ""

    def content(self, ids: Sequence[str]) -> list[Json]:
        """Return the message of the model, whose calls have these ids."""
        said: list[Json] = [{"type": "text", "text": self.say}] if self.say else []
        for call_id, call in zip(ids, self.calls, strict=True):
            about = {"id": call_id, "name": call.tool, "input": call.arguments}
            said.append({"type": "tool_use", **about})
        return said


class _Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    user: str
    answer: str
    steps: tuple[_Step, ...] = ()
    minutes: float = 0.0
    """The pause before the message."""
    parked: bool = False
    """The last call waits for a person, so that the answer is not given yet."""


class _Timer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    when: str
    text: str


class _Talk(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One session of the home."""

    id: str
    label: str
    agent: str
    owner: str
    model: str
    window: int
    hours_ago: float
    turns: tuple[_Turn, ...]
    system: str = ""
    notes: tuple[str, ...] = ()
    """Notes that its agent saved."""
    remembers: bool = False
    """Its agent searches notes and earlier sessions for each message."""
    rewinds: bool = False
    """The message before the last one is taken back."""
    imported: bool = False
    """It is the transcript of another tool."""
    timer: _Timer | None = None


class _Home(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sessions: tuple[_Talk, ...]
    notes: tuple[str, ...]


def _why_refund(amount: int, **_others: object) -> str | None:
    return f"a refund of {amount} euros is above 50" if amount > 50 else None


@tool(approval=_why_refund, retry="safe")
def refund(order: int, amount: int, reason: str) -> str:
    """Give the customer of an order money back."""
    return f"{amount} euros of order {order} go back to the customer's card: {reason}"


class _WrittenAgent(WrittenModel):
    """Says what is written down, for the price of the model whose name it has."""

    def __init__(self, name: str, tokens: int, replies: Iterator[list[Json]]) -> None:
        model = known_model(name).target
        super().__init__(model, tokens, price_of(model.model))
        self._replies = replies

    def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:  # noqa: ARG002 - a port
        return self.reply(request, next(self._replies))


def demo_agents() -> dict[str, Any]:
    """Return the settings of the agents: their windows, and the tool of the call that waits."""
    tools = {"support": (f"{refund.__module__}:{refund.__name__}",)}
    windows = {talk.agent: talk.window for talk in _read_home().sessions}
    return {
        agent: {"window": window, "tools": tools.get(agent, ())}
        for agent, window in windows.items()
    }


class _Clock:
    """The clock of a store whose sessions lie in the past."""

    def __init__(self, now: float) -> None:
        self._now = now
        self.at = now

    def __call__(self) -> float:
        self.at += 0.001
        return self.at

    def go_back(self, hours: float) -> None:
        self.at = self._now - hours * 3_600


def _make_tool(declared: Tool, results: dict[str, ToolOutput], clock: _Clock) -> ReplayedTool:
    """Return a tool that has the results which are written down for its calls."""

    def run(call: ToolCall) -> ToolOutput:
        clock.at += _CALL_SECONDS
        return results[call.id]

    return ReplayedTool(declared, run)


def make_home(root: str) -> None:
    """Write the home into an empty folder."""
    clock = _Clock(time.time())
    recording = load()
    home = _read_home()
    talks = home.sessions
    with open_store(root, clock=clock) as store:
        for talk in sorted(talks, key=lambda talk: -talk.hours_ago):
            clock.go_back(talk.hours_ago)
            if talk.imported:
                _import(store, talk, clock)
            else:
                _Writer(store, talk, recording, clock).write()
        store.notes("main", NO_OWNER).append(list(home.notes), session="", records=())
        clock.go_back(_RELEASE_HOURS)
        _replay(store, recording, clock)
    with open_store(root) as store:  # what is ahead goes by the clock of the machine
        for talk in talks:
            if talk.timer is not None:
                Timers(store).set(
                    SessionKey(talk.agent, talk.id),
                    talk.timer.when,
                    talk.timer.text,
                    owner=NamedOwner(talk.owner),
                    name=talk.timer.name,
                )
        _fail_message(store, next(talk for talk in talks if talk.id == "outage"))


def _read_home() -> _Home:
    with open(_SCRIPT, "rb") as file:
        return convert_typed(tomllib.load(file), _Home)


class _Writer:
    """Writes one session."""

    def __init__(
        self, store: SessionStore, talk: _Talk, recording: Recording, clock: _Clock
    ) -> None:
        self._store, self._talk, self._recording, self._clock = store, talk, recording, clock
        self._results: dict[str, ToolOutput] = {}

    def write(self) -> None:
        talk, key = self._talk, SessionKey(self._talk.agent, self._talk.id)
        owner = NamedOwner(talk.owner)
        self._store.create(key, label=talk.label, owner=owner)
        agent = _WrittenAgent(talk.model, talk.window, self._replies())
        notes = self._store.notes(talk.agent, owner)
        memory = Memory(self._store, notes) if talk.remembers else None
        with Session.open(
            talk.id,
            agent=talk.agent,
            store=self._store,
            owner=talk.owner,
            model=agent,
            system=talk.system,
            tools=self._tools(),
            memory=memory,
            summary="extract",
        ) as session:
            for number, turn in enumerate(talk.turns, 1):
                if talk.rewinds and number == len(talk.turns):
                    session.rewind()
                self._clock.at += turn.minutes * 60
                if turn.minutes * 60 > _CACHE_SECONDS:
                    agent.forget_cache()
                session.say(turn.user)
        if talk.notes:
            notes.append(list(talk.notes), session=talk.id, records=())

    def _replies(self) -> Iterator[list[Json]]:
        for turn_number, turn in enumerate(self._talk.turns):
            for step_number, step in enumerate(turn.steps):
                begun = f"call_{turn_number}{step_number}"
                ids = [f"{begun}{number}" for number in range(len(step.calls))]
                self._results |= zip(ids, map(self._result, step.calls), strict=True)
                self._clock.at += _CALL_SECONDS
                yield step.content(ids)
            if not turn.parked:
                self._clock.at += _CALL_SECONDS
                yield [{"type": "text", "text": turn.answer}]

    def _result(self, call: _Call) -> ToolOutput:
        if call.recorded:
            return ToolOutput(self._recording.results[call.recorded].content, call.failed)
        return ToolOutput(_rows(call.rows) if call.rows else call.result, call.failed)

    def _tools(self) -> list[Any]:
        calls = _calls_of(self._talk)
        examples = {call.tool: call.arguments for call in calls if call.tool != refund.__name__}
        written = [
            _make_tool(_declare(name, arguments), self._results, self._clock)
            for name, arguments in examples.items()
        ]
        return [*written, *([refund] if len(examples) < len({call.tool for call in calls}) else [])]


def _calls_of(talk: _Talk) -> list[_Call]:
    return [call for turn in talk.turns for step in turn.steps for call in step.calls]


def _declare(name: str, arguments: Json) -> Tool:
    kinds = {str: "string", int: "integer"}
    properties = {key: {"type": kinds[type(value)]} for key, value in arguments.items()}
    parameters = {"type": "object", "properties": properties, "required": list(arguments)}
    return Tool(name, f"Run `{name.lower()}`.", parameters)


def _rows(count: int) -> str:
    """Return a table; its figures look like any, and are the same each time."""
    lines = ["number,product,region,amount"]
    for number in range(1, count + 1):
        product = _PRODUCTS[number * number % len(_PRODUCTS)]
        region = ("north", "south", "east", "west")[number * 7 % 4]
        lines.append(f"{number},{product},{region},{number * 7_919 % 90_001 / 100:.2f}")
    return "\n".join(lines)


def _replay(store: SessionStore, recording: Recording, clock: _Clock) -> None:
    """Replay the recording, and go on in a session that begins with its checkpoint."""
    key, owner = SessionKey("coder", _RELEASE), NamedOwner("alice")
    store.create(key, label=recording.title, owner=owner)
    results = {
        call: ToolOutput(result.content, result.is_error)
        for call, result in recording.results.items()
    }
    last = [{"type": "text", "text": "Both files are in /scratch; Ines Okafor has the link."}]
    agent = _WrittenAgent(
        _RELEASE_MODEL, _RELEASE_WINDOW, (list(each) for each in (*recording.replies, last))
    )
    with Session.open(
        key.session,
        agent=key.agent,
        store=store,
        owner="alice",
        model=agent,
        system=recording.system,
        tools=[_make_tool(each, results, clock) for each in recording.tools],
        summary="extract",
    ) as session:
        for words, away in zip(recording.users, recording.away_seconds, strict=True):
            clock.at += away
            if away > _CACHE_SECONDS:
                agent.forget_cache()
            session.say(words)
        clock.at += 20 * 3_600
        agent.forget_cache()
        with session.reset("Release, the next morning") as fresh:
            fresh.say("Where are the notes, and who signs them off?")


def _fail_message(store: SessionStore, talk: _Talk) -> None:
    """Leave a message that no provider answered."""
    name = f"{talk.agent}/{talk.id}"
    put = store.queues.put(
        NewMessage(
            queue=INBOX,
            lane=name,
            key="demo-failed",
            body={"content": _FAILED},
            owner=talk.owner,
            session=name,
        )
    )
    for claimed in store.queues.claim(INBOX, "demo", 60.0):
        store.queues.finish(claimed, "failed", reason=_REASON)
    assert store.queues.message(put.id) is not None


# A transcript of another tool


def _import(store: SessionStore, talk: _Talk, clock: _Clock) -> None:
    from holdfast.importers import read_source
    from holdfast.importers.common.base import Source

    lines = b"".join(msgspec.json.encode(line) + b"\n" for line in _transcript(talk, clock))
    for found in read_source(Source(lines, f"{talk.id}.jsonl")):
        origin = {"file": f"{talk.id}.jsonl", "format": found.format}
        adopter = SessionAdopter(store, owner=NamedOwner(talk.owner))
        adopter.adopt(SessionKey(talk.agent, talk.id), found.records, origin, label=talk.label)


def _transcript(talk: _Talk, clock: _Clock) -> Iterator[Json]:
    """Yield the lines of a transcript of Claude Code."""
    counter, size = Estimator(), 14_000
    model = talk.model.partition(":")[2]
    for number, (role, content) in enumerate(_entries(talk)):
        clock.at += 60 if role == "user" else _CALL_SECONDS
        message: Json = {"role": role, "content": content}
        if role == "assistant":
            usage = {"input_tokens": 3, "cache_read_input_tokens": size if number > 1 else 0}
            usage["output_tokens"] = counter.count(str(content))
            usage["cache_creation_input_tokens"] = 900 if number > 1 else size
            message |= {"id": f"msg_{number}", "type": "message", "model": model, "usage": usage}
            message["stop_reason"] = "end_turn" if content[-1]["type"] == "text" else "tool_use"
        size += counter.count(str(content))
        yield {
            "type": role,
            "message": message,
            "uuid": f"00000000-0000-4000-8000-{number:012}",
            "parentUuid": f"00000000-0000-4000-8000-{number - 1:012}" if number else None,
            "sessionId": "00000000-0000-4000-8000-00000000d340",
            "timestamp": datetime.fromtimestamp(clock(), UTC).isoformat().replace("+00:00", "Z"),
            "cwd": "/project",
            "version": "2.1.197",
            "userType": "external",
            "isSidechain": False,
        }


def _entries(talk: _Talk) -> Iterator[tuple[str, Any]]:
    number = 0
    for turn in talk.turns:
        yield "user", turn.user
        for step in turn.steps:
            ids = [f"toolu_{number + place:04}" for place in range(1, len(step.calls) + 1)]
            number += len(ids)
            texts = (_rows(call.rows) if call.rows else call.result for call in step.calls)
            yield "assistant", step.content(ids)
            yield (
                "user",
                [
                    {"type": "tool_result", "tool_use_id": name, "content": text}
                    for name, text in zip(ids, texts, strict=True)
                ],
            )
        yield "assistant", [{"type": "text", "text": turn.answer}]
