"""Everything that one caller may do with the sessions and notes of a store.

Surfaces that serve several callers ask this and decide nothing themselves. Each call is decided,
carried out, masked, bounded and audited, in that order. Its answer is a value; a refusal is raised
as `RequestRefused`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from holdfast.config import AGENT_DEFAULT
from holdfast.core.limits import HISTORY_BYTES_MAX
from holdfast.engine.history.history import History
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.workspace.base import MAY_READ, WorkspaceBase
from holdfast.engine.workspace.context import WorkspaceContext
from holdfast.engine.workspace.memory import WorkspaceMemory
from holdfast.engine.workspace.outputs import WorkspaceOutputs

if TYPE_CHECKING:
    from holdfast.core.history.access import Caller
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.engine.memory.background import VectorWorker
    from holdfast.engine.workspace.context import ContextSettings, TermsOf
    from holdfast.ports import Clock, SessionInfo, SessionStore
    from holdfast.providers.embeddings import Embedder


class CallerWorkspace:
    """The sessions and notes of a store as one caller may read and change them."""

    def __init__(
        self,
        store: SessionStore,
        caller: Caller,
        *,
        redactor: Redactor | None = None,
        embedder: Embedder | None = None,
        worker: VectorWorker | None = None,
        context: ContextSettings | None = None,
        terms_of: TermsOf = lambda _agent: None,
        clock: Clock = time.time,
        max_bytes: int = HISTORY_BYTES_MAX,
        agent: str = AGENT_DEFAULT,
    ) -> None:
        """A bare id means a session of the caller's agent, or of `agent` if the caller has none.

        Without an `embedder`, memory is searched by words alone; a `worker` makes the vectors that
        searches lack. No reply is longer than `max_bytes`. `terms_of` returns the terms of an
        agent's turns, so that what is reported of a session is what its next turn works with.
        """
        base = WorkspaceBase(
            store, caller, redactor=redactor, clock=clock, max_bytes=max_bytes, agent=agent
        )
        self._base = base
        self.history = History(
            store,
            caller=caller,
            redactor=base.redactor,
            clock=clock,
            max_bytes=max_bytes,
            agent=agent,
        )
        self.outputs = WorkspaceOutputs(base)
        self.memory = WorkspaceMemory(base, embedder, worker=worker)
        self.context = WorkspaceContext(base, context, terms_of)

    def sessions(self) -> list[SessionInfo]:
        """The sessions that the caller may read, the most recently active first; audited."""

        def give() -> GivenReply[list[SessionInfo]]:
            return GivenReply(self._base.lookup.visible(), MAY_READ)

        return self._base.audit("list", "", give)

    def find(self, session: str, *, to_change: bool = False) -> SessionKey:
        """A session that the caller may read, or change. Raises `RequestRefused`. Not audited."""
        resolve = self._base.resolve_to_change if to_change else self._base.resolve
        return resolve(session)[0]

    def mask_value(self, value: Any) -> Any:
        """A JSON-like value with its secrets masked."""
        return self._base.redactor.value(value)

    @property
    def cap(self) -> int:
        """The most bytes that an answer may have as JSON."""
        return self._base.cap

    def mask(self, text: str) -> str:
        """A text with its secrets masked, for names that a surface shows by itself."""
        return self._base.redactor.text(text)
