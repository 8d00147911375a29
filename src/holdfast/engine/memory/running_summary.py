"""The running summary of a session, brought up to date with its log.

It costs what was appended since it was last, and at most the newest 2,000 records. Whatever goes
wrong with its file, the log is read again, and a turn never waits for it to be written or fails
because it is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.memory.running_summary import Sidecar, advance
from holdfast.core.refusals.left_out import reaches_back

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.ports import SessionStore

_RECORDS_MAX: Final = 2_000
"""Newest records that a summary is made from where none is stored; it keeps 60 items of them."""


def refresh(
    store: SessionStore,
    key: SessionKey,
    *,
    known: Sidecar | None = None,
) -> Sidecar:
    """The summary as of now, kept in the store for the next time.

    `known` is one that the caller still holds; it saves reading the file.
    """
    before = known or store.summaries.load(key) or Sidecar()
    after = _advance_from_store(store, key, before)
    if after != before:
        store.summaries.save(key, after)
    return after


def _advance_from_store(store: SessionStore, key: SessionKey, before: Sidecar) -> Sidecar:
    """Read the path back to where the summary ends, or as far as one that is begun anew goes."""
    newest: list[Record] = []
    for record in store.back(key):
        newest.append(record)
        if record.id == before.upto:
            if reaches_back(newest[-2::-1]):
                before = Sidecar()
                continue
            return advance(before, newest[::-1])
        if len(newest) == _RECORDS_MAX:
            anew = advance(Sidecar(), newest[::-1])
            return msgspec.structs.replace(anew, has_more=True)
    return advance(before, newest[::-1])  # the whole path: a rewind left behind what it knew
