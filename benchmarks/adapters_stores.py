"""The stores of benchmarks/adapters.py: each framework's own, and ours in its place.

A side appends turns of four messages (a question, a call, its result, an answer) through the
framework's own interface, and reads them all again as a program does that starts.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Append = Callable[[str], object]

TEXT = "the report of the nightly export agrees with the account table and the last release " * 4
RESULT = "\n".join(f"{row},invoice,{row * 37 % 1009},open" for row in range(40))


@dataclass(frozen=True, slots=True)
class StoreSide:
    """A framework, with its own store or ours."""

    framework: str
    store: str
    is_ours: bool
    writer: Callable[[Path], Any]
    """Opens the store in a folder: a context with a function that appends the turn of a mark."""
    read: Callable[[Path], Any]
    """Opens the store again, and returns everything that it gives back."""
    is_files: bool = False
    """Writes files, and syncs none of them."""
    is_shared: bool = True
    """Several processes can use one place."""
    writer_in_turns: Callable[[Path], Any] | None = None
    """The same as `writer`, with the means that makes processes wait for each other's turns."""
    durable_writer: Callable[[Path], Any] | None = None
    """For a store in memory: the same, with each turn also written to a file and synced."""
    durable_read: Callable[[Path], Any] | None = None
    """Reads that file, as a program does that starts without what was in memory."""


def _chat_turn(mark: str) -> list[dict[str, Any]]:
    """The items of a turn, as the OpenAI Agents SDK has them."""
    call = {"type": "function_call", "call_id": f"c-{mark}", "name": "fetch", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": f"c-{mark}", "output": RESULT}
    return [
        {"role": "user", "content": f"{mark} {TEXT}"},
        call,
        output,
        {"role": "assistant", "content": TEXT},
    ]


def _await(call: Any) -> Any:
    """Return what a coroutine returns.

    Not as the result of the task: `asyncio.run` of Python 3.11 makes a text of that, which may take
    longer than the call.
    """
    found: list[Any] = []

    async def keep() -> None:
        found.append(await call)

    asyncio.run(keep())
    return found[0]


_TURNS_FILE = "turns.jsonl"


@contextmanager
def _synced_file(place: Path) -> Iterator[Callable[[bytes], None]]:
    """Yield a function that appends lines to a file, and syncs it."""
    with open(place / _TURNS_FILE, "ab", buffering=0) as file:

        def write(lines: bytes) -> None:
            file.write(lines + b"\n")
            os.fdatasync(file.fileno())

        yield write


def _durable(writer: Callable[[Path], Any], read: Callable[[Path], Any]) -> dict[str, Any]:
    return {"durable_writer": writer, "durable_read": read}


# OpenAI Agents SDK


def _openai_session(place: Path, *, is_ours: bool) -> Any:
    if is_ours:
        from holdfast.integrations.openai_agents import HoldfastSession

        return HoldfastSession("bench", root=str(place))
    from agents import SQLiteSession

    return SQLiteSession("bench", place / "sessions.db")


def _openai(*, is_ours: bool) -> StoreSide:
    @contextmanager
    def writer(place: Path) -> Iterator[Append]:
        session = _openai_session(place, is_ours=is_ours)
        with asyncio.Runner() as loop:
            yield lambda mark: loop.run(session.add_items(_chat_turn(mark)))
        session.close()

    def read(place: Path) -> Any:
        session = _openai_session(place, is_ours=is_ours)
        found = _await(session.get_items())
        session.close()
        return found

    store = "HoldfastSession" if is_ours else "SQLiteSession"
    return StoreSide("OpenAI Agents", store, is_ours, writer, read)


# LangGraph


@contextmanager
def _graph(place: Path, *, is_ours: bool) -> Iterator[Any]:
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.graph import MessagesState, StateGraph

    def answer(state: Any) -> Any:
        mark = state["messages"][-1].content.split()[0]
        call = {"id": f"c-{mark}", "name": "fetch", "args": {}}
        return {
            "messages": [
                AIMessage("", tool_calls=[call]),
                ToolMessage(RESULT, tool_call_id=f"c-{mark}"),
                AIMessage(TEXT),
            ]
        }

    builder = StateGraph(MessagesState).add_node("answer", answer).add_edge("__start__", "answer")
    if is_ours:
        from holdfast.integrations.langgraph import HoldfastSaver

        saver = HoldfastSaver(root=str(place))
        yield builder.compile(checkpointer=saver)
        saver.close()
        return
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(str(place / "checkpoints.db")) as theirs:
        yield builder.compile(checkpointer=theirs)


def _langgraph(*, is_ours: bool) -> StoreSide:
    config: Any = {"configurable": {"thread_id": "bench"}}

    @contextmanager
    def writer(place: Path) -> Iterator[Append]:
        with _graph(place, is_ours=is_ours) as graph:
            yield lambda mark: graph.invoke({"messages": [("user", f"{mark} {TEXT}")]}, config)

    @contextmanager
    def writer_in_turns(place: Path) -> Iterator[Append]:
        with _graph(place, is_ours=True) as graph:

            def append(mark: str) -> None:
                with graph.checkpointer.turn("bench"):
                    graph.invoke({"messages": [("user", f"{mark} {TEXT}")]}, config)

            yield append

    def read(place: Path) -> Any:
        with _graph(place, is_ours=is_ours) as graph:
            return graph.get_state(config).values["messages"]

    store = "HoldfastSaver" if is_ours else "SqliteSaver"
    patient = writer_in_turns if is_ours else None
    return StoreSide("LangGraph", store, is_ours, writer, read, writer_in_turns=patient)


# Pydantic AI


def _pydantic_turn(mark: str) -> list[Any]:
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )

    return [
        ModelRequest(parts=[UserPromptPart(f"{mark} {TEXT}")]),
        ModelResponse(parts=[ToolCallPart("fetch", {}, f"c-{mark}")]),
        ModelRequest(parts=[ToolReturnPart("fetch", RESULT, f"c-{mark}")]),
        ModelResponse(parts=[TextPart(TEXT)]),
    ]


