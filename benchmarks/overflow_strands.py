"""Strands Agents for benchmarks/overflow.py: two conversation managers and the automatic one.

The model states its window (`context_window_limit`). Sessions are kept in files, as a program would
that wants them back. What a manager does after every turn is done once to the loaded history.
"""

from __future__ import annotations

import json
import logging
import warnings
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.overflow_cases import MODEL, OUTPUT, SYSTEM, OneModel, TooLong, Turn, folder
from strands import Agent, tool
from strands.agent.conversation_manager import (
    SlidingWindowConversationManager,
    SummarizingConversationManager,
)
from strands.models.model import Model
from strands.session.file_session_manager import FileSessionManager
from strands.types.exceptions import ContextWindowOverflowException

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from benchmarks.overflow_cases import Answer, Json, Purpose

Manager = Literal["sliding", "summarizing", "auto"]


def versions() -> str:
    return f"strands-agents {version('strands-agents')}"


class _Chat(Model):  # type: ignore[misc]
    """The one model, as Strands calls models."""

    def __init__(self, one: OneModel) -> None:
        self._one = one
        self._config = {
            "model_id": MODEL,
            "context_window_limit": one.work.case.window,
            "max_tokens": OUTPUT,
        }

    def update_config(self, **model_config: Any) -> None:
        self._config.update(model_config)

    def get_config(self) -> Any:
        return self._config

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("the workload does not ask for it")

    async def stream(
        self,
        messages: Any,
        tool_specs: Any = None,
        system_prompt: str | None = None,
        **_: Any,
    ) -> AsyncIterator[Any]:
        wire = _wire(messages, tool_specs or [], system_prompt or "")
        try:
            answer = self._one.send(wire, _purpose(wire))
        except TooLong as refusal:
            raise ContextWindowOverflowException(str(refusal)) from refusal
        for event in _events(answer):
            yield event


def _purpose(wire: Json) -> Purpose:
    """Every summary is asked for with a system prompt of its own."""
    return "answer" if wire["system"] == SYSTEM else "summary"


def _events(answer: Answer) -> Iterator[Json]:
    yield {"messageStart": {"role": "assistant"}}
    if not answer.path:
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": answer.text}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}
    else:
        start = {"toolUse": {"toolUseId": answer.call, "name": "fetch"}}
        delta = {"toolUse": {"input": json.dumps({"path": answer.path})}}
        yield {"contentBlockStart": {"start": start}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}
    usage = {
        "inputTokens": answer.input_tokens,
        "outputTokens": answer.output_tokens,
        "totalTokens": answer.input_tokens + answer.output_tokens,
    }
    yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 0}}}


def _wire(messages: Any, tools: list[Any], system: str) -> Json:
    wire = {
        "model": MODEL,
        "max_tokens": OUTPUT,
        "system": system,
        "messages": [
            {"role": one["role"], "content": [_wire_block(block) for block in one["content"]]}
            for one in messages
        ],
    }
    if tools:
        wire["tools"] = [
            {
                "name": one["name"],
                "description": one["description"],
                "input_schema": one["inputSchema"].get("json", one["inputSchema"]),
            }
            for one in tools
        ]
    return wire


def _wire_block(block: Any) -> Json:
    if "toolUse" in block:
        call = block["toolUse"]
        return {
            "type": "tool_use",
            "id": call["toolUseId"],
            "name": call["name"],
            "input": call["input"],
        }
    if "toolResult" in block:
        result = block["toolResult"]
        pieces = [
            {"type": "text", "text": piece.get("text", json.dumps(piece))}
            for piece in result["content"]
        ]
        return {"type": "tool_result", "tool_use_id": result["toolUseId"], "content": pieces}
    return {"type": "text", "text": block.get("text", json.dumps(block))}


def _history(turn: Turn) -> list[Any]:
    call = {"toolUseId": turn.call, "name": "fetch", "input": {"path": turn.path}}
    result = {"toolUseId": turn.call, "status": "success", "content": [{"text": turn.output}]}
    return [
        {"role": "user", "content": [{"text": turn.question}]},
        {"role": "assistant", "content": [{"toolUse": call}]},
        {"role": "user", "content": [{"toolResult": result}]},
        {"role": "assistant", "content": [{"text": turn.answer}]},
    ]


class Strands:
    def __init__(self, one: OneModel, place: Path, *, manager: Manager) -> None:
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        self._work = one.work
        self._place = folder(place, "sessions")
        self._model = _Chat(one)
        self._manager = manager

    def _managing(self) -> dict[str, Any]:
        match self._manager:
            case "sliding":
                return {"conversation_manager": SlidingWindowConversationManager()}
            case "summarizing":
                return {"conversation_manager": SummarizingConversationManager()}
            case "auto":
                return {"context_manager": "auto"}

    def _tool(self) -> Any:
        outputs = self._work.outputs

        def fetch(path: str) -> str:
            """Fetch a file or a page and return its text."""
            return outputs[path]

        return tool(fetch)

    def load(self, turns: Sequence[Turn]) -> None:
        self._agent = agent = Agent(
            model=self._model,
            messages=[one for turn in turns for one in _history(turn)],
            tools=[self._tool()],
            system_prompt=SYSTEM,
            session_manager=FileSessionManager("torture", storage_dir=str(self._place)),
            agent_id="torture",
            callback_handler=None,
            **self._managing(),
        )
        agent.conversation_manager.apply_management(agent)

    def say(self, text: str) -> str:
        return str(self._agent(text))

    def kept(self) -> Iterator[str]:
        for path in self._place.rglob("message_*.json"):
            message = json.loads(path.read_text("utf-8"))["message"]
            for block in message["content"]:
                yield block.get("text", "")
                for piece in block.get("toolResult", {}).get("content", ()):
                    yield piece.get("text", "")
