"""A turn, from the user's words to the stored reply: one suite for both kinds of session."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.sessions import (
    EITHER_KIND,
    KINDS,
    Bench,
    boundaries,
    check_requests,
    path_of,
    said,
    texts,
)

from holdfast.core.flow.effects import Cancelled, Deny
from holdfast.core.flow.events import (
    CallFailed,
    CallStarted,
    Interrupted,
    ToolFinished,
    ToolStarted,
    TroubleNoticed,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from holdfast.core.log.records import Assistant, ToolResult, User
from holdfast.core.models.messages import INTERRUPTED
from holdfast.core.models.replies import Delta, Reply
from holdfast.core.turn.options import Limits
from holdfast.engine.session.async_session import AsyncSession
from holdfast.engine.session.drivers.awaiting import AwaitingDriver
from holdfast.engine.tool_values import ToolOutput
from holdfast.errors import BadSetting, CallDenied, HoldfastWarning, ModelError, NoSuchSession
from holdfast.providers.replies import keep_partial
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = EITHER_KIND


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    made.close()


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# The order on disk


def test_the_users_words_are_durable_before_the_first_call(bench: Bench, tmp_path: Path) -> None:
    """Whoever looks at the disk while the model is being asked finds them there."""
    seen: list[list[tuple[str, str]]] = []

    def look(request: Any) -> str:
        other = JsonlStore(str(tmp_path))
        seen.append(said(path_of(other)))
        other.close()
        return "fine"

    bench.store = JsonlStore(str(tmp_path))
    session = bench.open([look])
    assert bench.say(session, "how are you?").text == "fine"
    assert seen == [[("user", "how are you?")]]
    assert said(bench.records()) == [("user", "how are you?"), ("assistant", "fine")]


def test_a_call_is_durable_before_its_tool_runs_and_the_result_before_the_next_call(
    bench: Bench,
) -> None:
    order: list[str] = []

    def tool(word: str) -> str:
        newest = bench.records()[-1]
        assert isinstance(newest, Assistant)
        assert any(block.get("id") == "c1" for block in newest.content or () if block)  # type: ignore[union-attr]
        order.append("tool")
        return f"said {word}"

    def after(request: Any) -> str:
        newest = bench.records()[-1]
        assert isinstance(newest, ToolResult)
        assert newest.content == "said hi"
        order.append("call")
        return "done"

    session = bench.open([calls(("c1", "tool", {"word": "hi"})), after], tools=[tool])
    assert bench.say(session, "go").text == "done"
    assert order == ["tool", "call"]
    assert [kind for kind, _text in said(bench.records())] == [
        *("user", "assistant", "tool_result", "assistant")
    ]


def test_every_event_of_a_turn_comes_after_what_it_tells_of(bench: Bench) -> None:
    """`TurnStarted`, `ToolFinished` and `TurnFinished` name records that are in the log."""
    at: list[tuple[str, int]] = []
    session = bench.open([calls(("c1", "add", {"a": 1, "b": 2})), "3"], tools=[add])
    session.on(lambda event: at.append((type(event).__name__, len(bench.records()))))
    bench.say(session, "1 + 2?")
    counts = dict(at)
    assert [name for name, _count in at] == [
        *("TurnStarted", "CallStarted", "CallFinished", "ToolStarted", "ToolFinished"),
        *("CallStarted", "CallFinished", "TurnFinished"),
    ]
    base = len(bench.records()) - 4
    assert counts["TurnStarted"] == base + 1
    assert counts["ToolStarted"] == base + 2
    assert counts["ToolFinished"] == base + 3
    assert counts["TurnFinished"] == base + 4
    finished = bench.of(TurnFinished)[0]
    assert (finished.steps, finished.reply.text) == (2, "3")
    ids = {record.id for record in bench.records()}
    assert {bench.of(TurnStarted)[0].record, bench.of(ToolFinished)[0].record} <= ids
    assert finished.reply.record in ids


# Tools


def test_tools_of_one_reply_run_side_by_side(bench: Bench) -> None:
    """Each waits for the other two: one after the other they would never meet."""
    barrier = threading.Barrier(3, timeout=20)

    def meet(name: str) -> str:
        barrier.wait()
        return f"{name} was there"

    wanted = [(f"c{number}", "meet", {"name": f"n{number}"}) for number in range(3)]
    model = ScriptedModel([calls(*wanted), "all met"])
    session = bench.open(model, tools=[meet])
    assert bench.say(session, "go").text == "all met"
    results = [one for one in bench.records() if isinstance(one, ToolResult)]
    assert {(one.tool_use_id, one.content) for one in results} == {
        (f"c{number}", f"n{number} was there") for number in range(3)
    }
    check_requests(model)


def test_more_tools_than_run_at_once_are_all_run(bench: Bench) -> None:
    wanted = [(f"c{number}", "add", {"a": number, "b": 1}) for number in range(30)]
    session = bench.open([calls(*wanted), "ok"], tools=[add])
    bench.say(session, "go")
    results = [one for one in bench.records() if isinstance(one, ToolResult)]
    assert {one.tool_use_id: one.content for one in results} == {
        f"c{number}": str(number + 1) for number in range(30)
    }


def test_asynchronous_tools_are_awaited(bench: Bench) -> None:
    async def slow(word: str) -> str:
        await asyncio.sleep(0)
        return word.upper()

    wanted = [("c1", "slow", {"word": "a"}), ("c2", "slow", {"word": "b"})]
    session = bench.open([calls(*wanted), calls(("c3", "slow", {"word": "c"})), "ok"], tools=[slow])
    bench.say(session, "go")
    results = {one.tool_use_id: one.content for one in bench.records() if one.kind == "tool_result"}  # type: ignore[union-attr]
    assert results == {"c1": "A", "c2": "B", "c3": "C"}


def test_what_goes_wrong_with_a_tool_is_told_to_the_model(bench: Bench) -> None:
    """An exception, an unknown tool, wrong arguments: each is a result, and the turn goes on."""

    def fails() -> str:
        raise ValueError("no such luck")

    wanted: list[tuple[str, str, Any]] = [
        ("c1", "fails", {}),
        ("c2", "add", {"a": "one", "b": 2}),
        ("c3", "add", {"a": 1}),
        ("c4", "add", {"a": 1, "b": 2, "c": 3}),
        ("c5", "nothing", {}),
    ]
    model = ScriptedModel([calls(*wanted), "sorry"])
    session = bench.open(model, tools=[add, fails])
    assert bench.say(session, "go").text == "sorry"
    results = {one.tool_use_id: one for one in bench.records() if isinstance(one, ToolResult)}
    assert all(one.is_error for one in results.values())
    told = {call_id: str(one.content) for call_id, one in results.items()}
    assert told["c1"] == "ValueError: no such luck"
    assert "`add` are invalid" in told["c2"]
    assert "`a`" in told["c2"] or "$.a" in told["c2"]
    assert "missing" in told["c3"]
    assert "c" in told["c4"]
    assert "no tool `nothing`" in told["c5"]
    assert "add" in told["c5"]
    check_requests(model)


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, None),
        ("", ""),
        (7, "7"),
        ({"a": [1, 2]}, '{"a":[1,2]}'),
        ([1, "two"], '[1,"two"]'),
        (b"caf\xc3\xa9", "café"),
        ([{"type": "text", "text": "block"}], [{"type": "text", "text": "block"}]),
        ([], "[]"),
        (ToolOutput("short", details={"rows": 3}), "short"),
    ],
)
def test_whatever_a_tool_returns_becomes_a_result(bench: Bench, value: Any, content: Any) -> None:
    def give() -> Any:
        return value

    model = ScriptedModel([calls(("c1", "give", {})), "ok"])
    session = bench.open(model, tools=[give])
    assert bench.say(session, "go").text == "ok"
    result = next(one for one in bench.records() if isinstance(one, ToolResult))
    assert result.content == content
    assert not result.is_error
    assert result.details == (value.details if isinstance(value, ToolOutput) else None)
    check_requests(model)


class Odd:
    """Something that JSON has no words for."""

    def __repr__(self) -> str:
        return "<an odd thing>"


@pytest.mark.parametrize(
    "value",
    [
        Odd(),
        [{"type": "text", "text": Odd()}],
        [{"type": "image", "source": {"data": Odd()}}],
        ToolOutput("fine", details=Odd()),
        ToolOutput(Odd()),  # type: ignore[arg-type]
        ToolOutput(["not a block"]),  # type: ignore[list-item]
        {"key": Odd()},
        {1: float("nan")},
        "half a pair \ud800",
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_hold_does_not_end_the_turn(bench: Bench, value: Any) -> None:
    """A tool may return anything; the model gets some text for it, and the log holds it."""

    def give() -> Any:
        return value

    model = ScriptedModel([calls(("c1", "give", {})), "ok"])
    session = bench.open(model, tools=[give])
    assert bench.say(session, "go").text == "ok"
    assert sum(isinstance(one, ToolResult) for one in bench.records()) == 1
    check_requests(model)


@pytest.mark.parametrize("as_blocks", [False, True])
def test_a_result_of_many_megabytes_is_stored_head_and_tail(as_blocks: bool) -> None:
    """It fits a line of the log, and the request fits the window all the same."""
    bench = Bench("blocking")
    huge = "first line\n" + "\x01\x02 " * 1_400_000 + "\nlast line"

    def dump() -> Any:
        return [{"type": "text", "text": huge}] if as_blocks else huge

    model = ScriptedModel([calls(("c1", "dump", {})), "ok"], limit=32_000)
    session = bench.open(model, tools=[dump], summary="extract")
    assert bench.say(session, "go").text == "ok"
    result = next(one for one in bench.records() if isinstance(one, ToolResult))
    stored = result.content if isinstance(result.content, str) else str(result.content)
    assert "first line" in stored
    assert "last line" in stored
    assert len(stored) < 40_000_000
    assert model.refused == []


def test_a_tool_that_ends_its_process_does_not(bench: Bench) -> None:
    """Functions made from command lines call `sys.exit`; side by side it must not hang either."""

    def quits(code: int) -> str:
        raise SystemExit(code)

    wanted = [("c1", "quits", {"code": 2}), ("c2", "quits", {"code": 0})]
    script: list[Any] = [calls(*wanted), calls(("c3", "quits", {"code": 1})), "still here"]
    session = bench.open(script, tools=[quits])
    assert bench.say(session, "go").text == "still here"
    results = [one for one in bench.records() if isinstance(one, ToolResult)]
    assert len(results) == 3
    assert all(one.is_error and "SystemExit" in str(one.content) for one in results)


def test_a_tool_that_cancels_itself_is_an_error_and_not_the_end() -> None:
    """A task that a tool awaited was cancelled; nobody cancelled the turn."""
    bench = Bench("async")

    async def gives_up() -> str:
        raise asyncio.CancelledError

    session = bench.open([calls(("c1", "gives_up", {})), "ok"], tools=[gives_up])
    assert bench.do(asyncio.wait_for(session.say("go"), 20)).text == "ok"
    result = next(one for one in bench.records() if isinstance(one, ToolResult))
    assert result.is_error
    bench.close()


def test_one_call_id_twice_in_a_reply_is_one_call(bench: Bench) -> None:
    """Some servers repeat an id; the tool runs once, and the next round is not confused by it."""
    ran: list[int] = []

    def note(number: int) -> str:
        ran.append(number)
        return f"noted {number}"

    script: list[Any] = [
        calls(("c1", "note", {"number": 1}), ("c1", "note", {"number": 1})),
        calls(("c2", "note", {"number": 2})),
        "ok",
    ]
    model = ScriptedModel(script)
    session = bench.open(model, tools=[note])
    assert bench.say(session, "go").text == "ok"
    assert ran == [1, 2]
    check_requests(model)


def test_a_denied_tool_is_not_run_and_the_model_is_told_why(bench: Bench) -> None:
    ran: list[str] = []

    def touch(name: str) -> str:
        ran.append(name)
        return "ok"

    def guard(event: ToolStarted) -> Deny | None:
        return Deny("not that one") if event.call.arguments["name"] == "b" else None

    model = ScriptedModel(
        [calls(("c1", "touch", {"name": "a"}), ("c2", "touch", {"name": "b"})), "fine"]
    )
    session = bench.open(model, tools=[touch])
    off = session.on(guard, ToolStarted)
    bench.say(session, "go")
    assert ran == ["a"]
    assert "[Not run: not that one]" in texts(model.requests[-1])
    off()
    check_requests(model)


def test_a_handler_that_has_gone_is_not_asked_again(bench: Bench) -> None:
    session = bench.open(["one", "two"])
    heard: list[Any] = []
    off = session.on(heard.append, TurnFinished)
    bench.say(session, "1")
    off()
    bench.say(session, "2")
    assert [event.reply.text for event in heard] == ["one"]


def test_a_denied_call_is_not_sent(bench: Bench) -> None:
    model = ScriptedModel(["never"])
    session = bench.open(model)
    off = session.on(lambda _event: Deny("over the budget of the day"), CallStarted)
    with pytest.raises(CallDenied, match="over the budget of the day"):
        bench.say(session, "hello?")
    assert model.requests == []
    assert said(bench.records()) == [("user", "hello?")]
    assert bench.of(TurnFailed)
    off()
    assert bench.do(session.resume()).text == "never"


def test_a_handler_that_raises_is_warned_of_and_changes_nothing(bench: Bench) -> None:
    def broken(event: Any) -> None:
        raise RuntimeError("a bug of somebody else")

    session = bench.open(["fine"])
    session.on(broken, TurnStarted)
    with pytest.warns(HoldfastWarning, match="a bug of somebody else"):
        assert bench.say(session, "hello").text == "fine"


def test_handlers_may_be_awaited_where_the_session_is() -> None:
    bench = Bench("async")

    async def deny(event: ToolStarted) -> Deny:
        await asyncio.sleep(0)
        return Deny("asked somebody")

    session = bench.open([calls(("c1", "add", {"a": 1, "b": 2})), "ok"], tools=[add])
    session.on(deny, ToolStarted)
    bench.say(session, "go")
    result = next(one for one in bench.records() if isinstance(one, ToolResult))
    assert result.content == "[Not run: asked somebody]"
    bench.close()


def test_the_limit_on_steps_ends_a_turn_and_not_the_session(bench: Bench) -> None:
    """A model that never stops calling tools is stopped; the log stays valid and goes on."""
    model = ScriptedModel(
        otherwise=lambda request: calls((f"c{len(request['messages'])}", "add", {"a": 1, "b": 1}))
    )
    session = bench.open(model, tools=[add], limits=Limits(steps=3))
    reply = bench.say(session, "go on")
    assert reply.stop == "steps"
    assert len(model.requests) == 3
    assert bench.of(TurnFinished)[0].steps == 3
    assert said(bench.records())[-1][0] == "tool_result"
    reply = bench.say(session, "and on")
    assert reply.stop == "steps"
    assert len(model.requests) == 6
    check_requests(model)


# Streaming


def test_a_reply_is_heard_while_it_is_written(bench: Bench) -> None:
    heard: list[Delta] = []
    words = "a reply that is told in several pieces, one after the other"
    session = bench.open(
        [calls(("c1", "add", {"a": 1, "b": 2}), text="let me see"), words], tools=[add]
    )
    reply = bench.say(session, "go", on_delta=heard.append)
    assert "".join(one.text for one in heard if one.kind == "text") == "let me see" + words
    assert [one.text for one in heard if one.kind == "call"] == ["add"]
    assert reply.text == words


def test_a_stream_has_deltas_and_events_and_ends_with_the_turn(bench: Bench) -> None:
    session = bench.open(
        [calls(("c1", "add", {"a": 1, "b": 2})), "the sum is three, I should say"], tools=[add]
    )
    pieces = bench.stream(session, "1 + 2?")
    assert isinstance(pieces[0], TurnStarted)
    assert isinstance(pieces[-1], TurnFinished)
    told = "".join(one.text for one in pieces if isinstance(one, Delta) and one.kind == "text")
    assert told == "the sum is three, I should say"
    assert any(isinstance(one, ToolFinished) for one in pieces)


def test_an_error_in_a_stream_is_raised_where_it_is_read(bench: Bench) -> None:
    session = bench.open([PermissionError("401 invalid x-api-key")])
    with pytest.raises(ModelError):
        bench.stream(session, "hello")
    assert said(bench.records()) == [("user", "hello")]


def test_a_stream_that_is_left_is_cancelled(bench: Bench) -> None:
    """Whoever stops reading stops the turn; what was said by then is kept."""
    session = bench.open(["one two three four five six seven eight nine ten " * 40, "next"])

    def leave() -> None:
        for piece in session.stream("count"):
            if isinstance(piece, Delta):
                break

    async def leave_async() -> None:
        stream = session.stream("count")
        async for piece in stream:
            if isinstance(piece, Delta):
                break
        await stream.aclose()

    if bench.is_async:
        bench.do(leave_async())
    else:
        leave()
    assert bench.say(session, "go on").text == "next"
    kinds = [kind for kind, _text in said(bench.records())]
    assert kinds[0] == "user"
    assert kinds[-2:] == ["user", "assistant"]


# Cancelling


def test_cancelled_by_a_listener_while_the_model_answers(bench: Bench) -> None:
    """What had arrived is kept, the session is sound, and the next turn works."""
    model = ScriptedModel(["the beginning of a long answer, and then very much more", "next"])
    session = bench.open(model)

    def on_delta(delta: Delta) -> None:
        session.cancel()

    with pytest.raises(Cancelled):
        bench.say(session, "tell me", on_delta=on_delta)
    assert bench.of(TurnCancelled)
    kind, text = said(bench.records())[-1]
    assert kind == "assistant"
    assert "the beginning of".startswith(text[:16])
    assert len(text) < 40
    assert bench.say(session, "go on").text == "next"
    check_requests(model)


def test_cancelled_while_tools_run(bench: Bench) -> None:
    """Tools that were started are told of as cancelled, and none of them is run again."""
    ran: list[str] = []

    def work(name: str) -> str:
        ran.append(name)
        session.cancel()
        return "done"

    script: list[Any] = [calls(("c1", "work", {"name": "a"})), "never said", "next"]
    model = ScriptedModel(script)
    session = bench.open(model, tools=[work])
    with pytest.raises(Cancelled):
        bench.say(session, "go")
    assert bench.say(session, "what now?").text == "never said"
    assert ran == ["a"]
    assert sum(isinstance(one, ToolResult) for one in bench.records()) == 1
    check_requests(model)


def test_cancelled_by_a_listener_before_tools_run(bench: Bench) -> None:
    ran: list[str] = []

    def work() -> str:
        ran.append("x")
        return "done"

    session = bench.open([calls(("c1", "work", {}), ("c2", "work", {})), "next"], tools=[work])
    session.on(lambda _event: session.cancel(), ToolStarted)
    with pytest.raises(Cancelled):
        bench.say(session, "go")
    assert ran == []
    assert set(bench.of(TurnCancelled)[0].interrupted) == {"c1", "c2"}
    results = [one for one in bench.records() if isinstance(one, ToolResult)]
    assert all("Cancelled" in str(one.content) and one.is_error for one in results)
    assert len(results) == 2


def test_cancelled_from_another_thread_while_waiting(bench: Bench) -> None:
    """A provider that is busy is not waited for when nobody wants the answer any more."""
    error = RuntimeError("429 rate limit exceeded, please retry")
    model = ScriptedModel([error, "next"])
    session = bench.open(
        model,
        limits=Limits(wait_seconds=600.0, waits=4),
    )
    session.on(lambda _event: threading.Timer(0.1, session.cancel).start(), CallFailed)
    with pytest.raises(Cancelled):
        bench.say(session, "hello")
    assert said(bench.records()) == [("user", "hello")]
    assert bench.say(session, "again").text == "next"
    check_requests(model)


def test_an_interrupt_while_the_model_answers() -> None:
    """Ctrl-C in the blocking session: re-raised, after what was said is stored."""
    bench = Bench("blocking")
    model = ScriptedModel(["this much was said before somebody pressed the key", "next"])
    session = bench.open(model)
    pieces: list[str] = []

    def on_delta(delta: Delta) -> None:
        pieces.append(delta.text)
        if len(pieces) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.say("tell me", on_delta=on_delta)
    assert said(bench.records())[-1] == ("assistant", "".join(pieces))
    assert session.say("go on").text == "next"
    check_requests(model)


@pytest.mark.parametrize("count", [1, 2])
def test_an_interrupt_while_tools_run(count: int) -> None:
    """One tool has the interrupt itself; side by side the caller has it while it waits."""
    bench = Bench("blocking")
    release = threading.Event()

    def stuck(number: int) -> str:
        if count == 1:
            raise KeyboardInterrupt
        if number == 0:
            _interrupt_main_thread()
        release.wait(20)
        return "late"

    wanted = [(f"c{number}", "stuck", {"number": number}) for number in range(count)]
    model = ScriptedModel([calls(*wanted), "next"])
    session = bench.open(model, tools=[stuck])
    with pytest.raises(KeyboardInterrupt):
        session.say("go")
    release.set()
    results = [one for one in bench.records() if isinstance(one, ToolResult)]
    assert {one.tool_use_id for one in results} == {f"c{number}" for number in range(count)}
    assert all("Cancelled" in str(one.content) for one in results)
    assert session.say("go on").text == "next"
    check_requests(model)


def _interrupt_main_thread() -> None:
    def press() -> None:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


def test_a_cancelled_task_while_the_model_answers() -> None:
    """The async session passes the cancellation on, once everything is stored."""
    bench = Bench("async")
    reached = asyncio.Event()

    class Slow:
        target = ScriptedModel().target
        window = ScriptedModel().window
        calls_ = 0

        async def send(self, request: Any, on_delta: Any = None) -> Reply:
            self.calls_ += 1
            if self.calls_ == 1:
                reached.set()
                await asyncio.sleep(60)
            return Reply(content=[{"type": "text", "text": "next"}])

    async def scenario() -> None:
        session = await AsyncSession.open("s", model=Slow(), store=bench.store)
        task = asyncio.create_task(session.say("hello"))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await session.say("again")).text == "next"

    bench.do(scenario())
    assert said(bench.records()) == [("user", "hello"), ("user", "again"), ("assistant", "next")]
    bench.close()


@pytest.mark.parametrize("way", ["task", "session"])
def test_what_had_come_is_kept_however_a_task_is_cancelled(way: str) -> None:
    """Once or again, and whether the client needs a moment to close its stream or not."""

    class Streaming:
        target = ScriptedModel().target
        window = ScriptedModel().window

        def __init__(self, turns_to_close: int) -> None:
            self.begun = asyncio.Event()
            self._turns_to_close = turns_to_close

        async def send(self, request: Any, on_delta: Any = None) -> Reply:
            self.begun.set()
            try:
                await asyncio.sleep(600)
            except BaseException as error:
                for _ in range(self._turns_to_close):
                    await asyncio.sleep(0.01)
                keep_partial(error, Reply(content=[{"type": "text", "text": "as far as it came"}]))
                raise
            return Reply(content=[])

    async def scenario(bench: Bench, times: int, turns_to_close: int) -> None:
        model = Streaming(turns_to_close)
        session = await AsyncSession.open("s", model=model, store=bench.store)
        task = asyncio.create_task(session.say("hello"))
        await model.begun.wait()
        for _ in range(times):
            task.cancel() if way == "task" else session.cancel()
            await asyncio.sleep(0.005)
        with pytest.raises(asyncio.CancelledError if way == "task" else Cancelled):
            await task
        await session.close()

    for times in (1, 2, 3):
        for turns_to_close in (0, 4):
            bench = Bench("async")
            bench.do(scenario(bench, times, turns_to_close))
            kept = [("user", "hello"), ("assistant", "as far as it came")]
            assert said(bench.records()) == kept, (times, turns_to_close)
            bench.close()


def test_a_cancel_while_a_cancelled_turn_ends_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second one comes while it is decided what is kept of the reply, on each step of that."""
    advance = AwaitingDriver._advance
    cancels = 0

    async def disturbed(driver: Any, flow: Any, value: Any, error: Any) -> Any:
        nonlocal cancels
        if error is not None or cancels:
            cancels += 1
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        return await advance(driver, flow, value, error)

    class Streaming:
        target = ScriptedModel().target
        window = ScriptedModel().window

        async def send(self, request: Any, on_delta: Any = None) -> Reply:
            begun.set()
            try:
                await asyncio.sleep(600)
            except BaseException as error:
                keep_partial(error, Reply(content=[{"type": "text", "text": "as far as it came"}]))
                raise
            return Reply(content=[])

    async def scenario() -> None:
        session = await AsyncSession.open("s", model=Streaming(), store=bench.store)
        monkeypatch.setattr(AwaitingDriver, "_advance", disturbed)
        task = asyncio.create_task(session.say("hello"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        monkeypatch.undo()
        await session.close()

    begun, bench = asyncio.Event(), Bench("async")
    bench.do(scenario())
    assert cancels > 1
    assert said(bench.records()) == [("user", "hello"), ("assistant", "as far as it came")]
    bench.close()


@pytest.mark.parametrize(
    ("way", "told"),
    [("task", "Stopped while it ran, not by"), ("session", "Cancelled by the user")],
)
def test_a_call_says_that_the_user_cancelled_only_where_he_did(way: str, told: str) -> None:
    """A program that ends a task (a time limit, a lost claim, a shutdown) is not the user."""
    bench = Bench("async")

    async def scenario() -> None:
        running = asyncio.Event()

        async def stuck() -> str:
            running.set()
            await asyncio.sleep(600)
            return ""

        model = ScriptedModel([calls(("c1", "stuck", {}))]).as_async()
        session = await AsyncSession.open("s", model=model, store=bench.store, tools=[stuck])
        task = asyncio.create_task(session.say("go"))
        await running.wait()
        task.cancel() if way == "task" else session.cancel()
        with pytest.raises((asyncio.CancelledError, Cancelled)):
            await task
        await session.close()

    bench.do(scenario())
    (result,) = [one for one in bench.records() if isinstance(one, ToolResult)]
    assert told in str(result.content)
    bench.close()


def test_a_cancelled_task_while_tools_run() -> None:
    bench = Bench("async")
    cleaned: list[str] = []

    async def scenario() -> None:
        running = asyncio.Event()

        async def stuck(name: str) -> str:
            running.set()
            try:
                await asyncio.sleep(60)
            finally:
                cleaned.append(name)
            return "late"

        wanted = [("c1", "stuck", {"name": "a"}), ("c2", "stuck", {"name": "b"})]
        model = ScriptedModel([calls(*wanted), "next"])
        session = await AsyncSession.open(
            "s", model=model.as_async(), store=bench.store, tools=[stuck]
        )
        task = asyncio.create_task(session.say("go"))
        await running.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await session.say("go on")).text == "next"
        check_requests(model)

    bench.do(scenario())
    assert set(cleaned) <= {"a", "b"}
    results = [one for one in bench.records() if isinstance(one, ToolResult)]
    assert {one.tool_use_id for one in results} == {"c1", "c2"}
    bench.close()


def test_cancelling_when_nothing_runs_does_not_cancel_the_next_turn(bench: Bench) -> None:
    session = bench.open(["fine"])
    session.cancel()
    assert bench.say(session, "hello").text == "fine"


# The caller keeps the loop


def test_a_loop_of_the_callers_own(bench: Bench) -> None:
    """`add_user`, `call` and `add_result`: guarded, stored, and nothing runs by itself."""
    script = ScriptedModel()
    session = bench.open(script)
    requests: list[Any] = []

    def send(request: Any) -> Any:
        requests.append(request)
        if len(requests) == 1:
            call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
            return {
                "type": "message",
                "role": "assistant",
                "content": [call],
                "stop_reason": "tool_use",
            }
        return {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "seen"}],
        }

    async def send_async(request: Any) -> Any:
        return send(request)

    sender = send_async if bench.is_async else send
    bench.do(session.own_loop.add_user("look there"))
    reply = bench.do(session.own_loop.call(sender))
    assert [call.name for call in reply.calls] == ["look"]
    bench.do(session.own_loop.add_result("t1", "a tree"))
    reply = bench.do(session.own_loop.call(sender))
    assert reply.text == "seen"
    assert "a tree" in texts(requests[1])
    assert said(bench.records()) == [
        *(("user", "look there"), ("assistant", ""), ("tool_result", "a tree")),
        ("assistant", "seen"),
    ]


