"""Stores for the pages: a small one with everything in it, and a long session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import (
    Assistant,
    Checkpoint,
    Compaction,
    Epoch,
    Flush,
    InjectedContext,
    Label,
    Mode,
    ModelChange,
    Prune,
    PruneDecision,
    Rewind,
    ToolResult,
    ToolUse,
    Undo,
    Unknown,
    User,
)
from holdfast.core.owners import owner_of
from holdfast.ports import ANY_HEAD, NewMessage

if TYPE_CHECKING:
    from holdfast.core.log.records import Record
    from holdfast.ports import SessionStore

HOSTILE = '</pre></title><script>alert("x")</script><img src=x onerror=alert(1)>\'"&'
"""Words that would be a script, where a page did not escape them."""
USAGE = {"input_tokens": 700, "cache_read_input_tokens": 2_000, "output_tokens": 50}
TIME = 1_767_600_000.0


def every_kind(words: str, number: int = 0) -> list[Record]:
    """A record of every kind, with the words wherever a person or a program writes words."""

    def name(kind: str) -> str:
        return f"{kind}{number}"

    call = {"type": "tool_use", "id": name("c"), "name": words, "input": {words: words}}
    return [
        ModelChange(id=name("model"), ts=TIME, model=words, provider="x", window=24_000),
        User(id=name("user"), ts=TIME, content=words),
        InjectedContext(id=name("context"), ts=TIME, text=words, source=words),
        Assistant(
            id=name("assistant"),
            ts=TIME,
            content=[
                {"type": "thinking", "thinking": words},
                {"type": "text", "text": words},
                {"type": words, "x": words},
                call,
            ],
            model=words,
            provider="x",
            usage=USAGE,
        ),
        ToolResult(id=name("result"), ts=TIME, tool_use_id=name("c"), content=words, name=words),
        ToolUse(id=name("use"), ts=TIME, tool_use_id="u", name=words, input={words: words}),
        Flush(id=name("flush"), ts=TIME, notes=[words], trigger=words),
        Checkpoint(id=name("check"), ts=TIME, state={"words": words}, trigger=words),
        Prune(
            id=name("prune"),
            ts=TIME,
            decisions=[PruneDecision(record=name("result"), action="trim")],
            reason=words,
        ),
        Compaction(
            id=name("cut"),
            ts=TIME,
            summary=words,
            covers=(name("user"), name("result")),
            first_kept=name("use"),
            tokens_before=900,
            tokens_after=90,
            reason=words,
            model=words,
        ),
        Undo(id=name("undo"), ts=TIME, target=name("prune"), reason=words),
        Label(id=name("label"), ts=TIME, label=words[:100]),
        Mode(id=name("mode"), ts=TIME, mode="continue"),
        Epoch(id=name("epoch"), ts=TIME, cause="system", detail=words, reasoning=2),
        User(id=name("second"), ts=TIME, content=[{"type": "text", "text": words}]),
        Rewind(id=name("rewind"), ts=TIME, to=name("second"), reason=words),
        Unknown(id=name("unknown"), ts=TIME, type=words, extra={"words": words}),
    ]


def fill(store: SessionStore, owner: str, words: str, session: str = "small") -> SessionKey:
    """Make a session with a record of every kind, a note and a message that failed."""
    key = SessionKey("main", session)
    store.create(key, label=words[:150], owner=owner_of(owner))
    store.append(key, every_kind(words), expect=ANY_HEAD)
    store.notes("main", owner_of(owner)).append([f"remember {words}"])
    message = store.queues.put(
        NewMessage(
            queue="inbox",
            lane=str(key),
            key=f"k-{session}",
            body={"content": words},
            owner=owner,
            session=str(key),
        )
    )
    store.queues.drop(message.id, words)
    return key


def fill_long(store: SessionStore, records: int, session: str = "long") -> SessionKey:
    """Make a session of many short records, cut now and then."""
    key = SessionKey("main", session)
    store.create(key)
    batch: list[Record] = []
    for number in range(records // 2):
        batch.append(User(id=f"u{number:07}", ts=TIME + number, content=f"question {number}"))
        batch.append(
            Assistant(
                id=f"v{number:07}",
                ts=TIME + number,
                content=f"answer {number}",
                model="claude-sonnet-4-5",
                usage=USAGE,
            )
        )
        if number % 1_000 == 999:
            cut = Compaction(
                id=f"x{number:07}",
                ts=TIME + number,
                summary="so far",
                first_kept=f"u{number:07}",
                covers=(f"u{number - 999:07}", f"v{number - 1:07}"),
                reason="the limit",
                tokens_before=9_000,
                tokens_after=400,
            )
            store.append(key, [*batch, cut], expect=ANY_HEAD)
            batch = []
    if batch:
        store.append(key, batch, expect=ANY_HEAD)
    return key
