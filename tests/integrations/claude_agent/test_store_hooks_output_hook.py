"""The hook that moves large tool results out, called as the SDK calls it.

Inside the SDK, with the program it brings: `tests/integrations/test_real_agents.py`.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import peers
from tests.support.answers import answer_of

from holdfast.core.history.access import Caller
from holdfast.core.owners import ANY_OWNER, owner_of
from holdfast.engine.operations.context import ReadOutput
from holdfast.engine.outputs import Outputs
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import BadSetting, StoreUnavailable
from holdfast.integrations.claude_agent import OutputHook
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from pathlib import Path

SESSION = "0f1e2d3c-0000-4000-8000-000000000001"
UNCHANGED = {"continue_": True}
LOG = "".join(f"line {number}: nothing to report here\n" for number in range(2_000))


def call(hook: OutputHook, response: Any, tool: str = "Bash", **given: Any) -> dict[str, Any]:
    about = {
        "hook_event_name": "PostToolUse",
        "session_id": SESSION,
        "tool_name": tool,
        "tool_input": {},
        "tool_response": response,
        "tool_use_id": "toolu_1",
        **given,
    }
    return asyncio.run(hook(about, "toolu_1", {"signal": None}))


def refs_in(text: str) -> set[str]:
    return set(re.findall(r"\b[0-9a-f]{16}\b", text))


def test_the_model_gets_a_preview_and_reads_the_rest_by_its_ref(tmp_path: Path) -> None:
    responses: dict[str, Any] = {
        "Bash": {"stdout": LOG, "stderr": "", "interrupted": False, "isImage": False},
        "Grep": {"mode": "content", "numFiles": 1, "filenames": [], "content": LOG},
        "mcp__logs__tail": [{"type": "text", "text": LOG}],
        "mcp__logs__all": LOG,
    }
    for tool, response in responses.items():
        root = tmp_path / tool
        hook = OutputHook(root=str(root))
        given = json.loads(json.dumps(response))
        answer = call(hook, given, tool)
        assert given == response, "the input is the SDK's"
        fields = answer["hookSpecificOutput"]
        assert fields.keys() == {"hookEventName", "updatedToolOutput", "additionalContext"}
        shown = json.dumps(fields["updatedToolOutput"])
        assert len(shown) < 9_000 < len(LOG), tool
        assert "line 0:" in shown
        assert "line 1999:" in shown
        (ref,) = refs_in(shown)
        assert f"holdfast output {ref}" in fields["additionalContext"]
        hook.close()
        with JsonlStore(root) as store:
            (info,) = store.sessions(owner=ANY_OWNER)
            outputs = Outputs(store, store.blobs)
            assert "".join(outputs.text(info.key, ref)) == LOG, tool
            assert "line 1000:" in outputs.answer(info.key, ref, lines="1001:1002")


def test_only_the_owner_reads_it_through_the_mcp_tool(tmp_path: Path) -> None:
    hook = OutputHook(root=str(tmp_path), owner="ann")
    answer = call(hook, LOG, "mcp__logs__all")
    hook.close()
    (ref,) = refs_in(answer["hookSpecificOutput"]["updatedToolOutput"])
    found = {}
    with JsonlStore(tmp_path) as store:
        for owner in ("ann", "bob", ""):
            caller = Caller("main", None, owner=owner_of(owner), visibility="agent")
            workspace = CallerWorkspace(store, caller)
            answer = answer_of(ReadOutput(ref=ref, lines="1:20").call, workspace)
            found[owner] = "line 7:" in answer.get("text", "")
    assert found == {"ann": True, "bob": False, "": False}


def test_what_is_small_a_file_read_back_or_a_picture_stays() -> None:
    store = MemoryStore()
    hook = OutputHook(store=store)
    picture = [{"type": "image", "data": "iVBORw0KGgo" * 5_000, "mimeType": "image/png"}]
    for response, tool in (
        ({"stdout": "x" * 24_000, "stderr": ""}, "Bash"),
        ({"type": "text", "file": {"filePath": "/a", "content": LOG}}, "Read"),
        ({"filePath": "/a", "originalFile": LOG}, "Edit"),
        ({"filePath": "/a", "content": LOG}, "Write"),
        ([{"type": "text", "text": LOG}], "mcp__holdfast__context"),
        (picture, "mcp__camera__shot"),
        (None, "Bash"),
    ):
        assert call(hook, response, tool) == UNCHANGED, tool
    assert call(hook, LOG, hook_event_name="PreToolUse") == UNCHANGED
    assert list(store.sessions(owner=ANY_OWNER)) == []
    assert list(store.blobs) == []


def test_a_limit_of_any_size_is_kept() -> None:
    for limit in (1_200, 5_000, 24_000, 39_000):
        answer = call(OutputHook(store=MemoryStore(), limit=limit), {"stdout": LOG, "stderr": LOG})
        shown = answer["hookSpecificOutput"]["updatedToolOutput"]
        assert sum(map(len, shown.values())) <= limit
    with pytest.raises(BadSetting, match="no room for a preview"):
        OutputHook(store=MemoryStore(), limit=1_199)


class BrokenStore(MemoryStore):
    """A store in which one operation fails."""

    broken = ""

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "broken"):
            raise StoreUnavailable("the disk is gone")
        return super().__getattribute__(name)


def test_a_failing_store_leaves_the_result_as_it_is_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for broken in ("blobs", "create_log", "append"):
        store = BrokenStore()
        hook = OutputHook(store=store)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            store.broken = broken
            assert [call(hook, LOG), call(hook, LOG)] == [UNCHANGED] * 2, broken
            assert len(caplog.records) == 1, broken
            assert "the disk is gone" in caplog.text
            store.broken = ""
            assert "hookSpecificOutput" in call(hook, LOG)
            store.broken = "append"
            assert call(hook, LOG) == UNCHANGED
            assert len(caplog.records) == 2, "it worked in between"


def test_strange_input_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    hook = OutputHook(store=MemoryStore())
    for given in ({"session_id": None}, {"session_id": ""}, {"tool_name": None}):
        assert isinstance(call(hook, LOG, **given), dict)
    strange: Any
    for strange in (None, [], "PostToolUse"):
        assert asyncio.run(hook(strange, None, None)) == UNCHANGED
    hook.close()
    assert call(OutputHook(store=MemoryStore()), ["\ud800" * 30_000]).keys() > UNCHANGED.keys()
    assert "session id" in caplog.text


def test_the_store_is_used_off_the_event_loop() -> None:
    threads = set()

    class Watched(MemoryStore):
        def append(self, *given: Any, **named: Any) -> Any:
            threads.add(threading.current_thread())
            return super().append(*given, **named)

    call(OutputHook(store=Watched()), LOG)
    assert threads
    assert threading.main_thread() not in threads


def test_the_sdk_has_the_fields_of_the_answer() -> None:
    peers.needs("claude-agent-sdk")
    types = importlib.import_module("claude_agent_sdk.types")
    fields = call(OutputHook(store=MemoryStore()), LOG)["hookSpecificOutput"]
    assert fields.keys() <= types.PostToolUseHookSpecificOutput.__annotations__.keys()
