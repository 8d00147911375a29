"""Reading a recording: an agent's session, as the recorder or a store has written it down."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import Assistant, Checkpoint, ToolResult, User, decode, text_of
from holdfast.core.models.messages import Tool, read_blocks, read_pieces
from holdfast.core.tokens.counting import ANSWER_TOKENS, MESSAGE_TOKENS, Estimator, count_block
from holdfast.errors import UsageError
from holdfast.providers.offline.measuring import count_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json, Record

SHIPPED: Final = os.path.join(os.path.dirname(__file__), "recording.jsonl.gz")
_COUNTER: Final = Estimator()


class Fact(msgspec.Struct, frozen=True):
    """Something that was planted and must not be forgotten."""

    what: str
    text: str


class _State(msgspec.Struct, frozen=True):
    """What a recording says about itself in its first record."""

    title: str = ""
    system: str = ""
    tools: list[Tool] = []
    facts: list[Fact] = []
    interrupt: str = ""
    away_seconds: list[float] = []


class Recording(msgspec.Struct, frozen=True):
    """An agent's session, as somebody recorded it."""

    title: str
    system: str
    tools: tuple[Tool, ...]
    facts: tuple[Fact, ...]
    interrupt: str
    """The call during which the agent is killed."""
    users: tuple[str, ...]
    away_seconds: tuple[float, ...]
    """How long each of the user's messages was in coming."""
    replies: tuple[tuple[Json, ...], ...]
    results: dict[str, ToolResult]
    """By the id of their call."""
    whole: tuple[int, ...]
    """For each reply, what a request with the whole history would have taken."""

    @property
    def calls(self) -> list[str]:
        return list(self.results)


def load(path: str | None = None) -> Recording:
    """Read a recording; without a path, the one that is shipped."""
    path = path or SHIPPED
    try:
        with open(path, "rb") as file:
            data = file.read()
        lines = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).splitlines()
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise UsageError(f"the recording `{path}` cannot be read: {error}") from error
    records = [decode(line) for line in lines if line.strip()]
    flaw = next((one for one in records if isinstance(one, Flaw)), None)
    if flaw is not None:
        raise UsageError(
            f"`{path}` is no recording: {flaw.detail}",
            hint="make one with `python -m holdfast.testing.recorder`, or give a session's log",
        )
    return _read([one for one in records if not isinstance(one, Flaw)], path)


def _read(records: Sequence[Record], path: str) -> Recording:
    state = _State()
    if records and isinstance(records[0], Checkpoint):
        state = msgspec.convert(records[0].state, _State)
    said = [one for one in records if isinstance(one, User | Assistant | ToolResult)]
    results = {one.tool_use_id: one for one in said if isinstance(one, ToolResult)}
    if not results:
        raise UsageError(f"nothing in `{path}` calls a tool: there is nothing to show")
    called = [name for one in said for name in _names(one)]
    tools = state.tools or [Tool(name, parameters=_ANYTHING) for name in dict.fromkeys(called)]
    interrupt = state.interrupt
    if interrupt not in results:
        interrupt = list(results)[len(results) * 3 // 5]
    static = count_request(
        {"system": state.system, "tools": [_as_offered(tool) for tool in tools]}, _COUNTER
    )
    users = _turns(said)
    return Recording(
        title=state.title or os.path.basename(path),
        system=state.system,
        tools=tuple(tools),
        facts=tuple(state.facts),
        interrupt=interrupt,
        users=users,
        away_seconds=tuple([*state.away_seconds, *[0.0] * len(users)][: len(users)]),
        replies=tuple(
            tuple(_blocks(one)) for one in said if isinstance(one, Assistant) and one.content
        ),
        results=results,
        whole=tuple(_whole(said, static)),
    )


_ANYTHING: Final = {"type": "object"}


def _turns(said: Sequence[Record]) -> tuple[str, ...]:
    """What the user said, by turn: messages that nobody answered in between are one."""
    turns: list[list[str]] = []
    waiting: list[str] = []
    for record in said:
        if isinstance(record, User):
            waiting.append(text_of(record.content) or "(no text)")
        elif isinstance(record, Assistant) and waiting:
            turns.append(waiting)
            waiting = []
    return tuple("\n".join(words) for words in turns)


def _whole(said: Sequence[Record], static: int) -> list[int]:
    sizes, total = [], static
    for record in said:
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


def _names(record: Record) -> list[str]:
    if not isinstance(record, Assistant):
        return []
    return [one["name"] for one in _blocks(record) if one.get("type") == "tool_use"]


def _as_offered(tool: Tool) -> Json:
    schema = tool.parameters
    return {"name": tool.name, "description": tool.description, "input_schema": schema}
