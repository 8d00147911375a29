"""Answers to a caller: each is recorded, a refusal too."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from holdfast.core.history.access import OPERATOR, Access, decide
from holdfast.core.history.capped_json import NoRoom, encode
from holdfast.core.owners import owner_text
from holdfast.core.text.cut import cut
from holdfast.engine.history.request import RequestRefused, sentence_of
from holdfast.errors import (
    AccessDenied,
    BlobMissing,
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
    from holdfast.engine.history.request import RefusalStatus
    from holdfast.ports import Audit, Clock

_NAME_CHARS: Final = 160
"""The most characters of a requested name in a refusal."""
T = TypeVar("T")
_UNRECORDED: Final = (
    "the access could not be written to the audit log, so nothing is returned; the operator must "
    "make the log writable"
)


def shorten(target: Any) -> str:
    """Return the name of what was asked for, short enough for a refusal and for the audit log."""
    return cut(str(target), _NAME_CHARS).text


class GivenReply(NamedTuple, Generic[T]):
    """An answer, the reason why it may be given, and what it is about."""

    value: T
    reason: str
    target: str = ""
    """For the audit log, where the request did not name it: erasing a session takes out its key."""
    hits: int | None = None
    shown: tuple[str, ...] = ()
    """For the audit log: the number of hits of a search, and the sessions that they are from."""
    is_masked: bool = False
    """True where the secrets in it are masked already."""


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
        self.asker = ""
        """The name of the client, behind the reason in the audit log."""
        self.is_noted = False
        """There is a line of the audit log, or there was no way to write one."""

    def give(self, action: Action, target: Any, give: Callable[[], GivenReply[T]]) -> T:
        """The answer that `give` makes with the reason why it may. Raises `RequestRefused`."""
        refused: RequestRefused | None = None
        found: GivenReply[T] | None = None
        try:
            found = give()
        except RequestRefused as error:
            refused = error
        except NoRoom:
            refused = RequestRefused("error", f"the answer does not fit in {self._cap:,} bytes")
        except (HoldfastError, OSError, RecursionError) as error:
            refused = RequestRefused(*self._explain(error), error)
        reason = refused.error if refused is not None else found.reason if found else ""
        try:
            self.note(action, target, reason, found, encode(found.value) if found else b"")
        except (StoreError, OSError) as error:
            if self._caller != OPERATOR:
                raise RequestRefused("error", _UNRECORDED) from error
            warnings.warn(f"not in the audit log: {error}", HoldfastWarning, stacklevel=3)
        if refused is not None:
            mask = self._redactor.text
            raise RequestRefused(
                refused.status,
                mask(refused.found),
                refused.cause,
                code=refused.code,
                hint=mask(refused.hint),
            ) from refused
        assert found is not None
        return found.value

    def note(
        self, action: Action, target: Any, reason: str, found: GivenReply[Any] | None, given: bytes
    ) -> None:
        """Write the line of the audit log; `found` is None where nothing may be given."""
        self.is_noted = True
        mask = self._redactor.text
        self._audit.note(
            Access(
                ts=self._clock(),
                action=action,
                agent=self._caller.agent,
                session=self._caller.session,
                owner=owner_text(self._caller.owner),
                target=mask((found and found.target) or shorten(target)),
                is_allowed=found is not None,
                reason=mask(f"{reason} {self.asker}".rstrip()),
                bytes=len(given),
                hits=found.hits if found is not None else None,
                shown=tuple(map(mask, found.shown)) if found is not None else (),
            )
        )

    def _explain(self, error: Exception) -> tuple[RefusalStatus, str]:
        """The status and reason of an error. Only the operator learns details about the store."""
        if isinstance(error, NoSuchSession) and self._caller != OPERATOR:
            # Its hint would name sessions that the caller may not see.
            return "forbidden", decide(self._caller, None, lambda _key: None).reason
        if isinstance(error, AccessDenied):
            return "forbidden", sentence_of(error)
        if isinstance(error, NoSuchRecord | NoSuchOutput | NoSuchSession | NoSuchNote):
            return "not_found", sentence_of(error)
        if isinstance(error, BlobMissing):  # its hint says where the store is
            return "not_found", sentence_of(error) if self._caller == OPERATOR else str(error)
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
