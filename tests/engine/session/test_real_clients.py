"""Whole turns through the official SDKs, against a provider on 127.0.0.1 that keeps the rules."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from holdfast import AsyncSession, JsonlStore, Session, SessionKey, async_model, model
from holdfast.core.flow.events import CallFailed, CompactionFinished, TroubleNoticed, WindowLearned
from holdfast.core.log.records import Assistant, ToolResult, User
from holdfast.core.turn.options import Limits
from holdfast.errors import ContextOverflow, ModelError
from holdfast.testing import Loopback
from holdfast.testing.loopback import Answer, Asked, Call, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.core.models.replies import Delta

pytest.importorskip("anthropic")
pytest.importorskip("openai")
pytest.importorskip("google.genai")

WINDOW = 25_000


class Way(NamedTuple):
    """How the model is reached."""

    name: str
    dialect: str
    is_async: bool
    streams: bool


WAYS = [
    Way(name, dialect, is_async, streams)
    for name, dialect in (
        ("anthropic:claude-next", "anthropic"),
        ("openai-chat:gpt-4o", "openai-chat"),
        ("openai-responses:gpt-5", "openai-responses"),
        ("gemini:gemini-3-pro", "gemini"),
    )
    for is_async in (False, True)
    for streams in (False, True)
]


def _id(way: Way) -> str:
    kind = "awaited" if way.is_async else "blocking"
    return f"{way.dialect}-{kind}-{'streamed' if way.streams else 'whole'}"


# A test takes two ways in the ordinary run, other ones than the next, and all in the nightly one.
pytestmark = pytest.mark.sampled(1 / 8, "way")
every_way = pytest.mark.parametrize("way", WAYS, ids=_id)
blocking_ways = pytest.mark.parametrize("way", [way for way in WAYS if not way.is_async], ids=_id)


class Desk:
    """A session at a loopback, driven in one of the ways."""

    def __init__(self, way: Way, loopback: Loopback, root: Path, **options: Any) -> None:
        self.way = way
        self.loop = asyncio.new_event_loop() if way.is_async else None
        url = loopback.url if way.dialect in ("anthropic", "gemini") else loopback.openai_url
        make: Any = async_model if way.is_async else model
        options.setdefault("window", WINDOW)
        options.setdefault("limits", Limits(wait_seconds=0.02))
        self.heard: list[Delta] = []
        self.events: list[Any] = []
        self.model: Any = make(way.name, base_url=url, api_key="any")
        opened: Any = (AsyncSession if way.is_async else Session).open(
            "s", model=self.model, store=str(root), **options
        )
        self.session: Any = self.do(opened)
        self.session.on(self.events.append)

    def do(self, value: Any) -> Any:
        if not inspect.isawaitable(value):
            return value
        assert self.loop is not None

        async def wait() -> Any:
            return await value

        return self.loop.run_until_complete(wait())

    def say(self, text: str) -> Any:
        return self.do(
            self.session.say(text, on_delta=self.heard.append if self.way.streams else None)
        )

    def close(self) -> None:
        self.do(self.session.close())
        self.do(self.model.close())
        if self.loop is not None:
            self.loop.close()

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    desks: list[Desk] = []

    def made(way: Way, loopback: Loopback, **options: Any) -> Desk:
        desks.append(Desk(way, loopback, tmp_path, **options))
        return desks[-1]

    yield made
    for desk in desks:
        desk.close()


def lookup(key: str) -> str:
    """Look something up."""
    return f"{key} is blue"


def _agent(asked: Asked) -> Answer:
    """Looks two things up at once, then says what it found."""
    if asked.results:
        found = " and ".join(str(result.content[0].text) for result in asked.results)  # type: ignore[union-attr]
        return Answer(f"I found that {found}.")
    calls = (Call("lookup", {"key": "sky"}), Call("lookup", {"key": "sea"}))
    return Answer("Let me look.", calls)


def _sizes(asked: Asked) -> Answer:
    return Answer(f"noted {asked.tokens}")


@every_way
def test_a_turn_with_tools(way: Way, at: Callable[..., Desk]) -> None:
    """Two parallel calls, their results, the answer; every request keeps the provider's rules."""
    with Loopback(_agent, limit=WINDOW) as loopback:
        desk = at(way, loopback, tools=[lookup], system="You look things up.")
        reply = desk.say("What colours are they?")
        assert reply.text == "I found that sky is blue and sea is blue."
        assert loopback.invalid == ()
        assert loopback.over_limit == ()
        assert len(loopback.requests) == 2
    kinds = [one.kind for one in desk.do(desk.session.messages(10))]
    assert kinds == ["user", "assistant", "tool_result", "tool_result", "assistant"]
    if way.streams:
        assert "".join(d.text for d in desk.heard if d.kind == "text").endswith(reply.text)


