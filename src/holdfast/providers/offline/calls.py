"""Find calls in a message that are written as `name(argument=value)`."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.models.messages import Tool

CALLS_MAX: Final = 8
"""In one reply: a page that mentions a tool a hundred times is no order to run it."""
_JSON_NAMES: Final = {"true": True, "false": False, "null": None}


class ToolOrder(msgspec.Struct, frozen=True):
    """A tool to run."""

    name: str
    arguments: dict[str, Any]


class Orders(msgspec.Struct, frozen=True):
    """The calls in a message."""

    calls: tuple[ToolOrder, ...] = ()
    doubts: tuple[str, ...] = ()
    """Faults of the others, a sentence each."""
    rest: str = ""
    """The message without its calls."""


def read_orders(message: str, tools: Sequence[Tool]) -> Orders:
    """The calls that a message asks for, in its order. A call that cannot be read is a doubt."""
    calls: list[ToolOrder] = []
    doubts: list[str] = []
    rest: list[str] = []
    done = 0
    for tool, start, end in _find_calls(message, tools):
        rest.append(message[done:start])
        done = end
        call = _read_call(message[start:end], tool)
        if isinstance(call, str):
            doubts.append(call)
        elif call not in calls:
            calls.append(call)
    return Orders(tuple(calls[:CALLS_MAX]), tuple(doubts), "".join([*rest, message[done:]]))


def example(tool: Tool) -> str:
    """A call of a tool that `read_orders` understands."""
    needed = _required(tool) or _properties(tool)[:1]
    return f"{tool.name}({', '.join(f'{name}=…' for name in needed)})"


def _find_calls(message: str, tools: Sequence[Tool]) -> Iterator[tuple[Tool, int, int]]:
    """Each tool's name with brackets behind it: the tool, and the place of the whole."""
    named = {tool.name: tool for tool in tools}
    if not named:
        return
    names = "|".join(re.escape(name) for name in sorted(named, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w.-])({names})\(")
    place = 0
    while found := pattern.search(message, place):
        place = _closing(message, found.end())
        yield named[found[1]], found.start(), place


def _closing(message: str, place: int) -> int:
    """The end of the brackets that opened before a place; those in quotes do not count."""
    depth, quote = 1, ""
    for at in range(place, len(message)):
        letter = message[at]
        if quote:
            quote = "" if letter == quote and message[at - 1] != "\\" else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
        if not depth:
            return at + 1
    return len(message)


def _read_call(text: str, tool: Tool) -> ToolOrder | str:
    """A call, or the reason why it cannot be run."""
    try:
        parsed = ast.parse(f"call{text[len(tool.name) :].strip()}", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        parsed = None
    if not isinstance(parsed, ast.Call):
        return f"I cannot read `{text}`: write it as `{example(tool)}`, with texts in quotes."
    given = [_value(argument) for argument in parsed.args]
    if len(given) == 1 and isinstance(given[0], dict):
        arguments = given[0]
    else:
        required = _required(tool)
        names = [*required, *(name for name in _properties(tool) if name not in required)]
        arguments = dict(zip(names, given, strict=False))
    arguments |= {key.arg: _value(key.value) for key in parsed.keywords if key.arg}
    missing = [f"`{name}`" for name in _required(tool) if name not in arguments]
    if missing:
        return f"`{text}` lacks {', '.join(missing)}: write it as `{example(tool)}`."
    return ToolOrder(tool.name, arguments)


class _JsonNames(ast.NodeTransformer):
    """Reads the names that JSON has for what Python calls True, False and None."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_JSON_NAMES[node.id]) if node.id in _JSON_NAMES else node


def _value(node: ast.expr) -> Any:
    """A literal as Python or JSON has it; anything else is taken as text."""
    try:
        value = ast.literal_eval(_JsonNames().visit(node))
        msgspec.json.encode(value)  # a set or a complex number cannot be sent
    except (ValueError, TypeError, RecursionError):
        return ast.unparse(node)
    return value


def _properties(tool: Tool) -> list[str]:
    found = tool.parameters.get("properties")
    return list(found) if isinstance(found, dict) else []


def _required(tool: Tool) -> list[str]:
    found = tool.parameters.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
