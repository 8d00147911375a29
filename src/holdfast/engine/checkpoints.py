"""Checkpoints of stored sessions: taken from the log, written to it, and read back.

The log's `checkpoint` records are the truth. Taking one costs what was appended since the newest
usable one; where that lies on an abandoned branch, or is not to be read, the whole path is.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.checkpoint import Bad, Loaded, State, newest, read_state, to_json
from holdfast.core.checkpoint_capture import capture
from holdfast.core.records import Checkpoint
from holdfast.ports import ANY_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.core.ids import SessionKey
    from holdfast.core.records import Record
    from holdfast.ports import Clock, SessionStore


class Taken(msgspec.Struct, frozen=True):
    """A checkpoint, the record it was written to if it was, and what could not be used."""

    state: State
    record: str = ""
    passed_over: tuple[Bad, ...] = ()


def take(
    store: SessionStore,
    key: SessionKey,
    *,
    trigger: str = "asked",
    extra: Mapping[str, Any] | None = None,
    clock: Clock = time.time,
) -> Taken:
    """The state of a session now. Nothing is written."""
    records, before = _since(store, key)
    state = capture(
        records,
        session=key.session,
        trigger=trigger,
        now=clock(),
        previous=before.state,
        extra=extra,
    )
    return Taken(state, passed_over=before.passed_over)


def save(store: SessionStore, key: SessionKey, state: State) -> str:
    """Write a state to the log of its session; returns its record.

    Two that are written at the same moment are two records: none replaces the other.
    """
    return store.append(key, [record_of(state)], expect=ANY_HEAD).ids[0]


def load(store: SessionStore, key: SessionKey) -> Loaded:
    """The newest usable checkpoint on the path to the head."""
    return newest(store.back(key))


def each(store: SessionStore, key: SessionKey) -> Iterator[tuple[str, State]]:
    """Every usable checkpoint on the path with its record, the newest first."""
    for record in store.back(key):
        if isinstance(record, Checkpoint):
            state = read_state(record.state)
            if isinstance(state, State):
                yield record.id, state


def record_of(state: State) -> Checkpoint:
    """The record that keeps a state; at the beginning of a session, what that one starts with."""
    return Checkpoint(state=to_json(state), trigger=state.trigger)


def _since(store: SessionStore, key: SessionKey) -> tuple[list[Record], Loaded]:
    """The records from the one on that the newest usable checkpoint was read up to.

    All of the path where there is none.
    """
    records: list[Record] = []
    found: Loaded | None = None
    passed: list[Bad] = []
    for record in store.back(key):
        records.append(record)
        if found is None and isinstance(record, Checkpoint):
            state = read_state(record.state)
            if not isinstance(state, State):
                passed.append(Bad(record.id, state))
            elif state.session_id == key.session and state.upto:
                found = Loaded(state, record.id)
        elif found is not None and found.state is not None and record.id == found.state.upto:
            break
    found = msgspec.structs.replace(found or Loaded(), passed_over=tuple(passed))
    return records[::-1], found
