"""Lists of messages of many conversations at once, within one window."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from holdfast.core.dialects.registry import target
from holdfast.core.log.records import Assistant, ToolResult, User, encode
from holdfast.engine.context_tool import context_declaration
from holdfast.integrations.common.bounded import ListBounds, name_records

if TYPE_CHECKING:
    from holdfast.core.log.records import Record


def talk(name: str) -> list[Record]:
    records: list[Record] = [User(content=f"{name}: hello")]
    return name_records(records, [encode(record).decode() for record in records])


class Evicting(OrderedDict[str, Any]):
    """Loses its oldest item whenever one is set, as if another thread made room just then."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        if len(self) > 1:
            self.pop(next(iter(self)))


def test_a_conversation_is_kept_while_another_thread_evicts() -> None:
    bounds = ListBounds(target("gemini"), window=32_000)
    for name in ("ann", "bob"):
        bounds.fit(talk(name))
    bounds._decided = Evicting(bounds._decided)
    OrderedDict.__setitem__(bounds._decided, talk("ann")[0].id, [])
    for name in ("bob", "ann", "ann", "bob"):
        assert bounds.fit(talk(name)).is_unchanged
        assert list(bounds._decided)[-1] == talk(name)[0].id


def test_a_list_that_was_cut_names_our_tool_and_no_range() -> None:
    """The ids of a framework's messages are made here: no store knows them."""
    bounds = ListBounds(target("anthropic", model="test"), window=9_000)
    said = [
        kind(content=f"{number}: " + "what was said of it, at length " * 60)
        for number in range(30)
        for kind in (User, Assistant)
    ]
    records = name_records(said, [encode(record).decode() for record in said])
    for tools, line in (((context_declaration(),), True), ((), False)):
        opening = bounds.fit(records, tools=tools).opening
        told = str(opening[0])
        assert ("was cut: the tool `context` has it, with search." in told) is line
        assert "ref=" not in told


def test_what_was_decided_at_once_is_dropped_at_once() -> None:
    """A list without the giant result needs neither its shortening nor the cut made with it."""

    def with_result(size: int) -> list[Record]:
        call = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
        said: list[Record] = [
            User(content="a question"),
            Assistant(content=[call]),
            ToolResult(tool_use_id="c1", content="x y z " * size),
            Assistant(content="done"),
            User(content="And now?"),
        ]
        return name_records(said, [encode(record).decode() for record in said])

    bounds = ListBounds(target("anthropic", model="test"), window=25_000)
    assert not bounds.fit(with_result(70_000)).is_unchanged
    assert not bounds.fit(with_result(70_000)).plan.decisions, "it is remembered"
    assert bounds.fit(with_result(7)).is_unchanged
