"""Drives lives: a session of each surface at a provider that enforces its rules, in this process.

The SDKs' clients are made once; their transport leads to whichever provider a life has.
"""

from __future__ import annotations

import asyncio
import functools
from contextlib import closing
from typing import TYPE_CHECKING, Any, assert_never

import httpx2
from tests.lives.acting import Acting
from tests.lives.lives import (
    FAULTS,
    MODELS,
    SUMMARISERS,
    Ask,
    Change,
    Compact,
    Decide,
    Deliver,
    Fail,
    Fork,
    GoOn,
    Inject,
    Life,
    Pause,
    Remind,
    Reset,
    Resume,
    Rewind,
    Say,
    Switch,
    Undo,
)
from tests.lives.oracle import Fault, Sent, epochs_of, judge, judge_outcomes

from holdfast import AsyncSession, Session, SessionKey, async_model, model
from holdfast.core.turn.options import Limits, Summary
from holdfast.errors import HoldfastError
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing import Answer, Call, Loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.lives.lives import Step, Surface

    from holdfast.core.log.records import Json
    from holdfast.testing.loopback import Asked, Handled

ADDRESS = "http://loopback.invalid"
START = 1_790_000_000.0
PREFIXES: dict[str, str] = {
    "anthropic": "anthropic",
    "openai-chat": "openai-chat",
    "openai-responses": "openai-responses",
    "gemini": "gemini",
}


class Provider:
    """A loopback without a connection, which notes each request with its place in the life."""

    current: Provider

    def __init__(self, life: Life, limit: int = 0) -> None:
        self.loopback = Loopback(
            self._answer,
            limit=limit or life.window,
            variants={"openai-chat": "deepseek"},
            clock=lambda: self.now,
        )
        self.now = START
        self.sent: list[Sent] = []
        self.plan: list[tuple[int | str, ...]] = []
        """The rounds of calls to come: of `fetch` with so many words, or of a tool by its name."""
        self.tip: int | None = None
        self.step = ""
        self.model = ""
        """The model in use: Gemini's requests do not name it."""
        self.epochs: Callable[[], tuple[str, ...]] = tuple
        self.outcomes: Callable[[], tuple[frozenset[str], frozenset[str]]] = lambda: (
            frozenset(),
            frozenset(),
        )
        """Of calls that waited: those that the branch has, and those that are elsewhere."""
        self._side = set(SUMMARISERS.values())
        self._count = 0

    def handle(self, path: str, body: bytes, headers: dict[str, str]) -> Handled:
        epochs, outcomes = self.epochs(), self.outcomes()
        reply = self.loopback.handle(path, body, headers)
        received = self.loopback.requests[-1]
        is_side = received.model in self._side
        base = None if is_side else self.tip
        self.sent.append(Sent(received, epochs, base, is_side, self.step, *outcomes))
        if not is_side:
            self.tip = len(self.sent) - 1
        return reply

    def _answer(self, asked: Asked) -> Answer:
        self._count += 1
        if asked.model in self._side:
            return Answer("Goal: go on. Decision: port 8443. " * 4)
        if not self.plan or not any(tool.name == "fetch" for tool in asked.tools):
            return Answer(f"Answer {self._count}: it is done.")
        calls = tuple(
            _call_of(wanted, f"t{self._count}-{place}")
            for place, wanted in enumerate(self.plan.pop(0))
        )
        return Answer(f"Let me look, {self._count}.", calls)


def _call_of(wanted: int | str, tag: str) -> Call:
    if isinstance(wanted, str):
        return Call(wanted, {"amount": 5, "tag": tag} if wanted == "pay" else {"tag": tag})
    return Call("fetch", {"words": wanted, "tag": tag})


def _send(request: Any, content: bytes) -> httpx2.Response:
    path = request.url.path
    reply = Provider.current.handle(path, content, dict(request.headers))
    if not reply.status:
        raise httpx2.ReadError("connection reset", request=request)
    if reply.is_broken:
        stream: Any = _Broken(reply.body)
        return httpx2.Response(reply.status, headers=_headers(reply), stream=stream)
    return httpx2.Response(reply.status, headers=_headers(reply), content=reply.body)


def _headers(reply: Handled) -> dict[str, str]:
    return dict(reply.headers)


