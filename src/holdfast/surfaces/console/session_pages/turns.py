"""The pages of turns, with what was done for each message, and of branches, with their ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Prune,
    ToolResult,
    User,
    text_of,
    tool_calls,
)
from holdfast.core.log.replay import user_text
from holdfast.core.models.totals import call_cost
from holdfast.core.models.usage import read_usage
from holdfast.core.narrative.calls import call_line
from holdfast.engine.operations.sessions import RewindSession
from holdfast.providers.known_models.lookup import price_of
from holdfast.surfaces.console.layout import form_route, page_route, session_path
from holdfast.surfaces.console.plans import facts_of, show_session
from holdfast.surfaces.formatting import count, money, one_line
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.records import Json, Record
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_TURNS: Final = 25
"""Turns on a page."""
_STEPS: Final = 100
"""Steps and calls on a page, which then has at most 200 KB."""
_RECORDS: Final = 2_000
"""Records that are read for them."""
_WORDS: Final = 140
"""Characters of what was said, which fill a line of the page."""


class TurnsQuery(HttpQuery, frozen=True):
    """The place in the session."""

    before: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """Turns before this record; the newest by default."""


class ToolNode(msgspec.Struct):
    """A call of a tool, and its result."""

    record: str
    """The result; its reply while there is none."""
    name: str
    words: str
    state: str = "no result"
    size: str = ""
    seconds: float | None = None


class StepNode(msgspec.Struct):
    """A reply of the model, with the calls that it made."""

    record: str
    words: str
    seconds: float
    about: str
    """Its tokens and its cost."""
    marks: list[str]
    """The cuts before it."""
    tools: list[ToolNode] = []


class TurnNode(msgspec.Struct):
    """A message of the user, and what was done until the next one."""

    record: str
    ts: float
    words: str
    steps: list[StepNode] = []
    end: float = 0.0
    cost: float = 0.0
    hidden: int = 0
    """Its first steps that have no room on the page."""

    @property
    def about(self) -> str:
        tools = sum(len(step.tools) for step in self.steps)
        parts = [count(len(self.steps), "step"), count(tools, "tool") if tools else ""]
        parts += [_seconds(self.end - self.ts), money(self.cost) if self.cost else ""]
        return " · ".join(filter(None, parts))


def show_turns(call: HttpCall) -> HttpAnswer:
    """The newest turns, the last one open."""
    key = call.session()
    records, earlier = _read(call)
    turns = _collect(records, facts_of(call, key).last.model)
    if earlier and len(turns) > 1:  # the first may have begun before what was read
        turns = turns[1:]
    shown = _fit(turns[-_TURNS:])
    first = shown[0].record if shown and (earlier or len(turns) > len(shown)) else ""
    return show_session(call, key, "/turns", "turns.html", turns=shown, earlier=first)


def _fit(turns: list[TurnNode]) -> list[TurnNode]:
    """Return the newest turns that a page has room for; of one that is too long, the end."""
    left = _STEPS
    fitting: list[TurnNode] = []
    for turn in reversed(turns):
        left -= sum(1 + len(step.tools) for step in turn.steps)
        if left < 0 and fitting:
            break
        fitting.append(turn)
    if left < 0:
        fitting[0].hidden = max(0, len(fitting[0].steps) - _STEPS // 2)
    return fitting[::-1]


def _read(call: HttpCall) -> tuple[list[Record], bool]:
    """Return records up to a place, oldest first, and whether there are earlier ones."""
    found: list[Record] = []
    for record in call.store.back(call.session(), before=call.query.before or None):
        if len(found) == _RECORDS:
            return found[::-1], True
        found.append(record)
    return found[::-1], False


def _collect(records: Iterable[Record], model: str) -> list[TurnNode]:
    """Return the turns: one begins with a user's words that follow a step, or with the first.

    What a program says in a user's place begins none.
    """
    turns: list[TurnNode] = []
    calls: dict[str, tuple[ToolNode, float]] = {}
    marks: list[str] = []
    last = 0.0
    for record in records:
        match record:
            case User() if not turns or (turns[-1].steps and user_text(record)):
                words = one_line(user_text(record), _WORDS) or "(no words of a user)"
                turns.append(TurnNode(record.id, record.ts, words, end=record.ts))
            case Assistant():
                if not turns:
                    turns.append(TurnNode(record.id, record.ts, "(before the first message)"))
                cost = call_cost(record, price_of, model)
                step = _step(record, cost, max(0.0, record.ts - last) if last else 0.0, marks)
                turns[-1].steps.append(step)
                turns[-1].cost += cost or 0.0
                marks = []
                for block, node in zip(tool_calls(record.content), step.tools, strict=True):
                    calls[str(block.get("id"))] = node, record.ts
            case ToolResult() if record.tool_use_id in calls:
                _end_call(*calls[record.tool_use_id], record)
            case Compaction(tokens_before=before, tokens_after=after):
                marks.append(f"compaction {before or 0:,} → {after or 0:,} tok")
            case Prune(decisions=decisions):
                marks.append(f"{count(len(decisions), 'result')} shortened")
            case _:  # the rest is no part of what was done
                pass
        if isinstance(record, User | Assistant | ToolResult):
            last = record.ts
            if turns:
                turns[-1].end = max(turns[-1].end, record.ts)
    return turns


def _step(record: Assistant, cost: float | None, seconds: float, marks: list[str]) -> StepNode:
    usage = read_usage(record.usage, record.provider or "")
    parts = []
    if usage is not None:
        parts.append(f"{usage.prompt:,} tok in, {usage.output or 0:,} out")
    if cost:
        parts.append(money(cost))
    tools = [_tool(record.id, block) for block in tool_calls(record.content)]
    words = one_line(text_of(record.content), _WORDS)
    return StepNode(record.id, words, seconds, " · ".join(parts), marks, tools)


def _tool(record: str, block: Json) -> ToolNode:
    given: Any = block.get("input")
    line = call_line(given) if isinstance(given, dict) else ""
    return ToolNode(record, str(block.get("name") or "?"), one_line(line, _WORDS))


def _end_call(node: ToolNode, called: float, result: ToolResult) -> None:
    node.record = result.id
    if result.refused is not None:
        node.state = "refused"
    elif result.pending:
        node.state = "pending"
    else:
        node.state = "failed" if result.is_error else "done"
    ref = result.output_ref
    node.size = f"{len(text_of(result.content)) if ref is None else ref.chars or 0:,} chars"
    node.seconds = max(0.0, result.ts - called)


def _seconds(seconds: float) -> str:
    if seconds < 0.05:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


_BRANCHES: Final = 100
"""Branches on the page, the newest."""


def show_branches(call: HttpCall) -> HttpAnswer:
    """Every branch: where it left, what was said last on it, and a button to switch to it."""
    key = call.session()
    found = sorted(call.store.branches(key), key=lambda branch: -branch.position)
    shown = found[:_BRANCHES]
    return show_session(call, key, "/branches", "branches.html", branches=shown, whole=len(found))


_SESSION: Final = "/s/{agent}/{session}"
ROUTES: Final = (
    page_route("GET", f"{_SESSION}/turns", "Turns", show_turns, query=TurnsQuery, action="read"),
    page_route("GET", f"{_SESSION}/branches", "Branches", show_branches, action="read"),
    form_route(
        f"{_SESSION}/branches/switch",
        RewindSession,
        ("to",),
        lambda call: session_path(call.session()),
    ),
)
