"""Transcripts are found where each agent keeps them, and nothing else is opened."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from holdfast.importers.places import AGENTS, VARIABLES, find_transcripts, newest_files

if TYPE_CHECKING:
    from pathlib import Path

PLACES = {
    "Claude Code": ".claude/projects/-home-me-work/a.jsonl",
    "Codex": ".codex/sessions/2026/11/17/rollout-a.jsonl",
    "Gemini CLI": ".gemini/tmp/0a1b/chats/session-a.json",
    "pi": ".pi/agent/sessions/--home-me--/a.jsonl",
    "OpenClaw": ".openclaw/agents/main/sessions/a.jsonl",
    "Qwen Code": ".qwen/projects/-home-me/chats/a.jsonl",
    "OpenCode": ".local/share/opencode/storage/session/a.json",
    "Kimi CLI": ".kimi/sessions/a/context.jsonl",
    "Copilot CLI": ".copilot/session-state/a.jsonl",
    "Droid": ".factory/sessions/a.jsonl",
}


def put(path: Path, text: str = "{}\n", at: int = 1_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))


def test_every_agent_has_a_place_in_this_test() -> None:
    assert set(PLACES) == set(AGENTS)


@pytest.mark.parametrize("agent", PLACES)
def test_an_agents_folder_is_found(agent: str, tmp_path: Path) -> None:
    put(tmp_path / PLACES[agent])
    (found,) = find_transcripts({"HOME": str(tmp_path)})
    assert (found.agent, found.files, found.newest) == (agent, 1, 1_000)
    assert (tmp_path / PLACES[agent]).is_relative_to(found.path)
    assert newest_files(found)[0][0] == 1_000


def test_a_variable_names_another_home(tmp_path: Path) -> None:
    assert set(VARIABLES) >= {"CLAUDE_CONFIG_DIR", "CODEX_HOME"}
    put(tmp_path / "else [x]" / "sessions" / "a.jsonl")
    (found,) = find_transcripts({"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path / "else [x]")})
    assert found.agent == "Codex"


def test_the_folder_used_last_is_first_and_its_newest_file(tmp_path: Path) -> None:
    put(tmp_path / PLACES["Codex"], at=2_000)
    put(tmp_path / ".claude/projects/p/old.jsonl", at=1_000)
    put(tmp_path / ".claude/projects/p/new.jsonl", at=3_000)
    put(tmp_path / ".claude/projects/p/notes.txt", at=9_000)
    found = find_transcripts({"HOME": str(tmp_path)})
    assert [folder.agent for folder in found] == ["Claude Code", "Codex"]
    assert [os.path.basename(path) for _time, path in newest_files(found[0])] == [
        "new.jsonl",
        "old.jsonl",
    ]


def test_nothing_is_found_in_an_empty_home(tmp_path: Path) -> None:
    (tmp_path / ".claude" / "projects").mkdir(parents=True)
    assert find_transcripts({"HOME": str(tmp_path)}) == []


def test_databases_are_found_with_the_time_of_their_newest_change(tmp_path: Path) -> None:
    """OpenClaw and OpenCode keep sessions in SQLite today; other databases are not theirs."""
    places = (
        ".openclaw/agents/main/agent/openclaw-agent.sqlite",
        ".local/share/opencode/opencode.db",
    )
    for number, place in enumerate(places, 1):
        put(tmp_path / place, at=1_000 * number)
    put(tmp_path / f"{places[0]}-wal", at=9_000)
    put(tmp_path / ".openclaw/agents/main/agent/memory.sqlite")
    put(tmp_path / ".local/share/opencode/other.db")
    found = find_transcripts({"HOME": str(tmp_path)})
    assert [(folder.agent, folder.files, folder.newest) for folder in found] == [
        ("OpenClaw", 1, 9_000),
        ("OpenCode", 1, 2_000),
    ]
    assert [newest_files(folder) for folder in found] == [
        [(9_000, str(tmp_path / places[0]))],
        [(2_000, str(tmp_path / places[1]))],
    ]