class _Broken(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body that ends with its connection."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __iter__(self) -> Any:
        yield self._data
        raise httpx2.RemoteProtocolError("peer closed connection without a complete body")

    async def __aiter__(self) -> Any:
        yield self._data
        raise httpx2.RemoteProtocolError("peer closed connection without a complete body")


class _Transport(httpx2.BaseTransport):
    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return _send(request, request.read())


class _AsyncTransport(httpx2.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return _send(request, await request.aread())


@functools.cache
def client_for(dialect: str, *, is_async: bool) -> Any:
    """A client of the provider's package, led to the current provider."""
    http: Any = (
        httpx2.AsyncClient(transport=_AsyncTransport())
        if is_async
        else httpx2.Client(transport=_Transport())
    )
    match dialect:
        case "anthropic":
            import anthropic

            make: Any = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
            return make(api_key="any", base_url=ADDRESS, max_retries=0, http_client=http)
        case "openai-chat" | "openai-responses":
            import openai

            make = openai.AsyncOpenAI if is_async else openai.OpenAI
            return make(api_key="any", base_url=f"{ADDRESS}/v1", max_retries=0, http_client=http)
        case "gemini":
            from google import genai

            name = "httpx_async_client" if is_async else "httpx_client"
            options: Any = {"base_url": ADDRESS, "retry_options": {"attempts": 1}, name: http}
            made = genai.Client(api_key="any", http_options=options)
            return made.aio if is_async else made


def words(count: int, tag: str) -> str:
    """A text of so many words that no other tag has."""
    return " ".join(f"{tag}.{number}" for number in range(count))


def fetch(words: int, tag: str) -> str:
    """Fetch a text of so many words."""
    lines = (f"{tag} line {number}: value {number * 7}" for number in range(max(1, words // 5)))
    return "\n".join(lines)


def count_lines(text: str) -> int:
    """Count lines."""
    return text.count("\n")


def count_words(text: str) -> int:
    """Count words."""
    return len(text.split())


class Living:
    """A session of the engine, an own loop or an async session, as a life goes on."""

    def __init__(self, life: Life, surface: Surface, marks: tuple[float, ...] = ()) -> None:
        self.life = life
        self.marks = marks
        self.surface = surface
        self.provider = Provider(life)
        Provider.current = self.provider
        self.provider.epochs = self._epochs
        self.provider.outcomes = lambda: self.acting.outcomes()
        self.store = MemoryStore(clock=self._clock)
        self.model = MODELS[life.dialect][life.model]
        self.system = "You are an agent."
        self.tools: list[Any] = [fetch]
        self.acting = Acting(self)
        self.loop = asyncio.new_event_loop() if surface == "async" else None
        self.turns = 0
        self.forks = 0
        self.tips: list[int | None] = []
        self.taken_back: list[tuple[list[int | None], int | None]] = []
        self.faults: list[Fault] = []
        self.key = SessionKey("main", "life")
        self.session = self._open()

    def run(self) -> list[Fault]:
        with closing(self.store):
            try:
                for step in self.life.steps:
                    self.provider.step = repr(step)
                    self._take(step)
                    self.acting.send_due()
                    self.acting.check_waiting()
            finally:
                self.do(self.session.close())
                if self.loop is not None:
                    self.loop.close()
            assert not self.provider.loopback.errors, self.provider.loopback.errors
            sent = self.provider.sent
            return [*self.faults, *self.acting.judge(), *judge(sent), *judge_outcomes(sent)]

    # The session

    def _clock(self) -> float:
        return self.provider.now

    def _epochs(self) -> tuple[str, ...]:
        return epochs_of(self.store.read(self.key))

    def _open(self) -> Any:
        self.provider.model = self.model
        is_async = self.surface == "async"
        make: Any = async_model if is_async else model
        dialect = self.life.dialect
        client = client_for(dialect, is_async=is_async)
        settings: Json = {"client": client, "window": self.life.window}
        if dialect == "openai-chat":
            settings["variant"] = "deepseek"
        prefix = PREFIXES[dialect]
        main = make(f"{prefix}:{self.model}", thinking=self.life.thinking, **settings)
        other = make(f"{prefix}:{SUMMARISERS[dialect]}", **settings)
        self.store.clock = self._clock
        opened = (AsyncSession if is_async else Session).open(
            self.key.session,
            model=main,
            summary=Summary(model=other),
            store=self.store,
            agent="main",
            system=self.system,
            tools=[*self.tools, *self.acting.shop.tools],
            window=self.life.window,
            limits=Limits(wait_seconds=0.0, output_tokens=2_000, marks=self.marks),
        )
        return self.do(opened)

    def do(self, value: Any) -> Any:
        if self.loop is None or not hasattr(value, "__await__"):
            return value

        async def wait() -> Any:
            return await value

        return self.loop.run_until_complete(wait())

    def _reopen(self) -> None:
        self.do(self.session.close())
        self.session = self._open()

    # Steps

    def _take(self, step: Step) -> None:
        match step:
            case Say():
                self.say(step.words, step.rounds)
            case Inject(words=count):
                text = words(count, f"context{self.turns}")
                self.attempt(lambda: self.session.own_loop.inject_context(text, source="clock"))
            case Compact():
                self.attempt(lambda: self.session.compact())
            case Rewind(turns=turns):
                self._rewind(turns)
            case Undo():
                self._undo()
            case Fork(comes_back=comes_back):
                self._fork(comes_back=comes_back)
            case Resume():
                self._reopen()
            case Switch(model=place):
                models = MODELS[self.life.dialect]
                self.model = models[place % len(models)]
                self._reopen()
            case Change(what="system"):
                self.system += " Be brief."
                self._reopen()
            case Change():
                every = [fetch, count_lines, count_words]
                self.tools = every[: len(self.tools) % len(every) + 1]
                self._reopen()
            case Pause(seconds=seconds):
                self.provider.now += seconds
            case Fail(name=name):
                self.provider.loopback.fail_next(FAULTS[name])
            case Ask() | Decide() | Deliver() | GoOn() | Reset() | Remind():
                self.acting.take(step)
            case _:
                assert_never(step)

    def begin_turn(self) -> None:
        """Note where a turn begins."""
        self.turns += 1
        self.tips.append(self.provider.tip)
        self.taken_back.clear()

    def forget_turns(self) -> None:
        """Begin a conversation that has had no turn."""
        self.tips.clear()
        self.taken_back.clear()
        self.provider.tip = None

    def say(self, count: int, rounds: Sequence[tuple[int | str, ...]]) -> None:
        """Say so many words, and have the model answer with rounds of calls."""
        self.begin_turn()
        self.provider.now += 20
        self.provider.plan = list(rounds)
        text = words(count, f"turn{self.turns}")
        if self.surface == "own loop":
            self.attempt(lambda: self._own_loop(text))
        else:
            heard: list[Any] = []
            on_delta = heard.append if self.life.streams else None
            self.attempt(lambda: self.session.say(text, on_delta=on_delta))
        self.provider.loopback.heal()

    def _own_loop(self, text: str) -> None:
        self.session.own_loop.add_user(text)
        client = client_for(self.life.dialect, is_async=False)
        for _ in range(12):
            reply = self.session.own_loop.call(
                lambda request: _call(client, self.life.dialect, request)
            )
            if not reply.calls:
                return
            for call in reply.calls:
                name = call.name
                output = fetch(**call.arguments) if name == "fetch" else f"no tool {name}"
                self.session.own_loop.add_result(call.id, output)

    def _rewind(self, turns: int) -> None:
        before = (list(self.tips), self.provider.tip)
        if self.attempt(lambda: self.session.rewind(turns=turns)):
            self.taken_back.append(before)
            for _ in range(min(turns, len(self.tips))):
                self.provider.tip = self.tips.pop()

    def _undo(self) -> None:
        """Only a rewind is followed: what else is undone begins an epoch, or is found wanting."""
        if self.taken_back and self.attempt(lambda: self.session.undo()):
            self.tips, self.provider.tip = self.taken_back.pop()

    def _fork(self, *, comes_back: bool) -> None:
        self.forks += 1
        new = SessionKey("main", f"life-{self.forks}")
        self.store.fork(self.key, new, at=None)
        old, tips, tip = self.key, list(self.tips), self.provider.tip
        self.key = new
        self._reopen()
        self.taken_back.clear()
        if comes_back:
            self.say(5, ((5,),))
            self.key, self.tips, self.provider.tip = old, tips, tip
            self._reopen()

    def attempt(self, act: Any) -> bool:
        """Do something that may fail as it is told to: then the life goes on."""
        before = len(self.provider.sent)
        try:
            self.do(act())
        except HoldfastError as error:
            struck = [one.received.fault for one in self.provider.sent[before:]]
            if not any(struck) and not _is_usage(error):
                words = f"{type(error).__name__}: {error}"
                self.faults.append(Fault(f"died: {type(error).__name__}", words[:300]))
            return False
        return True


def _is_usage(error: HoldfastError) -> bool:
    """Return whether a step asked for what cannot be: nothing to rewind, nothing to compact."""
    from holdfast.errors import UsageError

    return isinstance(error, UsageError)


def _call(client: Any, dialect: str, request: Json) -> Any:
    match dialect:
        case "anthropic":
            return client.messages.create(**request)
        case "openai-chat":
            more = {name: request[name] for name in ("thinking",) if name in request}
            known = {name: value for name, value in request.items() if name not in more}
            return client.chat.completions.create(**known, extra_body=more)
        case "openai-responses":
            return client.responses.create(**request)
        case "gemini":
            given = dict(request)
            contents, name = given.pop("contents"), Provider.current.model
            config = {**given.pop("generationConfig", {}), **given}
            return client.models.generate_content(model=name, contents=contents, config=config)


def live(life: Life, surface: Surface) -> list[Fault]:
    """Live a life; returns every law that it broke."""
    if surface == "proxy":
        from tests.lives.proxied import Proxied

        return Proxied(life).run()
    return Living(life, surface).run()
