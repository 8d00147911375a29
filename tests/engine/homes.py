"""Folders laid out as other tools lay theirs out, with the same conversations in each."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from holdfast.stores.payloads import load_zstd

if TYPE_CHECKING:
    from pathlib import Path

zstd = load_zstd()

KEY = "agent:main:telegram:direct:7"
OUTPUT = "line\n" * 5_000


def entries(count: int, session: str = "openclaw-1") -> list[dict[str, Any]]:
    """Return the lines of an OpenClaw session with `count` turns, one call in each."""
    made: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": session, "timestamp": _at(0), "cwd": "/w"}
    ]
    parent = None

    def add(message: dict[str, Any]) -> None:
        nonlocal parent
        number = len(made)
        entry = {"type": "message", "id": f"e{number}", "parentId": parent}
        made.append({**entry, "timestamp": _at(number), "message": message})
        parent = f"e{number}"

    for turn in range(count):
        call = {"type": "toolCall", "id": f"toolu_{turn}", "name": "exec", "arguments": {"n": turn}}
        add({"role": "user", "content": [{"type": "text", "text": f"Question {turn}"}]})
        add({"role": "assistant", "content": [call], "model": "m", "provider": "p"})
        add(
            {
                "role": "toolResult",
                "toolCallId": f"toolu_{turn}",
                "toolName": "exec",
                "content": [{"type": "text", "text": f"preview {turn}"}],
            }
        )
        add({"role": "assistant", "content": [{"type": "text", "text": f"Answer {turn}"}]})
    return made


def _at(number: int) -> str:
    return f"2026-01-05T10:{number // 60:02d}:{number % 60:02d}Z"


def lines(values: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def openclaw_files(home: Path, turns: int = 2) -> None:
    """Write a home of OpenClaw as it was before it had a database."""
    folder = home / ".openclaw" / "agents" / "scout" / "sessions"
    (folder / "tool-output").mkdir(parents=True, exist_ok=True)
    (folder / "openclaw-1.jsonl").write_bytes(lines(entries(turns)))
    index = {KEY: {"sessionId": "openclaw-1", "updatedAt": 1, "label": "Ann's chat"}}
    (folder / "sessions.json").write_text(json.dumps(index))
    payload = json.dumps({"version": 1, "toolName": "exec", "text": OUTPUT})
    (folder / "tool-output" / "1770000000000-exec-toolu_0.json").write_text(payload)
    (folder / "tool-output" / "1770000000000-exec-gone.json").write_text(payload)
    memory = home / ".openclaw" / "workspace" / "memory"
    memory.mkdir(parents=True, exist_ok=True)
    (memory / "2026-01-05.md").write_text("- Ann likes tea.\n")
    (memory.parent / "MEMORY.md").write_text("- Releases go out on Tuesdays.\n")
    (home / ".openclaw" / "credentials").mkdir(exist_ok=True)
    (home / ".openclaw" / "credentials" / "telegram.json").write_text('{"token": "x"}')


def openclaw_database(home: Path, turns: int = 2, *, has_wal: bool = False) -> Path:
    """Write a home of OpenClaw with its database; the larger events are packed."""
    folder = home / ".openclaw" / "agents" / "scout" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "openclaw-agent.sqlite"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        if has_wal:
            database.execute("PRAGMA journal_mode=WAL")
        database.executescript(
            "CREATE TABLE session_nodes(session_key, current_session_id, entry_json);"
            "CREATE TABLE session_windows(session_id, session_key, previous_session_id, reason);"
            "CREATE TABLE transcript_events(session_id, seq, event_json, event_zstd);"
        )
        entry = json.dumps({"label": "Ann's chat"})
        database.execute("INSERT INTO session_nodes VALUES (?,?,?)", (KEY, "openclaw-1", entry))
        for number, event in enumerate(entries(turns)):
            text = json.dumps({**event, "version": 4} if not number else event)
            packed = zstd.compress(text.encode()) if number % 2 else None
            row = ("openclaw-1", number, None if packed else text, packed)
            database.execute("INSERT INTO transcript_events VALUES (?,?,?,?)", row)
        database.commit()
    return path


def opencode_database(home: Path) -> Path:
    """Write the database of OpenCode with one session."""
    folder = home / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    path = folder / "opencode.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE session(id, title, directory, time_created);"
            "CREATE TABLE message(id, session_id, time_created, data);"
            "CREATE TABLE part(id, message_id, session_id, time_created, data);"
        )
        database.execute("INSERT INTO session VALUES ('ses_1', 'Tea', '/w', 1)")
        for number, (role, text) in enumerate((("user", "Tea?"), ("assistant", "Green."))):
            info = json.dumps({"role": role, "time": {"created": 1_770_000_000_000 + number}})
            part = json.dumps({"type": "text", "text": text})
            database.execute(
                "INSERT INTO message VALUES (?,?,?,?)", (f"m{number}", "ses_1", number, info)
            )
            database.execute(
                "INSERT INTO part VALUES (?,?,?,?,?)",
                (f"p{number}", f"m{number}", "ses_1", number, part),
            )
        database.commit()
    return path


def claw0(home: Path) -> None:
    """Write a workspace of claw0."""
    folder = home / "workspace" / ".sessions" / "agents" / "claw0"
    (folder / "sessions").mkdir(parents=True)
    call = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {}}
    records = [
        {"type": "user", "content": "Hi", "ts": 1770000000.0},
        {"type": "assistant", "content": [call], "ts": 1770000001.0},
        {"type": "tool_use", "tool_use_id": "t1", "name": "read_file", "input": {}, "ts": 1.0},
        {"type": "tool_result", "tool_use_id": "t1", "content": "text", "ts": 1770000002.0},
    ]
    (folder / "sessions" / "0123456789ab.jsonl").write_bytes(lines(records))
    about = {"label": "first", "created_at": "2026-02-02T02:40:00+00:00", "message_count": 4}
    (folder / "sessions.json").write_text(json.dumps({"0123456789ab": about}))


def universal_agent(home: Path) -> None:
    """Write two workspaces of Universal Agent: one with JSON, one with Markdown alone."""
    first = home / "AGENT_RUN_WORKSPACES" / "tg_7"
    inner = first / ".urw" / "checkpoints"
    inner.mkdir(parents=True)
    state = {
        "checkpoint_id": "ckpt_1770000000_manual",
        "session_id": "tg_7",
        "timestamp": "2026-02-02T02:40:00",
        "original_request": "Write a report",
        "pending_tasks": ["draft"],
        "failed_approaches": ["by hand"],
    }
    for name in ("ckpt_1770000000_manual.json", "latest_checkpoint.json"):
        (inner / name).write_text(json.dumps(state))
    second = home / "AGENT_RUN_WORKSPACES" / "tg_8"
    second.mkdir()
    (second / "run_checkpoint.md").write_text(
        "# Session Checkpoint\n*tg_8 | 2026-02-02*\n\n## Original Request\n> Plan a trip\n\n"
        "## Completed Tasks\n- ✅ book a train\n\n## Failed Approaches\n- ❌ by plane\n\n"
        "## Artifacts\n- `work_products/plan.md`: the plan\n"
    )


def state_of(folder: Path) -> dict[str, tuple[str, int]]:
    """Return the hash and the time of change of every file: a source stays as it is."""
    found = {}
    for place, _folders, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
            found[path] = (digest, os.lstat(path).st_mtime_ns)
    return found
