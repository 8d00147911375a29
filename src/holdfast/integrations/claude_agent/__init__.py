"""The Claude Agent SDK: transcripts kept by Holdfast, and hooks.

    from claude_agent_sdk import ClaudeAgentOptions
    from holdfast.integrations.claude_agent import HoldfastSessionStore

    options = ClaudeAgentOptions(session_store=HoldfastSessionStore(root=".sessions"))

`CompactionHook` gives the model the state of its work after a compaction, `OutputHook` a preview
and a ref in place of a large tool result, and `RecallHook` what memory holds about a prompt;
`hooks` is all three.
"""

from holdfast.integrations.claude_agent.session_store import HoldfastSessionStore
from holdfast.integrations.claude_agent.store_hooks import (
    EVENTS,
    CompactionHook,
    OutputHook,
    RecallHook,
    hooks,
)

__all__ = ["EVENTS", "CompactionHook", "HoldfastSessionStore", "OutputHook", "RecallHook", "hooks"]
