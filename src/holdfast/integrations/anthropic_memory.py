"""Anthropic's memory tool over the notes of an agent.

    from anthropic import Anthropic
    from holdfast.integrations.anthropic_memory import HoldfastMemoryTool

    memory = HoldfastMemoryTool(root=".sessions")
    Anthropic().beta.messages.run_tools(model=…, messages=…, tools=[memory]).until_done()

What the model writes is a note: people read it in the folder, search finds it, and every other
session of the agent has it. `HoldfastAsyncMemoryTool` is the same for `AsyncAnthropic`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from holdfast.engine.adapters import classes_on_use
from holdfast.engine.memory.anthropic_tool import memory_tool
from holdfast.integrations.common.home import (
    DeletingOptions,
    StoreAdapter,
    read_in_thread,
    write_in_thread,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.engine.tool_values import ToolOutput
    from holdfast.ports import Notes

__all__ = ["HoldfastAsyncMemoryTool", "HoldfastMemoryTool"]


class _Notes(StoreAdapter):
    """Runs the six commands on the notes of an agent, or of one of its owners."""

    def __init__(self, *, cache_control: Any = None, **where: Unpack[DeletingOptions]) -> None:
        super(StoreAdapter, self).__init__(cache_control=cache_control)  # type: ignore[call-arg]
        super().__init__(**where)
        self._does_erase = where.get("delete") == "erase"

    @property
    def notes(self) -> Notes:
        """The notes that the commands work on."""
        return self._home.store.notes(self._home.agent, self._home.owner)

    def _run(self, command: Any) -> str:
        """Return the answer to a command. Raises the SDK's `ToolError` where it is a refusal."""
        from anthropic.lib.tools import ToolError

        answer: ToolOutput = memory_tool(self.notes).function(**_arguments(command))
        text = str(answer.content)
        if answer.is_error:
            raise ToolError(text.removeprefix("Error: "))
        return text

    def _clear(self) -> str:
        notes = self.notes
        if self._does_erase:
            notes.erase(None)
        else:
            for path in {file.path.partition("/")[0] for file in notes.tree()}:
                notes.discard(path)
        return "All memory cleared"


class MemoryToolMethods(_Notes):
    """The memory tool, kept in any store. A `BetaAbstractMemoryTool` of the SDK.

    `root` is the address of a store, `store` an open one; `agent` and `owner` say whose notes. What
    a model deletes goes to the trash; `delete` says what `clear_all_memory` of a program does.
    """

    framework_base: ClassVar = "anthropic.lib.tools:BetaAbstractMemoryTool"

    def view(self, command: Any) -> str:
        """Show a file or a folder."""
        return self._run(command)

    def create(self, command: Any) -> str:
        """Create a file."""
        return self._run(command)

    def str_replace(self, command: Any) -> str:
        """Replace a text that is in a file once."""
        return self._run(command)

    def insert(self, command: Any) -> str:
        """Insert a text behind a line."""
        return self._run(command)

    def delete(self, command: Any) -> str:
        """Move a file or a folder to the trash."""
        return self._run(command)

    def rename(self, command: Any) -> str:
        """Give a file or a folder another path."""
        return self._run(command)

    def clear_all_memory(self) -> str:
        """Move all notes to the trash; with `delete="erase"`, erase them."""
        return self._clear()


class AsyncMemoryToolMethods(_Notes):
    """The memory tool, kept in any store. A `BetaAsyncAbstractMemoryTool` of the SDK."""

    framework_base: ClassVar = "anthropic.lib.tools:BetaAsyncAbstractMemoryTool"

    async def view(self, command: Any) -> str:
        """Show a file or a folder."""
        return await read_in_thread(lambda: self._run(command))

    async def create(self, command: Any) -> str:
        """Create a file."""
        return await write_in_thread(lambda: self._run(command))

    async def str_replace(self, command: Any) -> str:
        """Replace a text that is in a file once."""
        return await write_in_thread(lambda: self._run(command))

    async def insert(self, command: Any) -> str:
        """Insert a text behind a line."""
        return await write_in_thread(lambda: self._run(command))

    async def delete(self, command: Any) -> str:
        """Move a file or a folder to the trash."""
        return await write_in_thread(lambda: self._run(command))

    async def rename(self, command: Any) -> str:
        """Give a file or a folder another path."""
        return await write_in_thread(lambda: self._run(command))

    async def clear_all_memory(self) -> str:
        """Move all notes to the trash; with `delete="erase"`, erase them."""
        return await write_in_thread(self._clear)


if TYPE_CHECKING:
    HoldfastMemoryTool = MemoryToolMethods
    HoldfastAsyncMemoryTool = AsyncMemoryToolMethods


__getattr__ = classes_on_use(
    __name__,
    "anthropic_memory",
    {
        "HoldfastMemoryTool": "anthropic_memory:MemoryToolMethods",
        "HoldfastAsyncMemoryTool": "anthropic_memory:AsyncMemoryToolMethods",
    },
)


def _arguments(command: Any) -> Mapping[str, Any]:
    """Return the fields that a command was given."""
    given: dict[str, Any] = command.model_dump()
    return {name: value for name, value in given.items() if value is not None}
