"""Operations as tools of a model: name, description and schema are those of the operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.history.capped_json import refusal, text_within
from holdfast.core.models.messages import Tool
from holdfast.core.text.cut import scrub_deep
from holdfast.core.text.typed import convert_typed
from holdfast.engine.history.replies import shorten
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations import (
    approvals,
    context,
    history,
    inbox,
    links,
    memory,
    own_loop,
    server,
    sessions,
    timers,
    upkeep,
)
from holdfast.engine.operations.operation import Operation, describe
from holdfast.engine.tools import ToolFunction

if TYPE_CHECKING:
    from types import ModuleType

    from holdfast.core.history.answers import Result
    from holdfast.core.log.records import Json
    from holdfast.engine.history.replies import GivenReply
    from holdfast.engine.workspace.workspace import CallerWorkspace


_MODULES: Final[tuple[ModuleType, ...]] = (
    history,
    context,
    memory,
    sessions,
    upkeep,
    inbox,
    timers,
    approvals,
    links,
    own_loop,
    server,
)

OPERATIONS: Final[tuple[type[Operation[Any]], ...]] = tuple(
    kind
    for module in _MODULES
    for kind in vars(module).values()
    if isinstance(kind, type)
    and issubclass(kind, Operation)
    and kind.__module__ == module.__name__
    and hasattr(kind, "title")
)
"""In the order in which a door lists them."""


_DIGITS_MAX: Final = 18
"""Digits of a number that a model wrote as a text; none of ours has more."""


class OperationTool:
    """An operation as a model, or a client of MCP, sees it."""

    def __init__(self, operation: type[Operation[Any]]) -> None:
        schema = msgspec.json.schema(operation)["$defs"][operation.__name__]
        for name in ("title", "description"):
            schema.pop(name, None)
        for name in operation.place:
            del schema["properties"][name]
        self.operation = operation
        self.schema: Json = schema

    @property
    def declaration(self) -> Tool:
        """The tool as a request has it."""
        return Tool(self.operation.tool, describe(self.operation), self.schema)

    @property
    def is_reading(self) -> bool:
        return self.operation.right == "read"

    def call(self, workspace: CallerWorkspace, given: Json) -> Result:
        """Call it with arguments as they came: null and blank stand for one that was left out, and
        a number above its bound for the bound. Raises `RequestRefused`, which is in the audit log
        as well."""
        try:
            operation = self._read(given)
        except RequestRefused as refused:
            return _refuse(workspace, self.operation, given, refused)
        found: Result = operation.call(workspace)
        return found

    def _read(self, given: Json) -> Operation[Any]:
        clean: Any = {
            name: value
            for name, value in given.items()
            if value is not None and not (isinstance(value, str) and not value.strip())
        }
        for name, value in clean.items():
            if name not in self.schema["properties"]:
                raise RequestRefused("invalid", f"there is no parameter `{shorten(name)}`")
            most = self.schema["properties"][name].get("maximum")
            if type(value) is str and value.isdecimal() and len(value) <= _DIGITS_MAX:
                value = int(value)
            if type(value) in (int, float) and most is not None and value > most:
                clean[name] = most
        try:
            asked: Operation[Any] = convert_typed(scrub_deep(clean), self.operation, strict=False)
        except msgspec.ValidationError as error:
            raise RequestRefused("invalid", f"the arguments are invalid: {error}") from error
        return asked

    def data(self, workspace: CallerWorkspace, given: Json) -> Json:
        """Return the answer, or the refusal, as data within the cap."""
        try:
            found: Json = msgspec.to_builtins(self.call(workspace, given))
        except RequestRefused as refused:
            asked = workspace.mask(shorten(given.get("sessionKey", "")))
            return refusal(refused.status, workspace.mask(refused.error), asked, workspace.cap)
        return found

    def text(self, workspace: CallerWorkspace, given: Json) -> str:
        """Return the answer, or the refusal, as compact JSON within the cap."""
        return text_within(self.data(workspace, given), workspace.cap)

    def bind(self, workspace: CallerWorkspace, description: str = "") -> ToolFunction:
        """Return it as a tool for a model that acts for the caller of a workspace."""

        def answer(**given: Any) -> str:
            return self.text(workspace, given)

        # Any value is taken: what cannot be meant is refused as an answer.
        fields: list[Any] = [(name, Any, None) for name in self.schema["properties"]]
        arguments = msgspec.defstruct(self.operation.tool, fields, forbid_unknown_fields=True)
        words = description or describe(self.operation)
        return ToolFunction(answer, Tool(self.operation.tool, words, self.schema), arguments)


def _refuse(
    workspace: CallerWorkspace,
    operation: type[Operation[Any]],
    given: Json,
    refused: RequestRefused,
) -> Result:
    """Raise a refusal that is in the audit log."""

    def give() -> GivenReply[Result]:
        raise refused

    return workspace.audit(operation.audit, shorten(given.get("sessionKey", "")), give)


TOOLS: Final[dict[str, OperationTool]] = {
    operation.tool: OperationTool(operation) for operation in OPERATIONS if operation.tool
}
"""Every operation that has a name for models, by that name."""
