"""A real agent of each framework for benchmarks/adapters.py, in a window of 25,000 tokens.

An agent takes up a history of fourteen windows and answers a question; then its tool returns
400,000 characters; then its process is killed in a tool; then another process goes on. The
provider is the loopback: it counts, refuses and judges by the rules of the real one. Each agent
runs twice: with the framework's own means, and with ours in their place.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.overflow_cases import Case, workload

from holdfast.stores import open_store
from holdfast.testing import Answer, Call, Loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.overflow_cases import Turn

WINDOW = 25_000
OUTPUT = 2_000
FACTOR = 14
RESULT_CHARS = 400_000
SECONDS_MAX = 600
STORE = "store"
"""The folder of our store, in that of an agent."""
CLAUDE = "claude-sonnet-4-5"
SYSTEM = "You are a careful assistant. Use the tools you are given."
PLAIN, FETCH, DIE, AGAIN = "ASK-PLAIN", "ASK-FETCH", "ASK-DIE", "ASK-AGAIN"
ASKS = {
    PLAIN: f"mark-plain {PLAIN}: what is open?",
    FETCH: f"mark-fetch {FETCH}: what does the page say?",
    DIE: f"mark-die {DIE}: and the other page?",
    AGAIN: f"mark-again {AGAIN}: where were we?",
}
DONE = "Done."
THOUGHT = "It is in the table."
"""Shown where a request asks for reasoning."""
_ASKS_FOR_SUMMARY = "Respond with TEXT ONLY"
"""In the request with which Claude Code compacts; it has tools, like any other."""
_PROXY_FILE = "proxy.pid"
_SERVER = "mcp__pages__"
"""What Claude Code puts before the names of our tools."""


class BenchAgent(Protocol):
    """An agent with a session, in this process."""

    def load(self, turns: Sequence[Turn]) -> None:
        """Put a history into the session, as if it had been said."""

    def ask(self, words: str) -> str:
        """The answer to a message."""

    def texts(self) -> str:
        """Everything that the framework's own store still gives back."""


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What became of an agent."""

    framework: str
    means: str
    first: str
    second: str
    third: str
    requests: int
    over: int
    invalid: int
    kept: int
    kept_of: int


def brain(asked: Any) -> Answer:
    """Calls a tool where the newest words ask for one, and otherwise answers."""
    if not asked.tools or _ASKS_FOR_SUMMARY in asked.text:
        return Answer("<summary>The user works on the export. Nothing is open.</summary>")
    if asked.results:
        return Answer(DONE, thinking=THOUGHT)
    newest = max((PLAIN, FETCH, DIE, AGAIN), key=asked.text.rfind)
    if newest in (FETCH, DIE):
        wanted = "fetch" if newest == FETCH else "die"
        name = next(tool.name for tool in asked.tools if tool.name.endswith(wanted))
        return Answer("", (Call(name, {"path": "a"}),), THOUGHT)
    return Answer(DONE, thinking=THOUGHT)


def fetch(path: str) -> str:
    """Read a page."""
    del path
    rows = (f"{row},invoice,{row * 7919 % 100_003},open\n" for row in range(RESULT_CHARS))
    text = "mark-head\n"
    for row in rows:
        text += row
        if len(text) > RESULT_CHARS - 10:
            break
    return f"{text[: RESULT_CHARS - 10]}\nmark-tail"


def die(path: str) -> str:
    """Read another page."""
    del path
    if os.environ["HOLDFAST_BENCH_PART"] == "a":
        os.kill(os.getpid(), signal.SIGKILL)
    return "Nothing."


def history() -> list[Turn]:
    """Fourteen windows, with a mark in each text."""
    from dataclasses import replace

    return [
        replace(
            turn,
            question=f"mark-q{number} {turn.question}",
            output=f"mark-o{number} {turn.output}",
            answer=f"mark-a{number} {turn.answer}",
        )
        for number, turn in enumerate(workload(Case("agents", FACTOR)).turns)
    ]


# OpenAI Agents SDK


class _OpenAI:
    def __init__(self, place: Path, url: str, *, is_ours: bool) -> None:
        from agents import (
            Agent,
            ModelSettings,
            OpenAIResponsesModel,
            RunConfig,
            SQLiteSession,
            function_tool,
            set_tracing_disabled,
        )
        from agents.extensions.tool_output_trimmer import ToolOutputTrimmer
        from openai import AsyncOpenAI
        from openai.types.shared import Reasoning

        set_tracing_disabled(True)
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
        model: Any = OpenAIResponsesModel("gpt-5", client)
        bounds: Any = ToolOutputTrimmer()
        self._session: Any
        if is_ours:
            from holdfast.integrations.openai_agents import (
                BoundedInput,
                HoldfastSession,
                recover_overflow,
            )

            bounds = BoundedInput(window=WINDOW)
            model = recover_overflow(model, window=WINDOW)
            self._session = HoldfastSession("bench", root=str(place / STORE))
        else:
            self._session = SQLiteSession("bench", place / "sessions.db")
        self._agent = Agent(
            name="helper",
            instructions=SYSTEM,
            model=model,
            model_settings=ModelSettings(max_tokens=OUTPUT, reasoning=Reasoning(effort="low")),
            tools=[function_tool(fetch), function_tool(die)],
        )
        self._config = RunConfig(call_model_input_filter=bounds)
        self._loop = asyncio.Runner()

    def load(self, turns: Sequence[Turn]) -> None:
        items: list[Any] = []
        for turn in turns:
            arguments = json.dumps({"path": turn.path})
            call = {"type": "function_call", "call_id": turn.call, "name": "fetch"}
            output = {"type": "function_call_output", "call_id": turn.call, "output": turn.output}
            items += [
                {"role": "user", "content": turn.question},
                {**call, "arguments": arguments},
                output,
                {"role": "assistant", "content": turn.answer},
            ]
        self._loop.run(self._session.add_items(items))

    def ask(self, words: str) -> str:
        from agents import Runner

        run = Runner.run(self._agent, words, session=self._session, run_config=self._config)
        return str(self._loop.run(run).final_output)

    def texts(self) -> str:
        return repr(self._loop.run(self._session.get_items()))


# LangChain and LangGraph


class _LangChain:
    def __init__(self, place: Path, url: str, *, is_ours: bool) -> None:
        from langchain.agents import create_agent
        from langchain.agents.middleware import SummarizationMiddleware
        from langchain_anthropic import ChatAnthropic

        model: Any = ChatAnthropic(
            model=CLAUDE, base_url=url, api_key="any", max_tokens=OUTPUT, max_retries=0
        )
        middleware: Any
        if is_ours:
            from holdfast.integrations.langchain import HoldfastMiddleware
            from holdfast.integrations.langgraph import HoldfastSaver

            self._saver: Any = HoldfastSaver(root=str(place / STORE))
            middleware = HoldfastMiddleware(CLAUDE, window=WINDOW)
        else:
            import sqlite3

            from langgraph.checkpoint.sqlite import SqliteSaver

            path = place / "checkpoints.db"
            self._saver = SqliteSaver(sqlite3.connect(path, check_same_thread=False))
            middleware = SummarizationMiddleware(model, trigger=("tokens", 16_000))
        self._agent: Any = create_agent(
            model,
            [fetch, die],
            system_prompt=SYSTEM,
            middleware=[middleware],
            checkpointer=self._saver,
        )
        self._config: Any = {"configurable": {"thread_id": "bench"}}

    def load(self, turns: Sequence[Turn]) -> None:
        from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

        said: list[Any] = []
        for turn in turns:
            call = {"id": turn.call, "name": "fetch", "args": {"path": turn.path}}
            said += [
                HumanMessage(turn.question),
                AIMessage("", tool_calls=[call]),
                ToolMessage(turn.output, tool_call_id=turn.call),
                AIMessage(turn.answer),
            ]
        self._agent.update_state(self._config, {"messages": said}, as_node="__start__")

    def ask(self, words: str) -> str:
        found = self._agent.invoke({"messages": [("user", words)]}, self._config)
        return str(found["messages"][-1].text)

    def texts(self) -> str:
        states = self._agent.get_state_history(self._config)
        return " ".join(repr(state.values.get("messages")) for state in states)


# Pydantic AI


class _PydanticAI:
    def __init__(self, place: Path, url: str, *, is_ours: bool) -> None:
        from anthropic import AsyncAnthropic
        from pydantic_ai import Agent
        from pydantic_ai.conversation_store import InMemoryConversationStore
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        client = AsyncAnthropic(base_url=url, api_key="any", max_retries=0)
        model = AnthropicModel(CLAUDE, provider=AnthropicProvider(anthropic_client=client))
        capabilities: list[Any] = []
        self._store: Any
        if is_ours:
            from holdfast.integrations.pydantic_ai import (
                BoundedRequests,
                HoldfastConversationStore,
            )

            self._store = HoldfastConversationStore(root=str(place / STORE))
            capabilities = [BoundedRequests(CLAUDE, window=WINDOW)]
        else:
            self._store = InMemoryConversationStore()
        self._agent: Any = Agent(
            model,
            instructions=SYSTEM,
            tools=[fetch, die],
            capabilities=capabilities,
            model_settings={"max_tokens": OUTPUT},
        )
        self._loop = asyncio.Runner()

    def load(self, turns: Sequence[Turn]) -> None:
        from pydantic_ai.conversation import Conversation
        from pydantic_ai.messages import (
            ModelRequest,
            ModelResponse,
            TextPart,
            ToolCallPart,
            ToolReturnPart,
            UserPromptPart,
        )

        said: list[Any] = []
        for turn in turns:
            said += [
                ModelRequest(parts=[UserPromptPart(turn.question)]),
                ModelResponse(parts=[ToolCallPart("fetch", {"path": turn.path}, turn.call)]),
                ModelRequest(parts=[ToolReturnPart("fetch", turn.output, turn.call)]),
                ModelResponse(parts=[TextPart(turn.answer)]),
            ]
        conversation = Conversation(conversation_id="bench", messages=said)
        self._loop.run(self._store.save(conversation))

    def ask(self, words: str) -> str:
        return self._loop.run(self._ask(words))

    async def _ask(self, words: str) -> str:
        from pydantic_ai.conversation import Conversation

        conversation = await self._store.load("bench") or Conversation(conversation_id="bench")
        result = await self._agent.run(words, conversation=conversation)
        await self._store.save(result)
        return str(result.output)

    def texts(self) -> str:
        found = self._loop.run(self._store.load("bench"))
        return "" if found is None else repr(found.messages)


# Strands


class _Strands:
    def __init__(self, place: Path, url: str, *, is_ours: bool) -> None:
        from strands import Agent, tool
        from strands.agent.conversation_manager import SlidingWindowConversationManager
        from strands.models.anthropic import AnthropicModel
        from strands.session.file_session_manager import FileSessionManager
        from strands.session.repository_session_manager import RepositorySessionManager

        model = AnthropicModel(
            client_args={"base_url": url, "api_key": "any"},
            model_id=CLAUDE,
            max_tokens=OUTPUT,
            context_window_limit=WINDOW,
        )
        manager: Any
        if is_ours:
            from holdfast.integrations.strands import (
                HoldfastConversationManager,
                HoldfastSessionRepository,
            )

            repository = HoldfastSessionRepository(root=str(place / STORE))
            self._manager: Any = RepositorySessionManager("bench", repository)
            manager = HoldfastConversationManager(CLAUDE, window=WINDOW)
        else:
            self._manager = FileSessionManager("bench", storage_dir=str(place))
            manager = SlidingWindowConversationManager()
        self._agent = Agent(
            model=model,
            system_prompt=SYSTEM,
            tools=[tool(fetch), tool(die)],
            session_manager=self._manager,
            conversation_manager=manager,
            callback_handler=None,
        )

    def load(self, turns: Sequence[Turn]) -> None:
        for turn in turns:
            use = {"toolUseId": turn.call, "name": "fetch", "input": {"path": turn.path}}
            result = {"toolUseId": turn.call, "status": "success"}
            said: list[Any] = [
                {"role": "user", "content": [{"text": turn.question}]},
                {"role": "assistant", "content": [{"toolUse": use}]},
                {
                    "role": "user",
                    "content": [{"toolResult": {**result, "content": [{"text": turn.output}]}}],
                },
                {"role": "assistant", "content": [{"text": turn.answer}]},
            ]
            for message in said:
                self._agent.messages.append(message)
                self._manager.append_message(message, self._agent)

    def ask(self, words: str) -> str:
        return str(self._agent(words)).strip()

    def texts(self) -> str:
        repository = self._manager.session_repository
        found = repository.list_messages("bench", self._agent.agent_id)
        return repr([message.message for message in found])


# Google ADK

_WHO: Any = {"app_name": "helper", "user_id": "ann", "session_id": "bench"}


class _ADK:
    def __init__(self, place: Path, url: str, *, is_ours: bool) -> None:
        from google.adk.agents import LlmAgent
        from google.adk.apps import App
        from google.adk.apps.app import EventsCompactionConfig
        from google.adk.models import Gemini
        from google.adk.runners import Runner
        from google.genai import types

        os.environ.setdefault("GOOGLE_API_KEY", "any")
        settings = types.GenerateContentConfig(max_output_tokens=OUTPUT)
        agent = LlmAgent(
            name="helper",
            model=Gemini(model="gemini-2.5-flash", base_url=url),
            instruction=SYSTEM,
            tools=[fetch, die],
            generate_content_config=settings,
        )
        self._sessions: Any
        if is_ours:
            from holdfast.integrations.google_adk import BoundedRequests, HoldfastSessionService

            self._sessions = HoldfastSessionService(root=str(place / STORE))
            plugins: Any = [BoundedRequests("gemini-2.5-flash", window=WINDOW)]
            app = App(name="helper", root_agent=agent, plugins=plugins)
        else:
            from google.adk.sessions.sqlite_session_service import SqliteSessionService

            self._sessions = SqliteSessionService(str(place / "sessions.db"))
            config = EventsCompactionConfig(
                compaction_interval=5,
                overlap_size=1,
                token_threshold=16_000,
                event_retention_size=10,
            )
            app = App(name="helper", root_agent=agent, events_compaction_config=config)
        self._runner = Runner(app=app, session_service=self._sessions)
        self._loop = asyncio.Runner()

    def load(self, turns: Sequence[Turn]) -> None:
        self._loop.run(self._load(turns))

    async def _load(self, turns: Sequence[Turn]) -> None:
        from google.adk.events.event import Event
        from google.genai import types

        session = await self._sessions.create_session(**_WHO)
        for turn in turns:
            call = types.FunctionCall(id=turn.call, name="fetch", args={"path": turn.path})
            result = types.FunctionResponse(
                id=turn.call, name="fetch", response={"result": turn.output}
            )
            for author, role, part in (
                ("user", "user", types.Part(text=turn.question)),
                ("helper", "model", types.Part(function_call=call)),
                ("helper", "user", types.Part(function_response=result)),
                ("helper", "model", types.Part(text=turn.answer)),
            ):
                content = types.Content(role=role, parts=[part])
                event = Event(author=author, invocation_id=turn.call, content=content)
                await self._sessions.append_event(session, event)

    def ask(self, words: str) -> str:
        return self._loop.run(self._ask(words))

    async def _ask(self, words: str) -> str:
        from google.genai import types

        said = types.Content(role="user", parts=[types.Part(text=words)])
        run = self._runner.run_async(user_id="ann", session_id="bench", new_message=said)
        answer = ""
        async for event in run:
            if event.error_message:
                raise RuntimeError(event.error_message)
            for part in (event.content and event.content.parts) or []:
                answer = part.text or answer
        return answer

    def texts(self) -> str:
        found = self._loop.run(self._sessions.get_session(**_WHO))
        return repr([event.content for event in found.events])


# Claude Agent SDK


class _Claude:
    """The agent is Claude Code, a program that the SDK starts, with files of its own.

    It builds its requests itself, so the one place to bound them is on their way: ours go through
    the proxy, which is killed with this process.
    """

    def __init__(self, place: Path, url: str, *, is_ours: bool) -> None:
        import claude_agent_sdk as sdk

        self._work, self._home = place / "work", place / "home"
        for folder in (self._work, self._home):
            folder.mkdir(exist_ok=True)
        self._key: Any = {
            "project_key": sdk.project_key_for_directory(self._work),
            "session_id": "6f1c2d3e-0000-4000-8000-000000000014",
        }
        self._store: Any = None
        more: dict[str, Any] = {}
        if is_ours:
            from holdfast.integrations.claude_agent import HoldfastSessionStore, hooks

            store = open_store(place / STORE)
            self._store = HoldfastSessionStore(store=store)
            more = {"session_store": self._store, "session_store_flush": "eager"}
            more["hooks"] = hooks(store)
            url = _start_proxy(place, url)
        self._loop = asyncio.Runner()
        self._options = sdk.ClaudeAgentOptions(
            allowed_tools=[f"{_SERVER}fetch", f"{_SERVER}die"],
            cwd=self._work,
            env={
                "ANTHROPIC_API_KEY": "any",
                "ANTHROPIC_BASE_URL": url,
                "CLAUDE_CODE_AUTO_COMPACT_WINDOW": str(WINDOW),
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(OUTPUT),
                "ENABLE_TOOL_SEARCH": "false",
                "HOME": str(self._home),
                "MAX_MCP_OUTPUT_TOKENS": str(RESULT_CHARS),
            },
            mcp_servers={"pages": sdk.create_sdk_mcp_server("pages", tools=_claude_tools())},
            model=CLAUDE,
            resume=self._key["session_id"],
            setting_sources=[],
            system_prompt=SYSTEM,
            thinking={"type": "disabled"},  # the history has none
            tools=[],
            **more,
        )

    def load(self, turns: Sequence[Turn]) -> None:
        lines = list(_claude_lines(turns, self._key["session_id"], str(self._work)))
        if self._store is not None:
            self._loop.run(self._store.append(self._key, lines))
            return
        self._transcript.parent.mkdir(parents=True)
        self._transcript.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def ask(self, words: str) -> str:
        return self._loop.run(self._ask(words))

    async def _ask(self, words: str) -> str:
        import claude_agent_sdk as sdk

        async for message in sdk.query(prompt=words, options=self._options):
            if isinstance(message, sdk.ResultMessage):
                if message.is_error:
                    raise RuntimeError(message.result)
                return str(message.result)
        raise RuntimeError("no result")

    def texts(self) -> str:
        if self._store is not None:
            return repr(self._loop.run(self._store.load(self._key)))
        return self._transcript.read_text()

    @property
    def _transcript(self) -> Path:
        folder: Path = self._home / ".claude" / "projects" / self._key["project_key"]
        return folder / f"{self._key['session_id']}.jsonl"


def _start_proxy(place: Path, upstream: str) -> str:
    """Run the proxy beside this process, and return its address; `play` ends it."""
    command = [sys.executable, "-m", "holdfast", "proxy", "--port", "0", "--json"]
    settings = ["--root", str(place / STORE), "--window", str(WINDOW)]
    proxy = subprocess.Popen(
        [*command, *settings, "--upstream", f"anthropic={upstream}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    (place / _PROXY_FILE).write_text(str(proxy.pid))
    assert proxy.stdout is not None
    return str(json.loads(proxy.stdout.readline())["listening"])


def _end_proxy(place: Path) -> None:
    """Kill the proxy that an agent left, if it had one."""
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((place / _PROXY_FILE).read_text()), signal.SIGKILL)


def _claude_tools() -> list[Any]:
    import claude_agent_sdk as sdk

    def tool_of(function: Callable[[str], str]) -> Any:
        async def run(arguments: Any) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": function(arguments["path"])}]}

        return sdk.tool(function.__name__, str(function.__doc__), {"path": str})(run)

    return [tool_of(fetch), tool_of(die)]


def _claude_lines(turns: Sequence[Turn], session: str, folder: str) -> Iterator[Any]:
    """Yield the lines of a transcript, as Claude Code writes them."""
    before = None
    for number, turn in enumerate(turns):
        use = {"type": "tool_use", "id": turn.call, "name": f"{_SERVER}fetch"}
        result = {"type": "tool_result", "tool_use_id": turn.call, "content": turn.output}
        said: list[tuple[str, Any]] = [
            ("user", turn.question),
            ("assistant", [{**use, "input": {"path": turn.path}}]),
            ("user", [result]),
            ("assistant", [{"type": "text", "text": turn.answer}]),
        ]
        for part, (role, content) in enumerate(said):
            message: dict[str, Any] = {"role": role, "content": content}
            if role == "assistant":
                stop = "tool_use" if part == 1 else "end_turn"
                about = {"id": f"msg_{number}_{part}", "type": "message", "model": CLAUDE}
                usage = {"input_tokens": 1, "output_tokens": 1}
                message |= {**about, "stop_reason": stop, "usage": usage}
            name = f"6f1c2d3e-0000-4000-8000-{number:06d}{part:06d}"
            minute = f"{number // 60 % 24:02d}:{number % 60:02d}"
            yield {
                "parentUuid": before,
                "isSidechain": False,
                "userType": "external",
                "cwd": folder,
                "sessionId": session,
                "version": "2.1.326",
                "type": role,
                "message": message,
                "uuid": name,
                "timestamp": f"2026-11-17T{minute}:{part:02d}.000Z",
            }
            before = name


AGENTS: dict[str, tuple[Callable[..., BenchAgent], str, str]] = {
    "OpenAI Agents": (
        _OpenAI,
        "`SQLiteSession`, `ToolOutputTrimmer`",
        "`HoldfastSession`, `BoundedInput`, `recover_overflow`",
    ),
    "LangChain": (
        _LangChain,
        "`SqliteSaver`, `SummarizationMiddleware`",
        "`HoldfastSaver`, `HoldfastMiddleware`",
    ),
    "Pydantic AI": (
        _PydanticAI,
        "`InMemoryConversationStore`",
        "`HoldfastConversationStore`, `BoundedRequests`",
    ),
    "Strands": (
        _Strands,
        "`FileSessionManager`, `SlidingWindowConversationManager`",
        "`HoldfastSessionRepository`, `HoldfastConversationManager`",
    ),
    "Google ADK": (
        _ADK,
        "`SqliteSessionService`, `EventsCompactionConfig`",
        "`HoldfastSessionService`, `BoundedRequests`",
    ),
    "Claude Agent SDK": (
        _Claude,
        "files of Claude Code, its compaction",
        "`HoldfastSessionStore`, `hooks`, the proxy",
    ),
}


def take(framework: str, whose: str, place: str, url: str, part: str) -> None:
    """One life of an agent, in this process: it writes a line for each thing that it did."""
    os.environ["HOLDFAST_BENCH_PART"] = part
    agent = AGENTS[framework][0](Path(place), url, is_ours=whose == "ours")
    if part == "a":
        agent.load(history())
    for name in (PLAIN, FETCH, DIE) if part == "a" else (AGAIN,):
        try:
            found = agent.ask(ASKS[name])
            said = "answered" if found == DONE else f"said {found[:60]!r}"
        except Exception as error:
            said = f"**{type(error).__name__}**"
            print(f"{name}: {error}"[:400], file=sys.stderr)
        print(json.dumps([name, said]), flush=True)
    if part == "b":
        print(json.dumps(["texts", sorted(_marks(agent.texts()))]), flush=True)


def play(framework: str, *, is_ours: bool, script: str) -> AgentResult:
    """Both lives of an agent, each in a process of its own."""
    _make, own, ours = AGENTS[framework]
    whose = "ours" if is_ours else "own"
    said: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-agents-") as place,
        Loopback(brain, limit=WINDOW) as loopback,
    ):
        for part in ("a", "b"):
            command = [sys.executable, script, "--take", framework, whose, place]
            done = subprocess.run(
                [*command, loopback.url, part],
                stdout=subprocess.PIPE,
                text=True,
                check=False,
                timeout=SECONDS_MAX,
            )
            _end_proxy(Path(place))
            said |= dict(json.loads(line) for line in done.stdout.splitlines() if line[:1] == "[")
        requests = [request for request in loopback.requests if not request.only_counts]
        over, invalid = loopback.over_limit, loopback.invalid
        kept = set(said.get("texts", ()))
        if is_ours:  # with what is on branches
            with open_store(Path(place) / STORE) as store:
                lines = [line for key in store.keys(None) for line in store.export(key)]
            kept |= _marks(b"".join(lines).decode())
    expected = {
        f"mark-{kind}{number}" for number in range(len(history())) for kind in ("q", "o", "a")
    }
    expected |= {"mark-plain", "mark-fetch", "mark-die", "mark-again", "mark-head", "mark-tail"}
    return AgentResult(
        framework=framework,
        means=ours if is_ours else own,
        first=said.get(PLAIN, "**died**"),
        second=said.get(FETCH, "**died**"),
        third=said.get(AGAIN, "**died**"),
        requests=len(requests),
        over=len(over),
        invalid=len(invalid),
        kept=len(kept & expected),
        kept_of=len(expected),
    )


def _marks(text: str) -> set[str]:
    return set(re.findall(r"mark-\w+", text))
