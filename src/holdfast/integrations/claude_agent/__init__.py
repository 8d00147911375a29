"""The Claude Agent SDK: transcripts kept by Holdfast, and hooks.

    from claude_agent_sdk import ClaudeAgentOptions
    from holdfast.integrations.claude_agent import HoldfastSessionStore

    options = ClaudeAgentOptions(session_store=HoldfastSessionStore(root=".sessions"))

`CompactionHook` gives the model the state of its work after a compaction, `OutputHook` a preview
and a ref in place of a large tool result, and `RecallHook` what memory holds about a prompt;
`hooks` is all three.
"""

from holdfast.integrations.claude_agent.all_hooks import hooks
from holdfast.integrations.claude_agent.compaction_hook import EVENTS, CompactionHook
from holdfast.integrations.claude_agent.output_hook import OutputHook
from holdfast.integrations.claude_agent.recall_hook import RecallHook
from holdfast.integrations.claude_agent.session_store import HoldfastSessionStore

__all__ = ["EVENTS", "CompactionHook", "HoldfastSessionStore", "OutputHook", "RecallHook", "hooks"]
