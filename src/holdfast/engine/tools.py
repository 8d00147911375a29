"""Typed Python functions as tools: schema and arguments."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, get_args

import msgspec

from holdfast.core.flow.effects import Outcome
from holdfast.core.log.ids import CallKey
from holdfast.core.models.messages import Tool
from holdfast.core.owners import NO_OWNER
from holdfast.core.secrets.vault import Vault
from holdfast.core.text.cut import cut
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.typed import convert_typed
from holdfast.core.turn.calls import ApprovalNeed
from holdfast.engine.tool_values import show
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from holdfast.core.approval_rules import ApprovalRule, GatedTool
    from holdfast.core.models.messages import ToolCall
    from holdfast.core.owners import FoundOwner

_NAME: Final = lazy_pattern(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_HINT: Final = "pass a list of functions: `tools=[read_file]`"
_DOCSTRING_CHARS: Final = 20_000
"""A longer docstring is not a description of a tool."""
_BLANK_LINES: Final = lazy_pattern(r"\n{3,}")
_REASON_CHARS: Final = 500
"""Of the reason why a call needs approval: a sentence or two for a person."""
_SHOWN_CHARS: Final = 80
"""A wrong value, as an error quotes it."""


Retry = Literal["never", "safe"]
Approval: TypeAlias = "bool | Callable[..., bool | str | None] | None"
_MARK: Final = "__holdfast_tool__"
F = TypeVar("F", bound="Callable[..., Any]")


NO_KEY: Final = CallKey("")
"""Of a call that is in no log."""


class ToolRules(msgspec.Struct, frozen=True):
    """The ways in which the calls of a function are run, as `tool` states them."""

    approval: Approval = None
    """True where a person has to approve each call, or a function of the arguments that says why;
    None where no one has to."""
    approvers: tuple[str, ...] = ()
    """The names of those who may decide; empty for anyone who may use the session."""
    expires: float | None = None
    """The seconds in which a call may be approved; None for no limit."""
    retry: Retry = "never"
    """`safe` where a call whose outcome is unknown may be run again."""


NO_RULES: Final = ToolRules()


def tool(
    *,
    approval: Approval = None,
    approvers: Sequence[str] = (),
    expires: float | None = None,
    retry: Retry = "never",
) -> Callable[[F], F]:
    """Say of a function how its calls are run, as a decorator; it stays the function it is.

    With `approval=True` a person has to approve each call before it runs. A function gets the
    arguments by name and says whether a person has to, and with a text, why. What it raises counts
    as a yes. Where `approvers` are named, one of them has to decide. A call that no one approves
    within `expires` seconds is not run.

    With `retry="safe"`, a call whose process died is run again, with the same `CallKey`. By default
    it is not, and the model learns that its outcome is unknown.
    """
    if retry not in get_args(Retry):
        known = " or ".join(f'"{word}"' for word in get_args(Retry))
        raise BadSetting(f"`retry` cannot be {show(retry)}", hint=f"pass {known}")
    if not (approval is None or isinstance(approval, bool) or callable(approval)):
        raise BadSetting(
            f"`approval` cannot be {show(approval)}",
            hint="pass True, or a function of the arguments",
        )
    if inspect.iscoroutinefunction(approval):
        raise BadSetting(
            "`approval` cannot be a coroutine function: it is called and not awaited",
            hint="pass a plain function of the arguments",
        )
    if expires is not None and not expires > 0:
        raise BadSetting(f"`expires` cannot be {show(expires)}", hint="pass seconds, or None")
    if isinstance(approvers, str) or not all(isinstance(name, str) and name for name in approvers):
        raise BadSetting(
            f"`approvers` cannot be {show(approvers)}", hint='pass names, as `["ann", "bob"]`'
        )
    rules = ToolRules(approval or None, tuple(approvers), expires, retry)

    def mark(function: F) -> F:
        try:
            setattr(function, _MARK, rules)
        except AttributeError as error:
            raise BadSetting(
                f"`{cut(show(function), _SHOWN_CHARS).text}` cannot be marked as a tool",
                hint="decorate the function, or the function of a method",
            ) from error
        return function

    return mark


class ToolFunction:
    """A function that the model can call."""

    def __init__(
        self,
        function: Callable[..., Any],
        tool: Tool,
        arguments: type,
        *,
        rules: ToolRules = NO_RULES,
        key_parameter: str = "",
    ) -> None:
        """`key_parameter` is the one that gets the key of the call; the model does not see it."""
        self.function = function
        self.tool = tool
        self.rules = rules
        self._arguments = arguments
        self.key_parameter = key_parameter
        self.is_async = inspect.iscoroutinefunction(function)

    def bind(self, call: ToolCall) -> dict[str, Any]:
        """Convert arguments to the function's types. Raises `msgspec.ValidationError`."""
        given: Any = convert_typed(call.arguments, self._arguments, strict=False)
        return {name: getattr(given, name) for name in given.__struct_fields__}


