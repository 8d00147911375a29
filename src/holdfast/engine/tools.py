"""Plain typed Python functions as tools: their schema, their arguments, their results."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.flow.effects import Outcome
from holdfast.core.models.messages import Tool
from holdfast.core.secrets.vault import Vault
from holdfast.core.text.cut import cut, scrub, scrub_deep
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.records import Content
    from holdfast.core.models.messages import ToolCall

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_ARGUMENT: Final = re.compile(r"^\s+(\*{0,2}\w+)\s*(?:\([^)]*\))?:\s+(.*)$")
_NOT_JSON: Final = (TypeError, ValueError, OverflowError, RecursionError)
_HINT: Final = "give a list of functions: `tools=[read_file]`"
_HEADINGS: Final = ("args:", "arguments:", "parameters:")


class ToolOutput(msgspec.Struct, frozen=True):
    """A result with more to it than its text."""

    content: Content
    is_error: bool = False
    details: Any = None
    """For programs; a model does not see it."""


class ToolFunction:
    """A function that a model may call."""

    def __init__(self, function: Callable[..., Any], tool: Tool, arguments: type) -> None:
        self.function = function
        self.tool = tool
        self._arguments = arguments
        self.is_async = inspect.iscoroutinefunction(function)

    def bound(self, call: ToolCall) -> dict[str, Any]:
        """The arguments of a call as the function takes them. Raises `msgspec.ValidationError`."""
        given: Any = msgspec.convert(call.arguments, self._arguments, strict=False)
        return {name: getattr(given, name) for name in given.__struct_fields__}


class Toolbox:
    """The tools of a session, by name."""

    def __init__(
        self,
        tools: Iterable[Callable[..., Any] | Tool | ToolFunction] = (),
        *,
        unlisted: Iterable[ToolFunction] = (),
        vault: Vault | None = None,
    ) -> None:
        """`unlisted` are tools that can be called, and are declared by somebody else in time.

        What the arguments of a call name as secrets of the `vault` is put in when a tool is run.
        """
        self._vault = vault or Vault({})
        self._functions: dict[str, ToolFunction] = {}
        declared: dict[str, Tool] = {}
        for one in made_tools(tools):
            tool = one if isinstance(one, Tool) else one.tool
            if isinstance(one, ToolFunction):
                self._functions[tool.name] = one
            if tool.name in declared:
                raise BadSetting(
                    f"two tools are called `{tool.name}`", hint="give each a name of its own"
                )
            declared[tool.name] = tool
        self.tools = tuple(declared.values())
        for one in unlisted:
            self._functions.setdefault(one.tool.name, one)

    @property
    def has_functions(self) -> bool:
        return bool(self._functions)

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def function(self, name: str) -> ToolFunction | None:
        return self._functions.get(name)

    def prepared(self, call: ToolCall) -> tuple[ToolFunction, dict[str, Any]] | Outcome:
        """What to run for a call, or what to answer where nothing can be run."""
        found = self._functions.get(call.name)
        if found is None:
            known = ", ".join(self._functions) or "none"
            text = f"There is no tool `{call.name}`. Tools: {known}."
            return Outcome(call.id, text, is_error=True)
        opened = self._vault.opened(call.arguments, call.name)
        try:
            return found, found.bound(msgspec.structs.replace(call, arguments=opened))
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            text = f"The arguments of `{call.name}` are not right: {error}"
            return Outcome(call.id, text, is_error=True)


def tool_function(function: Callable[..., Any]) -> ToolFunction:
    """A function as a tool; its signature gives the schema, its docstring the descriptions."""
    if not callable(function):
        raise BadSetting(f"`{cut(repr(function), 80).text}` is no tool", hint=_HINT)
    name = getattr(function, "__name__", type(function).__name__)
    if not _NAME.fullmatch(name):
        raise BadSetting(
            f"`{name}` cannot be the name of a tool", hint="define a function with a plain name"
        )
    summary, described = _docstring(inspect.getdoc(function) or "")
    fields = _fields(function, name, described)
    arguments = msgspec.defstruct(name, fields, forbid_unknown_fields=True, kw_only=True)
    return ToolFunction(function, Tool(name, summary, _schema(arguments, name)), arguments)


def made_tools(tools: Any) -> tuple[ToolFunction | Tool, ...]:
    """Functions and declarations as they go into a toolbox."""
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise BadSetting(f"`tools` cannot be {cut(repr(tools), 80).text}", hint=_HINT)
    return tuple(
        one if isinstance(one, ToolFunction | Tool) else tool_function(one) for one in tools
    )


def outcome_of(call_id: str, value: Any, seconds: float) -> Outcome:
    """What a function returned, as the result of its call."""
    if isinstance(value, ToolOutput):
        content, details = _content(value.content), _storable(value.details)
        return Outcome(call_id, content, value.is_error, details, seconds)
    return Outcome(call_id, _content(value), seconds=seconds)


def outcome_of_error(call_id: str, error: BaseException, seconds: float) -> Outcome:
    """What a function raised, as the result of its call."""
    said = str(error).strip()
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return Outcome(call_id, scrub(text), is_error=True, seconds=seconds)


def _content(value: Any) -> Content:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if _is_blocks(value):
        stored = _storable(value)
        return list(stored) if isinstance(stored, list) else str(stored)
    try:
        return msgspec.json.encode(value, enc_hook=repr).decode()
    except _NOT_JSON:
        return str(value)


def _storable(value: Any) -> Any:
    """A value that the log can hold: what JSON has no words for becomes text."""
    try:
        return msgspec.json.decode(msgspec.json.encode(scrub_deep(value), enc_hook=repr))
    except _NOT_JSON:
        return str(value)


def _is_blocks(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and isinstance(one.get("type"), str) for one in value)
    )


def _fields(function: Callable[..., Any], name: str, described: dict[str, str]) -> list[Any]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise BadSetting(
            f"the types of the tool `{name}` cannot be found: {error}",
            hint="define it with `def`, and import what its annotations name where it is defined",
        ) from error
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise BadSetting(
                f"the tool `{name}` takes `{parameter}`, which no schema can describe",
                hint="give it named parameters",
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise BadSetting(
                f"`{parameter.name}` of the tool `{name}` cannot be given by name",
                hint="take the `/` out of its signature",
            )
        kind = hints.get(parameter.name, Any)
        if parameter.name in described:
            kind = typing.Annotated[kind, msgspec.Meta(description=described[parameter.name])]
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            default = parameter.default
            if isinstance(default, list | dict | set):
                default = msgspec.field(default_factory=default.copy)
            fields.append((parameter.name, kind, default))
    return fields


def _schema(arguments: type, name: str) -> dict[str, Any]:
    try:
        _refs, components = msgspec.json.schema_components(
            [arguments], ref_template="#/$defs/{name}"
        )
    except TypeError as error:
        raise BadSetting(
            f"the tool `{name}` has a parameter that JSON cannot carry: {error}",
            hint="use text, numbers, lists, dictionaries, dataclasses or structs",
        ) from error
    schema = dict(components.pop(name))
    schema.pop("title", None)
    schema["additionalProperties"] = False
    if components:
        schema["$defs"] = components
    return schema


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """What stands before the list of arguments, and what the list says about each."""
    summary: list[str] = []
    described: dict[str, str] = {}
    current = ""
    is_list = False
    for line in text.splitlines():
        if line.strip().lower() in _HEADINGS:
            is_list = True
        elif not is_list:
            summary.append(line)
        elif found := _ARGUMENT.match(line):
            current = found[1].lstrip("*")
            described[current] = found[2].strip()
        elif current and line.startswith("     "):
            described[current] += " " + line.strip()
        elif line.strip() and not line.startswith(" "):
            is_list = False  # another section: what it returns is no argument
            if not line.rstrip().endswith(":"):
                summary.append(line)
    return "\n".join(summary).strip(), described
