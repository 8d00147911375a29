"""Records and helpers that the checks share."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import (
    Assistant,
    CallFailure,
    Checkpoint,
    Compaction,
    Flush,
    Label,
    ModelChange,
    OutputRef,
    Prune,
    PruneDecision,
    ToolResult,
    ToolUse,
    Unknown,
    User,
)
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.log.records import Record
    from holdfast.ports import SessionStore


Error = TypeVar("Error", bound=HoldfastError)

KEY: Final = SessionKey("main", "conformance")
OTHER: Final = SessionKey("main", "other")
ABSENT: Final = SessionKey("main", "conformancy")
"""A key that no check creates, one letter from one that it does."""


def begin(store: SessionStore, *texts: str) -> tuple[str, ...]:
    """Create the session of the checks with these messages; return their ids."""
    store.create(KEY)
    return store.append_each(KEY, list(map(message, texts))).ids


def message(text: object, **fields: object) -> User:
    """Return a user's message; one with anything but text cannot be stored."""
    return User(content=text, **fields)  # type: ignore[arg-type]


def text_of(record: Record) -> str:
    return record.content if isinstance(record, User) and isinstance(record.content, str) else ""


def texts_of(records: Iterable[Record]) -> list[str]:
    return [text_of(record) for record in records if isinstance(record, User)]


def without_metadata(record: Record) -> Record:
    """Return a record without what the store adds to it."""
    return msgspec.structs.replace(record, id="", ts=0.0, parent=None, more=None)


def one_of_each() -> list[Record]:
    call = {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "."}}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    ref = OutputRef(sha256="0" * 64, bytes=9, kind="text", lines=1, extra={"later": [1]})
    decision = PruneDecision(record="r", action="trim", tool_use_id="c1", extra={"why": "old"})
    return [
        User(content=[{"type": "text", "text": "hi"}], name="ann", extra={"mood": "good"}),
        Assistant(
            content=[thinking, call],
            provider="p",
            model="m",
            usage={"input": 1, "cached": {"read": 2}},
            stop_reason="tool_use",
        ),
        ToolResult(tool_use_id="c1", content="out", name="ls", details={"n": 1}, output_ref=ref),
        ToolResult(tool_use_id="c2", content=None, is_error=True),
        ToolUse(tool_use_id="c9", name="old", input=[1, 2.5, None]),
        Prune(decisions=[decision], window=32_000, reason="full"),
        Compaction(
            summary="so far",
            first_kept="r",
            covers=("a", "b"),
            window=200_000,
            tokens_before=9,
            tokens_after=1,
            method="model",
            model="m",
            usage={"output": 3},
            cost=0.25,
            reason="budget",
        ),
        Checkpoint(state={"goal": ["x"]}, trigger="manual"),
        Flush(notes=["n1"], sources=["r1"], trigger="compaction", usage={"output": 1}),
        Label(label="here", target="r"),
        ModelChange(model="m2", provider="p2", window=1_000_000),
        CallFailure(cause="refused", failure="context_overflow", status=400),
        Unknown(type="novelty", extra={"type_of": "thing", "n": 1}),
    ]


@contextmanager
def raises(kind: type[Error]) -> Iterator[list[Error]]:
    """Expect the block to raise that error, and put it into the list."""
    caught: list[Error] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
    else:
        raise AssertionError(f"expected {kind.__name__}, and nothing was raised")
