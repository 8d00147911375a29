"""Context that a program puts before a user's message, and the state that a session starts from.

Both are data: fenced, labelled with their source and bounded, wherever they stand in a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.checkpoint.render import render
from holdfast.core.checkpoint.state import State, read_state
from holdfast.core.limits import CONTEXT_CHARS
from holdfast.core.log.records import (
    MESSAGES,
    Checkpoint,
    Compaction,
    InjectedContext,
)
from holdfast.core.projection.prune import name_record
from holdfast.core.text.cut import cut
from holdfast.core.text.fences import fence_context

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.records import Record

_BEGUN = frozenset((*MESSAGES, "tool_use", "compaction"))
"""The types of records that end the beginning of a session."""


def context_text(record: InjectedContext) -> str:
    """Injected context as a model reads it; empty where it says nothing."""
    if not record.text.strip():
        return ""
    text = cut(record.text, CONTEXT_CHARS, marker=name_record(record.id)).text
    return fence_context(text, record.source)


def starting_state(records: Iterable[Record]) -> Compaction | None:
    """The boundary that a session starts with: the newest checkpoint before its first message.

    Nothing was said before it, so it is the state of earlier work, whichever session that was.
    """
    found: Compaction | None = None
    for record in records:
        if isinstance(record, Checkpoint):
            state = read_state(record.state)
            text = render(state) if isinstance(state, State) else ""
            if text:
                found = Compaction(id=record.id, ts=record.ts, summary=text, method="extract")
        elif record.kind in _BEGUN:
            break
    return found
