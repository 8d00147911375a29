"""`HoldfastHistoryProvider` does what the framework's own providers do, and keeps records."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import peers
from tests.support.runs import examples

from holdfast.core.log.records import ORIGINAL_FIELD, Assistant, ToolResult, User
from holdfast.errors import AccessDenied
from holdfast.integrations import agent_framework as adapter
from holdfast.ports import ANY_HEAD
from holdfast.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.log.records import Record
    from holdfast.ports import SessionStore


@pytest.fixture(autouse=True)
def framework() -> None:
    peers.needs("agent-framework-core")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store") as opened:
        yield opened


def own(tmp_path: Path, name: str, **about: Any) -> Any:
    """A provider of ours, or one of the framework's own."""
    import warnings

    from agent_framework import FileHistoryProvider, InMemoryHistoryProvider

    if name == "holdfast":
        return adapter.HoldfastHistoryProvider("history", root=str(tmp_path / "ours"), **about)
    if name == "file":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is experimental, and says so
            return FileHistoryProvider(tmp_path / "theirs", source_id="history", **about)
    return InMemoryHistoryProvider("history", **about)


OWN = ("memory", "file")


def scripted(replies: list[Any]) -> Any:
    """A client that gives these replies, one for each request, and keeps the requests."""
    from agent_framework import (
        BaseChatClient,
        ChatResponse,
        ChatResponseUpdate,
        FunctionInvocationLayer,
        Message,
        ResponseStream,
    )

    class Client(FunctionInvocationLayer, BaseChatClient):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.asked: list[Any] = []

        def _inner_get_response(
            self, *, messages: Any, stream: bool = False, options: Any = None, **more: Any
        ) -> Any:
            self.asked.append([message.to_dict() for message in messages])
            reply = replies[(len(self.asked) - 1) % len(replies)]
            if isinstance(reply, Exception):
                raise reply
            made = Message("assistant", reply, author_name="helper", message_id=None)

            async def whole() -> Any:
                return ChatResponse(messages=[made])

            if not stream:
                return whole()

            async def pieces() -> Any:
                yield ChatResponseUpdate(contents=made.contents, role="assistant")

            return ResponseStream(pieces(), finalizer=ChatResponse.from_updates)

    return Client()


async def run_agents(place: Path, name: str) -> list[Any]:
    """The program: agents with tools, streams, instructions, two sessions, a failure, reruns."""
    from agent_framework import Agent, Content, Message, tool

    def look(where: str) -> str:
        """Look somewhere."""
        return f"saw {where}"

    def break_down(why: str) -> str:
        """Fail."""
        raise ValueError(why)

    def called(function: str, **arguments: str) -> list[Any]:
        return [
            Content.from_text("I look."),
            Content.from_function_call(call_id="c1", name=function, arguments=arguments),
        ]

    seen: list[Any] = []
    provider = own(place, name)
    client = scripted(
        [
            ["Hello, Ann."],
            called("look", where="the sky ☃"),
            ["Blue."],
            called("break_down", why="no reason"),
            [Content.from_text_reasoning(text="Hm.", protected_data="sig"), "It failed."],
            ["A stream."],
            RuntimeError("the provider is away"),
            ["Again."],
        ]
    )
    agent = Agent(
        client=client,
        instructions="Be brief.",
        tools=[tool(look), tool(break_down)],
        context_providers=[provider],
        name="helper",
    )
    first = agent.create_session(session_id="Conv 1/ä")
    second = agent.create_session(session_id="conv-2")

    async def run(what: Any, session: Any) -> None:
        try:
            seen.append((await agent.run(what, session=session)).text)
        except Exception as error:
            seen.append(f"{type(error).__name__}: {error}")
        state = session.state.get("history")
        told = await provider.get_messages(session.session_id, state=state)
        seen.append([message.to_dict() for message in told])

    await run("Hello, I am Ann.", first)
    await run("What do you see?", first)
    await run("Break.", first)
    seen.append(
        "".join([str(part) async for part in agent.run("Stream!", stream=True, session=second)])
    )
    await run("Is the provider there?", second)
    await run("Is the provider there?", second)
    picture = Content.from_data(b"\x89PNG", media_type="image/png")
    await run(Message("user", ["And this?", picture]), second)
    await run(["one", "two"], first)
    return comparable([*seen, *client.asked])


def comparable(found: list[Any]) -> list[Any]:
    """Without what differs by design: the framework makes an id for each call, and names the class
    of the provider in what it sends."""
    spelled = re.sub(r"(Holdfast|InMemory|File)HistoryProvider", "Provider", json.dumps(found))
    for number, made in enumerate(dict.fromkeys(re.findall(r"af-call-[0-9a-f]+", spelled))):
        spelled = spelled.replace(made, f"call-{number}")
    whole: list[Any] = json.loads(spelled)
    return whole


