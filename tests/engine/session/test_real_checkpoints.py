"""Checkpoints of real coding sessions: files exactly right, the same in pieces, within caps."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.shared_data import need_data
from tests.support.runs import is_whole, sample

from holdfast import importers
from holdfast.core.checkpoint.capture import capture_state
from holdfast.core.checkpoint.render import injection, render_checkpoint
from holdfast.core.checkpoint.state import State, read_state, to_json
from holdfast.core.log.records import Assistant, Record, ToolResult, tool_calls
from holdfast.core.memory.running_summary import Sidecar, advance

if TYPE_CHECKING:
    from collections.abc import Iterable

CHANGES = frozenset(("write", "edit", "multiedit", "notebookedit", "write_file", "edit_file"))
READS = frozenset(("read", "read_file"))


@lru_cache(maxsize=1)
def sessions() -> list[tuple[str, list[Record]]]:
    """Sessions of three coding agents."""
    folder = need_data() / "agents"
    found = []
    for agent in ("claude-code", "pi", "openhands"):
        for path in sorted((folder / agent).rglob("*.json*")):
            read = importers.read_transcript(path.read_bytes(), path.name)
            found += [(path.name, list(session.records)) for session in read]
    assert len(found) > 20
    return found


def taken(records: list[Record], previous: State | None = None) -> State:
    return capture_state(records, session="s", trigger="asked", now=1.0, previous=previous)


def touched_plainly(records: Iterable[Record]) -> tuple[set[str], set[str]]:
    """Changed and only read, by a table of the tools that these agents have."""
    wanted: dict[str, tuple[str, bool]] = {}
    touched: dict[str, bool] = {}
    for record in records:
        if isinstance(record, Assistant):
            for call in tool_calls(record.content):
                if touch := _touch(str(call.get("name")).lower(), call.get("input")):
                    wanted[str(call.get("id"))] = touch
        elif isinstance(record, ToolResult) and record.tool_use_id in wanted:
            path, is_change = wanted.pop(record.tool_use_id)
            if not record.is_error:
                touched[path] = touched.get(path, False) or is_change
    changed = {path for path, is_change in touched.items() if is_change}
    return changed, touched.keys() - changed


def _touch(name: str, given: Any) -> tuple[str, bool] | None:
    if not isinstance(given, dict):
        return None
    path = given.get("file_path") or given.get("notebook_path") or given.get("path")
    if not isinstance(path, str):
        return None
    if name == "str_replace_editor":
        return path, given.get("command") != "view"
    if name == "grep":
        return (path, False) if re.search(r"[^/]\.[A-Za-z]\w{0,11}$", path) else None
    return (path, name in CHANGES) if name in CHANGES | READS else None


def test_files_are_exactly_those_that_the_calls_name() -> None:
    """Beside a reading that knows each tool by its name and nothing else."""
    count = 0
    for name, records in sample(sessions(), share=1 / 3, name=lambda item: item[0]):
        changed, read = touched_plainly(records)
        state = taken(records)
        assert set(state.files_changed) == changed, name
        assert set(state.files_read) == read, name
        count += len(changed) + len(read)
    assert count > (300 if is_whole() else 60)


@pytest.mark.parametrize("part", [0.3, 0.8])
def test_pieces_make_the_whole(part: float) -> None:
    for name, records in sample(sessions(), share=1 / 3, name=lambda item: f"{item[0]} {part}"):
        cut_at = int(len(records) * part)
        line = msgspec.json.encode(to_json(taken(records[:cut_at])))
        first = read_state(msgspec.json.decode(line))
        assert isinstance(first, State)
        assert taken(records, first) == taken(records), name
        summary = advance(Sidecar(), records[:cut_at])
        assert advance(summary, records) == advance(Sidecar(), records), name


def test_every_cap_holds_and_what_is_open_is_shown() -> None:
    for name, records in sessions():
        state = taken(records[: len(records) * 2 // 3])
        for cap in (0, 60, 500, 2_000, 4_000):
            assert len(render_checkpoint(state, cap)) <= cap
            assert len(injection(state, cap)) <= cap
        text = " ".join(render_checkpoint(state, 500).split())
        for entries in (state.pending_tasks[:1], state.failed_approaches[-1:]):
            assert all(entry.split()[0].strip("`")[:8] in text for entry in entries), name
