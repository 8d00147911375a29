"""Messages of blocks with shorter texts, arguments and results; the rest as the client wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.models.messages import Text, ToolCall, arguments_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.messages import Block, Piece

_TEXTS: Final = ("text", "input_text", "output_text")


def shorten_reply(items: Sequence[Json], blocks: Sequence[Block]) -> list[Json]:
    """The items of a reply with shorter texts and arguments; the rest as the client wrote it."""
    texts = iter([block.text for block in blocks if isinstance(block, Text)])
    calls = iter([block for block in blocks if isinstance(block, ToolCall)])
    shorter = []
    for item in items:
        new = dict(item)
        if "arguments" in item:  # an item of the Responses API
            new["arguments"] = _arguments(next(calls, None), item["arguments"])
        if isinstance(item.get("content"), str) and item["content"].strip():
            new["content"] = next(texts, item["content"])
        elif isinstance(item.get("content"), list):
            new["content"] = [_shorten_block(block, texts, calls) for block in item["content"]]
        if isinstance(item.get("tool_calls"), list):
            new["tool_calls"] = [_shorten_call(call, calls) for call in item["tool_calls"]]
        shorter.append(new)
    return shorter


def _shorten_block(block: Any, texts: Iterator[str], calls: Iterator[ToolCall]) -> Any:
    if not isinstance(block, dict):
        return block
    if block.get("type") in _TEXTS and str(block.get("text", "")).strip():
        return {**block, "text": next(texts, block["text"])}
    if block.get("type") == "tool_use":
        call = next(calls, None)
        return block if call is None else {**block, "input": call.arguments}
    return block


def _shorten_call(call: Any, calls: Iterator[ToolCall]) -> Any:
    shorter = next(calls, None)
    function = call.get("function") if isinstance(call, dict) else None
    if shorter is None or not isinstance(function, dict):
        return call
    given = _arguments(shorter, function.get("arguments"))
    return {**call, "function": {**function, "arguments": given}}


def _arguments(call: ToolCall | None, given: Any) -> Any:
    """Arguments as text; as the client wrote them, where they are the same."""
    if call is None or (isinstance(given, str) and _reads_as(given, call.arguments)):
        return given
    return arguments_json(call.arguments)


def _reads_as(text: str, arguments: Json) -> bool:
    try:
        return bool(msgspec.json.decode(text) == arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def shorten_content(content: Any, pieces: Sequence[Block | Piece], text_type: str) -> Any:
    """The content of a message or a result with other texts; what is not text stays as it was."""
    texts = [piece.text for piece in pieces if isinstance(piece, Text)]
    if not isinstance(content, list):
        return "\n".join(texts)
    others = [
        block for block in content if not (isinstance(block, dict) and block.get("type") in _TEXTS)
    ]
    room = sum(not isinstance(piece, Text) for piece in pieces)
    kept = others[len(others) - room :] if room < len(others) else others
    marks = [
        block["cache_control"]
        for block in content
        if isinstance(block, dict) and block.get("cache_control") and block not in kept
    ]
    shown: list[Json] = [{"type": text_type, "text": text} for text in texts]
    if marks and shown:
        shown[-1]["cache_control"] = marks[-1]
    return [*shown, *kept]


def shorten_message(
    item: Json, wanted: Sequence[int] | None, pieces: Sequence[Block | Piece], text_type: str
) -> Json | list[Any]:
    """A message with other texts, or those of its blocks that are `wanted`."""
    content = item.get("content")
    if wanted is not None and isinstance(content, list):
        kept: list[Any] = shorten_content([content[block] for block in wanted], pieces, text_type)
        return kept
    return {**item, "content": shorten_content(content, pieces, text_type)}