@pytest.mark.parametrize("theirs", OWN)
def test_agents_cannot_tell_it_from_the_frameworks_own(theirs: str, tmp_path: Path) -> None:
    """Replies, stored messages and every request of a client: the same, one by one."""
    expected = asyncio.run(run_agents(tmp_path, theirs))
    found = asyncio.run(run_agents(tmp_path, "holdfast"))
    assert len(expected) >= 20
    assert found == expected
    assert any("saw the sky ☃" in str(part) for part in found)


def contents() -> Any:
    from agent_framework import Content

    texts = st.sampled_from(["", "a", "b", "hello", "ünï\u2028 ☃", "two\nlines"])
    ids = st.sampled_from(["c1", "c2"])
    return st.one_of(
        st.builds(Content.from_text, texts),
        st.builds(lambda text: Content.from_text_reasoning(text=text, protected_data="s"), texts),
        st.builds(
            lambda call_id, arguments: Content.from_function_call(
                call_id=call_id, name="look", arguments=arguments
            ),
            ids,
            st.sampled_from(['{"a":1}', '{ "a": 1.0 }', "not json", "", None]),
        ),
        st.builds(
            lambda call_id, result, failed: Content.from_function_result(
                call_id=call_id, result=result, exception=failed
            ),
            ids,
            st.sampled_from(["saw", "", {"a": [1]}, None]),
            st.sampled_from([None, "boom"]),
        ),
        st.builds(lambda: Content.from_data(b"\x89PNG", media_type="image/png")),
        st.builds(lambda: Content.from_uri("https://e.com/a.pdf", media_type="application/pdf")),
        st.builds(lambda: Content.from_error(message="no", error_code="5")),
        st.builds(lambda: Content.from_usage({"input_token_count": 3, "x": 1})),
        st.builds(lambda: Content.from_hosted_file("file-1")),
    )


@st.composite
def messages(draw: Any) -> Any:
    from agent_framework import Message

    return Message(
        draw(st.sampled_from(["user", "assistant", "tool", "system", "developer"])),
        draw(st.lists(contents(), max_size=3)),
        author_name=draw(st.sampled_from([None, "ann"])),
        message_id=draw(st.sampled_from([None, None, "m1", "m2"])),
        additional_properties=draw(st.sampled_from([{}, {"x": [1]}, {"_excluded": True}])),
    )


@st.composite
def operations(draw: Any) -> list[tuple[str, Any]]:
    """Saves of new messages, and of ones that were saved before: a part, or the whole so far."""
    made: list[tuple[str, Any]] = []
    so_far: list[Any] = []
    for _step in range(draw(st.integers(1, 6))):
        again = draw(st.sampled_from(["nothing", "whole", "end", "part"]))
        number = draw(st.integers(0, 4))
        old = {"nothing": [], "whole": so_far, "end": so_far[-number:], "part": so_far[:number]}
        new = draw(st.lists(messages(), max_size=3))
        made.append((draw(st.sampled_from(["one", "one", "Two ☃"])), [*old[again], *new]))
        so_far += new
    return made


@pytest.mark.parametrize("theirs", OWN)
def test_random_saves_leave_the_same_messages(theirs: str, tmp_path_factory: Any) -> None:
    """Whatever is saved, and saved again: each provider has the same messages after each step."""

    @given(operations(), st.booleans())
    @examples(150)
    def check(steps: list[tuple[str, Any]], is_skipping: bool) -> None:
        place = tmp_path_factory.mktemp("place")

        async def main() -> None:
            mine = own(place, "holdfast", skip_excluded=is_skipping)
            other = own(place, theirs, skip_excluded=is_skipping)
            states: dict[str, Any] = {}
            for session, said in steps:
                state = states.setdefault(session, {})
                await mine.save_messages(session, said)
                await other.save_messages(session, said, state=state)
                again = own(place, "holdfast", skip_excluded=is_skipping)  # another process
                expected = await other.get_messages(session, state=state)
                for provider in (mine, again):
                    found = await provider.get_messages(session)
                    assert [each.to_dict() for each in found] == [
                        each.to_dict() for each in expected
                    ]
                again.close()
            mine.close()

        asyncio.run(main())

    check()


def test_flags_store_and_load_what_the_frameworks_own_do(tmp_path: Path) -> None:
    """Each combination of the switches: the same stored messages and the same requests."""
    from agent_framework import Agent

    async def program(name: str, place: Path, **flags: Any) -> list[Any]:
        provider = own(place, name, **flags)
        client = scripted([["one"], ["two"]])
        agent = Agent(client=client, context_providers=[provider])
        session = agent.create_session(session_id="s")
        for text in ("first", "second"):
            await agent.run(text, session=session)
        stored = await provider.get_messages("s", state=session.state.get("history"))
        return comparable([client.asked, [message.to_dict() for message in stored]])

    number = 0
    for load in (True, False):
        for inputs in (True, False):
            for outputs in (True, False):
                number += 1
                flags = {"load_messages": load, "store_inputs": inputs, "store_outputs": outputs}
                place = tmp_path / str(number)
                expected = asyncio.run(program("memory", place, **flags))
                assert asyncio.run(program("holdfast", place, **flags)) == expected, flags


