"""A model's answer, in no provider's dialect."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.core.log.records import Json, text_of
from holdfast.core.models.messages import ToolCall, read_blocks
from holdfast.core.models.usage import Usage, read_usage

Stop = Literal[
    "end", "tools", "length", "window", "refusal", "cancelled", "steps", "approval", "other"
]
"""Why a reply ended: it was done; it calls tools; its output cap; the model's window; the model or
a filter declined; the user; the limit on steps; a call waits for approval; something else."""


DeltaKind = Literal["text", "thinking", "call"]


class Delta(msgspec.Struct, frozen=True):
    """A piece of a reply while it is being written."""

    kind: DeltaKind
    """Text of the reply, of its thinking, or a call of a tool."""
    text: str
    """New text; for a call, the name of its tool, once."""


class ReasoningReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """A block of reasoning that was in the request and that the provider found to be another."""

    path: str
    """Its place in the request."""
    reason: str
    """The provider's reason: `prefix_binding_mismatch`, `model_binding_mismatch` and so on."""
    is_dropped: bool = True
    """True if the model did not see it; False if it did, because the account is not held to it."""

    @property
    def is_ours(self) -> bool:
        """True if the conversation before the block is another one: no model or account was
        changed."""
        return self.reason == "prefix_binding_mismatch"


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answer to one request."""

    content: list[Json]
    """Blocks as the log stores them: `text`, `thinking`, `tool_use` and what only its provider
    knows."""
    stop: Stop = "end"
    """Why it ended, in the same words for every provider."""
    stop_reason: str = ""
    """In the provider's own words."""
    raw_usage: Json | None = None
    """The report of the provider, in its own words; `usage` means the same for every provider."""
    provider: str = ""
    """The provider that was called."""
    model: str = ""
    """The model that answered, as the provider names it."""
    reasoning: tuple[ReasoningReport, ...] = ()
    """Reasoning in the request that the provider did not accept as it was."""
    cache_miss: str = ""
    """The change that kept the request from the prompt cache, in the provider's word; empty where
    none was reported."""
    raw: Any = None
    """The client's own return value."""
    extra: Json = {}
    """More fields for its record."""
    record: str = ""
    """Its record in the log, once it is there."""

    @property
    def text(self) -> str:
        return text_of(self.content)

    @property
    def usage(self) -> Usage | None:
        """The tokens of the call, with one meaning for every provider; None where nothing usable
        was reported."""
        return read_usage(self.raw_usage, self.provider)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools it asks for."""
        blocks = read_blocks(self.content)
        return tuple(block for block in blocks if isinstance(block, ToolCall))
