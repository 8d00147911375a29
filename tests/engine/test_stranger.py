"""What somebody who has only read the documentation would try, and be surprised by."""

from __future__ import annotations

import asyncio
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast import AsyncSession, Session, User, async_model, model
from holdfast.core.dialects.registry import find_variant
from holdfast.core.flow.events import CompactionFinished
from holdfast.core.models.dialects import Target
from holdfast.core.models.prices import Price
from holdfast.core.turn.options import Limits, Summary
from holdfast.errors import BadSetting, CannotFit, NoSuchSession, UsageError
from holdfast.events import TurnFinished, TurnStarted, TurnWaiting
from holdfast.providers.known_models.lookup import price_of
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing import ScriptedModel, calls

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.log.records import Json


class Closing(ScriptedModel):
    """A model that knows whether it was closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def _takes_anything(*words: str) -> str:
    return " ".join(words)


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 1},
        {"window": "200k"},
        {"system": ["Be brief."]},
        {"policy": "aggressive"},
        {"summary": "none"},
        {"notes": False},
        {"memory": True},
        {"tools": len},
        {"tools": "read_file"},
        {"tools": ["read_file"]},
        {"tools": [_takes_anything]},
        {"model": 3},
        {"summary": Summary(model=object())},
    ],
)
def test_what_cannot_be_is_said_before_a_session_is_made(tmp_path: Path, options: Any) -> None:
    """A mistake in the options has a clear error, and leaves no empty session behind."""
    with pytest.raises(BadSetting) as caught:
        Session.open("mine", store=str(tmp_path), **options)
    assert caught.value.hint
    with pytest.raises(NoSuchSession):
        Session.open("mine", store=str(tmp_path), create=False)


def test_none_is_as_if_nothing_was_given() -> None:
    """Options that come out of a configuration file may be None."""
    empty: Any = {"system": None, "window": None, "tools": None, "limits": None}
    with Session.open("s", model=ScriptedModel(["yes"]), store=MemoryStore(), **empty) as session:
        assert session.say("hello").text == "yes"


def test_a_type_that_cannot_be_found_is_said() -> None:
    """An annotation that names nothing is a mistake of the caller, told as one."""

    def lost(path: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
        return ""

    with pytest.raises(BadSetting, match="annotations of the tool `lost`"):
        Session.open("s", model=ScriptedModel([]), store=MemoryStore(), tools=[lost])


def test_a_session_closes_what_it_opened_and_nothing_else() -> None:
    """One model may serve many sessions: closing one of them leaves the others alone."""
    shared, helper = Closing(["one", "two"]), Closing([])
    with Session.open(
        "a", model=shared, summary=Summary(model=helper), store=MemoryStore()
    ) as session:
        session.say("hello")
    assert not shared.is_closed
    assert not helper.is_closed


def test_a_client_of_the_callers_own_is_not_closed() -> None:
    """Who gives a client keeps it."""

    class Messages:
        def create(self, **_request: Any) -> Json:
            return {"content": [{"type": "text", "text": "hello"}]}

    class Client:
        messages = Messages()
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

    client = Client()
    made: Any = model("anthropic:claude-opus-4-5", client=client)
    with Session.open("a", model=made, store=MemoryStore()) as session:
        assert session.say("hello").text == "hello"
    made.close()
    assert not client.is_closed


def test_a_session_that_was_reset_can_be_closed(tmp_path: Path) -> None:
    """The fresh one goes on with the store and the model."""
    before = Session.open("a", store=str(tmp_path))
    before.say("the port is 8443")
    fresh = before.reset("fresh")
    before.close()
    with fresh:
        assert fresh.say("hello").text


def test_a_model_of_the_other_kind_is_named() -> None:
    """Blocking and asynchronous models are not mixed up silently."""
    awaited: Any = async_model("offline")
    session = Session.open("a", model=awaited, store=MemoryStore())
    with pytest.raises(BadSetting, match="asynchronous model"):
        session.say("hello")

    async def mixed() -> None:
        blocking: Any = model("offline")
        async with await AsyncSession.open("a", model=blocking, store=MemoryStore()) as other:
            await other.say("hello")

    with pytest.raises(BadSetting, match="blocking model"):
        asyncio.run(mixed())


def test_an_asynchronous_tool_runs_where_a_loop_is_running_already() -> None:
    """A notebook runs an event loop in the thread of its cells."""

    async def shout(text: str) -> str:
        await asyncio.sleep(0)
        return text.upper()

    script = ScriptedModel([calls(("call_1", "shout", {"text": "hey"})), "done"])

    async def cell() -> list[Any]:
        with Session.open("a", model=script, store=MemoryStore(), tools=[shout]) as session:
            session.say("go")
            return session.messages()

    result = asyncio.run(cell())[2]
    assert (result.content, result.is_error) == ("HEY", False)


class Held(ScriptedModel):
    """Answers only once it may."""

    def __init__(self, answers: list[Any]) -> None:
        super().__init__(answers)
        self.is_asked = threading.Event()
        self.may_answer = threading.Event()

    def send(self, request: Json, on_delta: Any = None) -> Any:
        self.is_asked.set()
        assert self.may_answer.wait(30)
        return super().send(request, on_delta)


def test_a_stream_has_the_events_of_its_own_turn() -> None:
    """Two threads that talk to one session do not see each other's turns."""
    script = Held(["one", "two"])
    session = Session.open("a", model=script, store=MemoryStore())
    seen: list[Any] = []
    first = threading.Thread(target=session.say, args=("first",))
    first.start()
    assert script.is_asked.wait(30)
    second = threading.Thread(target=lambda: seen.extend(session.stream("second")))
    second.start()
    script.may_answer.set()
    first.join()
    second.join()
    assert [one.reply.text for one in seen if isinstance(one, TurnFinished)] == ["two"]
    assert sum(isinstance(one, TurnStarted) for one in seen) == 1