def test_prepare_and_record(bench: Bench) -> None:
    session = bench.open(ScriptedModel())
    bench.do(session.own_loop.add_user("hello"))
    prepared = bench.do(session.own_loop.prepare())
    assert texts(prepared.request).endswith("hello") or "hello" in texts(prepared.request)
    before = len(bench.records())
    reply = bench.do(
        session.own_loop.record({"role": "assistant", "content": [{"type": "text", "text": "hi"}]})
    )
    assert reply.text == "hi"
    assert len(bench.records()) == before + 1
    assert said(bench.records())[-1] == ("assistant", "hi")


def test_prepare_after_a_refusal_is_smaller_and_bounded(bench: Bench) -> None:
    """Each preparation after an overflow is smaller; in the end there is one clear error."""
    session = bench.open(ScriptedModel(), limits=Limits(recovery_calls=4))
    bench.do(session.own_loop.add_user("the first words " * 300))
    for number in range(8):
        bench.do(
            session.own_loop.record(Reply(content=[{"type": "text", "text": f"reply {number}"}]))
        )
        bench.do(session.own_loop.add_user(f"question {number} " * 200))
    sizes = [bench.do(session.own_loop.prepare()).plan.tokens.total]
    error = RuntimeError("400 input length exceeds the context window")

    def shrink() -> None:
        for _ in range(10):
            sizes.append(bench.do(session.own_loop.prepare(failed=error)).plan.tokens.total)  # noqa: PERF401

    with pytest.raises(ModelError):
        shrink()
    assert 2 <= len(sizes) <= 5
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes)


