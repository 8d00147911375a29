"""Anthropic's memory tool over notes, called as the SDK calls it."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError

from holdfast.integrations.anthropic_memory import HoldfastAsyncMemoryTool, HoldfastMemoryTool
from holdfast.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.ports import SessionStore

CREATE = {"command": "create", "path": "/memories/trip.md", "file_text": "Go to Lisbon.\n"}
VIEW = {"command": "view", "path": "/memories/trip.md"}
COMMANDS: list[dict[str, Any]] = [
    CREATE,
    VIEW,
    {**VIEW, "view_range": [1, 1]},
    {
        "command": "str_replace",
        "path": "/memories/trip.md",
        "old_str": "Lisbon",
        "new_str": "Porto",
    },
    {
        "command": "insert",
        "path": "/memories/trip.md",
        "insert_line": 1,
        "insert_text": "In May.\n",
    },
    {"command": "rename", "old_path": "/memories/trip.md", "new_path": "/memories/plans/trip.md"},
    {"command": "view", "path": "/memories"},
    {"command": "delete", "path": "/memories/plans"},
    {"command": "view", "path": "/memories"},
]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store") as opened:
        yield opened


def test_six_commands_work_blocking_and_awaited(tmp_path: Path) -> None:
    blocking: Any = HoldfastMemoryTool(root=str(tmp_path / "one"))
    awaited: Any = HoldfastAsyncMemoryTool(root=str(tmp_path / "two"))
    assert issubclass(type(blocking), BetaAbstractMemoryTool)
    assert issubclass(type(awaited), BetaAsyncAbstractMemoryTool)
    assert blocking.to_dict() == {"type": "memory_20250818", "name": "memory"}
    answers = [blocking.call(command) for command in COMMANDS]

    async def main() -> list[Any]:
        return [await awaited.call(command) for command in COMMANDS]

    assert asyncio.run(main()) == answers
    assert "Go to Lisbon." in answers[1]
    assert "/memories/plans/trip.md" in answers[6]
    assert "trip.md" not in answers[8]
    blocking.close()
    awaited.close()


def test_what_a_model_writes_is_a_note_of_the_agent(store: SessionStore) -> None:
    tool: Any = HoldfastMemoryTool(store=store)
    tool.call(CREATE)
    assert store.notes("main").data("trip.md") == b"Go to Lisbon.\n"
    anns: Any = HoldfastMemoryTool(store=store, owner="ann")
    with pytest.raises(ToolError):
        anns.call(VIEW)
    other: Any = HoldfastMemoryTool(store=store)
    assert "Lisbon" in other.call(VIEW)


@pytest.mark.parametrize(
    "command",
    [
        {"command": "view", "path": "/etc/passwd"},
        {"command": "view", "path": "/memories/../../etc/passwd"},
        {"command": "view", "path": "/memories/nothing.md"},
        {"command": "create", "path": "/memories/../x.md", "file_text": "x"},
        {"command": "str_replace", "path": "/memories/a.md", "old_str": "no", "new_str": "x"},
        {"command": "delete", "path": "/memories"},
    ],
)
def test_refusals_are_errors_of_the_sdk(command: dict[str, Any], store: SessionStore) -> None:
    tool: Any = HoldfastMemoryTool(store=store)
    tool.call({"command": "create", "path": "/memories/a.md", "file_text": "a\n"})
    with pytest.raises(ToolError):
        tool.call(command)
    assert "a" in tool.call({"command": "view", "path": "/memories/a.md"})


def test_closed_tool_is_refused(store: SessionStore) -> None:
    tool: Any = HoldfastMemoryTool(store=store)
    tool.close()
    with pytest.raises(RuntimeError, match="HoldfastMemoryTool is closed"):
        tool.call(VIEW)


@pytest.mark.parametrize("delete", ["trash", "erase"])
def test_a_program_clears_all_notes(delete: Any, tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        for made in (HoldfastMemoryTool, HoldfastAsyncMemoryTool):
            tool: Any = made(store=store, delete=delete)
            tool.notes.put("trip.md", None, b"Go to Lisbon.\n")
            tool.notes.put("plans/may.md", None, b"In May.\n")
            answer = tool.clear_all_memory()
            assert (answer if isinstance(answer, str) else asyncio.run(answer)) == (
                "All memory cleared"
            )
            assert tool.notes.tree() == []
    if not (tmp_path / "store").exists():
        return  # the trash of a database is no folder
    left = [path.read_text() for path in tmp_path.rglob("*.md")]
    kept = ["Go to Lisbon.\n", "In May.\n"] * 2
    assert sorted(left) == (sorted(kept) if delete == "trash" else [])


def test_commands_never_run_on_the_event_loop(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool: Any = HoldfastAsyncMemoryTool(store=store)
    threads = []
    run = type(tool)._run

    def watch(self: Any, command: Any) -> str:
        threads.append(threading.current_thread())
        return str(run(self, command))

    monkeypatch.setattr(type(tool), "_run", watch)

    async def main() -> None:
        for command in COMMANDS:
            await tool.call(command)

    asyncio.run(main())
    assert len(threads) == len(COMMANDS)
    assert threading.main_thread() not in threads