class Toolbox:
    """The tools of a session, by name."""

    def __init__(
        self,
        tools: Iterable[Callable[..., Any] | Tool | ToolFunction] = (),
        *,
        unlisted: Iterable[ToolFunction] = (),
        vault: Vault | None = None,
        approvals: Sequence[ApprovalRule] = (),
        owner: FoundOwner = NO_OWNER,
    ) -> None:
        """Build a toolbox.

        `unlisted` tools can be called, but something else declares them to the model. A call that
        names a secret of the `vault` gets its value when the tool runs. The rules in `approvals`
        are about `tools`, for the `owner` of the session.
        """
        self._vault = vault if vault is not None else Vault({})
        self._functions: dict[str, ToolFunction] = {}
        declared: dict[str, Tool] = {}
        for item in make_tools(tools):
            tool = item if isinstance(item, Tool) else item.tool
            if isinstance(item, ToolFunction):
                self._functions[tool.name] = item
            if tool.name in declared:
                raise BadSetting(
                    f"two tools have the name `{tool.name}`", hint="rename one of the functions"
                )
            declared[tool.name] = tool
        self.tools = tuple(declared.values())
        self._owner = owner
        self._approvals = dict.fromkeys(self._functions, tuple(approvals))
        _check_are_run(approvals, declared.keys() - self._functions.keys())
        for function in unlisted:
            self._functions.setdefault(function.tool.name, function)

    @property
    def has_functions(self) -> bool:
        return bool(self._functions)

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def function(self, name: str) -> ToolFunction | None:
        return self._functions.get(name)

    @property
    def approval_tools(self) -> frozenset[str]:
        """The tools of which a call may need the approval of a person."""
        return frozenset(
            name
            for name, function in self._functions.items()
            if function.rules.approval is not None
            or any(rule.is_about(name, self._owner) for rule in self._approvals.get(name, ()))
        )

    def judge(self, call: ToolCall) -> ApprovalNeed | None:
        """Return why a person has to approve a call; None where no one has to, as for one that
        cannot be run."""
        found = self.prepare(call)
        if isinstance(found, Outcome):
            return None
        function, arguments = found
        rules = function.rules
        arguments.pop(function.key_parameter, None)
        why = _judge(rules.approval, arguments)
        own = None if why is None else ApprovalNeed(why, rules.expires, rules.approvers)
        need = self._add_rules(own, call.name, arguments)
        if need is None:
            return None
        return msgspec.structs.replace(need, reason=cut(need.reason, _REASON_CHARS).text)

    def _add_rules(
        self, own: ApprovalNeed | None, name: str, arguments: dict[str, Any]
    ) -> ApprovalNeed | None:
        rules = self._approvals.get(name)
        if not rules:
            return own
        from holdfast.core.approval_rules import both_needs, rule_need

        return both_needs(own, rule_need(rules, name, self._owner, arguments))

    @property
    def safe_to_retry(self) -> frozenset[str]:
        """The tools whose calls may be run again where their outcome is unknown."""
        named = self._functions.items()
        return frozenset(name for name, function in named if function.rules.retry == "safe")

    def prepare(
        self, call: ToolCall, key: CallKey = NO_KEY
    ) -> tuple[ToolFunction, dict[str, Any]] | Outcome:
        """Return the function and its arguments for a call, or the error to answer it with."""
        found = self._functions.get(call.name)
        if found is None:
            known = ", ".join(self._functions) or "none"
            text = f"There is no tool `{call.name}`. Tools: {known}."
            return Outcome(call.id, text, is_error=True)
        try:
            arguments = self._vault.resolve(call.arguments, call.name)
            bound = found.bind(msgspec.structs.replace(call, arguments=arguments))
            return found, {**bound, **({found.key_parameter: key} if found.key_parameter else {})}
        except Exception as error:  # a type of the caller's may refuse with any of its own
            text = f"The arguments of `{call.name}` are invalid: {show(error)}"
            return Outcome(call.id, text, is_error=True)


def _check_are_run(rules: Sequence[ApprovalRule], declared: Collection[str]) -> None:
    """Raise where a rule names a tool that the caller runs: of its calls no one is asked here."""
    for rule in rules:
        for name in declared:
            if name in rule.tools:
                raise BadSetting(
                    f"a rule of the approvals is about the tool `{name}`, which the caller runs",
                    hint="pass a function as the tool, whose calls wait here",
                )


def describe_tools(tools: Iterable[ToolFunction | Tool]) -> list[GatedTool]:
    """Return what a check of rules has to know of tools."""
    from holdfast.core.approval_rules import GatedTool

    found = []
    for item in tools:
        tool, approvers = (
            (item, ()) if isinstance(item, Tool) else (item.tool, item.rules.approvers)
        )
        properties = tool.parameters.get("properties")
        known = list(properties) if isinstance(properties, dict) else None
        found.append(GatedTool(tool.name, known, approvers))
    return found


