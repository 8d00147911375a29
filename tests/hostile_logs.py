"""Logs that no healthy agent leaves: everything in them may be far too large, or far too many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conversations import PNG, said

from holdfast.core.log.records import (
    Assistant,
    Compaction,
    InjectedContext,
    ModelChange,
    Prune,
    PruneDecision,
    Record,
    ToolResult,
    ToolUse,
    User,
    to_json,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

PIECES = (
    *("some words ", "漢字かな", "👩‍👩‍👧‍👦", "0123456789abcdef", "\x00\x01", " ", "\n", "x", '"\\'),
    *("def f(x):\n    return x + 1\n", "[… 5 of 9 characters left out …]", "\ud800", "</a>", "é̂"),
    "2026-11-15 12:00:00 ERROR worker-17 failed request 8f14e45fceea167a\n",
)
SIZES = (0, 1, 3, 40, 40, 400, 400, 4_000, 4_000, 20_000)
COUNTS = (1, 1, 1, 2, 2, 5)


class ThirdsCounter:
    """A third of the characters, and at least one: fast enough for logs by the thousand."""

    name = "thirds"
    is_exact = False

    def count(self, text: str) -> int:
        return -(-len(text) // 3)


def hostile_log(rng: random.Random, *, most: int = 120) -> list[Record]:
    """A log of up to twelve groups of records; `most` bounds what comes in hundreds."""
    records: list[Record] = []
    for _ in range(rng.randint(1, 12)):
        records += rng.choice(_GROUPS)(rng, most)
    return said(records)


def text(rng: random.Random) -> str:
    piece, size = rng.choice(PIECES), rng.choice(SIZES)
    line = (piece * (60 // len(piece) + 1))[:60] + " "
    return (line * (size // len(line) + 1))[:size]


def value(rng: random.Random, depth: int = 0) -> Any:
    """Arguments of a call: large in every way that JSON allows."""
    kind = rng.randrange(6 if depth < 2 else 3)
    if kind < 2:
        return text(rng)
    if kind == 2:
        return rng.choice((None, True, 17, 10**18, -0.5))
    if kind == 3:
        return list(range(rng.choice((0, 3, 900))))
    if kind == 4:
        return [value(rng, depth + 1) for _ in range(rng.choice((0, 1, 3)))]
    names = [rng.choice(("path", "text", "k" * 50, "")) + str(n) for n in range(rng.choice(COUNTS))]
    return {name: value(rng, depth + 1) for name in names}


def picture(rng: random.Random) -> dict[str, Any]:
    data = rng.choice((PNG, PNG, "A" * 3_000, ""))
    source = {"type": "base64", "media_type": rng.choice(("image/png", "x" * 90)), "data": data}
    url = {"type": "url", "url": "https://example.com/" + "a" * rng.choice((3, 3_000))}
    return {"type": "image", "source": rng.choice((source, source, url))}


def blocks(rng: random.Random, most: int) -> list[dict[str, Any]]:
    """Content of a message: texts, pictures, blocks of unknown kinds and of other roles."""
    kind = rng.randrange(6)
    if kind == 0:
        return [picture(rng) for _ in range(rng.choice((1, 2, 25, most)))]
    if kind == 1:
        return [{"type": "text", "text": "a"} for _ in range(rng.choice((2, most)))]
    if kind == 2:
        name = rng.choice(("document", "k" * 9_000))
        return [{"type": name, "data": value(rng)} for _ in range(rng.choice((1, 1, 3)))]
    if kind == 3:
        call = {"type": "tool_use", "id": "toolu_u", "name": text(rng), "input": value(rng)}
        return [rng.choice((call, _thinking(rng))) for _ in range(rng.choice((1, 2)))]
    return [{"type": "text", "text": text(rng)} for _ in range(rng.choice(COUNTS))]


def _users(rng: random.Random, most: int) -> list[Record]:
    count = rng.choice((*COUNTS, most))
    if count > 9:
        return [User(content="x") for _ in range(count)]
    return [
        User(content=text(rng) if rng.random() < 0.7 else blocks(rng, most)) for _ in range(count)
    ]


def _injected(rng: random.Random, _most: int) -> list[Record]:
    words = text(rng)
    return [
        rng.choice(
            (
                User(content=words, extra={"meta": True, "injected": "memory"}),
                InjectedContext(text=words, source="hook"),
            )
        )
    ]


def _thinking(rng: random.Random) -> dict[str, Any]:
    words = text(rng)
    return rng.choice(
        (
            {"type": "thinking", "thinking": words, "signature": "c2ln" * (len(words) + 1)},
            {"type": "redacted_thinking", "data": "ZGF0" * (len(words) + 1)},
            {"type": "reasoning", "id": "rs_1", "encrypted_content": "Z2Fi" * 999, "summary": []},
        )
    )


def _reply(rng: random.Random, most: int) -> list[Record]:
    content = [_thinking(rng)] if rng.random() < 0.5 else []
    usage = {"input_tokens": rng.choice((1, 900, 5_000, 10**7)), "output_tokens": 5}
    return [
        Assistant(
            content=[*content, *blocks(rng, most)],
            provider="anthropic",
            model="claude-x",
            usage=rng.choice((None, usage)),
        )
    ]


def _step(rng: random.Random, most: int) -> list[Record]:
    """A reply with calls, one or hundreds, and results for some, in any order, or for none."""
    count = rng.choice((*COUNTS, most))
    mark = rng.randrange(10**6)
    ids = [f"c{mark}_{number}" for number in range(count)]
    if rng.random() < 0.1:
        ids = [name * 40 for name in ids]
    small = count > 9
    calls = [
        {
            "type": "tool_use",
            "id": name,
            "name": rng.choice(("bash", "read_file", "n" * 300)),
            "input": {} if small else value(rng),
        }
        for name in ids
    ]
    content = [{"type": "text", "text": text(rng)}, _thinking(rng), *calls]
    results: list[Record] = [
        ToolResult(
            tool_use_id=name,
            content="ok" if small else rng.choice((text(rng), blocks(rng, most // 8 + 1))),
            is_error=rng.random() < 0.2,
        )
        for name in ids
        if rng.random() < 0.9
    ]
    rng.shuffle(results)
    asked: Record = Assistant(content=content, provider="anthropic", model="claude-x")
    return [asked, *results[: rng.choice((0, 1, len(results)))]] if small else [asked, *results]


def _loose(rng: random.Random, _most: int) -> list[Record]:
    """Calls and results that belong to nothing."""
    return [
        ToolUse(tool_use_id="alone", name="bash", input=value(rng)),
        ToolResult(tool_use_id=rng.choice(("alone", "nobody")), content=text(rng)),
        ToolResult(tool_use_id="alone", content=text(rng)),
    ]


def _cut(rng: random.Random, most: int) -> list[Record]:
    """A boundary from elsewhere: any summary, any carry, any number of pinned messages."""
    mark = rng.randrange(10**6)
    pinned = [
        {**to_json(record), "id": f"p{mark}_{number}"}
        for number, record in enumerate(_users(rng, most))
    ]
    return [
        Compaction(
            summary=text(rng),
            carry=rng.choice((None, text(rng))),
            turn=rng.choice((None, pinned)),
            first_kept=rng.choice((None, "r00001", "nowhere")),
            window=rng.choice((None, 4_000, 10**6)),
        )
    ]


def _decisions(rng: random.Random, _most: int) -> list[Record]:
    decisions = [
        PruneDecision(
            record=f"r{rng.randrange(40):05d}",
            action=rng.choice(("trim", "clear")),
            keep=rng.choice((None, 0, 5, 100_000)),
        )
        for _ in range(rng.choice(COUNTS))
    ]
    return [
        Prune(decisions=decisions, window=rng.choice((None, 10**6))),
        ModelChange(model="claude-x", window=rng.choice((None, 1, 2_088))),
    ]


_GROUPS: tuple[Callable[[random.Random, int], list[Record]], ...] = (
    *(_users, _users, _reply, _reply, _step, _step, _injected, _loose, _cut, _decisions),
)