_MEMORY: dict[Path, Any] = {}
"""The stores of Pydantic AI and the Claude Agent SDK that live in memory alone."""


def _pydantic_store(place: Path, *, is_ours: bool) -> Any:
    if is_ours:
        from holdfast.integrations.pydantic_ai import HoldfastConversationStore

        return HoldfastConversationStore(root=str(place))
    from pydantic_ai.conversation_store import InMemoryConversationStore

    return _MEMORY.setdefault(place, InMemoryConversationStore())


def _pydantic(*, is_ours: bool) -> StoreSide:
    @contextmanager
    def writer(place: Path) -> Iterator[Append]:
        from pydantic_ai.conversation import Conversation
        from pydantic_ai.conversation_store import ConversationConflict

        store = _pydantic_store(place, is_ours=is_ours)
        with asyncio.Runner() as loop:
            held: list[Any] = [None]

            def append(mark: str) -> None:
                while True:
                    if held[0] is None:
                        found = loop.run(store.load("bench"))
                        held[0] = found or Conversation(conversation_id="bench")
                    conversation = held[0]
                    conversation.messages.extend(_pydantic_turn(mark))
                    try:
                        loop.run(store.save(conversation))
                    except ConversationConflict:
                        held[0] = None  # another process was faster: load, and say it again
                    else:
                        return

            yield append
        if is_ours:
            store.close()

    def read(place: Path) -> Any:
        store = _pydantic_store(place, is_ours=is_ours)
        found = _await(store.load("bench"))
        if is_ours:
            store.close()
        return found.messages

    @contextmanager
    def durable_writer(place: Path) -> Iterator[Append]:
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        with writer(place) as append, _synced_file(place) as write:

            def append_both(mark: str) -> None:
                append(mark)
                write(ModelMessagesTypeAdapter.dump_json(_pydantic_turn(mark)))

            yield append_both

    def durable_read(place: Path) -> Any:
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        lines = (place / _TURNS_FILE).read_bytes().splitlines()
        return [msg for line in lines for msg in ModelMessagesTypeAdapter.validate_json(line)]

    store = "HoldfastConversationStore" if is_ours else "InMemoryConversationStore"
    durable: Any = {} if is_ours else _durable(durable_writer, durable_read)
    return StoreSide("Pydantic AI", store, is_ours, writer, read, is_shared=is_ours, **durable)


