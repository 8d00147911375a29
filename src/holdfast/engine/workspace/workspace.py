"""The sessions and notes of a store as one caller may use them: what operations work on.

Every answer goes out by `audit`: it is decided, masked, bounded and noted in the audit log there. A
refusal is raised as `RequestRefused`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec
from msgspec.structs import replace

from holdfast.config import AGENT_DEFAULT
from holdfast.core.history.access import OPERATOR, decide_change
from holdfast.core.history.answers import Result
from holdfast.core.history.capped_json import fit_text
from holdfast.core.history.page import scope_of
from holdfast.core.limits import HISTORY_BYTES_MAX
from holdfast.core.log.ids import is_name
from holdfast.core.owners import ANY_OWNER
from holdfast.core.text.cut import cut
from holdfast.engine.history.lookup import SessionLookup
from holdfast.engine.history.replies import AuditedReplies, GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.memory.search import Memory
from holdfast.engine.redactor import redactor as default_redactor
from holdfast.engine.workspace.context import WorkspaceContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.history.access import Action, Caller
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.owners import OwnerFilter
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.engine.memory.vectors import VectorWorker
    from holdfast.engine.workspace.context import ContextSettings, TermsOf
    from holdfast.ports import Clock, Notes, SessionInfo, SessionStore
    from holdfast.providers.embeddings import Embedder

MAY_READ: Final = "Allowed: what may be read."
"""The reason in the audit log where a call is about everything that the caller may read."""
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class CallerWorkspace:
    """A store, a caller, and how the caller is answered."""

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
        self.store = store
        self.caller = caller
        self.person = ""
        """The name of the person who asks, as a door knows it: that of a token, for one."""
        self.agent = caller.agent or agent
        self.redactor = redactor or default_redactor()
        self.clock = clock
        self.cap = max_bytes
        self.scope = scope_of(caller)
        self.lookup = SessionLookup(store, caller, self.agent)
        self.context = WorkspaceContext(store, clock, context, terms_of)
        self._embedder = embedder
        self._worker = worker
        self.replies = AuditedReplies(
            caller, store.audit, redactor=self.redactor, clock=clock, max_bytes=max_bytes
        )

    def audit(self, action: Action, target: Any, give: Callable[[], GivenReply[T]]) -> T:
        """Return the answer that `give` makes with the reason why it may, masked. Raises
        `RequestRefused`; the audit log has either."""

        def give_masked() -> GivenReply[T]:
            found = give()
            is_open = isinstance(found.value, Result) and not found.is_masked
            return found._replace(value=self.mask(found.value)) if is_open else found

        return self.replies.give(action, target, give_masked)

    @property
    def owner(self) -> OwnerFilter:
        """The owner whose things are listed: any, for an operator. An agent lists none of them."""
        if self.caller == OPERATOR:
            return ANY_OWNER
        if self.caller.agent:
            raise RequestRefused("not_allowed", "only a person, and no agent, may ask for that")
        return self.caller.owner

    def sessions(
        self, limit: int | None = None, *, after: SessionInfo | None = None
    ) -> list[SessionInfo]:
        """The sessions that the caller may read, the most recently active first; audited."""

        def give() -> GivenReply[list[SessionInfo]]:
            return GivenReply(self.lookup.visible(limit, after=after), MAY_READ)

        return self.audit("list", "", give)

    def resolve(self, session: str, *, to_change: bool = False) -> tuple[SessionKey, str]:
        """A session that the caller may read, or change, and the reason. Raises
        `RequestRefused`."""
        key, verdict = self.lookup.resolve(session)
        if to_change:
            verdict = decide_change(self.caller, self.lookup.find(key), self.lookup.find)
        if not verdict.is_allowed:
            raise RequestRefused("forbidden", verdict.reason)
        return key, verdict.reason

    def notes(self, agent: str = "") -> Notes:
        """The notes of the caller's agent, or of another one of the same owner. A caller that is an
        agent itself has its own alone."""
        agent = agent or self.agent
        if not is_name(agent):
            raise RequestRefused(
                "invalid",
                f"`{cut(agent, 40).text}` is not the name of an agent: letters, digits, `_` "
                "and `-`, the first a letter or digit",
            )
        if agent != self.agent and self.caller.agent:
            raise RequestRefused("forbidden", "these are the notes of another agent")
        return self.store.notes(agent, self.caller.owner, redactor=self.redactor)

    def memory(self, agent: str = "", *, by_meaning: bool = False) -> Memory:
        """The search in notes and sessions, by words or also by meaning."""
        embedder = self._embedder if by_meaning else None
        return Memory(
            self.store,
            self.notes(agent),
            embedder=embedder,
            redactor=self.redactor,
            caller=self.caller,
            background=self._worker if embedder and self._worker is not None else False,
            is_audited=False,  # the reply is
        )

    def mask(self, value: T) -> T:
        """Return a value with the secrets in every text of it masked."""
        shown: Any = value
        match value:
            case str():
                shown = self.redactor.text(value)
            case msgspec.Struct():
                names = value.__struct_fields__
                shown = replace(value, **{name: self.mask(getattr(value, name)) for name in names})
            case list():
                shown = [self.mask(each) for each in value]
            case tuple():
                shown = tuple(self.mask(each) for each in value)
            case dict():
                shown = self.redactor.value(value)
            case _:  # a number, a truth value, or nothing
                pass
        return cast("T", shown)

    def fit(self, answer: S, text: str) -> S:
        """Return an answer, masked, whose field `text` is shortened to fit the cap."""
        return fit_text(self.mask(answer), text, self.cap)
