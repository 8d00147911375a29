"""The running summary of a session, brought up to date with its log.

It costs what was appended since it was last. Whatever goes wrong with its file, the log is read
again, and a turn never waits for it to be written or fails because it is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.memory.running_summary import Sidecar, advance
from holdfast.errors import NoSuchRecord

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.ports import SessionStore


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
    if before.upto:
        try:
            return advance(before, store.read(key, start=before.upto))
        except NoSuchRecord:
            pass  # a rewind left it behind
    return advance(before, store.read(key))