def test_messages_are_records_and_kept_once(store: SessionStore) -> None:
    """What a record says is not kept a second time in the framework's spelling."""
    from agent_framework import Content, Message

    said = [
        Message("system", ["Be brief."]),
        Message("user", ["Hello."]),
        Message(
            "assistant",
            ["I look.", Content.from_function_call(call_id="c1", name="look", arguments='{"a":1}')],
        ),
        Message("tool", [Content.from_function_result(call_id="c1", result="saw")]),
        Message("assistant", ["Seen."]),
    ]
    provider = adapter.HoldfastHistoryProvider(store=store)
    asyncio.run(provider.save_messages("thread-1", said))
    records = list(store.read(provider.key_for("thread-1")))
    assert [record.kind for record in records] == [
        *("session", "user", "user", "assistant", "tool_result", "assistant")
    ]
    assert not any(ORIGINAL_FIELD in record.extra for record in records)
    assert provider.key_for("thread-1").session == "thread-1"


def test_what_other_programs_wrote_is_part_of_the_history(store: SessionStore) -> None:
    picture = base64.b64encode(b"\x89PNG").decode()
    source = {"type": "base64", "media_type": "image/png", "data": picture}
    written: list[Record] = [
        User(content=[{"type": "text", "text": "See."}, {"type": "image", "source": source}]),
        Assistant(
            content=[
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}},
            ]
        ),
        ToolResult(tool_use_id="c1", content="none", is_error=True),
    ]

    async def main() -> None:
        from agent_framework import Message

        provider = adapter.HoldfastHistoryProvider(store=store)
        await provider.save_messages("thread-1", [Message("user", ["Hello."])])
        store.append(provider.key_for("thread-1"), written, expect=ANY_HEAD)
        await provider.save_messages("thread-1", [Message("assistant", ["I see."])])
        found = await provider.get_messages("thread-1")
        assert [message.role for message in found] == [
            *("user", "user", "assistant", "tool", "assistant")
        ]
        assert found[1].contents[1].uri == f"data:image/png;base64,{picture}"
        assert found[2].contents[1].parse_arguments() == {"a": 1}
        assert found[3].contents[0].exception
        found[0].contents.clear()  # a caller's copy
        assert (await provider.get_messages("thread-1"))[0].text == "Hello."

    asyncio.run(main())


def test_owners_do_not_read_each_other(store: SessionStore) -> None:
    from agent_framework import Message

    ann = adapter.HoldfastHistoryProvider(store=store, owner="ann")
    bob = adapter.HoldfastHistoryProvider(store=store, owner="bob")

    async def main() -> None:
        await ann.save_messages("thread-1", [Message("user", ["of Ann"])])
        for provider in (bob, adapter.HoldfastHistoryProvider(store=store)):
            with pytest.raises(AccessDenied):
                await provider.get_messages("thread-1")
            with pytest.raises(AccessDenied):
                await provider.save_messages("thread-1", [Message("user", ["of Bob"])])
        assert [message.text for message in await ann.get_messages("thread-1")] == ["of Ann"]

    asyncio.run(main())


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    """Two programs on one conversation: every message is stored, each once."""
    from agent_framework import Message

    def write(number: int) -> None:
        with open_store(tmp_path / "store") as store:
            provider = adapter.HoldfastHistoryProvider(store=store)
            for turn in range(20):
                said = [Message("user", [f"{number}/{turn}"], message_id=f"{number}/{turn}")]
                asyncio.run(provider.save_messages("thread-1", said))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open_store(tmp_path / "store") as store:
        provider = adapter.HoldfastHistoryProvider(store=store)
        found = asyncio.run(provider.get_messages("thread-1"))
    assert sorted(message.text for message in found) == sorted(
        f"{number}/{turn}" for number in range(3) for turn in range(20)
    )


def test_messages_that_json_cannot_hold_store_nothing(store: SessionStore) -> None:
    from agent_framework import Message

    provider = adapter.HoldfastHistoryProvider(store=store)
    odd = Message("user", ["x"], additional_properties={"x": {1: {"y"}, (1, 2): 3}})

    async def main() -> None:
        with pytest.raises(TypeError, match="cannot store an item"):
            await provider.save_messages("thread-1", [Message("user", ["y"]), odd])
        assert await provider.get_messages("thread-1") == []
        provider.close()
        with pytest.raises(RuntimeError, match="closed"):
            await provider.save_messages("thread-1", [])

    asyncio.run(main())
