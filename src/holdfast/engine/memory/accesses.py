"""Searches of memory in the audit log: who searched where, and the sessions that were shown.

No words of a query or of a hit: the log outlives what an owner erases.
"""

from __future__ import annotations

import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.core.history.access import OPERATOR, Access
from holdfast.core.owners import owner_text
from holdfast.errors import HoldfastError, HoldfastWarning, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.history.access import Action, Caller
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.memory.hits import Hit
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.ports import Audit


def sessions_of(hits: Iterable[Hit]) -> tuple[str, ...]:
    """Return the sessions that hits are from, each once. A note is from none: it was shown, and not
    the session that it was taken in."""
    return tuple(dict.fromkeys(hit.session for hit in hits if hit.session and hit.path is None))


class MemoryAccesses:
    """Notes what one caller was given. What cannot be noted is not given, but to the operator."""

    def __init__(self, audit: Audit, caller: Caller, redactor: Redactor) -> None:
        self._audit = audit
        self._caller = caller
        self._redactor = redactor

    def note_search(self, scope: str, hits: Sequence[Hit], asker: SessionKey | None) -> None:
        """Note a search. Raises `StoreUnavailable` where it cannot be noted."""
        given = sum(len(hit.text.encode()) for hit in hits)
        reason = "Allowed: what may be read."
        self._note("search", scope, reason, asker, given, len(hits), sessions_of(hits))

    @contextmanager
    def reading(self, citation: str) -> Iterator[None]:
        """Note that a citation is read in a block, or was refused by it."""
        target = citation.partition("#")[0]
        try:
            yield
        except HoldfastError as error:
            self._note("read", target, str(error), is_allowed=False)
            raise
        self._note("read", target, "Allowed: what may be read.")

    def _note(
        self,
        action: Action,
        target: str,
        reason: str,
        asker: SessionKey | None = None,
        given: int = 0,
        hits: int | None = None,
        shown: tuple[str, ...] = (),
        *,
        is_allowed: bool = True,
    ) -> None:
        mask = self._redactor.text
        access = Access(
            ts=time.time(),
            action=action,
            agent=asker.agent if asker is not None else self._caller.agent,
            session=asker.session if asker is not None else self._caller.session,
            owner=owner_text(self._caller.owner),
            target=mask(target),
            is_allowed=is_allowed,
            reason=mask(reason),
            bytes=given,
            hits=hits,
            shown=tuple(map(mask, shown)),
        )
        try:
            self._audit.note(access)
        except (StoreError, OSError) as error:
            if self._caller != OPERATOR:
                raise StoreUnavailable(
                    "the access could not be written to the audit log, so nothing is returned",
                    hint="make the log writable",
                ) from error
            warnings.warn(f"not in the audit log: {error}", HoldfastWarning, stacklevel=3)
