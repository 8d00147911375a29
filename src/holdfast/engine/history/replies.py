"""Replies to a caller: each is recorded, and a refusal is a reply like any other."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.core.history.access import OPERATOR, Access, decide
from holdfast.core.history.capped_json import refusal
from holdfast.core.text.cut import cut
from holdfast.engine.history.request import RequestRefused, sentence_of
from holdfast.errors import (
    AccessDenied,
    CannotFit,
    HoldfastError,
    HoldfastWarning,
    LeaseLost,
    LogConflict,
    NoSuchNote,
    NoSuchOutput,
    NoSuchRecord,
    NoSuchSession,
    NoteChanged,
    PathRejected,
    StoreError,
    TurnInProgress,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.history.access import Action, Caller
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.ports import Audit, Clock

_NAME_CHARS: Final = 160
"""The most characters of a requested name in a refusal."""
_UNRECORDED: Final = (
    "the access could not be written to the audit log, so nothing is returned; the operator must "
    "make the log writable"
)


class GivenReply(NamedTuple):
    """A reply, the reason why it may be given, and what it is about."""

    text: str
    reason: str
    target: str = ""
    """For the audit log, where the request did not name it: erasing a session takes out its key."""
    hits: int | None = None
    shown: tuple[str, ...] = ()
    """For the audit log: the number of hits of a search, and the sessions that they are from."""


class AuditedReplies:
    """Gives one caller replies of at most `max_bytes`, and notes each in the audit log first."""

    def __init__(
        self,
        caller: Caller,
        audit: Audit,
        *,
        redactor: Redactor,
        clock: Clock = time.time,
        max_bytes: int,
    ) -> None:
        self._caller = caller
        self._audit = audit
        self._redactor = redactor
        self._clock = clock
        self._cap = max_bytes

    def give(
        self,
        action: Action,
        target: Any,
        give: Callable[[], GivenReply],
        *,
        field: str = "sessionKey",
    ) -> str:
        """The reply that `give` makes with the reason why it may, or a refusal in its place.

        A refusal repeats the target in `field`.
        """
        name = cut(str(target), _NAME_CHARS).text
        is_allowed, found = False, GivenReply("", "")
        try:
            found = give()
            text, reason = found.text, found.reason
            is_allowed = True
        except RequestRefused as refused:
            reason = refused.error
            text = self._refuse(refused.status, refused.error, name, field)
        except (HoldfastError, OSError, RecursionError) as error:
            status, reason = self._explain(error)
            text = self._refuse(status, reason, name, field)
        access = Access(
            ts=self._clock(),
            action=action,
            agent=self._caller.agent,
            session=self._caller.session,
            owner=self._caller.owner,
            target=self._redactor.text(found.target or name),
            is_allowed=is_allowed,
            reason=self._redactor.text(reason),
            bytes=len(text.encode()) if is_allowed else 0,
            hits=found.hits,
            shown=tuple(map(self._redactor.text, found.shown)),
        )
        try:
            self._audit.note(access)
        except (StoreError, OSError) as error:
            if self._caller != OPERATOR:
                return self._refuse("error", _UNRECORDED, name, field)
            warnings.warn(f"not in the audit log: {error}", HoldfastWarning, stacklevel=3)
        return text

    def _refuse(self, status: str, error: str, name: str, field: str) -> str:
        error, name = self._redactor.text(error), self._redactor.text(name)
        return refusal(status, error, name, self._cap, field=field)

    def _explain(self, error: Exception) -> tuple[str, str]:
        """The status and reason of an error. Only the operator learns details about the store."""
        if isinstance(error, NoSuchSession) and self._caller != OPERATOR:
            # Its hint would name sessions that the caller may not see.
            return "forbidden", decide(self._caller, None, lambda _key: None).reason
        if isinstance(error, AccessDenied):
            return "forbidden", sentence_of(error)
        if isinstance(error, NoSuchRecord | NoSuchOutput | NoSuchSession | NoSuchNote):
            return "not_found", sentence_of(error)
        if isinstance(error, UsageError | CannotFit | PathRejected):
            return "invalid", sentence_of(error)
        if isinstance(error, TurnInProgress | LogConflict | LeaseLost | NoteChanged):
            return "conflict", sentence_of(error)
        if self._caller == OPERATOR:
            return "error", sentence_of(error)
        if isinstance(error, HoldfastError) and not isinstance(error, StoreError):
            return "error", sentence_of(error)  # about the caller's own request
        code = error.code if isinstance(error, HoldfastError) else "store-error"
        return "error", f"the session could not be read ({code}); nothing is returned"
