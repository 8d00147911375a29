"""What a turn costs in other libraries: one workload, one model, each with its own durable store.

    python benchmarks/turn_peers.py [--turns N] [--python PATH] [--only NAME]... [--write PAGE]

Every system says 60 words in each turn of one conversation and hears 120, in a window of 32,000
tokens, and keeps what was said on disk. The model answers at once; it counts a token for every four
characters, tells every library that asks for usage or a window, refuses a request that is too
large with the error that the library knows, and its own CPU is not counted. Each system compacts by
its own means, as its documentation says. `--python` is an interpreter that has the other libraries
(`requirements-peers.txt`, `langgraph-checkpoint-postgres`, `deepagents`); a system that is not
installed is left out. Every one runs in a process of its own, and stops after `SECONDS_MAX` of CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import logging
import os
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.pages import output_of, words, write_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

WINDOW: Final = 32_000
OUTPUT: Final = 2_000
CHARS_A_TOKEN: Final = 4
SECONDS_MAX: Final = 60.0
KEPT_MESSAGES: Final = 20
"""What LangChain's summaries keep unless it is told otherwise; the others are told the same."""
HERE: Final = Path(__file__).resolve().parent.parent


class TooLong(Exception):
    """The request and its answer do not fit in the window."""


class Free:
    """The model of all systems: it answers at once."""

    def __init__(self) -> None:
        self._rng = random.Random(1)
        self.spent = 0.0
        self.calls = self.refused = self.tokens = 0

    def answer(self, texts: Iterable[str]) -> tuple[str, int]:
        """Return an answer and the tokens of what was asked; raise where that is too long."""
        began = time.process_time()
        try:
            self.calls += 1
            size = sum(len(text) // CHARS_A_TOKEN + 4 for text in texts)
            if size + OUTPUT > WINDOW:
                self.refused += 1
                raise TooLong(f"prompt is too long: {size + OUTPUT} tokens > {WINDOW} maximum")
            self.tokens += size
            return f"Done {self.calls}. {self.words(120)}", size
        finally:
            self.spent += time.process_time() - began

    def words(self, count: int) -> str:
        """Return made-up words, others each time."""
        return words(count, self._rng)


def _texts(value: Any) -> list[str]:
    """Every text in a request, whatever its shape."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for item in value.values() for text in _texts(item)]
        case list() | tuple():
            return [text for item in value for text in _texts(item)]
        case _:
            return []


# The systems: each takes a folder and the model, and returns what says one thing and hears another


def holdfast(place: Path, free: Free) -> Callable[[str], str]:
    from holdfast import Reply, Session
    from holdfast.testing import ScriptedModel

    made = ScriptedModel(window=WINDOW)

    class Model:
        target, window = made.target, made.window

        def send(self, request: dict[str, Any], _on_delta: object = None) -> Reply:
            text, size = free.answer(_texts([request.get("system"), request["messages"]]))
            usage = {"input_tokens": size, "output_tokens": len(text) // CHARS_A_TOKEN}
            said = {"type": "text", "text": text}
            return Reply(content=[said], stop="end", raw_usage=usage)

    session = Session.open("bench", store=str(place), model=Model())
    return lambda words: session.say(words).text


def _chat_model(free: Free) -> Any:
    """The model as LangChain calls models."""
    from langchain_core.exceptions import ContextOverflowError
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from pydantic import Field

    class Chat(BaseChatModel):  # type: ignore[misc]
        profile: Any = Field(default={"max_input_tokens": WINDOW - OUTPUT})

        @property
        def _llm_type(self) -> str:
            return "free"

        def bind_tools(self, *_: Any, **__: Any) -> Any:
            return self

        def _generate(self, messages: list[Any], *_: Any, **__: Any) -> Any:
            try:
                text, size = free.answer(_texts([message.content for message in messages]))
            except TooLong as error:
                raise ContextOverflowError(str(error)) from error
            output = len(text) // CHARS_A_TOKEN
            usage: Any = {"input_tokens": size, "output_tokens": output}
            usage["total_tokens"] = size + output
            said = AIMessage(content=text, usage_metadata=usage)
            return ChatResult(generations=[ChatGeneration(message=said)])

    return Chat()


def _langgraph(saver: Any, free: Free) -> Callable[[str], str]:
    from langchain.agents import create_agent
    from langchain.agents.middleware import SummarizationMiddleware

    model = _chat_model(free)
    summaries = SummarizationMiddleware(
        model, trigger=("fraction", 0.85), keep=("messages", KEPT_MESSAGES)
    )
    agent = create_agent(model, tools=[], middleware=[summaries], checkpointer=saver)
    return lambda words: _last_text(agent, words)


def _last_text(agent: Any, words: str) -> str:
    config = {"configurable": {"thread_id": "bench"}, "recursion_limit": 10_000}
    done = agent.invoke({"messages": [{"role": "user", "content": words}]}, config)
    return str(done["messages"][-1].content)


def _sqlite_saver(place: Path) -> Any:
    import sqlite3

    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver(sqlite3.connect(place / "checkpoints.db", check_same_thread=False))


def langgraph_sqlite(place: Path, free: Free) -> Callable[[str], str]:
    return _langgraph(_sqlite_saver(place), free)


def langgraph_postgres(_place: Path, free: Free) -> Callable[[str], str]:
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg import Connection

    address = os.environ["BENCH_POSTGRES"]
    connection = Connection.connect(address, autocommit=True, prepare_threshold=0)
    saver = PostgresSaver(connection)  # type: ignore[arg-type,unused-ignore]
    saver.setup()
    return _langgraph(saver, free)


def deepagents(place: Path, free: Free) -> Callable[[str], str]:
    from deepagents import create_deep_agent
    from deepagents.backends import FilesystemBackend

    agent = create_deep_agent(
        _chat_model(free),
        tools=[],
        backend=FilesystemBackend(root_dir=str(place), virtual_mode=True),
        checkpointer=_sqlite_saver(place),
    )
    return lambda words: _last_text(agent, words)


def openai_agents(place: Path, free: Free) -> Callable[[str], str]:
    from agents import Agent, RunConfig, Runner, SQLiteSession, set_tracing_disabled
    from agents.items import ModelResponse
    from agents.memory import SessionSettings
    from agents.models.interface import Model
    from agents.usage import Usage
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(True)

    class Chat(Model):  # type: ignore[misc,unused-ignore]
        async def get_response(self, *given: Any, **named: Any) -> Any:
            asked = [*given[:2], named.get("system_instructions"), named.get("input")]
            text, size = free.answer(_texts(asked))
            said = ResponseOutputMessage(
                id="m",
                role="assistant",
                status="completed",
                type="message",
                content=[ResponseOutputText(text=text, type="output_text", annotations=[])],
            )
            usage = Usage(requests=1, input_tokens=size, output_tokens=len(text) // CHARS_A_TOKEN)
            return ModelResponse(output=[said], usage=usage, response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    # It has no summary without its provider's API; what it has is the number of items it loads.
    settings = SessionSettings(limit=2 * KEPT_MESSAGES)
    session = SQLiteSession("bench", place / "sessions.db", session_settings=settings)
    agent = Agent(name="helper", model=Chat())
    loop = asyncio.Runner()
    config = RunConfig(tracing_disabled=True)

    def say(words: str) -> str:
        run = Runner.run(agent, words, session=session, run_config=config)
        return str(loop.run(run).final_output)

    return say


def strands(place: Path, free: Free) -> Callable[[str], str]:
    from strands import Agent
    from strands.agent.conversation_manager import SummarizingConversationManager
    from strands.models.model import Model
    from strands.session.file_session_manager import FileSessionManager
    from strands.types.exceptions import ContextWindowOverflowException

    class Chat(Model):  # type: ignore[misc]
        def update_config(self, **_: Any) -> None:
            return None

        def get_config(self) -> Any:
            return {"model_id": "free", "context_window_limit": WINDOW, "max_tokens": OUTPUT}

        def structured_output(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        async def stream(
            self, messages: Any, _tools: Any = None, system: Any = None, **_: Any
        ) -> Any:
            try:
                text, size = free.answer(_texts([system, messages]))
            except TooLong as error:
                raise ContextWindowOverflowException(str(error)) from error
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": text}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
            output = len(text) // CHARS_A_TOKEN
            usage = {"inputTokens": size, "outputTokens": output, "totalTokens": size + output}
            yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 0}}}

    agent = Agent(
        model=Chat(),
        session_manager=FileSessionManager("bench", storage_dir=str(place)),
        conversation_manager=SummarizingConversationManager(),
        agent_id="bench",
        callback_handler=None,
    )
    return lambda words: str(agent(words))


def adk(place: Path, free: Free) -> Callable[[str], str]:
    from google.adk.agents import LlmAgent
    from google.adk.apps import App
    from google.adk.apps.app import EventsCompactionConfig
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import Runner
    from google.adk.sessions.sqlite_session_service import SqliteSessionService
    from google.genai import types

    class Chat(BaseLlm):  # type: ignore[misc]
        async def generate_content_async(self, request: Any, *_: Any, **__: Any) -> Any:
            asked = [part.text or "" for one in request.contents for part in one.parts or ()]
            text, size = free.answer(asked)
            output = len(text) // CHARS_A_TOKEN
            usage = types.GenerateContentResponseUsageMetadata(
                prompt_token_count=size,
                candidates_token_count=output,
                total_token_count=size + output,
            )
            said = types.Content(role="model", parts=[types.Part(text=text)])
            yield LlmResponse(content=said, usage_metadata=usage)

    agent = LlmAgent(name="helper", model=Chat(model="free"))
    config = EventsCompactionConfig(
        token_threshold=int(0.85 * (WINDOW - OUTPUT)), event_retention_size=KEPT_MESSAGES
    )
    app = App(name="helper", root_agent=agent, events_compaction_config=config)
    sessions = SqliteSessionService(str(place / "sessions.db"))
    runner = Runner(app=app, session_service=sessions)
    loop = asyncio.Runner()
    who: Any = {"app_name": "helper", "user_id": "ann", "session_id": "bench"}
    if loop.run(sessions.get_session(**who)) is None:
        loop.run(sessions.create_session(**who))

    async def ask(words: str) -> str:
        said = ""
        content = types.Content(role="user", parts=[types.Part(text=words)])
        events = runner.run_async(user_id="ann", session_id="bench", new_message=content)
        async for event in events:
            if event.author == "helper" and event.content and event.content.parts:
                said = event.content.parts[0].text or said
        return said

    return lambda words: loop.run(ask(words))


def pydantic_ai(place: Path, free: Free) -> Callable[[str], str]:
    from pydantic_ai import Agent, ModelMessagesTypeAdapter
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import RequestUsage

    def reply(messages: list[Any], _info: Any) -> Any:
        parts = [part for message in messages for part in message.parts]
        text, size = free.answer([str(getattr(part, "content", "")) for part in parts])
        usage = RequestUsage(input_tokens=size, output_tokens=len(text) // CHARS_A_TOKEN)
        return ModelResponse(parts=[TextPart(text)], usage=usage)

    agent = Agent(FunctionModel(reply))
    kept = place / "messages.json"
    messages: list[Any] = (
        ModelMessagesTypeAdapter.validate_json(kept.read_bytes()) if kept.exists() else []
    )

    def say(words: str) -> str:
        # It stores nothing itself: the program keeps the newest messages, as its pages show.
        nonlocal messages
        done = agent.run_sync(words, message_history=messages)
        messages = done.all_messages()[-2 * KEPT_MESSAGES :]
        with kept.open("wb") as file:
            file.write(ModelMessagesTypeAdapter.dump_json(messages))
            file.flush()
            os.fsync(file.fileno())
        return str(done.output)

    return say


SYSTEMS: Final[dict[str, tuple[Callable[[Path, Free], Callable[[str], str]], str, str]]] = {
    "Holdfast": (holdfast, "", ""),
    "LangGraph, SqliteSaver": (langgraph_sqlite, "langgraph", "summaries at 85 %"),
    "LangGraph, PostgresSaver": (langgraph_postgres, "langgraph", "summaries at 85 %"),
    "deepagents, SqliteSaver": (deepagents, "deepagents", "its summaries"),
    "OpenAI Agents, SQLiteSession": (openai_agents, "openai-agents", "the last 40 items"),
    "Strands, files": (strands, "strands-agents", "summaries when refused"),
    "Google ADK, SQLite": (adk, "google-adk", "event compaction at 85 %"),
    "Pydantic AI, a file": (pydantic_ai, "pydantic-ai-slim", "the last 40 messages"),
}


def measure(name: str, turns: int) -> dict[str, Any]:
    """Run one system in this process."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    make, package, _how = SYSTEMS[name]
    free = Free()
    unanswered, done = 0, 0
    first = last = 0.0
    with tempfile.TemporaryDirectory() as root:
        place = Path(root)
        say = make(place, free)
        say(f"Hello: {free.words(60)}")
        free.spent, start = 0.0, time.process_time()
        marks = [(0, 0.0)]
        while done < turns and time.process_time() - start < SECONDS_MAX:
            before = time.process_time()
            words = free.words(60)
            free.spent += time.process_time() - before
            try:
                said = say(f"Question {done}: {words}")
            except Exception:
                said = ""
            unanswered += not said
            done += 1
            if done % 200 == 0:
                marks.append((done, time.process_time() - start - free.spent))
        spent = time.process_time() - start - free.spent
        if len(marks) > 2:
            first, last = marks[1][1] / 200, (marks[-1][1] - marks[-2][1]) / 200
        disk = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        free.spent, began = 0.0, time.process_time()
        make(place, free)("Where were we?")
        resume = time.process_time() - began - free.spent
    return {
        "version": importlib.metadata.version(package) if package else "",
        "turns": done,
        "cpu": 1_000 * spent / max(1, done),
        "first": 1_000 * first,
        "last": 1_000 * last,
        "refused": free.refused,
        "unanswered": unanswered,
        "disk": disk,
        "resume": 1_000 * resume,
        "tokens": free.tokens / max(1, done),
    }


def _row(name: str, found: dict[str, Any]) -> str:
    how = SYSTEMS[name][2]
    title = f"**{name}**" if name == "Holdfast" else f"{name} {found['version']}, {how}"
    disk = f"{found['disk'] / 1e6:,.1f} MB" if found["disk"] else "in PostgreSQL"
    return (
        f"| {title} | {found['turns']:,} | {found['cpu']:.1f} ms | {found['first']:.1f} → "
        f"{found['last']:.1f} ms | {found['refused']:,} | {found['unanswered']:,} | {disk} "
        f"| {found['resume']:.0f} ms | {found['tokens']:,.0f} |"
    )


def run(name: str, turns: int, python: str, address: str) -> dict[str, Any] | None:
    """Run one system in a process of its own; None where it is not installed."""
    interpreter = python if SYSTEMS[name][1] else sys.executable
    try:
        told = output_of(
            __file__,
            *("--one", name, "--turns", str(turns)),
            source=HERE / "src",
            python=interpreter,
            BENCH_POSTGRES=address,
        )
    except RuntimeError as error:
        print(f"left out: {name}: {str(error).strip().splitlines()[-1]}", file=sys.stderr)
        return None
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


def main() -> None:
    """Measure, print a table, and write the page where one is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--turns", type=int, default=2_000)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--only", choices=[*SYSTEMS], action="append", default=[])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--one", choices=[*SYSTEMS], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one, args.turns)))
        return
    from holdfast.testing import PostgresServer

    lines = [
        "| library and how it compacts | turns | CPU a turn | first → last 200 | refused "
        "| unanswered | disk | resume, with a turn | tokens asked a turn |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    print(*lines, sep="\n", flush=True)
    with PostgresServer() as server:
        for name in args.only or SYSTEMS:
            found = run(name, args.turns, args.python, server.address)
            if found is not None:
                lines.append(_row(name, found))
                print(lines[-1], flush=True)
    if args.write:
        write_table(args.write, lines, "<!-- peers -->", "<!-- end of peers -->")


if __name__ == "__main__":
    main()