# Strands


def _strands_manager(place: Path, *, is_ours: bool) -> tuple[Any, Any]:
    if is_ours:
        from strands.session.repository_session_manager import RepositorySessionManager

        from holdfast.integrations.strands import HoldfastSessionRepository

        repository = HoldfastSessionRepository(root=str(place))
        return RepositorySessionManager("bench", repository), repository.close
    from strands.session.file_session_manager import FileSessionManager

    return FileSessionManager("bench", storage_dir=str(place)), lambda: None


def _strands_turn(mark: str) -> list[Any]:
    call = {"toolUse": {"toolUseId": f"c-{mark}", "name": "fetch", "input": {}}}
    result = {"toolUseId": f"c-{mark}", "status": "success", "content": [{"text": RESULT}]}
    return [
        {"role": "user", "content": [{"text": f"{mark} {TEXT}"}]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"toolResult": result}]},
        {"role": "assistant", "content": [{"text": TEXT}]},
    ]


def _strands(*, is_ours: bool) -> StoreSide:
    @contextmanager
    def writer(place: Path) -> Iterator[Append]:
        from strands import Agent

        manager, close = _strands_manager(place, is_ours=is_ours)
        agent = Agent(session_manager=manager, model=_no_model(), callback_handler=None)

        def append(mark: str) -> None:
            for message in _strands_turn(mark):
                manager.append_message(message, agent)

        yield append
        close()

    def read(place: Path) -> Any:
        from strands import Agent

        manager, close = _strands_manager(place, is_ours=is_ours)
        agent = Agent(session_manager=manager, model=_no_model(), callback_handler=None)
        found = manager.session_repository.list_messages("bench", agent.agent_id)
        close()
        return [message.message for message in found]

    store = "HoldfastSessionRepository" if is_ours else "FileSessionManager"
    return StoreSide("Strands", store, is_ours, writer, read, is_files=not is_ours)


def _no_model() -> Any:
    """A model that is never called."""
    from unittest.mock import MagicMock

    from strands.models.model import Model

    return MagicMock(spec=Model)


def _strands_snapshots(*, is_ours: bool) -> StoreSide:
    key = "session/bench/scopes/agent/default/snapshots/snapshot_latest.json"

    def storage(place: Path) -> Any:
        if is_ours:
            from holdfast.integrations.strands import HoldfastStorage

            return HoldfastStorage(root=str(place))
        from strands.storage import LocalFileStorage

        return LocalFileStorage(str(place))

    @contextmanager
    def writer(place: Path) -> Iterator[Append]:
        kept = storage(place)
        messages: list[Any] = []
        with asyncio.Runner() as loop:

            def append(mark: str) -> None:
                messages.extend(_strands_turn(mark))
                about = {"scope": "agent", "schema_version": "1.0", "created_at": mark}
                whole = {**about, "data": {"messages": messages, "state": {}}, "app_data": {}}
                loop.run(kept.write(key, json.dumps(whole, ensure_ascii=False).encode()))

            yield append
        if is_ours:
            kept.close()

    def read(place: Path) -> Any:
        kept = storage(place)
        found = json.loads(_await(kept.read(key)))
        if is_ours:
            kept.close()
        return found

    store = "HoldfastStorage" if is_ours else "LocalFileStorage"
    return StoreSide(
        "Strands, snapshots", store, is_ours, writer, read, is_files=not is_ours, is_shared=False
    )


# Google ADK


def _adk_service(place: Path, *, is_ours: bool) -> Any:
    if is_ours:
        from holdfast.integrations.google_adk import HoldfastSessionService

        return HoldfastSessionService(root=str(place))
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    return SqliteSessionService(str(place / "sessions.db"))


_ADK: Any = {"app_name": "bench", "user_id": "ann", "session_id": "bench"}


def _adk_turn(mark: str) -> list[Any]:
    from google.adk.events.event import Event
    from google.genai import types

    call = types.FunctionCall(id=f"c-{mark}", name="fetch", args={})
    result = types.FunctionResponse(id=f"c-{mark}", name="fetch", response={"result": RESULT})
    parts = [
        ("user", types.Part(text=f"{mark} {TEXT}")),
        ("bench", types.Part(function_call=call)),
        ("bench", types.Part(function_response=result)),
        ("bench", types.Part(text=TEXT)),
    ]
    return [
        Event(
            author=author,
            invocation_id=mark,
            content=types.Content(role="user" if author == "user" else "model", parts=[part]),
        )
        for author, part in parts
    ]