@every_way
def test_a_small_window_stays_small_for_many_turns(way: Way, at: Callable[..., Desk]) -> None:
    """Twenty long turns in a window that holds a few: none is refused, none is over."""
    with Loopback(_sizes, limit=WINDOW) as loopback:
        desk = at(way, loopback, summary="extract")
        for number in range(20):
            desk.say(f"Turn {number}, ticket TCK-{number:03d}: " + f"word{number} " * 1_500)
        assert len(loopback.answers) == 20
        assert loopback.over_limit == ()
        assert loopback.invalid == ()
    applied = [one for one in desk.of(CompactionFinished) if one.outcome == "applied"]
    assert applied
    assert not desk.of(CallFailed)


THINKING = {
    "anthropic": "anthropic:claude-fable-5-2",
    "openai-responses": "openai-responses:gpt-6.2-sol",
    "gemini": "gemini:gemini-4-argon",
}
"""Models whose reasoning is bound to its prefix, or must come back with the results."""


@pytest.mark.parametrize(
    "way",
    [way._replace(name=THINKING[way.dialect]) for way in WAYS if way.dialect in THINKING],
    ids=_id,
)
def test_reasoning_goes_back_behind_cuts(way: Way, at: Callable[..., Desk]) -> None:
    """Tool loops over several cuts, with models that think unasked and providers that enforce what
    their reasoning is bound to: nothing is refused, and nothing dropped."""
    with Loopback(_agent, limit=WINDOW) as loopback:
        desk = at(way, loopback, tools=[lookup])
        for number in range(16):
            desk.say(f"Turn {number}: " + f"word{number} " * 1_200)
        counts = loopback.reasoning
        assert loopback.invalid == ()
        assert loopback.over_limit == ()
    cuts = [one for one in desk.of(CompactionFinished) if one.outcome == "applied"]
    assert len(cuts) > 1
    assert not desk.of(CallFailed)
    assert (counts.refused, counts.dropped) == (0, {})
    assert counts.valid > 16


@every_way
def test_a_window_that_is_smaller_than_said_is_learned(way: Way, at: Callable[..., Desk]) -> None:
    """The provider's own refusal says how large it is; the turn is answered, the size is kept."""
    with Loopback(_sizes, limit=WINDOW) as loopback:
        desk = at(way, loopback, window=60_000, summary="extract")
        for number in range(8):
            desk.say(f"Turn {number}: " + f"word{number} " * 3_000)
        refused = [one for one in loopback.requests if one.status == 400]
        assert refused
        assert len(refused) <= 4
        assert len(loopback.answers) == 8
    if way.dialect == "openai-responses":
        return  # its refusal has no numbers in it: what is too large is only remembered
    assert [one.tokens for one in desk.of(WindowLearned)] == [WINDOW]
    assert desk.session.window.tokens == WINDOW
    assert desk.session.window.confidence == "learned"


@every_way
@pytest.mark.parametrize(
    "fault",
    [
        Fault.rate_limited(),
        Fault.overloaded(),
        Fault.html(),
        Fault.reset(),
        Fault.tokens_per_minute(),
    ],
    ids=lambda fault: fault.name,
)
def test_a_busy_provider_is_waited_for(way: Way, fault: Fault, at: Callable[..., Desk]) -> None:
    """The same request again, later; the history is not touched."""
    with Loopback(_sizes, limit=WINDOW) as loopback:
        desk = at(way, loopback)
        loopback.fail_next(fault, fault)
        assert desk.say("hello").text.startswith("noted")
        assert len(loopback.requests) == 3
    assert {one.next for one in desk.of(CallFailed)} == {"wait"}
    assert not desk.of(CompactionFinished)


