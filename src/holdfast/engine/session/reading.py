"""Questions about an open session that only read. They block; `AsyncSession` asks in a thread."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from holdfast.core.flow.arguments import (
    check_argument,
    check_number,
    check_optional_text,
    check_text,
)
from holdfast.core.flow.effects import Outcome
from holdfast.core.limits import EXCERPT_CHARS
from holdfast.core.log.records import Assistant, Flush, ToolResult, User
from holdfast.core.models.messages import ToolCall
from holdfast.engine.context_tool import former_tool
from holdfast.engine.tool_values import ToolOutput
from holdfast.engine.tools import Toolbox
from holdfast.errors import NoSuchOutput

if TYPE_CHECKING:
    from holdfast.core.log.records import Record
    from holdfast.core.outputs.excerpts import Excerpt, ExcerptOptions
    from holdfast.core.projection.project import Plan
    from holdfast.engine.session.state import SessionState
    from holdfast.engine.session.status import Status


def read_plan(state: SessionState, *, is_held: bool) -> Plan:
    check_argument("is_held", is_held, bool, "True or False")
    return state.plan_held() if is_held else state.plan()


def read_status(state: SessionState) -> Status:
    return state.status()


def read_messages(state: SessionState, count: int) -> list[Record]:
    """The newest messages, oldest first."""
    check_number("count", count)
    wanted = 2 * count
    while True:
        newest = state.store.last(state.key, wanted)
        found: list[Record] = [
            rec for rec in newest if isinstance(rec, User | Assistant | ToolResult)
        ]
        if len(found) >= count or len(newest) < wanted:
            return found[-count:] if count > 0 else []
        wanted *= 2


def read_notes(state: SessionState, last: int | None) -> list[str]:
    """The newest `last` notes that flushes of this session have saved, oldest first."""
    check_argument("last", last, int | None, "a number of notes, or None for all")
    newest = (
        note
        for rec in state.store.back(state.key)
        if isinstance(rec, Flush)
        for note in reversed(rec.notes)
    )
    return list(islice(newest, last if last is None else max(last, 0)))[::-1]


def read_output(state: SessionState, ref: str, part: ExcerptOptions) -> Excerpt:
    check_text("ref", ref)
    check_argument("offset", part.get("offset"), int | None, "a number of characters, or None")
    check_optional_text("lines", part.get("lines"))
    check_optional_text("pattern", part.get("pattern"))
    check_number("max_chars", part.get("max_chars", EXCERPT_CHARS))
    if state.outputs is None:
        raise NoSuchOutput(ref, state.key.session, "its store keeps no payloads")
    return state.outputs.read(state.key, ref, **part)


def answer_context(state: SessionState, call: ToolCall) -> ToolOutput:
    """The answer to a call of the tool `context`; a mistake of the model is an answer, too."""
    check_argument("call", call, ToolCall, "a call of a reply")
    tool = state.context_tool
    if tool is None:
        return ToolOutput("the store of this session keeps no payloads", is_error=True)
    found = Toolbox(unlisted=[tool, former_tool(tool)]).prepare(call)
    if isinstance(found, Outcome):
        return ToolOutput(found.content, is_error=True)
    function, given = found
    answer: ToolOutput = function.function(**given)
    return answer
