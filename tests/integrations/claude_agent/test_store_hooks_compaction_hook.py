"""The hook of the Claude Agent SDK, called as the SDK calls it.

Inside the SDK, with the program it brings: `tests/integrations/test_real_agents.py`.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import peers

from holdfast.core.log.ids import SessionKey
from holdfast.core.owners import ANY_OWNER
from holdfast.engine.session import checkpoints
from holdfast.errors import BadSetting, HoldfastWarning
from holdfast.integrations.claude_agent import CompactionHook, hooks
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from pathlib import Path

SESSION = "0f1e2d3c-0000-4000-8000-000000000001"


def transcript(path: Path) -> Path:
    """A session as Claude Code writes it."""
    call = {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "Write",
        "input": {"file_path": "/home/ann/notes.md", "content": "# Notes\n"},
    }
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "File created"}
    said: list[tuple[str, dict[str, Any]]] = [
        ("user", {"role": "user", "content": "Write the notes. Never touch main.py."}),
        ("assistant", {"role": "assistant", "model": "claude-x", "content": [call]}),
        ("user", {"role": "user", "content": [result]}),
        (
            "assistant",
            {"role": "assistant", "content": [{"type": "text", "text": "The notes are written."}]},
        ),
    ]
    lines = [
        {
            "type": kind,
            "sessionId": SESSION,
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "timestamp": f"2026-01-01T00:00:0{number}.000Z",
            "cwd": "/home/ann",
            "message": {**message, "id": f"msg_{number}"},
        }
        for number, (kind, message) in enumerate(said)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def call(hook: CompactionHook, event: str = "PreCompact", **given: Any) -> dict[str, Any]:
    about = {"hook_event_name": event, "session_id": SESSION, "trigger": "auto", **given}
    return asyncio.run(hook(about, None, {"signal": None}))


@pytest.mark.parametrize(
    ("event", "given"), [("SessionStart", {"source": "compact"}), ("UserPromptSubmit", {})]
)
def test_the_model_gets_the_checkpoint_once_and_the_screen_never(
    tmp_path: Path, event: str, given: dict[str, Any]
) -> None:
    path = transcript(tmp_path / "session.jsonl")
    root = str(tmp_path / "root")
    assert call(CompactionHook(root=root), transcript_path=str(path)) == {"continue_": True}
    answer = call(CompactionHook(root=root), event, **given)  # in another process, say
    assert answer.keys() == {"continue_", "hookSpecificOutput"}
    assert answer["hookSpecificOutput"]["hookEventName"] == event
    text = answer["hookSpecificOutput"]["additionalContext"]
    assert len(text) <= 2_000
    for words in ("Write the notes.", "/home/ann/notes.md", "The notes are written."):
        assert words in text
    for again, more in (("SessionStart", {"source": "compact"}), ("UserPromptSubmit", {})):
        assert call(CompactionHook(root=root), again, **more) == {"continue_": True}


def test_every_compaction_has_its_checkpoint(tmp_path: Path) -> None:
    path = transcript(tmp_path / "session.jsonl")
    hook = CompactionHook(root=str(tmp_path / "root"))
    for _ in range(2):
        call(hook, transcript_path=str(path))
        assert "hookSpecificOutput" in call(hook, "UserPromptSubmit")
    with JsonlStore(tmp_path / "root") as store:
        states = list(checkpoints.each(store, SessionKey("claude-code", SESSION)))
    assert [one.trigger for _record, one in states] == ["pre_compact_auto"] * 2


def test_without_a_compaction_nothing_is_said_and_nothing_stored(tmp_path: Path) -> None:
    hook = CompactionHook(root=str(tmp_path / "root"))
    for event, source in (("SessionStart", "startup"), ("UserPromptSubmit", ""), ("Stop", "")):
        assert call(hook, event, source=source) == {"continue_": True}
    with JsonlStore(tmp_path / "root") as store:
        assert store.sessions(owner=ANY_OWNER) == []


@pytest.mark.parametrize(
    "given",
    [
        {"transcript_path": "/nowhere/at/all.jsonl"},
        {"transcript_path": None},
        {"session_id": "../../etc"},
    ],
)
def test_whatever_goes_wrong_the_compaction_goes_on(tmp_path: Path, given: dict[str, Any]) -> None:
    path = transcript(tmp_path / "session.jsonl")
    hook = CompactionHook(root=str(tmp_path / "root"))
    with pytest.warns(UserWarning, match="no checkpoint was stored before the compaction"):
        answer = call(hook, **{"transcript_path": str(path), **given})
    assert answer == {"continue_": True}


def test_an_error_that_is_not_ours_is_kept_from_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a driver raises one that nobody translated."""

    def fail(*_: object) -> None:
        raise RuntimeError("a driver")

    monkeypatch.setattr("holdfast.integrations.claude_agent.store_hooks.choose_store", fail)
    hook = CompactionHook(root=str(tmp_path / "root"))
    path = transcript(tmp_path / "session.jsonl")
    for event in ("PreCompact", "UserPromptSubmit"):
        with pytest.warns(UserWarning, match="no checkpoint.*a driver"):
            assert call(hook, event, transcript_path=str(path)) == {"continue_": True}


def test_a_prompt_goes_on_without_a_session_id(tmp_path: Path) -> None:
    hook = CompactionHook(root=str(tmp_path / "root"))
    with pytest.warns(UserWarning, match="no checkpoint was given to the model"):
        assert call(hook, "UserPromptSubmit", session_id=None) == {"continue_": True}


def test_a_file_that_is_no_transcript_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "noise"
    path.write_bytes(b"\0\1\2" * 100)
    with pytest.warns(UserWarning, match="no checkpoint"):
        assert call(CompactionHook(root=str(tmp_path)), transcript_path=str(path)) == {
            "continue_": True
        }


def test_an_open_store_stays_open_and_another_owners_session_is_left_alone(tmp_path: Path) -> None:
    path = transcript(tmp_path / "t.jsonl")
    with JsonlStore(tmp_path / "root") as store:
        anns = CompactionHook(store=store, owner="ann")
        bobs = CompactionHook(store=store, owner="bob")
        assert call(anns, transcript_path=str(path)) == {"continue_": True}
        key = SessionKey("claude-code", SESSION)
        assert store.header(key).owner == "ann"
        before = store.head(key)
        for event, given in (("PreCompact", {"transcript_path": str(path)}), ("SessionStart", {})):
            with pytest.warns(HoldfastWarning, match="does not belong to `bob`"):
                assert call(bobs, event, source="compact", **given) == {"continue_": True}
        assert store.head(key) == before
        assert "hookSpecificOutput" in call(anns, "SessionStart", source="compact")
    with pytest.raises(BadSetting, match="exclude each other"):
        CompactionHook(root=str(tmp_path), store=store)


def test_all_hooks_are_registered_for_their_events(tmp_path: Path) -> None:
    peers.needs("claude-agent-sdk")
    with JsonlStore(tmp_path) as store:
        found = hooks(store, owner="ann")
    names = {
        event: [type(hook).__name__ for matcher in matchers for hook in matcher.hooks]
        for event, matchers in found.items()
    }
    assert names == {
        "PreCompact": ["CompactionHook"],
        "SessionStart": ["CompactionHook"],
        "UserPromptSubmit": ["CompactionHook", "RecallHook"],
        "PostToolUse": ["OutputHook"],
    }
