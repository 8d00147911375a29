"""The one way out of a workspace: every answer is decided, masked, bounded and audited here."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec
from msgspec.structs import replace

from holdfast.config import AGENT_DEFAULT
from holdfast.core.history.access import decide_change
from holdfast.core.history.answers import Result
from holdfast.core.history.capped_json import fit_text
from holdfast.core.history.page import scope_of
from holdfast.core.limits import HISTORY_BYTES_MAX
from holdfast.engine.history.lookup import SessionLookup
from holdfast.engine.history.replies import AuditedReplies
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.redactor import redactor as default_redactor

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.history.access import Action, Caller
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.engine.history.replies import GivenReply
    from holdfast.ports import Clock, SessionStore

MAY_READ: Final = "Allowed: what may be read."
"""The reason in the audit log where a call is about everything that the caller may read."""
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class WorkspaceBase:
    """A store, a caller, and how the caller is answered."""

    def __init__(
        self,
        store: SessionStore,
        caller: Caller,
        *,
        redactor: Redactor | None = None,
        clock: Clock = time.time,
        max_bytes: int = HISTORY_BYTES_MAX,
        agent: str = AGENT_DEFAULT,
    ) -> None:
        self.store = store
        self.caller = caller
        self.agent = caller.agent or agent
        self.redactor = redactor or default_redactor()
        self.clock = clock
        self.cap = max_bytes
        self.scope = scope_of(caller)
        self.lookup = SessionLookup(store, caller, self.agent)
        self._replies = AuditedReplies(
            caller, store.audit, redactor=self.redactor, clock=clock, max_bytes=max_bytes
        )

    def audit(self, action: Action, target: str, give: Callable[[], GivenReply[T]]) -> T:
        """Return the answer that `give` makes with the reason why it may, masked. Raises
        `RequestRefused`; the audit log has either."""

        def give_masked() -> GivenReply[T]:
            found = give()
            is_answer = isinstance(found.value, Result)  # and no list of keys, which are opened
            return found._replace(value=self.mask(found.value)) if is_answer else found

        return self._replies.give(action, target, give_masked)

    def resolve(self, session: str) -> tuple[SessionKey, str]:
        """A session that the caller may read, and the reason. Raises `RequestRefused`."""
        key, verdict = self.lookup.resolve(session)
        return key, verdict.reason

    def resolve_to_change(self, session: str) -> tuple[SessionKey, str]:
        """A session that the caller may change, and the reason. Raises `RequestRefused`."""
        key, _reason = self.resolve(session)
        verdict = decide_change(self.caller, self.lookup.find(key), self.lookup.find)
        if not verdict.is_allowed:
            raise RequestRefused("forbidden", verdict.reason)
        return key, verdict.reason

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
