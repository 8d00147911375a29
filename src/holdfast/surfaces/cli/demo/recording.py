"""Recordings: an agent's session, written by the recorder or by a store."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import Assistant, Checkpoint, ToolResult, User, decode, text_of
from holdfast.core.models.messages import Tool, read_blocks, read_pieces
from holdfast.core.text.typed import convert_typed
from holdfast.core.tokens.counting import ANSWER_TOKENS, MESSAGE_TOKENS, Estimator, count_block
from holdfast.errors import UsageError
from holdfast.providers.offline.measuring import count_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json, Record

SHIPPED: Final = os.path.join(os.path.dirname(__file__), "recording.jsonl.gz")
_COUNTER: Final = Estimator()


class PlantedFact(msgspec.Struct, frozen=True):
    """A fact that the user states early and every later request must contain."""

    what: str
    text: str


class _State(msgspec.Struct, frozen=True):
    """The description of a recording, in its first record."""

    title: str = ""
    system: str = ""
    tools: list[Tool] = []
    facts: list[PlantedFact] = []
    interrupt: str = ""
    away_seconds: list[float] = []


class Recording(msgspec.Struct, frozen=True):
    """A recorded session of an agent."""

    title: str
    system: str
    tools: tuple[Tool, ...]
    facts: tuple[PlantedFact, ...]
    interrupt: str
    """The call during which the agent is killed."""
    users: tuple[str, ...]
    away_seconds: tuple[float, ...]
    """The pause before each message of the user."""
    replies: tuple[tuple[Json, ...], ...]
    results: dict[str, ToolResult]
    """By the id of their call."""
    whole: tuple[int, ...]
    """For each reply, the tokens of a request with the whole history."""

    @property
    def calls(self) -> list[str]:
        return list(self.results)


def load(path: str | None = None) -> Recording:
    """Read a recording; without a path, the one in the package."""
    path = path or SHIPPED
    try:
        with open(path, "rb") as file:
            data = file.read()
        lines = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).splitlines()
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise UsageError(f"cannot read the recording `{path}`: {error}") from error
    records = [decode(line) for line in lines if line.strip()]
    flaw = next((record for record in records if isinstance(record, Flaw)), None)
    if flaw is not None:
        raise UsageError(
            f"`{path}` is not a recording: {flaw.detail}",
            hint="make one with `python -m holdfast.testing.recorder`, or pass a session log",
        )
    return _read([record for record in records if not isinstance(record, Flaw)], path)


def _read(records: Sequence[Record], path: str) -> Recording:
    state = _State()
    if records and isinstance(records[0], Checkpoint):
        state = convert_typed(records[0].state, _State)
    messages = [each for each in records if isinstance(each, User | Assistant | ToolResult)]
    results = {each.tool_use_id: each for each in messages if isinstance(each, ToolResult)}
    if not results:
        raise UsageError(f"nothing in `{path}` calls a tool", hint="replay a session with tools")
    called = [name for message in messages for name in _tool_names(message)]
    tools = state.tools or [Tool(name, parameters=_ANYTHING) for name in dict.fromkeys(called)]
    interrupt = state.interrupt
    if interrupt not in results:
        interrupt = list(results)[len(results) * 3 // 5]
    static = count_request(
        {"system": state.system, "tools": [_declaration(tool) for tool in tools]}, _COUNTER
    )
    users = _turns(messages)
    return Recording(
        title=state.title or os.path.basename(path),
        system=state.system,
        tools=tuple(tools),
        facts=tuple(state.facts),
        interrupt=interrupt,
        users=users,
        away_seconds=tuple([*state.away_seconds, *[0.0] * len(users)][: len(users)]),
        replies=tuple(
            tuple(_blocks(each))
            for each in messages
            if isinstance(each, Assistant) and each.content
        ),
        results=results,
        whole=tuple(_whole_sizes(messages, static)),
    )


_ANYTHING: Final = {"type": "object"}


def _turns(messages: Sequence[Record]) -> tuple[str, ...]:
    """Return the user's message of each turn; messages without a reply in between are joined."""
    turns: list[list[str]] = []
    waiting: list[str] = []
    for record in messages:
        if isinstance(record, User):
            waiting.append(text_of(record.content) or "(no text)")
        elif isinstance(record, Assistant) and waiting:
            turns.append(waiting)
            waiting = []
    return tuple("\n".join(words) for words in turns)


def _whole_sizes(messages: Sequence[Record], static: int) -> list[int]:
    sizes, total = [], static
    for record in messages:
        if isinstance(record, Assistant) and record.content:
            sizes.append(total)
        total += _size(record)
    return sizes


def _size(record: Record) -> int:
    if isinstance(record, ToolResult):
        pieces = read_pieces(record.content)
        return ANSWER_TOKENS + sum(count_block(piece, _COUNTER) for piece in pieces)
    assert isinstance(record, User | Assistant)
    blocks = read_blocks(record.content)
    return MESSAGE_TOKENS + sum(count_block(block, _COUNTER) for block in blocks)


def _blocks(record: Assistant) -> list[Json]:
    content = record.content
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _tool_names(record: Record) -> list[str]:
    if not isinstance(record, Assistant):
        return []
    return [block["name"] for block in _blocks(record) if block.get("type") == "tool_use"]


def _declaration(tool: Tool) -> Json:
    schema = tool.parameters
    return {"name": tool.name, "description": tool.description, "input_schema": schema}
