"""The one way out of a workspace: every reply is decided, masked, bounded and audited here."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from holdfast.config import AGENT_DEFAULT
from holdfast.core.history.access import decide_change
from holdfast.core.history.capped_json import encode_with_length, first_within, fit_text
from holdfast.core.history.page import scope_of
from holdfast.core.limits import HISTORY_BYTES_MAX
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.engine.history.lookup import SessionLookup
from holdfast.engine.history.replies import AuditedReplies
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.redactor import redactor as default_redactor

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.history.access import Action, Caller
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.engine.history.replies import GivenReply
    from holdfast.ports import Clock, SessionStore

MAY_READ: Final = "Allowed: what may be read."
"""The reason in the audit log where a call is about everything that the caller may read."""
_SNAKE: Final = lazy_pattern("_([a-z])")


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

    def reply(
        self,
        action: Action,
        target: str,
        give: Callable[[], GivenReply],
        *,
        field: str = "sessionKey",
    ) -> str:
        """The reply that `give` makes with the reason why it may, or a refusal; audited.

        A refusal repeats the target in `field`.
        """
        return self._replies.give(action, target, give, field=field)

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

    def encode(self, reply: Json, text: str = "") -> str:
        """A reply as JSON, masked and within the cap; its field `text` gives way first."""
        masked = self.redactor.value({**reply, "scope": self.scope})
        if text:
            return fit_text(masked, text, self.cap)
        return first_within((encode_with_length(masked), b'{"truncated":true}'), self.cap)


def camel(fields: Any) -> Json:
    """The fields of a struct with the names that replies have: `next_offset` is `nextOffset`."""
    return {
        _SNAKE.sub(lambda found: found[1].upper(), name): value for name, value in fields.items()
    }
