"""Checkpoints of stored sessions: captured from the log, written to it, and read back.

The log's `checkpoint` records are the truth. Capturing one reads the records since the newest
usable one, or the whole path where that one is damaged or on an abandoned branch.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.checkpoint.capture import capture_state
from holdfast.core.checkpoint.enrich import SYSTEM, ask, read_enrichment
from holdfast.core.checkpoint.render import render_checkpoint
from holdfast.core.checkpoint.state import Bad, Loaded, State, newest, read_state, to_json
from holdfast.core.compaction.summary_request import parts
from holdfast.core.dialects.registry import render_body
from holdfast.core.log.records import Assistant, Checkpoint, InjectedContext, User
from holdfast.core.models.messages import Message, Prompt, Text
from holdfast.core.narrative.digest import digest_record
from holdfast.core.refusals import as_told, reaches_back, refusals_in
from holdfast.core.tokens.counting import Estimator
from holdfast.errors import HoldfastWarning
from holdfast.ports import ANY_HEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.narrative.digest import Digest
    from holdfast.ports import Clock, Model, SessionStore

_ANSWER_TOKENS: Final = 2_000
"""The longest answer; the fields that a model adds are a few lines each."""
_WINDOW_SHARE: Final = 0.8
"""Of the model's window for the question; the rest makes up for estimated token counts."""


class Taken(msgspec.Struct, frozen=True):
    """A checkpoint, its record if it was written, and the records that could not be used."""

    state: State
    record: str = ""
    passed_over: tuple[Bad, ...] = ()


def take_checkpoint(
    store: SessionStore,
    key: SessionKey,
    *,
    trigger: str = "asked",
    extra: Mapping[str, Any] | None = None,
    clock: Clock = time.time,
    held: Sequence[Record] = (),
    digest: Callable[[Record], Digest | None] | None = None,
) -> Taken:
    """Capture the state of a session now. Nothing is written. `held` are the newest records of its
    path, as far as they are at hand: the log is read where they do not reach back far enough.
    `digest` is what has the digests of some."""
    records, before, has_all = _since(key, reversed(held))
    if not has_all:
        records, before, _ = _since(key, store.back(key))
    state = capture_state(
        records,
        session=key.session,
        trigger=trigger,
        now=clock(),
        previous=before.state,
        extra=extra,
        digest=digest or digest_record,
    )
    return Taken(state, passed_over=before.passed_over)


def save_checkpoint(store: SessionStore, key: SessionKey, state: State) -> str:
    """Write a state to the log of its session; returns its record.

    Two states that are written at the same moment become two records; none replaces the other.
    """
    return store.append(key, [checkpoint_record(state)], expect=ANY_HEAD).ids[0]


def enrich(model: Model, state: State, records: Sequence[Record]) -> State:
    """Let a model add to the state, in one call; if that fails, the state stays as it is.

    The model sees the narrative of the records, within its window, as data and without tools.
    """
    counter = Estimator()
    room = int(_WINDOW_SHARE * model.window.tokens) - _ANSWER_TOKENS - counter.count(ask(state))
    told = map(digest_record, as_told(records))
    digests = [found for found in told if found is not None]
    narrative = next(iter(parts(digests, max(0, room), 1, counter)), "")
    if not narrative:
        return state
    question = Message("user", (Text(ask(state, narrative)),))
    prompt = Prompt((question,), system=SYSTEM, output_tokens=_ANSWER_TOKENS)
    try:
        reply = model.send(render_body(prompt, model.target))
    except Exception as error:  # enriching is optional, whatever a client raises
        warnings.warn(
            f"the model could not enrich the checkpoint: {error}", HoldfastWarning, stacklevel=2
        )
        return state
    return read_enrichment(reply, state, narrative)


def load(store: SessionStore, key: SessionKey) -> Loaded:
    """The newest usable checkpoint on the path to the head, of those that tell nothing which was
    refused after them."""
    return newest(_sound(store.back(key)))


def bring_in(store: SessionStore, key: SessionKey, state: State) -> str:
    """Give a session the state of earlier work, for its next request; returns the record.

    A session without messages starts from it. In any other it is context, which the model reads
    before the next user message.
    """
    if not any(isinstance(record, User | Assistant) for record in store.back(key)):
        return save_checkpoint(store, key, state)
    source = f"checkpoint of session {state.session_id}" if state.session_id else "a checkpoint"
    context = InjectedContext(text=render_checkpoint(state), source=source)
    return store.append(key, [context], expect=ANY_HEAD).ids[0]


def each(store: SessionStore, key: SessionKey) -> Iterator[tuple[str, State]]:
    """Every usable checkpoint on the path with its record, the newest first."""
    for record in store.back(key):
        if isinstance(record, Checkpoint):
            state = read_state(record.state)
            if isinstance(state, State):
                yield record.id, state


def checkpoint_record(state: State) -> Checkpoint:
    """The record of a state. As the first record of a session, that session starts from it."""
    return Checkpoint(state=to_json(state), trigger=state.trigger)


def _sound(newest_first: Iterable[Record]) -> Iterator[Record]:
    """Yield records without the checkpoints that were made before something in them was refused."""
    refused: set[str] = set()
    for record in newest_first:
        refused.discard(record.id)
        for epoch in refusals_in((record,)):
            refused.update(epoch.left_out)
        if not refused or not isinstance(record, Checkpoint):
            yield record


def _since(key: SessionKey, newest_first: Iterable[Record]) -> tuple[list[Record], Loaded, bool]:
    """The records after the newest usable checkpoint, that checkpoint, and True where it was found.

    Without one, all records.
    """
    records: list[Record] = []
    found: Loaded | None = None
    passed: list[Bad] = []
    has_all = False
    for record in _sound(newest_first):
        records.append(record)
        is_read = found is not None and found.state is not None and record.id == found.state.upto
        if is_read and reaches_back(records[-2::-1]):
            found = None
        elif is_read:
            has_all = True
            break
        if found is None and isinstance(record, Checkpoint):
            state = read_state(record.state)
            if not isinstance(state, State):
                passed.append(Bad(record.id, state))
            elif state.session_id == key.session and state.upto:
                found = Loaded(state, record.id)
    found = msgspec.structs.replace(found or Loaded(), passed_over=tuple(passed))
    return records[::-1], found, has_all
