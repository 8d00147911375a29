"""The text that a backend gets, within the limit of its input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.history.reseed import prompt, reseed
from holdfast.core.log.records import Assistant, ToolResult, User
from holdfast.core.text.cut import cut, size
from holdfast.errors import BadSetting
from holdfast.providers.command_line.output import text_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.records import Json, Record
    from holdfast.core.text.cut import Unit
    from holdfast.providers.command_line.programs import AgentProgram

_SYSTEM_SHARE: Final = 0.5
"""Of a prompt, for the system prompt in it."""


class AgentRequest(msgspec.Struct, frozen=True):
    """A request in Anthropic's form, as an agent can be told it."""

    system: str
    newest: str
    """The messages since the last reply."""
    earlier: list[Json]
    """The messages before them."""

    @classmethod
    def read(cls, request: Json, name: str) -> AgentRequest:
        """Take a request apart. Raises `BadSetting` where it has tools."""
        if request.get("tools"):
            raise BadSetting(
                f"`cli:{name}` runs tools of its own and cannot call those of the session",
                hint="open the session without tools (`tools=[]`), and give them to the agent "
                "itself, for example as an MCP server (`holdfast mcp`)",
            )
        *earlier, last = request["messages"]
        return cls(_text_of(request.get("system")), _text_of(last.get("content")), earlier)

    def retell(self, chars: int) -> str:
        """The earlier messages as text of at most so many characters."""
        records = [record for message in self.earlier for record in _records_of(message)]
        return reseed(records, chars).text


def first_prompt(
    program: AgentProgram,
    request: AgentRequest,
    retell: Callable[[int], str],
    *,
    chars: int,
    most: int,
    has_system: bool,
) -> str:
    """The first prompt of a session: what was said before, within `chars`, and the newest words.

    With `has_system`, it begins with the system prompt. It has at most `most` of the program's
    units.
    """
    unit = program.prompt_unit
    system = f"<instructions>\n{request.system}\n</instructions>\n\n" if has_system else ""
    if size(system, unit) > _SYSTEM_SHARE * most:
        raise BadSetting(
            f"`cli:{program.name}` takes {most:,} {unit} as a prompt, and the system prompt has "
            f"{size(system, unit):,}",
            hint="shorten the system prompt",
        )
    room = most - size(system, unit)
    while chars > 0:
        text = prompt(retell(chars), request.newest)
        if size(text, unit) <= room:
            return system + text
        over = size(text, unit) - room
        chars = min(chars // 2, chars - over)
    return system + shorten_newest(request.newest, room, unit)


def shorten_newest(text: str, most: int, unit: Unit) -> str:
    """The newest words within a limit: both ends, and a note of what is missing."""
    return cut(text, most, unit=unit, marker=_marker).text


def _marker(omitted: int, total: int, unit: str) -> str:
    return f"\n[… {omitted:,} of {total:,} {unit} left out; the session's log has all of it …]\n"


def _records_of(message: Json) -> list[Record]:
    content: Any = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if message.get("role") == "assistant":
        return [Assistant(content=blocks)]
    results: list[Record] = [
        ToolResult(
            tool_use_id=text_at(block, "tool_use_id"),
            content=block.get("content"),
            is_error=block.get("is_error") is True,
        )
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    said = [block for block in blocks if block.get("type") != "tool_result"]
    return [*results, *([User(content=said)] if said else [])]


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n\n".join(filter(None, map(_block_text, blocks)))


def _block_text(block: Json) -> str:
    match block.get("type"):
        case "text":
            return text_at(block, "text")
        case "tool_result":
            return f"Tool result: {_text_of(block.get('content'))}"
        case kind:
            return f"[{kind}: not passed on to a command line]"
