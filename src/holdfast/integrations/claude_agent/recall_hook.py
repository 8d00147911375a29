"""`RecallHook`: notes and past sessions that answer a prompt reach the model with it.

from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
from holdfast.integrations.claude_agent import RecallHook

hook = RecallHook(root=".sessions", owner="ann")
options = ClaudeAgentOptions(hooks={"UserPromptSubmit": [HookMatcher(hooks=[hook])]})
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from holdfast.core.history.access import Caller
from holdfast.core.limits import INJECTION_CHARS, RECALL_LIMIT, RECALL_LIMIT_MAX
from holdfast.core.log.ids import SessionKey
from holdfast.engine.memory.search import SCOPES, Memory
from holdfast.engine.redactor import redactor
from holdfast.errors import BadSetting, NoSuchSession
from holdfast.integrations.claude_agent.store_hook import StoreHook
from holdfast.integrations.common.names import read_name
from holdfast.providers.embeddings import find_embedder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.memory.hits import Hit
    from holdfast.engine.memory.indexer import Scope
    from holdfast.ports import SessionStore


class RecallHook(StoreHook):
    """Gives the model what memory holds about a prompt, at most `cap` characters of it.

    `recall` says where to search: in the notes, in past sessions, or in both. Only what belongs to
    `owner` is searched, and never the conversation that the prompt is part of. The block says
    that it is data. There is none where nothing answers.
    """

    event = "UserPromptSubmit"
    purpose = "search memory for the prompt, which goes on without it"

    def __init__(
        self,
        *,
        root: str | None = None,
        store: SessionStore | None = None,
        agent: str | None = None,
        owner: str = "",
        recall: Scope = "all",
        limit: int = RECALL_LIMIT,
        cap: int = INJECTION_CHARS,
        with_vectors: bool = True,
    ) -> None:
        if recall not in SCOPES:
            raise BadSetting(f"`recall` is {recall!r}", hint=f"pass one of {', '.join(SCOPES)}")
        if not 1 <= limit <= RECALL_LIMIT_MAX // 2:
            raise BadSetting(f"`limit` is {limit}", hint=f"pass 1 to {RECALL_LIMIT_MAX // 2} hits")
        super().__init__(root=root, store=store, agent=agent, owner=owner)
        self._recall: Scope = recall
        self._limit = limit
        self._cap = cap
        self._with_vectors = with_vectors
        self._mutex = threading.Lock()
        self._memory: Memory | None = None

    def _answer(self, hook_input: Mapping[str, Any]) -> dict[str, Any]:
        prompt = hook_input.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            return {}
        with self._mutex:  # a memory serves one search at a time
            store = self._home.store
            memory = self._memory = self._memory or self._open(store)
            # As many again: those of this conversation are left out afterwards.
            found = memory.search(prompt, scope=self._recall, limit=2 * self._limit)
        session = hook_input.get("session_id")
        others = [hit for hit in found if not _is_of(hit, session, store)]
        text = memory.injection(others[: self._limit], self._cap, known=[prompt])
        return {"additionalContext": text} if text else {}

    def _open(self, store: SessionStore) -> Memory:
        agent, owner, masks = self._home.agent, self._home.owner, redactor()
        return Memory(
            store,
            store.notes(agent, owner, redactor=masks),
            embedder=find_embedder() if self._with_vectors else None,
            redactor=masks,
            caller=Caller(agent, None, owner=owner, visibility="agent"),
        )


def _is_of(hit: Hit, session: object, store: SessionStore) -> bool:
    """Return whether a hit was said in a session of the SDK, or by one of its subagents."""
    agent, _, name = (hit.session or "").partition("/")
    if hit.path is not None or not name:
        return False  # a note is no part of the conversation, even if it was taken there
    try:
        found = read_name(store.header(SessionKey(agent, name)))
    except NoSuchSession:
        return True  # deleted meanwhile
    return name == session or (found is not None and session in found)
