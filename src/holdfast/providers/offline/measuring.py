"""Counting a rendered request, for models that have no provider to do it.

The offline and the scripted model report usage like a provider: what the request and the reply
measure with our own counters, and what a prompt cache would have read of it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.dialects.common.reading import TokenCounts
from holdfast.core.dialects.registry import find_dialect
from holdfast.core.models.messages import ToolAnswer, read_blocks, read_pieces, read_tools
from holdfast.core.tokens.counting import MESSAGE_TOKENS, count_block, count_json, count_tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.tokens.counting import Counter

CACHED_TOKENS_MIN: Final = 1_024
"""A shorter prefix is not cached, as with the large providers."""
_REMEMBERED: Final = 8
"""Requests that the simulated cache remembers."""
_MESSAGES: Final = ("messages", "input", "contents")


class RequestPart(msgspec.Struct, frozen=True):
    """A piece of a request that a cache keeps or loses as a whole."""

    digest: bytes
    tokens: int


class PromptTooLong(Exception):
    """Stands in for the error of Anthropic's SDK for a request over the limit."""

    status_code: Final = 400
    """The status of the reply."""

    def __init__(self, tokens: int, limit: int) -> None:
        said = f"prompt is too long: {tokens} tokens > {limit} maximum"
        error = {"type": "invalid_request_error", "message": said}
        self.body = {"type": "error", "error": error}
        self.tokens, self.limit = tokens, limit
        super().__init__(f"Error code: 400 - {self.body}")


def count_request(request: Json, counter: Counter) -> int:
    """The input tokens of a rendered request, of whichever dialect."""
    return sum(part.tokens for part in parts_of(request, counter))


def parts_of(request: Json, counter: Counter) -> list[RequestPart]:
    """The tools, the system prompt and each message, in the order a cache sees them."""
    return [
        RequestPart(hashlib.sha256(msgspec.json.encode(_bare(value))).digest(), tokens)
        for value, tokens in _count_parts(request, counter)
    ]


def _count_parts(request: Json, counter: Counter) -> Iterator[tuple[object, int]]:
    tools = request.get("tools")
    if tools:
        yield tools, sum(count_tool(tool, counter) for tool in read_tools(tools))
    for name in ("system", "instructions", "systemInstruction"):
        system = request.get(name)
        if system:
            blocks = read_blocks(system) if isinstance(system, str | list) else ()
            counted = sum(count_block(block, counter) for block in blocks)
            yield system, MESSAGE_TOKENS + (counted or count_json(system, counter))
    messages: Any = next((request[name] for name in _MESSAGES if name in request), [])
    messages = [{"content": messages}] if isinstance(messages, str) else messages
    for message in messages:
        yield message, MESSAGE_TOKENS + _count_message(message, counter)


def _count_message(message: Json, counter: Counter) -> int:
    content = message.get("content")
    rest = {name: one for name, one in message.items() if name not in ("role", "content", "type")}
    total = count_json(rest, counter) if rest else 0
    if isinstance(content, str):
        return total + sum(count_block(block, counter) for block in read_blocks(content))
    for block in content or ():
        if block.get("type") == "tool_result":
            answer = ToolAnswer("", read_pieces(block.get("content")))
            total += count_block(answer, counter)
        else:
            total += sum(count_block(inner, counter) for inner in read_blocks([block]))
    return total


def _bare(value: object) -> object:
    """A part without its cache marks: they move from request to request and cost nothing."""
    if isinstance(value, dict):
        return {name: _bare(item) for name, item in value.items() if name != "cache_control"}
    return [_bare(item) for item in value] if isinstance(value, list) else value


class Meter:
    """Reports usage as the target's provider would spell it."""

    def __init__(self, counter: Counter, target: Target) -> None:
        self.counter = counter
        self._target = target
        self._seen: list[tuple[RequestPart, ...]] = []

    def usage(self, request: Json, content: Sequence[Json]) -> Json:
        """Return the usage of a request and its reply, cache included."""
        parts = tuple(parts_of(request, self.counter))
        prompt = sum(part.tokens for part in parts)
        read = self._cached_tokens(parts)
        self._seen = [*self._seen, parts][-_REMEMBERED:]
        blocks = read_blocks(list(content))
        output = max(1, sum(count_block(block, self.counter) for block in blocks))
        is_cached = self._target.cache != "none" and prompt >= CACHED_TOKENS_MIN
        written = prompt - read if is_cached else 0
        counts = TokenCounts(prompt=prompt, read=read, written=written, output=output)
        return find_dialect(self._target.dialect.name).report_usage(counts)

    def _cached_tokens(self, parts: tuple[RequestPart, ...]) -> int:
        """The longest beginning shared with an earlier request."""
        if self._target.cache == "none":
            return 0
        best = 0
        for earlier in self._seen:
            shared = 0
            for part, other in zip(parts, earlier, strict=False):
                if part != other:
                    break
                shared += part.tokens
            best = max(best, shared)
        return best if best >= CACHED_TOKENS_MIN else 0