@every_way
@pytest.mark.parametrize(
    ("fault", "kind"),
    [(Fault.unauthorized(), "auth"), (Fault.no_credit(), "quota_billing")],
    ids=["auth", "billing"],
)
def test_what_no_retry_mends_is_said_at_once(
    way: Way, fault: Fault, kind: str, at: Callable[..., Desk]
) -> None:
    """One call, one clear error, nothing cut; the next turn works."""
    with Loopback(_sizes, limit=WINDOW) as loopback:
        desk = at(way, loopback)
        loopback.fail_next(fault)
        with pytest.raises(ModelError) as raised:
            desk.say("hello")
        assert raised.value.failure.kind == kind
        assert len(loopback.requests) == 1
        assert desk.say("again").text.startswith("noted")
    assert not desk.of(CompactionFinished)


@pytest.mark.parametrize("way", [way for way in WAYS if way.streams], ids=_id)
@pytest.mark.parametrize("after", ["text", "call"])
def test_an_overflow_in_the_middle_of_a_reply(
    way: Way, after: Any, at: Callable[..., Desk]
) -> None:
    """Half a reply and half a call are not stored; a smaller request is answered."""
    with Loopback(_agent, limit=WINDOW) as loopback:
        desk = at(way, loopback, tools=[lookup], summary="extract")
        for number in range(6):
            desk.do(desk.session.own_loop.add_user(f"Note {number}: " + f"word{number} " * 500))
        loopback.fail_next(Fault.overflow_in_stream(after))
        reply = desk.say("What colours are they?")
        assert reply.text == "I found that sky is blue and sea is blue."
        assert loopback.requests[1].body != loopback.requests[0].body
    assert [one.next for one in desk.of(CallFailed)] in (["shrink"], ["lower-output"])
    kinds = [one.kind for one in desk.do(desk.session.messages(5))]
    assert kinds == ["user", "assistant", "tool_result", "tool_result", "assistant"]


@every_way
def test_a_provider_that_always_refuses(way: Way, at: Callable[..., Desk]) -> None:
    """At most four smaller requests, each smaller than the one before; then one clear error."""
    with Loopback(_sizes, limit=WINDOW) as loopback:
        desk = at(way, loopback, summary="extract")
        for number in range(6):
            desk.do(desk.session.own_loop.add_user(f"Note {number}: " + f"word{number} " * 500))
        loopback.fail_when(lambda _asked: True, Fault.http(400, "maximum context length exceeded"))
        with pytest.raises(ContextOverflow) as raised:
            desk.say("hello")
        sizes = [one.tokens for one in loopback.requests]
        assert 2 <= len(sizes) <= 5
        assert sizes == sorted(sizes, reverse=True)
        assert len(set(sizes)) == len(sizes)
        assert raised.value.parts["window"] == WINDOW
        loopback.heal()
        assert desk.say("again").text.startswith("noted")