def _adk(*, is_ours: bool) -> StoreSide:
    @contextmanager
    def writer(place: Path) -> Iterator[Append]:
        service = _adk_service(place, is_ours=is_ours)

        async def open_session() -> Any:
            found = await service.get_session(**_ADK)
            if found is None:
                try:
                    return await service.create_session(**_ADK)
                except Exception:
                    return await service.get_session(**_ADK)  # another process made it
            return found

        with asyncio.Runner() as loop:
            held = [loop.run(open_session())]

            async def append_all(mark: str) -> None:
                for event in _adk_turn(mark):
                    while True:
                        try:
                            await service.append_event(held[0], event)
                        except Exception as error:
                            if "stale" not in f"{type(error).__name__} {error}".lower():
                                raise
                            held[0] = await open_session()  # as ADK asks for
                        else:
                            break

            yield lambda mark: loop.run(append_all(mark))
        if is_ours:
            service.close()

    def read(place: Path) -> Any:
        service = _adk_service(place, is_ours=is_ours)
        found = _await(service.get_session(**_ADK))
        if is_ours:
            service.close()
        return [event.content for event in found.events]

    store = "HoldfastSessionService" if is_ours else "SqliteSessionService"
    return StoreSide("Google ADK", store, is_ours, writer, read)


# Claude Agent SDK


def _claude(*, is_ours: bool) -> StoreSide:
    key: Any = {"project_key": "bench", "session_id": "bench"}

    def open_store(place: Path) -> Any:
        if is_ours:
            from holdfast.integrations.claude_agent import HoldfastSessionStore

            return HoldfastSessionStore(root=str(place))
        from claude_agent_sdk import InMemorySessionStore

        return _MEMORY.setdefault(place, InMemorySessionStore())

    @contextmanager
    def writer(place: Path) -> Iterator[Append]:
        store = open_store(place)
        with asyncio.Runner() as loop:
            yield lambda mark: loop.run(store.append(key, _claude_turn(mark)))
        if is_ours:
            store.close()

    def read(place: Path) -> Any:
        store = open_store(place)
        found = _await(store.load(key))
        if is_ours:
            store.close()
        return found

    @contextmanager
    def durable_writer(place: Path) -> Iterator[Append]:
        with writer(place) as append, _synced_file(place) as write:

            def append_both(mark: str) -> None:
                append(mark)
                write(b"\n".join(json.dumps(line).encode() for line in _claude_turn(mark)))

            yield append_both

    def durable_read(place: Path) -> Any:
        return [json.loads(line) for line in (place / _TURNS_FILE).read_bytes().splitlines()]

    store = "HoldfastSessionStore" if is_ours else "InMemorySessionStore"
    durable: Any = {} if is_ours else _durable(durable_writer, durable_read)
    return StoreSide("Claude Agent SDK", store, is_ours, writer, read, is_shared=is_ours, **durable)


def _claude_turn(mark: str) -> list[Any]:
    use = {"type": "tool_use", "id": f"c-{mark}", "name": "fetch", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"c-{mark}", "content": RESULT}
    said = [
        ("user", f"{mark} {TEXT}"),
        ("assistant", [use]),
        ("user", [result]),
        ("assistant", [{"type": "text", "text": TEXT}]),
    ]
    return [
        {
            "type": role,
            "uuid": f"{mark}-{number}",
            "timestamp": "2026-11-17T12:00:00Z",
            "message": {"role": role, "content": content},
        }
        for number, (role, content) in enumerate(said)
    ]


MAKERS: dict[str, Callable[..., StoreSide]] = {
    "OpenAI Agents": _openai,
    "LangGraph": _langgraph,
    "Pydantic AI": _pydantic,
    "Strands": _strands,
    "Strands, snapshots": _strands_snapshots,
    "Google ADK": _adk,
    "Claude Agent SDK": _claude,
}