# Going on after a crash


def _crashed(bench: Bench, *records: Any) -> None:
    """A session in which an earlier process left these records and then died."""
    session = bench.open([])
    for record in records:
        bench.store.append(session.key, [record], expect=None)


CALL = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 2}}


def test_calls_of_an_earlier_run_are_answered_as_interrupted_once(bench: Bench) -> None:
    """They are told of, are in the log, and their tool is not run again."""
    ran: list[int] = []

    def add(a: int, b: int) -> int:
        ran.append(a)
        return a + b

    _crashed(bench, User(content="1 + 2?"), Assistant(content=[CALL]))
    model = ScriptedModel(["I was interrupted", "and that is that"])
    session = bench.open(model, tools=[add])
    assert bench.say(session, "what happened?").text == "I was interrupted"
    bench.say(session, "well?")
    assert ran == []
    results = [one for one in bench.records() if isinstance(one, ToolResult)]
    assert [(one.tool_use_id, one.content) for one in results] == [("c1", INTERRUPTED)]
    assert [event.calls for event in bench.of(Interrupted)] == [("c1",)]
    assert INTERRUPTED in texts(model.requests[0])
    check_requests(model)


def test_resume_answers_what_was_left_unanswered(bench: Bench) -> None:
    _crashed(bench, User(content="are you there?"))
    session = bench.open(["I am"])
    assert bench.do(session.resume()).text == "I am"
    assert bench.do(session.resume()) is None
    assert said(bench.records()) == [("user", "are you there?"), ("assistant", "I am")]


