"""Conversations to search with: sound ones, and logs that were damaged in every way we know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import strategies as st

from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Label,
    Prune,
    PruneDecision,
    Record,
    ToolResult,
    ToolUse,
    User,
)
from holdfast.core.narrative.digest import digest_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypothesis.strategies import SearchStrategy

    from holdfast.core.narrative.digest import Digest

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""One pixel."""

WORDS = (
    *(
        "hello",
        "What changed in src/app/main.py?",
        "x" * 40,
        "",
        "   ",
        "\ud800 half",
        "漢字かな" * 9,
    ),
    *("Traceback (most recent call last):\n  boom\nValueError: bad", "👩‍👩‍👧‍👦" * 5, "no\x00pe"),
    "def f(x):\n    return x + 1\n" * 12,
    "2026-11-15 12:00:00 INFO worker-17 handled request 8f14e45fceea167a in 12 ms\n" * 30,
)
IDS = ("call_1", "call_2", "call_3", "toolu_01AbC", "", " ", "bad id!", "é" * 50, "x" * 200)
NAMES = ("read_file", "bash", "", "browser.open", "漢字")


def said(records: Sequence[Record]) -> list[Record]:
    """The records with ids, in order, as a store would hand them out."""
    return [
        msgspec.structs.replace(record, id=f"r{number:05d}", ts=1_700_000_000.0 + number)
        for number, record in enumerate(records)
    ]


def digests_of(records: Iterable[Record]) -> list[Digest]:
    """What the records add to a narrative."""
    return [found for record in records if (found := digest_record(record)) is not None]


def text_blocks() -> SearchStrategy[dict[str, Any]]:
    return st.sampled_from(WORDS).map(lambda text: {"type": "text", "text": text})


def images() -> SearchStrategy[dict[str, Any]]:
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    return st.sampled_from(
        (
            {"type": "image", "source": source},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
            {"type": "image", "source": None},
        )
    )


def calls() -> SearchStrategy[dict[str, Any]]:
    arguments = st.sampled_from(
        ({}, {"path": "src/app/main.py"}, {"text": "y" * 300}, "not json", '{"a": 1}', None, [1])
    )
    return st.builds(
        lambda call_id, name, given: {
            "type": "tool_use",
            "id": call_id,
            "name": name,
            "input": given,
        },
        st.sampled_from(IDS),
        st.sampled_from(NAMES),
        arguments,
    )


def thinking() -> SearchStrategy[dict[str, Any]]:
    return st.sampled_from(
        (
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "thinking", "thinking": "unsigned"},
            {"type": "redacted_thinking", "data": "ZGF0YQ=="},
            {"type": "reasoning", "id": "rs_1", "encrypted_content": "Z2Fi", "summary": []},
        )
    )


def odd_blocks() -> SearchStrategy[dict[str, Any]]:
    return st.sampled_from(
        (
            {"type": "document", "source": {"type": "text", "data": "d"}},
            {},
            {"type": 7},
            {"type": "tool_result", "tool_use_id": "call_1", "content": "inline"},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web", "input": {}},
        )
    )


def contents(*blocks: SearchStrategy[dict[str, Any]]) -> SearchStrategy[Any]:
    return st.one_of(st.none(), st.sampled_from(WORDS), st.lists(st.one_of(*blocks), max_size=4))


def usages() -> SearchStrategy[dict[str, Any] | None]:
    return st.one_of(
        st.none(),
        st.builds(lambda n: {"input_tokens": n, "output_tokens": 5}, st.integers(0, 4_000)),
        st.just({"input_tokens": "many"}),
    )


def messy_records() -> SearchStrategy[Record]:
    """One record of a log that may have been through anything: any block in any message."""
    anything = st.one_of(text_blocks(), images(), odd_blocks(), calls(), thinking())
    users = st.builds(User, content=contents(text_blocks(), images(), anything))
    assistants = st.builds(
        Assistant,
        content=contents(text_blocks(), calls(), calls(), thinking(), anything),
        provider=st.sampled_from(("anthropic", "openai", None)),
        model=st.sampled_from(("claude-x", "gpt-x", None)),
        usage=usages(),
    )
    results = st.builds(
        ToolResult,
        tool_use_id=st.sampled_from(IDS),
        content=contents(text_blocks(), images(), anything),
        is_error=st.booleans(),
    )
    loose = st.builds(
        ToolUse,
        tool_use_id=st.sampled_from(IDS),
        name=st.sampled_from(NAMES),
        input=st.sampled_from(({}, None, "x", {"a": 1})),
    )
    windows = st.sampled_from((None, 4_000, 20_000, 1_000_000))
    targets = st.integers(0, 30).map(lambda number: f"r{number:05d}")
    prunes = st.builds(
        Prune,
        decisions=st.lists(
            st.builds(
                PruneDecision,
                record=targets,
                action=st.sampled_from(("trim", "clear")),
                keep=st.sampled_from((None, 0, 5, 100)),
            ),
            max_size=3,
        ),
        window=windows,
    )
    cuts = st.builds(
        Compaction,
        summary=st.sampled_from(("", "What was done so far: much.", "</conversation_so_far>")),
        first_kept=st.none() | targets,
        window=windows,
    )
    return st.one_of(
        users, users, assistants, assistants, results, results, loose, prunes, cuts,
        st.just(Label(label="here")),
    )  # fmt: skip


def messy_logs(max_size: int = 30) -> SearchStrategy[list[Record]]:
    return st.lists(messy_records(), max_size=max_size).map(said)


def sound_logs(max_turns: int = 6, words: int = 400) -> SearchStrategy[list[Record]]:
    """Conversations as a healthy agent leaves them, with results of every size."""
    texts = st.integers(1, words).map(lambda count: " ".join(f"word{n % 97}" for n in range(count)))
    step = st.lists(texts, max_size=3)
    turn = st.tuples(texts, st.lists(step, max_size=4), texts)
    return st.lists(turn, min_size=1, max_size=max_turns).map(_sound).map(said)


def _sound(turns: list[tuple[str, list[list[str]], str]]) -> list[Record]:
    records: list[Record] = []
    for question, steps, answer in turns:
        records.append(User(content=question))
        for results in steps:
            ids = [f"call_{len(records)}_{number}" for number in range(len(results))]
            blocks = [
                {"type": "tool_use", "id": one, "name": "read_file", "input": {"path": one}}
                for one in ids
            ]
            records.append(Assistant(content=[{"type": "text", "text": "Looking."}, *blocks]))
            records += [
                ToolResult(tool_use_id=one, content=text)
                for one, text in zip(ids, results, strict=True)
            ]
        records.append(Assistant(content=answer))
    return records
