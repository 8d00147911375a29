"""The tools: every operation that has a name for models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.text.cut import scrub_deep
from holdfast.core.text.typed import convert_typed
from holdfast.engine.operations.operation import Operation, describe
from holdfast.engine.operations.registry import OPERATIONS

if TYPE_CHECKING:
    from holdfast.core.history.answers import Result
    from holdfast.core.log.records import Json
    from holdfast.engine.workspace.workspace import CallerWorkspace


class McpTool:
    """An operation as a client of MCP sees it."""

    def __init__(self, operation: type[Operation]) -> None:
        schema = msgspec.json.schema(operation)["$defs"][operation.__name__]
        for name in ("title", "description"):
            schema.pop(name, None)
        for name in operation.place:
            del schema["properties"][name]
        self.operation = operation
        self.name = operation.tool
        self.title = operation.title
        self.description = describe(operation)
        self.schema: Json = schema
        self.is_reading = operation.right == "read"
        self.is_idempotent = operation.is_idempotent

    def call(self, workspace: CallerWorkspace, given: Json) -> Result:
        """Call it with arguments as they came; null stands for one that was left out.

        Raises `msgspec.ValidationError` for arguments that the schema does not allow.
        """
        clean: Any = {name: value for name, value in given.items() if value is not None}
        for name in clean:
            if name not in self.schema["properties"]:
                raise msgspec.ValidationError(f"there is no parameter `{name}`")
        return convert_typed(scrub_deep(clean), self.operation, strict=False).call(workspace)


TOOLS: Final[dict[str, McpTool]] = {
    operation.tool: McpTool(operation) for operation in OPERATIONS if operation.tool
}
"""Every tool by name."""
