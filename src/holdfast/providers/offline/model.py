"""A model that needs no key and no network, and does not pretend to be one that thinks.

It runs the calls that a message spells out, reports what came back, quotes the conversation when
it is asked about it, and says so when it does not know. Summaries and notes
are sentences that were said. The same request gives the same reply.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.registry import target
from holdfast.core.models.replies import Delta, Reply
from holdfast.core.window import as_window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import CacheTime, Target
    from holdfast.core.tokens.counting import Counter
    from holdfast.core.window import StatedWindow
    from holdfast.ports import OnDelta
    from holdfast.providers.offline.measuring import Meter

NAME: Final = "offline"
WINDOW_TOKENS: Final = 32_000
"""Small enough to watch a session outgrow it."""


class OfflineModel:
    """Reads its own request and answers by rules. Refuses what is larger than its window."""

    def __init__(
        self, *, window: StatedWindow = WINDOW_TOKENS, cache: CacheTime = "auto", name: str = NAME
    ) -> None:
        self.target: Target = target("anthropic", provider="holdfast", model=name, cache=cache)
        self.window = as_window(window, "offline model")

    @functools.cached_property
    def _meter(self) -> Meter:
        """Counts requests and replies."""
        from holdfast.providers.offline.measuring import Meter
        from holdfast.providers.tokenizers import counter_for

        return Meter(counter_for(self.target.model), self.target)

    def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        from holdfast.providers.offline.answers import answer_request
        from holdfast.providers.offline.measuring import PromptTooLong, count_request

        counter = self._meter.counter
        tokens = count_request(request, counter)
        if tokens > self.window.tokens:
            raise PromptTooLong(tokens, self.window.tokens)
        content = answer_request(request, counter)
        is_tools = any(block["type"] == "tool_use" for block in content)
        reply = Reply(
            content=content,
            stop="tools" if is_tools else "end",
            stop_reason="tool_use" if is_tools else "end_turn",
            raw_usage=self._meter.usage(request, content),
            provider=self.target.provider,
            model=self.target.model,
        )
        reply = _within(reply, request, counter)
        return reply if on_delta is None else _stream_reply(reply, on_delta)

    def as_async(self) -> AsyncOfflineModel:
        """The same model for asynchronous callers."""
        return AsyncOfflineModel(self)


class AsyncOfflineModel:
    """The same, awaited. It reads its request in a thread: the event loop serves others."""

    def __init__(self, model: OfflineModel) -> None:
        self._model = model
        self.target = model.target
        self.window = model.window

    async def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        import asyncio  # here: a blocking session needs no event loop

        reply = await asyncio.to_thread(self._model.send, request)
        return reply if on_delta is None else _stream_reply(reply, on_delta)


def _within(reply: Reply, request: Json, counter: Counter) -> Reply:
    """The reply within its output cap: like a model, it stops in the middle of a word."""
    limit = request.get("max_tokens")
    text = reply.text
    if not isinstance(limit, int) or reply.stop == "tools" or counter.count(text) <= limit:
        return reply
    while text and counter.count(text) > limit:
        text = text[: len(text) * 9 // 10]
    return msgspec.structs.replace(
        reply,
        content=[{"type": "text", "text": text}] if text else [],
        stop="length",
        stop_reason="max_tokens",
    )


def _stream_reply(reply: Reply, on_delta: OnDelta) -> Reply:
    told: list[Json] = []
    try:
        for block in reply.content:
            if block["type"] == "tool_use":
                on_delta(Delta("call", block["name"]))
                told.append(block)
                continue
            told.append({"type": "text", "text": ""})
            for piece in _words(block["text"]):
                told[-1] = {"type": "text", "text": told[-1]["text"] + piece}
                on_delta(Delta("text", piece))
    except BaseException as error:
        from holdfast.providers.replies import keep_partial

        keep_partial(error, msgspec.structs.replace(reply, content=told, stop="other"))
        raise
    return reply


def _words(text: str) -> Iterator[str]:
    return (match[0] for match in re.finditer(r"(?<!\s)\s*+\S++(?:\s*+$)?", text))
