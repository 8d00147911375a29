"""deepagents for benchmarks/overflow.py: its summarisation middleware alone, and its whole agent.

Both know the window (`profile`) and the reply's room (`max_tokens`), so they can budget; both keep
state in a checkpointer and write what they cut to files.
"""

from __future__ import annotations

import json
import logging
import warnings
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from benchmarks.overflow_cases import MODEL, OUTPUT, SYSTEM, OneModel, TooLong, Turn, folder
from deepagents import create_deep_agent
from deepagents.backends import FilesystemBackend
from deepagents.middleware.summarization import (
    DEEPAGENTS_DEFAULT_SUMMARY_PROMPT,
    create_summarization_middleware,
)
from langchain.agents import create_agent
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import ConfigDict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from benchmarks.overflow_cases import Answer, Json, Purpose

CONFIG: Any = {"configurable": {"thread_id": "torture"}, "recursion_limit": 10_000}
_SUMMARY_START = DEEPAGENTS_DEFAULT_SUMMARY_PROMPT.strip()[:80]


def versions() -> str:
    return f"deepagents {version('deepagents')}, langchain {version('langchain')}"


class _Chat(BaseChatModel):  # type: ignore[misc]
    """The one model, as LangChain calls models."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    one: Any
    max_tokens: int = OUTPUT
    tools: Any = ()

    @property
    def _llm_type(self) -> str:
        return "torture"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self.model_copy(update={"tools": tuple(map(_wire_tool, tools))})

    def _generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
        wire = _wire(messages, self.tools)
        try:
            answer = self.one.send(wire, _purpose(wire))
        except TooLong as refusal:
            raise ContextOverflowError(str(refusal)) from refusal
        return ChatResult(generations=[ChatGeneration(message=_message(answer))])


def _purpose(wire: Json) -> Purpose:
    """LangChain asks for a summary with one user message that holds everything."""
    first = wire["messages"][0]["content"][0].get("text", "")
    return "summary" if first.strip().startswith(_SUMMARY_START) else "answer"


def _message(answer: Answer) -> AIMessage:
    calls = []
    if answer.path:
        calls = [{"id": answer.call, "name": "fetch", "args": {"path": answer.path}}]
    return AIMessage(
        content=answer.text,
        tool_calls=calls,
        usage_metadata={
            "input_tokens": answer.input_tokens,
            "output_tokens": answer.output_tokens,
            "total_tokens": answer.input_tokens + answer.output_tokens,
        },
    )


def _wire_tool(tool: Any) -> Json:
    made = convert_to_openai_tool(tool)["function"]
    return {
        "name": made["name"],
        "description": made.get("description", ""),
        "input_schema": made.get("parameters", {"type": "object"}),
    }


def _wire(messages: list[Any], tools: tuple[Json, ...]) -> Json:
    system: list[str] = []
    found: list[Json] = []
    for message in messages:
        text = str(message.text)
        blocks = [{"type": "text", "text": text}] if text else []
        match message:
            case SystemMessage():
                system.append(text)
                continue
            case AIMessage():
                blocks.extend(
                    {"type": "tool_use", "id": one["id"], "name": one["name"], "input": one["args"]}
                    for one in message.tool_calls
                )
                role = "assistant"
            case ToolMessage():
                blocks = [
                    {
                        "type": "tool_result",
                        "tool_use_id": message.tool_call_id,
                        "content": text,
                    }
                ]
                role = "user"
            case _:
                role = "user"
        found.append({"role": role, "content": blocks})
    wire: Json = {"model": MODEL, "max_tokens": OUTPUT, "messages": found}
    if system:
        wire["system"] = "\n".join(system)
    if tools:
        wire["tools"] = list(tools)
    return wire


def _history(turn: Turn) -> list[Any]:
    call = {"id": turn.call, "name": "fetch", "args": {"path": turn.path}}
    return [
        HumanMessage(turn.question),
        AIMessage(content="", tool_calls=[call]),
        ToolMessage(turn.output, tool_call_id=turn.call, name="fetch"),
        AIMessage(turn.answer),
    ]


class DeepAgents:
    """`is_whole`: everything `create_deep_agent` brings; else the middleware on a plain agent."""

    def __init__(self, one: OneModel, place: Path, *, is_whole: bool) -> None:
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        self._work = one.work
        self._place = folder(place, "files")
        chat = _Chat(one=one, profile={"max_input_tokens": one.work.case.window})
        backend = FilesystemBackend(root_dir=str(self._place), virtual_mode=True)
        shared: dict[str, Any] = {
            "tools": [self._tool()],
            "system_prompt": SYSTEM,
            "checkpointer": InMemorySaver(),
        }
        if is_whole:
            self._agent = create_deep_agent(chat, backend=backend, **shared)
        else:
            middleware = create_summarization_middleware(chat, backend)
            self._agent = create_agent(chat, middleware=[middleware], **shared)

    def _tool(self) -> Any:
        outputs = self._work.outputs

        def fetch(path: str) -> str:
            """Fetch a file or a page and return its text."""
            return outputs[path]

        return tool(fetch)

    def load(self, turns: Sequence[Turn]) -> None:
        self._loaded = [one for turn in turns for one in _history(turn)]

    def say(self, text: str) -> str:
        messages = [*self._loaded, HumanMessage(text)]
        self._loaded = []
        done = self._agent.invoke({"messages": messages}, CONFIG)
        return str(done["messages"][-1].text)

    def kept(self) -> Iterator[str]:
        state = self._agent.get_state(CONFIG).values
        for message in state.get("messages", ()):
            yield str(message.text)
        for path in self._place.rglob("*"):
            if path.is_file():
                yield path.read_text("utf-8", "replace")
        for file in (state.get("files") or {}).values():
            yield json.dumps(file)
