"""Tools that a request adds amid the conversation, as their providers take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.values import as_dict, as_dicts, as_text
from holdfast.testing.loopback.binding.judging import Broken
from holdfast.testing.loopback.faults import WireFailure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.testing.loopback.binding.judging import Request

INLINE: Final = "inline-tools-2026-09-15"
"""The beta header that lets a system message define a tool."""
_BY_REFERENCE: Final = "mid-conversation-tool-changes-2026-07-01"
_CHANGES: Final = ("tool_addition", "tool_removal")
ADDITIONAL: Final = "additional_tools"


def read_definitions(message: Json) -> list[Json]:
    """The tools that a message of the Messages API defines."""
    return [
        as_dict(tool.get("definition"))
        for block in as_dicts(message.get("content"))
        for tool in [as_dict(block.get("tool"))]
        if block.get("type") == "tool_addition" and tool.get("type") == "tool_definition"
    ]


def judge_tool_changes(request: Request) -> Iterator[Broken]:
    """Judge the tools that messages of the Messages API add and remove."""
    messages = as_dicts(request.body.get("messages"))
    known = {as_text(tool.get("name")) for tool in as_dicts(request.body.get("tools"))}
    for index, message in enumerate(messages):
        changes = [
            (f"messages.{index}.content.{at}", block)
            for at, block in enumerate(as_dicts(message.get("content")))
            if block.get("type") in _CHANGES
        ]
        known |= {as_text(tool.get("name")) for tool in read_definitions(message)}
        for where, block in changes:
            words = _find_place_fault(messages, index) or _find_shape_fault(block, known, request)
            if words:
                yield Broken("tool-change", WireFailure(f"{where}: {words}"), where)


def _find_place_fault(messages: Sequence[Json], index: int) -> str:
    """The operator speaks right after the user, and the model next."""
    role = messages[index].get("role")
    if role != "system":
        return f"tool changes are only permitted on role 'system' messages, not '{role}'"
    before = messages[index - 1] if index else {}
    last = (as_dicts(before.get("content")) or [{}])[-1]
    is_served = as_text(last.get("type")).endswith("_tool_result")
    if before.get("role") != "user" and not is_served:
        return "a system message must directly follow a user turn"
    after = messages[index + 1 :]
    if after and after[0].get("role") != "assistant":
        return "a system message must be last, or be followed by an assistant turn"
    return ""


def _find_shape_fault(block: Json, known: set[str], request: Request) -> str:
    tool = as_dict(block.get("tool"))
    name = as_text(tool.get("name"))
    match tool.get("type"):
        case "tool_definition":
            if INLINE not in request.betas:
                return f"a tool definition requires anthropic-beta: {INLINE}"
            made = as_dict(tool.get("definition"))
            schema = as_dict(made.get("input_schema"))
            is_whole = bool(as_text(made.get("name"))) and schema.get("type") == "object"
            return "" if is_whole else "tool.definition: Field required"
        case "tool_reference":
            if not request.betas & {INLINE, _BY_REFERENCE}:
                return f"a tool change requires anthropic-beta: {INLINE}"
            return "" if name in known else f"tool_reference_unresolved: {name}"
        case _:
            return "tool: Input should be 'tool_reference' or 'tool_definition'"


def judge_additional_tools(body: Json) -> Iterator[Broken]:
    """Judge the items of the Responses API that add tools."""
    for index, item in enumerate(as_dicts(body.get("input"))):
        if item.get("type") != ADDITIONAL:
            continue
        where = f"input[{index}]"
        tools = as_dicts(item.get("tools"))
        words = ""
        if item.get("role") != "developer":
            words = f"Invalid value: '{item.get('role')}'. Supported values are: 'developer'."
        elif not tools or not all(as_text(tool.get("type")) for tool in tools):
            words = f"Invalid value for '{where}.tools': expected a non-empty array of tools."
        if words:
            yield Broken("tool-change", WireFailure(words, param=f"{where}.role"), where)
