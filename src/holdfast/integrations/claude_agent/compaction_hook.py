"""Hooks for the Claude Agent SDK: the state of the agent reaches the model after a compaction.

    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
    from holdfast.integrations.claude_agent import EVENTS, CompactionHook

    hook = CompactionHook()
    options = ClaudeAgentOptions(hooks={event: [HookMatcher(hooks=[hook])] for event in EVENTS})

Before the SDK compacts, the hook reads the transcript and stores a checkpoint in a session with the
same id. The model gets its text once, as additional context: when the session starts again after
the compaction, or with the next prompt. An error never stops the compaction or the prompt.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import warnings
from typing import TYPE_CHECKING, Any, Final

from holdfast import config
from holdfast.core.checkpoint.capture import capture
from holdfast.core.checkpoint.render import injection
from holdfast.core.checkpoint.state import State, read_state
from holdfast.core.limits import CHECKPOINT_CUT_CHARS
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.log.records import Checkpoint, InjectedContext
from holdfast.core.log.replay import with_ids
from holdfast.core.owners import owner_argument
from holdfast.engine.redactor import redactor
from holdfast.engine.session import checkpoints
from holdfast.engine.session.opening import check_owner, choose_store
from holdfast.errors import BadSetting, HoldfastWarning, NoSuchSession, SessionExists, UsageError
from holdfast.importers import read
from holdfast.ports import ANY_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.ports import Clock, SessionStore

EVENTS: Final = ("PreCompact", "SessionStart", "UserPromptSubmit")
"""The events to register the hook for."""


class CompactionHook:
    """Stores checkpoints, and gives the model at most `cap` characters of each, once.

    `root` is the address of a store, which is open while the hook works, and `store` an open one.
    """

    def __init__(
        self,
        *,
        root: str | None = None,
        store: SessionStore | None = None,
        agent: str = "claude-code",
        owner: str = "",
        cap: int = CHECKPOINT_CUT_CHARS,
        clock: Clock = time.time,
    ) -> None:
        if root is not None and store is not None:
            raise BadSetting("`root` and `store` exclude each other", hint="pass one of them")
        self._root = "" if store is not None else config.load(root=root).root
        self._store = store
        self._owner = owner_argument(owner)
        self._agent = agent
        self._cap = cap
        self._clock = clock
        self._redactor = redactor()

    async def __call__(
        self, hook_input: Mapping[str, Any], _tool_use_id: str | None, _context: Any
    ) -> dict[str, Any]:
        event = hook_input.get("hook_event_name")
        try:
            if event == "PreCompact":
                await asyncio.to_thread(self._take_checkpoint, hook_input)
            elif event == "UserPromptSubmit" or hook_input.get("source") == "compact":
                text = await asyncio.to_thread(self._hand_over, hook_input)
                if text:
                    given = {"hookEventName": event, "additionalContext": text}
                    return {"continue_": True, "hookSpecificOutput": given}
        except Exception as error:  # a hook that raises would stop the agent
            what = "stored before" if event == "PreCompact" else "given to the model after"
            text = f"no checkpoint was {what} the compaction: {error}"
            warnings.warn(text, HoldfastWarning, stacklevel=2)
        return {"continue_": True}

    def _take_checkpoint(self, hook_input: Mapping[str, Any]) -> None:
        key, path = self._key(hook_input), hook_input.get("transcript_path")
        if not isinstance(path, str):
            raise UsageError(
                "the hook was called without a transcript",
                hint="register it for the event `PreCompact`",
            )
        with open(path, "rb") as file:
            found = read(file.read(), os.path.basename(path))
        records = with_ids([record for session in found for record in session.records])
        trigger = "manual" if hook_input.get("trigger") == "manual" else "auto"
        state = capture(
            records, session=key.session, trigger=f"pre_compact_{trigger}", now=self._clock()
        )
        label = "checkpoints of a Claude Agent session"
        with self._open() as store:
            with contextlib.suppress(SessionExists):
                store.create(key, label=label, owner=self._owner)
            check_owner(store, key, self._owner)
            checkpoints.save(store, key, state)

    def _hand_over(self, hook_input: Mapping[str, Any]) -> str:
        """The text of a checkpoint that the model has not got; a record says that it has it now."""
        key = self._key(hook_input)
        with self._open() as store:
            try:
                check_owner(store, key, self._owner)
                newest = next(store.back(key), None)
            except NoSuchSession:
                return ""
            if not isinstance(newest, Checkpoint):
                return ""
            state = read_state(newest.state)
            text = ""
            if isinstance(state, State):
                text = injection(state, self._cap, redactor=self._redactor)
            if text:
                given = InjectedContext(text=text, source="checkpoint before a compaction")
                store.append(key, [given], expect=ANY_HEAD)
            return text

    @contextlib.contextmanager
    def _open(self) -> Iterator[SessionStore]:
        """The store: a given one stays open."""
        if self._store is not None:
            yield self._store
            return
        with choose_store(None, self._root, None)[0] as store:
            yield store

    def _key(self, hook_input: Mapping[str, Any]) -> SessionKey:
        session = hook_input.get("session_id")
        if not isinstance(session, str) or not is_name(session):
            raise UsageError(
                "the hook was called without a session id",
                hint=f"register it for the events {', '.join(f'`{event}`' for event in EVENTS)}",
            )
        return SessionKey(self._agent, session)
