"""Functions as models, and blocking models for those who await."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.providers.wire_replies import Said, anthropic_body, events_of

from holdfast.core.dialects.registry import target
from holdfast.core.models.replies import Delta
from holdfast.core.window import Window
from holdfast.errors import BadSetting
from holdfast.providers.callables import as_async, async_from_callable, from_callable
from holdfast.testing import ScriptedModel

if TYPE_CHECKING:
    from holdfast.core.models.replies import Reply
    from holdfast.ports import AsyncModel, OnDelta

CLAUDE = target("anthropic", provider="anthropic", model="claude-opus-4-5")
SAID = Said("", "Yes, it is.", ())
REQUEST: dict[str, Any] = {"messages": [{"role": "user", "content": "Is it?"}]}


def run(model: AsyncModel, on_delta: OnDelta | None = None) -> Reply:
    async def sent() -> Reply:
        return await model.send(REQUEST, on_delta)

    return asyncio.run(sent())


def test_a_function_is_a_model() -> None:
    """It gets the request, and whatever an SDK returns may be returned."""
    got: list[Any] = []

    def send(request: Any) -> Any:
        got.append(request)
        return anthropic_body(SAID)

    model = from_callable(send, CLAUDE)

    assert model.send(REQUEST).text == "Yes, it is."
    assert got == [REQUEST]
    assert model.window.tokens == 200_000
    assert from_callable(send, CLAUDE, 50_000).window == Window(50_000)


def test_its_stream_is_heard_as_it_comes() -> None:
    """Events reach the listener one by one; a reply that comes whole is told in one piece."""
    heard: list[Delta] = []
    from_callable(lambda _request: iter(events_of(SAID, "anthropic", 4)), CLAUDE).send(
        REQUEST, heard.append
    )
    assert [delta.text for delta in heard] == ["Yes,", " it ", "is."]

    heard.clear()
    from_callable(lambda _request: anthropic_body(SAID), CLAUDE).send(REQUEST, heard.append)
    assert heard == [Delta("text", "Yes, it is.")]


def test_an_asynchronous_function_has_to_be_awaited() -> None:
    """A blocking caller cannot use it, and is told what to use instead."""

    async def send(_request: Any) -> Any:
        return anthropic_body(SAID)

    with pytest.raises(BadSetting, match="asynchronous"):
        from_callable(send, CLAUDE).send(REQUEST)
    assert run(async_from_callable(send, CLAUDE)).text == "Yes, it is."
    assert run(async_from_callable(lambda _request: anthropic_body(SAID), CLAUDE)).text


def test_a_blocking_model_does_not_hold_up_the_loop() -> None:
    """While it works in its thread, the loop goes on; its pieces are heard in the loop."""
    gate = threading.Event()
    heard: list[tuple[str, bool]] = []

    def answer(_request: Any) -> str:
        assert gate.wait(20)
        return "A reply in pieces, more than one."

    async def both() -> Reply:
        here = threading.get_ident()
        model = as_async(ScriptedModel([answer]))
        sending = asyncio.create_task(
            model.send(REQUEST, lambda one: heard.append((one.text, threading.get_ident() == here)))
        )
        await asyncio.sleep(0)
        gate.set()  # only a loop that still runs gets here
        return await sending

    reply = asyncio.run(both())

    assert "".join(text for text, _here in heard) == reply.text
    assert all(is_here for _text, is_here in heard)


def test_what_a_listener_raises_comes_back_from_the_thread() -> None:
    """An exception of the listener ends the call in its thread and is raised to the caller."""

    class Enough(Exception):
        pass

    def on_delta(_delta: Delta) -> None:
        raise Enough

    with pytest.raises(Enough):
        run(as_async(ScriptedModel(["A reply."])), on_delta)


def test_a_call_that_nobody_waits_for_ends() -> None:
    """After a cancellation the thread stops at the next piece instead of talking to nobody."""
    told: list[str] = []
    done = threading.Event()

    class Slow:
        target = CLAUDE
        window = Window(9_000)

        def send(self, _request: Any, on_delta: OnDelta | None = None) -> Reply:
            assert on_delta is not None
            try:
                for number in range(2_000):
                    on_delta(Delta("text", str(number)))
            finally:
                done.set()
            raise AssertionError("nobody stopped it")

    async def cancelled() -> None:
        begun = asyncio.Event()

        def on_delta(delta: Delta) -> None:
            told.append(delta.text)
            begun.set()

        task = asyncio.create_task(as_async(Slow()).send(REQUEST, on_delta))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())

    assert done.wait(20)
    assert len(told) < 2_000
