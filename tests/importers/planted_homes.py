"""A home folder in which every agent that is looked for has one conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.engine.homes import opencode_database
from tests.importers.same_conversation import CONVERSATIONS

if TYPE_CHECKING:
    from pathlib import Path

PLANTED = {
    "Claude Code": ("claude-code", ".claude/projects/-home-me-work/a.jsonl"),
    "Codex": ("codex", ".codex/sessions/2026/11/17/rollout-a.jsonl"),
    "Gemini CLI": ("gemini-cli", ".gemini/tmp/0a1b/chats/session-a.json"),
    "pi": ("pi", ".pi/agent/sessions/--home-me--/a.jsonl"),
    "OpenClaw": ("openclaw", ".openclaw/agents/main/sessions/a.jsonl"),
    "Qwen Code": ("qwen", ".qwen/projects/-home-me/chats/a.jsonl"),
    "Kimi CLI": ("kimi", ".kimi/sessions/a/wire.jsonl"),
    "Copilot CLI": ("copilot", ".copilot/session-state/a.jsonl"),
    "Droid": ("droid", ".factory/sessions/a.jsonl"),
}
"""The format and the file of each agent but OpenCode, which has a database."""


def plant_every_agent(home: Path) -> None:
    for conversation, place in PLANTED.values():
        path = home / place
        path.parent.mkdir(parents=True)
        path.write_bytes(CONVERSATIONS[conversation][1])
    opencode_database(home)
