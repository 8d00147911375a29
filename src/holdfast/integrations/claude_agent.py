"""A `PreCompact` hook for the Claude Agent SDK: the state of the agent survives a compaction.

    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
    from holdfast.integrations.claude_agent import PreCompact

    options = ClaudeAgentOptions(hooks={"PreCompact": [HookMatcher(hooks=[PreCompact()])]})

Before the SDK compacts, the hook reads the transcript, stores a checkpoint in a session with the
same id, and returns its text as a system message. An error never stops the compaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import warnings
from typing import TYPE_CHECKING, Any

from holdfast import JsonlStore, config
from holdfast.core.checkpoint.capture import capture
from holdfast.core.checkpoint.render import injection
from holdfast.core.limits import CHECKPOINT_CUT_CHARS
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.log.replay import with_ids
from holdfast.engine.redactor import redactor
from holdfast.engine.session import checkpoints
from holdfast.errors import HoldfastError, HoldfastWarning, SessionExists, UsageError
from holdfast.importers import read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.checkpoint.state import State
    from holdfast.ports import Clock


class PreCompact:
    """Stores checkpoints in `root`; its message has at most `cap` characters."""

    def __init__(
        self,
        *,
        root: str | None = None,
        agent: str = "claude-code",
        cap: int = CHECKPOINT_CUT_CHARS,
        clock: Clock = time.time,
    ) -> None:
        self._root = config.load(root=root).root
        self._agent = agent
        self._cap = cap
        self._clock = clock
        self._redactor = redactor()

    async def __call__(
        self, hook_input: Mapping[str, Any], _tool_use_id: str | None, _context: Any
    ) -> dict[str, Any]:
        try:
            state = await asyncio.to_thread(self._take_checkpoint, hook_input)
        except (HoldfastError, OSError) as error:
            text = f"no checkpoint before the compaction: {error}"
            warnings.warn(text, HoldfastWarning, stacklevel=2)
            return {"continue_": True}
        message = injection(state, self._cap, redactor=self._redactor)
        return {"continue_": True, "systemMessage": message} if message else {"continue_": True}

    def _take_checkpoint(self, hook_input: Mapping[str, Any]) -> State:
        path, session = hook_input.get("transcript_path"), hook_input.get("session_id")
        if not isinstance(path, str) or not isinstance(session, str) or not is_name(session):
            raise UsageError(
                "the hook was called without a transcript or a session id",
                hint="register it for the event `PreCompact`",
            )
        with open(path, "rb") as file:
            found = read(file.read(), os.path.basename(path))
        records = with_ids([record for session in found for record in session.records])
        trigger = "manual" if hook_input.get("trigger") == "manual" else "auto"
        state = capture(
            records, session=session, trigger=f"pre_compact_{trigger}", now=self._clock()
        )
        with JsonlStore(self._root) as store:
            key = SessionKey(self._agent, session)
            with contextlib.suppress(SessionExists):
                store.create(key, label="checkpoints of a Claude Agent session")
            checkpoints.save(store, key, state)
        return state