def test_leaving_a_stream_that_waits_calls_off_no_other_turn() -> None:
    """Ctrl-C before it was its turn: nothing was said, and nobody else was stopped."""
    tools_run: list[str] = []

    def work() -> str:
        tools_run.append("work")
        return "done"

    script = Held([calls(("call_1", "work", {})), "one", "three"])
    session = Session.open("a", model=script, store=MemoryStore(), tools=[work])
    replies: list[str] = []
    first = threading.Thread(target=lambda: replies.append(session.say("first").text))
    first.start()
    assert script.is_asked.wait(30)
    main = threading.get_ident()
    stop = partial(signal.pthread_kill, main, signal.SIGINT)
    session.on(lambda _event: threading.Timer(0.1, stop).start(), TurnWaiting)
    with pytest.raises(KeyboardInterrupt):
        list(session.stream("second"))
    script.may_answer.set()
    first.join()
    assert replies == ["one"]
    assert tools_run == ["work"]
    assert session.say("third").text == "three"
    said = [one.content for one in session.messages() if isinstance(one, User)]
    assert said == ["first", "third"]


def test_costs_are_by_the_price_of_whoever_was_asked() -> None:
    """A price that was stated counts in the sums; a summary costs what its own model costs."""
    stated = Price(input=1.0, output=2.0, cache_read=0.1, cache_write=1.25)
    script = ScriptedModel(["yes"])
    script.price = stated  # type: ignore[attr-defined]
    session = Session.open("a", model=script, store=MemoryStore())
    told: list[Any] = []
    session.on(told.append)
    session.say("hello")
    spent = [one.cost for one in told if type(one).__name__ == "CallFinished"]
    assert session.status().cost == pytest.approx(sum(spent))
    settings = session._state.run.settings
    assert settings.price_for(script.target.model) == stated
    assert settings.price_for("claude-opus-4-5") == price_of("claude-opus-4-5")


def test_slow_tools_keep_no_other_session_from_its_log() -> None:
    """Blocking tools of many sessions do not use up the threads that logs are written with."""
    may_end = threading.Event()
    started: list[str] = []

    def slow() -> str:
        started.append("slow")
        assert may_end.wait(30)
        return "done"

    def opened(name: str, answers: list[Any]) -> Any:
        script = ScriptedModel(answers).as_async()
        return AsyncSession.open(name, model=script, store=MemoryStore(), tools=[slow])

    async def many() -> str:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        answers = [calls(("call_1", "slow", {})), "done"]
        busy = [await opened(f"s{number}", answers) for number in range(4)]
        turns = [asyncio.create_task(one.say("go")) for one in busy]
        while len(started) < len(busy):
            await asyncio.sleep(0.01)
        quick = await opened("quick", ["quick"])
        reply = await asyncio.wait_for(quick.say("hello"), 20)
        may_end.set()
        await asyncio.gather(*turns)
        return str(reply.text)

    assert asyncio.run(many()) == "quick"


