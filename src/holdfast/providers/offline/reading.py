"""Read a request of the Messages API: its words, calls, results and summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.records import text_of
from holdfast.core.text.cut import cut, ellipsis
from holdfast.providers.offline.summaries import TranscriptEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json

_OPENING: Final = "<conversation_so_far>\n"
_CLOSING: Final = "\n</conversation_so_far>"
"""Around the stand-in for messages that were cut."""


def find_summary(text: str) -> str:
    """The summary that a message opens with, without its fence; empty where there is none."""
    _before, opening, rest = text.partition(_OPENING)
    summary, closing, _after = rest.rpartition(_CLOSING)
    return summary if opening and closing else ""


def blocks_of(message: Json) -> list[Json]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def newest_words(messages: Sequence[Json]) -> str:
    """Return the user's words since the last results; empty if those are the newest."""
    blocks = blocks_of(messages[-1]) if messages else []
    last = max(
        (at for at, block in enumerate(blocks) if block.get("type") == "tool_result"), default=-1
    )
    said = [block for block in blocks[last + 1 :] if not find_summary(str(block.get("text", "")))]
    return text_of(said).strip()


def last_order(messages: Sequence[Json]) -> tuple[str, list[Json]]:
    """The last text of the last message, and everything before it."""
    if not messages:
        return "", []
    *blocks, last = blocks_of(messages[-1]) or [{}]
    order = last.get("text") if last.get("type") == "text" else ""
    return str(order or "").strip(), [*messages[:-1], {**messages[-1], "content": blocks}]


class ShownResult(msgspec.Struct, frozen=True):
    call: str
    """The call, as a person would write it."""
    name: str
    text: str
    is_error: bool
    pictures: int = 0


def newest_results(messages: Sequence[Json]) -> list[ShownResult]:
    """The results in the newest message."""
    named = calls_by_id(messages)
    return [
        read_result(block, named)
        for block in (blocks_of(messages[-1]) if messages else [])
        if block.get("type") == "tool_result"
    ]


def read_result(block: Json, named: dict[str, tuple[str, str]]) -> ShownResult:
    call, name = named.get(str(block.get("tool_use_id", "")), ("a tool", "a tool"))
    content = block.get("content")
    pieces = content if isinstance(content, list) else []
    text = content if isinstance(content, str) else text_of(pieces)
    pictures = sum(piece.get("type") == "image" for piece in pieces)
    return ShownResult(call, name, text, bool(block.get("is_error")), pictures)


def calls_by_id(messages: Sequence[Json]) -> dict[str, tuple[str, str]]:
    found = {}
    for message in messages:
        for block in blocks_of(message):
            if block.get("type") == "tool_use":
                given = ", ".join(
                    f"{name}={_short(value)}" for name, value in (block.get("input") or {}).items()
                )
                found[block["id"]] = (f"{block['name']}({given})", block["name"])
    return found


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return shorten(" ".join(text.split()), 60)


def read_entries(messages: Sequence[Json]) -> list[TranscriptEntry]:
    """The conversation itself as entries, for a summary asked for at its end."""
    named = calls_by_id(messages)
    found = []
    for message in messages:
        for block in blocks_of(message):
            match block.get("type"):
                case "text" if message.get("role") == "assistant":
                    found.append(TranscriptEntry("assistant", block["text"]))
                case "text" if find_summary(block["text"]):
                    found.append(TranscriptEntry("note", block["text"]))
                case "text":
                    found.append(TranscriptEntry("user", block["text"]))
                case "tool_use":
                    call, name = named[block["id"]]
                    found.append(TranscriptEntry("call", call.removeprefix(name), f"called {name}"))
                case "tool_result":
                    result = read_result(block, named)
                    label = f"of {result.name}" + (", failed" if result.is_error else "")
                    found.append(TranscriptEntry("result", result.text, label))
    return found


def asked_before(messages: Sequence[Json]) -> str:
    """The user's words that the calls came from."""
    for message in reversed(messages[:-1]):
        words = text_of([block for block in blocks_of(message) if block.get("type") == "text"])
        if message.get("role") == "user" and words.strip():
            return newest_words([message])
    return ""


def shorten(text: str, chars: int) -> str:
    return cut(text, chars, keep="head", marker=ellipsis).text
