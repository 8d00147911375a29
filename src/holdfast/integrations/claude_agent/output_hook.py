"""`OutputHook`: a large tool result goes to the store, and the model gets a preview with a ref.

    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
    from holdfast.integrations.claude_agent import OutputHook

    hook = OutputHook(root=".sessions")
    options = ClaudeAgentOptions(hooks={"PostToolUse": [HookMatcher(hooks=[hook])]})

The model reads the rest with `context` of `holdfast mcp`, or with `holdfast output REF`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.limits import PREVIEW_CHARS, PREVIEW_CHARS_MIN, REF_CHARS
from holdfast.core.log.records import OutputRef, ToolResult
from holdfast.core.outputs.offload import CONTEXT_TOOL, FORMER_TOOL
from holdfast.core.outputs.preview import preview
from holdfast.core.text.cut import scrub
from holdfast.errors import BadSetting, UsageError
from holdfast.integrations.claude_agent.store_hook import StoreHook
from holdfast.integrations.claude_agent.tool_responses import texts_over, with_texts
from holdfast.ports import ANY_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.ports import SessionStore

OUTPUT_CHARS: Final = 24_000
"""About 6,000 tokens, and more than one read of an output returns: reads are not offloaded."""
_LIMIT_MIN: Final = 2 * PREVIEW_CHARS_MIN
"""With less, a preview has no room for the lines that say how to read the rest."""
_KEPT: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Read", "Write"})
"""Tools whose responses stay. After a change the model gets a short text of the SDK instead. Of a
file it can read parts, and the SDK numbers the lines after the hook: in a preview, wrongly."""
_SESSION_NAME: Final = "claude-agent-outputs"
"""The first part of the name of the session that holds the outputs of an SDK session."""


class OutputHook(StoreHook):
    """Moves texts out of tool responses that have more than `limit` characters.

    The payload and its record are stored before the preview is handed out, so a ref that the model
    sees can be read. The response keeps its shape; pictures and other binary data stay in it.
    """

    event = "PostToolUse"
    purpose = "store a large output, which stays as it is"

    def __init__(
        self,
        *,
        root: str | None = None,
        store: SessionStore | None = None,
        agent: str | None = None,
        owner: str = "",
        limit: int = OUTPUT_CHARS,
    ) -> None:
        if limit < _LIMIT_MIN:
            raise BadSetting(
                f"`limit` is {limit}, which leaves no room for a preview",
                hint=f"pass {_LIMIT_MIN:,} characters or more",
            )
        super().__init__(root=root, store=store, agent=agent, owner=owner)
        self._limit = limit
        self._cap = min(PREVIEW_CHARS, limit // 2)

    def _answer(self, hook_input: Mapping[str, Any]) -> dict[str, Any]:
        tool, response = str(hook_input.get("tool_name", "")), hook_input.get("tool_response")
        if tool in _KEPT or tool.rpartition("__")[2] in (CONTEXT_TOOL, FORMER_TOOL):
            return {}
        texts = texts_over(response, self._limit, self._cap)
        if not texts:
            return {}
        results = {path: self._offload(text, tool, hook_input) for path, text in texts.items()}
        self._append(results.values(), hook_input)
        shown = {path: str(result.content) for path, result in results.items()}
        return {
            "updatedToolOutput": with_texts(response, shown),
            "additionalContext": _ways_to_read(results.values()),
        }

    def _offload(self, text: str, tool: str, hook_input: Mapping[str, Any]) -> ToolResult:
        """Store a text as a blob; returns the record with its preview and ref."""
        text = scrub(text)
        data = text.encode()
        sha256 = hashlib.sha256(data).hexdigest()
        shown = preview(text, self._cap, ref=sha256[:REF_CHARS])
        self._home.store.blobs.put(data)
        ref = OutputRef(
            sha256=sha256, bytes=len(data), kind=shown.kind, lines=shown.lines, chars=len(text)
        )
        return ToolResult(
            tool_use_id=str(hook_input.get("tool_use_id", "")),
            name=tool,
            content=shown.text,
            output_ref=ref,
        )

    def _append(self, results: Iterable[ToolResult], hook_input: Mapping[str, Any]) -> None:
        session = hook_input.get("session_id")
        if not isinstance(session, str) or not session:
            raise UsageError(
                "the hook was called without a session id",
                hint=f"register it for the event `{self.event}`",
            )
        key = self._home.ensure((_SESSION_NAME, session))
        self._home.store.append(key, list(results), expect=ANY_HEAD)


def _ways_to_read(results: Iterable[ToolResult]) -> str:
    refs = [result.output_ref.sha256[:REF_CHARS] for result in results if result.output_ref]
    commands = ", ".join(f"`holdfast output {ref}`" for ref in refs)
    return (
        "Only a preview of the last tool result is shown. The rest is stored: read parts of it "
        f"with the tool `{CONTEXT_TOOL}`, or in a shell with {commands} (--lines, --grep)."
    )
