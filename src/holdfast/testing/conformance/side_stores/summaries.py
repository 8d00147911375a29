"""A store keeps running summaries, as a cache that never answers for another session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.checkpoint.told import ToldLine
from holdfast.core.memory.running_summary import Sidecar
from holdfast.testing.conformance.samples import ABSENT, KEY, OTHER

if TYPE_CHECKING:
    from holdfast.ports import SessionStore


def a_summary_comes_back_as_it_was_saved(store: SessionStore) -> None:
    """The last summary that was saved is loaded, for its own session only."""
    store.create(KEY)
    store.create(OTHER)
    assert store.summaries.load(KEY) is None
    summary = Sidecar(upto="r2", items=(ToldLine("r1", "user", "hello \u2603"),), omitted=3)
    assert store.summaries.save(KEY, Sidecar(upto="r1"))
    assert store.summaries.save(KEY, summary)
    assert store.summaries.load(KEY) == summary
    assert store.summaries.load(OTHER) is None
    assert store.summaries.load(ABSENT) is None


def a_summary_is_forgotten(store: SessionStore) -> None:
    """`forget` deletes it, and forgetting what is not there is no error."""
    store.create(KEY)
    store.summaries.save(KEY, Sidecar(upto="r1"))
    store.summaries.forget(KEY)
    assert store.summaries.load(KEY) is None
    store.summaries.forget(KEY)
    store.summaries.forget(ABSENT)


def a_removed_session_leaves_no_summary(store: SessionStore) -> None:
    """Words of a removed session are not in a summary; a restored one makes it again."""
    store.create(KEY)
    store.summaries.save(KEY, Sidecar(upto="r1"))
    trashed = store.remove(KEY)
    assert store.summaries.load(KEY) is None
    store.restore(trashed.name)
    assert store.summaries.load(KEY) is None
