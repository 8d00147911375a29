"""Checkpoints of stored sessions: taken from the log, written to it, and read back.

The log's `checkpoint` records are the truth. Taking one costs what was appended since the newest
usable one; where that lies on an abandoned branch, or is not to be read, the whole path is.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.checkpoint.capture import capture
from holdfast.core.checkpoint.enrich import SYSTEM, ask, read_enrichment
from holdfast.core.checkpoint.state import Bad, Loaded, State, newest, read_state, to_json
from holdfast.core.compaction.summary_input import parts
from holdfast.core.log.records import Checkpoint
from holdfast.core.models.messages import Message, Prompt, Text
from holdfast.core.tokens.counting import Estimator
from holdfast.errors import HoldfastWarning
from holdfast.ports import ANY_HEAD
from holdfast.providers import requests

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.ports import Clock, Model, SessionStore

_ANSWER_TOKENS: Final = 2_000
_ASKED_SHARE: Final = 0.8
"""Of the model's window: tokens are estimated here."""


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


def enriched(model: Model, state: State, records: Sequence[Record]) -> State:
    """The state with what a model adds to it, in one call; as it was where that comes to nothing.

    The model is shown the newest records that it has room for, as data and without tools.
    """
    counter = Estimator()
    room = int(_ASKED_SHARE * model.window.tokens) - _ANSWER_TOKENS - counter.count(ask(state))
    transcript = next(iter(parts(records, max(0, room), 1, counter)), "")
    if not transcript:
        return state
    question = Message("user", (Text(ask(state, transcript)),))
    prompt = Prompt((question,), system=SYSTEM, output_tokens=_ANSWER_TOKENS)
    try:
        reply = model.send(requests.render(prompt, model.target))
    except Exception as error:  # a helper never hurts; whatever a client raises
        warnings.warn(f"no model added to the checkpoint: {error}", HoldfastWarning, stacklevel=2)
        return state
    return read_enrichment(reply, state, transcript)


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