def _judge(approval: Approval, arguments: dict[str, Any]) -> str | None:
    """Return why a person has to approve a call with these arguments. A doubt is a reason."""
    if approval is True:
        return "each call of this tool needs approval"
    if not callable(approval):
        return None
    try:
        why = approval(**arguments)
    except Exception as error:
        return f"whether it needs approval could not be found out: {show(error)}"
    if isinstance(why, str):
        return why or None
    return "its arguments need approval" if why else None


def tool_function(function: Callable[..., Any]) -> ToolFunction:
    """Make a tool of a function: its signature gives the schema, its docstring the descriptions."""
    if not callable(function):
        raise BadSetting(f"`{cut(show(function), _SHOWN_CHARS).text}` is not a tool", hint=_HINT)
    name = getattr(function, "__name__", type(function).__name__)
    for code in (function, getattr(function, "__call__", None)):  # noqa: B004 - an object's code
        if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
            raise BadSetting(
                f"the tool `{name}` is a generator, whose values would not be read",
                hint="collect it: return a text, or a list",
            )
    if not _NAME.fullmatch(name):
        raise BadSetting(
            f"`{name}` cannot be the name of a tool",
            hint="use at most 64 letters, digits, underscores and hyphens",
        )
    description, parameters = _read_docstring(inspect.getdoc(function) or "")
    fields = _fields(function, name, parameters)
    keyed = [field[0] for field in fields if field[1] is CallKey]
    if len(keyed) > 1:
        raise BadSetting(
            f"the tool `{name}` takes the key of its call as `{keyed[0]}` and as `{keyed[1]}`",
            hint="a call has one key: keep one of the parameters",
        )
    shown = [field for field in fields if field[0] not in keyed]
    arguments = msgspec.defstruct(name, shown, forbid_unknown_fields=True, kw_only=True)
    return ToolFunction(
        function,
        Tool(name, description, _schema(arguments, name)),
        arguments,
        rules=getattr(function, _MARK, NO_RULES),
        key_parameter=keyed[0] if keyed else "",
    )


def make_tools(tools: Any) -> tuple[ToolFunction | Tool, ...]:
    """Return tools as functions with a schema, and declarations as they are."""
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise BadSetting(f"`tools` cannot be {cut(show(tools), _SHOWN_CHARS).text}", hint=_HINT)
    return tuple(
        tool if isinstance(tool, ToolFunction | Tool) else tool_function(tool) for tool in tools
    )


def _fields(function: Callable[..., Any], name: str, descriptions: dict[str, str]) -> list[Any]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise BadSetting(
            f"cannot resolve the annotations of the tool `{name}`: {error}",
            hint="import the annotated types at run time, in the module that defines the tool",
        ) from error
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise BadSetting(
                f"the tool `{name}` takes `{parameter}`, which a schema cannot describe",
                hint="use named parameters",
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise BadSetting(
                f"the parameter `{parameter.name}` of the tool `{name}` is positional-only",
                hint="remove the `/` from its signature",
            )
        kind = hints.get(parameter.name, Any)
        if kind is CallKey:
            fields.append((parameter.name, kind))
            continue
        if parameter.name in descriptions:
            kind = typing.Annotated[kind, msgspec.Meta(description=descriptions[parameter.name])]
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
            f"the tool `{name}` has a parameter that JSON cannot represent: {error}",
            hint="use strings, numbers, lists, dictionaries, dataclasses or structs",
        ) from error
    schema = dict(components.pop(name))
    schema.pop("title", None)
    schema["additionalProperties"] = False
    if components:
        schema["$defs"] = components
    return schema


@functools.lru_cache(maxsize=256)
def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Split a docstring into a description of the tool and one of each parameter.

    Understands the Google, NumPy, reST and Epytext styles.
    """
    if "\n" not in text or len(text) > _DOCSTRING_CHARS:
        return text, {}
    # `inspect.cleandoc`, which the parser calls, takes quadratic time for leading blank lines.
    text = _BLANK_LINES.sub("\n\n", text.strip("\n"))
    # Costs a few milliseconds to import, which only sessions with tools need.
    from docstring_parser import ParseError, compose, parse

    try:
        found = parse(text)
    except ParseError:
        return text, {}
    parameters = {
        name.strip().lstrip("*"): " ".join(parameter.description.split())
        for parameter in found.params
        for name in parameter.arg_name.split(",")
        if parameter.description
    }
    # The parser drops text behind the sections that it knows; then the model gets all of it.
    if not parameters or _words(text) - _words(compose(found)):
        return text, parameters
    parts = [found.short_description, found.long_description]
    parts += [example.description for example in found.examples]
    return "\n\n".join(filter(None, parts)), parameters


def _words(text: str) -> set[str]:
    """Return the words of a text, without markup such as `Args:`, `:type` and `@param`."""
    return set(re.findall(r"(?<![:@\w])\w++(?!:)", text))
