"""All hooks of the Claude Agent SDK at once, over one store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.engine.adapters import require
from holdfast.integrations.claude_agent.compaction_hook import EVENTS, CompactionHook
from holdfast.integrations.claude_agent.output_hook import OutputHook
from holdfast.integrations.claude_agent.recall_hook import RecallHook

if TYPE_CHECKING:
    from holdfast.ports import SessionStore


def hooks(store: SessionStore, *, owner: str = "") -> dict[str, list[Any]]:
    """Return every hook for `ClaudeAgentOptions(hooks=…)`, over an open store.

    The caller closes the store once the agent has ended. Hooks with other settings are made one by
    one.
    """
    require("claude_agent")
    from claude_agent_sdk import HookMatcher

    compaction = CompactionHook(store=store, owner=owner)
    found: dict[str, list[Any]] = {event: [HookMatcher(hooks=[compaction])] for event in EVENTS}
    for hook in (OutputHook(store=store, owner=owner), RecallHook(store=store, owner=owner)):
        found.setdefault(hook.event, []).append(HookMatcher(hooks=[hook]))
    return found