def test_resume_after_a_crash_in_a_tool(bench: Bench) -> None:
    _crashed(bench, User(content="1 + 2?"), Assistant(content=[CALL]))
    model = ScriptedModel(["it was interrupted"])
    session = bench.open(model, tools=[add])
    assert bench.do(session.resume()).text == "it was interrupted"
    kinds = [kind for kind, _text in said(bench.records())]
    assert kinds == ["user", "assistant", "tool_result", "assistant"]
    check_requests(model)


def test_resume_where_there_is_nothing_calls_nobody(bench: Bench) -> None:
    model = ScriptedModel([])
    session = bench.open(model)
    assert bench.do(session.resume()) is None
    assert model.requests == []


def test_an_error_on_the_second_round_leaves_a_session_that_goes_on(bench: Bench) -> None:
    """The result of the first round is in the log, and the next prompt works."""
    model = ScriptedModel(
        [calls(("c1", "add", {"a": 1, "b": 2})), RuntimeError("something nobody knows"), "three"]
    )
    session = bench.open(model, tools=[add])
    with pytest.raises(ModelError):
        bench.say(session, "1 + 2?")
    assert bench.of(TurnFailed)
    assert said(bench.records())[-1] == ("tool_result", "3")
    assert bench.say(session, "well?").text == "three"
    assert texts(model.requests[-1]).count("1 + 2?") == 1
    check_requests(model)


# Opening, and what comes with a session


def test_a_missing_session_is_made_or_refused(bench: Bench) -> None:
    bench.open([], name="there")
    with pytest.raises(NoSuchSession, match="their"):
        bench.open([], name="their", create=False)
    with pytest.raises(BadSetting, match="no option `windwo`"):
        bench.open([], windwo=3)


def test_an_empty_reply_is_noticed_and_the_next_turn_is_valid(bench: Bench) -> None:
    model = ScriptedModel([Reply(content=[]), "better"])
    session = bench.open(model)
    bench.say(session, "hello")
    assert [event.kind for event in bench.of(TroubleNoticed)] == ["empty-reply"]
    assert bench.say(session, "hello?").text == "better"
    check_requests(model)


def test_no_boundary_is_made_where_there_is_room(bench: Bench) -> None:
    session = bench.open(["a", "b", "c"])
    for word in ("x", "y", "z"):
        bench.say(session, word)
    assert boundaries(bench.records()) == []
