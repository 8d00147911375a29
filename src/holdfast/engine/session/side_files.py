"""What a session keeps beside its log: notes in files, a running summary, checkpoints.

All of it comes from the log and can be made again, so none of it ever stands in the way of a turn:
what goes wrong is a warning, and is tried again the next time.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.log.records import Assistant, Flush, tool_calls
from holdfast.core.memory.running_summary import Sidecar, advance
from holdfast.engine.memory import notes
from holdfast.engine.memory.running_summary import refreshed
from holdfast.engine.session import checkpoints
from holdfast.errors import HoldfastError, HoldfastWarning

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.checkpoint.state import State
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.ports import Clock, Notes, SessionStore

_FAILURES: Final = (HoldfastError, OSError)


class Continuity:
    """What must not be forgotten of one session when its context is cut, reset or restarted."""

    def __init__(
        self,
        store: SessionStore,
        key: SessionKey,
        *,
        owner: str = "",
        takes_notes: bool = True,
        clock: Clock = time.time,
    ) -> None:
        self._store = store
        self._key = key
        self._clock = clock
        self.notes: Notes | None = None
        """The notes of the agent or owner; None where the store keeps none, or none are wanted."""
        if takes_notes:
            self.notes = store.notes(key.agent, owner, clock=clock)
        self._sidecars = store.summaries
        self._sidecar: Sidecar | None = None

    def opened(self, records: Sequence[Record]) -> None:
        """Make good what a crash kept from being done."""
        self._carry_over(records)

    def heard(self, records: Sequence[Record]) -> None:
        """Keep up with what was stored."""
        self._carry_over(records)
        if any(isinstance(one, Assistant) and not tool_calls(one.content) for one in records):
            self.keep_up()

    def _carry_over(self, records: Sequence[Record]) -> None:
        """The notes of flushes, into the files; done again, it adds nothing."""
        if self.notes is None or not any(isinstance(one, Flush) and one.notes for one in records):
            return
        try:
            notes.save_flushes(self.notes, records, self._key)
        except _FAILURES as error:
            _warn(f"the notes of session `{self._key}` are in its log and not in a file: {error}")

    # The running summary

    def lately(self, records: Sequence[Record]) -> Sequence[tuple[str, str]]:
        """What the assistant said, line by line, up to the newest of the records.

        By what is at hand: a flow asks for it, and a flow touches nothing outside."""
        newest = advance(self._sidecar or Sidecar(), records)
        return [(item.record, item.text) for item in newest.items if item.speaker == "assistant"]

    def keep_up(self) -> None:
        """Bring the running summary up to date, in its file as well."""
        try:
            self._sidecar = refreshed(self._store, self._key, self._sidecars, known=self._sidecar)
        except _FAILURES as error:
            _warn(f"the running summary of session `{self._key}` is not kept up: {error}")

    def forget(self) -> None:
        """The head was moved: what was summarised may not be on the path any more."""
        self._sidecar = None

    # Checkpoints

    def state(self, trigger: str, extra: Mapping[str, Any] | None = None) -> State:
        """What the session is doing now."""
        taken = checkpoints.take(
            self._store, self._key, trigger=trigger, extra=extra, clock=self._clock
        )
        return taken.state


def _warn(text: str) -> None:
    warnings.warn(text, HoldfastWarning, stacklevel=3)
