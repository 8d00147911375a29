"""The notes of a session, in files beside its log, and its checkpoints.

All of it is derived from the log and can be made again, so none of it ever stops a turn: a failure
is a warning, and the next append tries again.
"""

from __future__ import annotations

import functools
import time
import warnings
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.log.records import Flush
from holdfast.core.owners import NO_OWNER, UnknownOwner
from holdfast.errors import HoldfastError, HoldfastWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.core.checkpoint.state import State
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.narrative.digest import Digest
    from holdfast.core.owners import FoundOwner
    from holdfast.ports import Clock, Notes, SessionStore

_FAILURES: Final = (HoldfastError, OSError)


class SideFiles:
    """Everything of one session that outlives a compaction, a reset or a restart."""

    def __init__(
        self,
        store: SessionStore,
        key: SessionKey,
        *,
        owner: FoundOwner = NO_OWNER,
        clock: Clock = time.time,
    ) -> None:
        self._store = store
        self._key = key
        self._clock = clock
        self._owner = owner

    @functools.cached_property
    def notes(self) -> Notes | None:
        """The notes of the agent or owner; None where it is not known whose they are."""
        if isinstance(self._owner, UnknownOwner):
            return None
        return self._store.notes(self._key.agent, self._owner, clock=self._clock)

    def catch_up(self, records: Sequence[Record]) -> None:
        """Copy the notes of flushes into the files; repeating that adds nothing."""
        has_notes = any(isinstance(rec, Flush) and rec.notes for rec in records)
        if not has_notes or self.notes is None:
            return
        from holdfast.engine.memory import notes

        try:
            notes.save_flushes(self.notes, records, self._key)
        except _FAILURES as error:
            _warn(f"the notes of session `{self._key}` are in its log, but not in a file: {error}")

    def state(
        self,
        trigger: str,
        extra: Mapping[str, Any] | None = None,
        *,
        held: Sequence[Record] = (),
        digest: Callable[[Record], Digest | None] | None = None,
    ) -> State:
        """Capture the state of the session now. Nothing is stored. `held` are the newest records
        that are at hand, and `digest` has the digests of some."""
        from holdfast.engine.session import checkpoints

        taken = checkpoints.take_checkpoint(
            self._store,
            self._key,
            trigger=trigger,
            extra=extra,
            clock=self._clock,
            held=held,
            digest=digest,
        )
        return taken.state


def _warn(text: str) -> None:
    warnings.warn(text, HoldfastWarning, stacklevel=3)