@every_way
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault.silent_truncation(), "cut-silently"),
        (Fault.over_window(), "over-window"),
        (Fault.usage_zero(), "zero-usage"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_silent_trouble_is_noticed(
    way: Way, fault: Fault, kind: str, at: Callable[..., Desk]
) -> None:
    """The reply is kept, an event says what is wrong, and the next turn works."""
    with Loopback(_sizes, limit=WINDOW) as loopback:
        desk = at(way, loopback)
        loopback.fail_next(fault)
        assert desk.say("hello " * 6_000).text
        assert kind in {one.kind for one in desk.of(TroubleNoticed)}
        assert desk.say("and now?").text.startswith("noted")


@every_way
def test_an_output_cap_is_kept_to(way: Way, at: Callable[..., Desk]) -> None:
    """The provider says how long a reply may be; the history is not touched for it."""
    with Loopback(_sizes, limit=WINDOW, output_max=1_000) as loopback:
        desk = at(way, loopback)
        counts = []
        for text in ("hello", "again"):
            assert desk.say(text).text.startswith("noted")
            counts.append(len(loopback.requests))
        assert counts == [2, 3]
    assert [one.next for one in desk.of(CallFailed)] == ["lower-output"]


def _google(client: Any) -> Callable[..., Any]:
    """Google's client takes the settings of a request apart from its contents."""

    def send(contents: Any, *, stream: bool = False, **rest: Any) -> Any:
        config = {**rest.pop("generationConfig", {}), **rest}
        models = client.models
        make = models.generate_content_stream if stream else models.generate_content
        return make(model="gemini-3-pro", contents=contents, config=config)

    return send


@blocking_ways
def test_a_client_of_ones_own(way: Way, tmp_path: Path) -> None:
    """The caller keeps client and loop: `add_user`, `call`, `add_result`."""
    import anthropic
    import openai
    from google import genai

    with (
        Loopback(_agent, limit=WINDOW) as loopback,
        openai.OpenAI(base_url=loopback.openai_url, api_key="any", max_retries=0) as chat,
        anthropic.Anthropic(base_url=loopback.url, api_key="any", max_retries=0) as claude,
        genai.Client(api_key="any", http_options={"base_url": loopback.url}) as google,
    ):
        send: Any = {
            "anthropic": claude.messages.create,
            "openai-chat": chat.chat.completions.create,
            "openai-responses": chat.responses.create,
            "gemini": _google(google),
        }[way.dialect]
        extra = {"stream": True} if way.streams else {}
        session = Session.open(
            "own", model=way.name, store=str(tmp_path), tools=[lookup], window=WINDOW
        )
        session.own_loop.add_user("What colours are they?")
        reply = session.own_loop.call(lambda request: send(**request, **extra))
        while reply.calls:
            for call in reply.calls:
                session.own_loop.add_result(call.id, lookup(**call.arguments))
            reply = session.own_loop.call(lambda request: send(**request, **extra))
        assert reply.text == "I found that sky is blue and sea is blue."
        assert loopback.invalid == ()
        session.close()


@pytest.mark.parametrize(
    "way", [way for way in WAYS if not way.is_async and not way.streams], ids=_id
)
def test_preparing_and_recording_by_hand(way: Way, tmp_path: Path) -> None:
    """`prepare` after a failure gives a smaller request; `record` stores the reply."""
    import anthropic
    import openai
    from google import genai

    # Gemini limits the input alone, so that it takes more of the same request.
    limit = 18_000 if way.dialect == "gemini" else WINDOW
    with (
        Loopback(_sizes, limit=limit) as loopback,
        openai.OpenAI(base_url=loopback.openai_url, api_key="any", max_retries=0) as chat,
        anthropic.Anthropic(base_url=loopback.url, api_key="any", max_retries=0) as claude,
        genai.Client(api_key="any", http_options={"base_url": loopback.url}) as google,
    ):
        send: Any = {
            "anthropic": claude.messages.create,
            "openai-chat": chat.chat.completions.create,
            "openai-responses": chat.responses.create,
            "gemini": _google(google),
        }[way.dialect]
        session = Session.open("own", model=way.name, store=str(tmp_path), window=60_000)
        for number in range(6):
            session.own_loop.add_user(f"Note {number}: " + f"word{number} " * 3_000)
        failed: Exception | None = None
        for _ in range(5):
            prepared = session.own_loop.prepare(failed=failed)
            try:
                raw = send(**prepared.request)
                break
            except (
                anthropic.APIStatusError,
                openai.APIStatusError,
                genai.errors.APIError,
            ) as error:
                failed = error
        assert failed is not None
        reply = session.own_loop.record(raw)
        assert reply.text.startswith("noted")
        assert session.window.tokens == (60_000 if way.dialect == "openai-responses" else limit)
        session.close()
    store = JsonlStore(tmp_path)
    kinds = [type(one) for one in store.read(SessionKey("main", "own"))]
    assert kinds.count(Assistant) == 1
    assert kinds.count(User) == 6
    assert ToolResult not in kinds
    store.close()