def test_a_listener_to_pieces_that_would_have_to_be_awaited_is_refused() -> None:
    """Its words would be lost without a sound; nothing is stored."""

    async def on_delta(_piece: Any) -> None:
        raise AssertionError

    async def said() -> list[Any]:
        script = ScriptedModel(["one"]).as_async()
        session = await AsyncSession.open("a", model=script, store=MemoryStore())
        heard: Any = on_delta
        with pytest.raises(BadSetting, match="not awaited"):
            await session.say("hello", on_delta=heard)
        return await session.messages()

    assert asyncio.run(said()) == []


@pytest.mark.parametrize("nothing", ["", "  \n", None, []])
def test_saying_nothing_is_refused_before_it_is_stored(tmp_path: Path, nothing: Any) -> None:
    """A turn without words would be a request without a question."""
    with Session.open("s", model="offline", store=str(tmp_path)) as session:
        with pytest.raises(UsageError, match="message is empty"):
            session.say(nothing)
        assert session.messages() == []


BLANKS: Any = st.sampled_from(["", " ", "\n\t", "\u00a0", "\u200b "])
BLOCKS: Any = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": BLANKS | st.just("a word")}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "thinking", "image", "input_text", "x"])}
    ),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": BLANKS | st.just("a word")}),
    st.fixed_dictionaries({"type": st.just("input_text"), "text": BLANKS | st.just("a word")}),
)


@examples(100)
@given(st.lists(BLOCKS, max_size=3) | BLANKS)
def test_what_is_said_reaches_the_model_or_is_refused(content: Any) -> None:
    """Whatever its blocks are, a message is never stored and left out of the request."""
    script = ScriptedModel(["one"])
    with Session.open("s", model=script, store=MemoryStore()) as session:
        try:
            session.say(content)
        except UsageError:
            assert session.messages() == []
            assert script.requests == []
            return
    last = script.requests[-1]["messages"][-1]
    assert last["role"] == "user"
    assert last["content"] not in ("", [])
    assert "[Continue.]" not in str(last)


def test_a_turn_of_ones_own_loop_ends_with_an_event(tmp_path: Path) -> None:
    """So that spans and displays know when it is over."""
    ended: list[Any] = []
    with Session.open("s", model="anthropic:claude-next", store=str(tmp_path)) as session:
        session.on(ended.append, TurnFinished)
        session.own_loop.add_user("hello")
        session.own_loop.call(lambda _request: {"content": [{"type": "text", "text": "hi"}]})
    assert [one.reply.text for one in ended] == ["hi"]


def test_a_window_below_the_floor_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """Nothing is created, nothing is stored, and the way out is named."""
    with pytest.raises(CannotFit, match="below the floor") as raised:
        Session.open("s", model="offline", window=5_000, store=str(tmp_path))
    assert "floor" in str(raised.value.hint)
    with pytest.raises(NoSuchSession):
        Session.open("s", model="offline", store=str(tmp_path), create=False)
    with Session.open(
        "s", model="offline", window=5_000, limits=Limits(floor=4_000), store=str(tmp_path)
    ) as kept:
        assert kept.say("hello").text


def test_a_recorded_reply_ends_the_turn_with_an_event(tmp_path: Path) -> None:
    """Also where the caller makes the call himself."""
    ended: list[Any] = []
    with Session.open("s", model="anthropic:claude-next", store=str(tmp_path)) as session:
        session.on(ended.append, TurnFinished)
        session.own_loop.add_user("hello")
        session.own_loop.prepare()
        session.own_loop.record({"content": [{"type": "text", "text": "hi"}]})
    assert [one.reply.text for one in ended] == ["hi"]


def test_a_summary_request_that_cannot_be_made_does_not_end_the_turn(tmp_path: Path) -> None:
    """A helper never hurts: what its provider would refuse is not sent, and code writes instead."""
    narrow = msgspec.structs.replace(find_variant("anthropic"), body_bytes=100)
    summariser = ScriptedModel([], target=Target(narrow, "narrow", "narrow-1"))
    finished: list[CompactionFinished] = []
    script = ScriptedModel([], window=20_000, otherwise="answer")
    with Session.open(
        "s", model=script, summary=Summary(model=summariser), store=str(tmp_path)
    ) as session:
        session.on(finished.append, CompactionFinished)
        for number in range(6):
            session.own_loop.add_user(f"Note {number}: " + "word " * 2_500)
        assert session.say("and now?").text == "answer"
    assert [(one.outcome, one.method) for one in finished] == [("applied", "extract")]
    assert summariser.requests == []
