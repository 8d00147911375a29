"""The tool `context`: the model asks for what it no longer sees, for the state, and for a cut.

One tool of one shape wherever a model works on a session: in a session's own loop, in a loop of
the caller's, behind the proxy, and in the adapters of frameworks. It reads its own session alone.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.core.limits import EXCERPT_CHARS
from holdfast.core.log.records import Compaction
from holdfast.core.outputs.offload import CONTEXT_TOOL
from holdfast.engine.tool_values import ToolOutput
from holdfast.engine.tools import ToolFunction, tool_function
from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.models.messages import Tool
    from holdfast.engine.outputs import Outputs

_WHOLE: Final = ".."
"""The range of all records."""


def context_tool(
    outputs: Outputs,
    key: SessionKey,
    *,
    status: Callable[[], str],
    compact: Callable[[str], str] | None = None,
    checkpoint: Callable[[], str] | None = None,
    chars_max: int = EXCERPT_CHARS,
) -> ToolFunction:
    """The tool `context` for the model of a session; an answer has at most `chars_max` characters.

    `status` says how full the context is; `compact` cuts it, with a focus, and says what was done;
    `checkpoint` stores the state of the work.
    """
    chars = min(EXCERPT_CHARS, chars_max)

    def context(
        action: Literal["read", "status", "compact", "checkpoint"] = "read",
        ref: str = "",
        lines: str = "",
        offset: int = 0,
        search: str = "",
        focus: str = "",
    ) -> ToolOutput:
        """Read what is no longer shown, see how full the context is, compact it or checkpoint it.

        Args:
            ref: Ref or record id from a note, or FIRST..LAST. Empty: all records, with search.
            lines: "120:180", or "-50:" for the last 50.
            offset: Read on from this character.
            search: A regular expression: only the lines that match.
            focus: For compact: what the summary should keep.
        """
        try:
            if action == "status":
                return ToolOutput(status())
            if action == "checkpoint":
                return ToolOutput(_checkpoint(checkpoint))
            if action == "compact":
                return ToolOutput(_compact(compact, focus))
            if not ref and not search:
                raise UsageError(
                    "nothing to read is named",
                    hint="give ref, from a note in the conversation, or search",
                )
            return ToolOutput(
                outputs.answer(
                    key,
                    ref or _WHOLE,
                    offset=offset or None,
                    lines=lines or None,
                    pattern=search or None,
                    max_chars=chars,
                )
            )
        except HoldfastError as error:
            said = f"{error}. {error.hint}." if error.hint else f"{error}."
            return ToolOutput(said, is_error=True)

    assert context.__name__ == CONTEXT_TOOL
    made = tool_function(context)
    made.tool = _without_defaults(made.tool)
    return made


@functools.cache
def context_declaration() -> Tool:
    """The tool `context` as a session declares it, for a loop of your own: pass it among `tools`
    from the first request on, and answer its calls with `Session.context`."""
    nowhere: Any = None  # nothing is read: only the shape is used
    return context_tool(nowhere, nowhere, status=str).tool


def former_tool(tool: ToolFunction) -> ToolFunction:
    """`output_read`, the name and shape of the tool in sessions of version 0.1: their previews
    name it, so a call of it is answered, and it is declared to no one."""

    def output_read(
        ref: str,
        offset: int | None = None,
        lines: str | None = None,
        pattern: str | None = None,
        max_chars: int | None = None,  # noqa: ARG001 - the answer has the size of today's
    ) -> ToolOutput:
        answer: ToolOutput = tool.function(
            ref=ref, offset=offset or 0, lines=lines or "", search=pattern or ""
        )
        return answer

    return tool_function(output_read)


def describe_cuts(records: Iterable[Record]) -> list[str]:
    """A line about what the newest cut left out, and how to read it; none where nothing was cut."""
    newest = None
    for record in records:
        if isinstance(record, Compaction) and record.covers is not None:
            newest = record
    if newest is None or newest.covers is None:
        return ["Nothing was cut."]
    first, last = newest.covers
    return [
        f"Everything up to record {last} is cut, the last time from record {first} on: "
        f'ref="..{last}" reads or searches all of it.'
    ]


def _without_defaults(tool: Tool) -> Tool:
    """The tool with a smaller schema: what may be left out says so, and what then holds is told."""
    given = tool.parameters["properties"]
    bare = {
        name: {field: value for field, value in shape.items() if field != "default"}
        for name, shape in given.items()
    }
    return msgspec.structs.replace(tool, parameters={**tool.parameters, "properties": bare})


def _checkpoint(checkpoint: Callable[[], str] | None) -> str:
    if checkpoint is None:
        raise UsageError(
            "no checkpoint can be stored from here",
            hint="go on: where there are checkpoints, one is stored before each cut",
        )
    return checkpoint()


def _compact(compact: Callable[[str], str] | None, focus: str) -> str:
    if compact is None:
        raise UsageError(
            "this context cannot be compacted from here",
            hint="go on: it is compacted when it is full",
        )
    return compact(focus)
