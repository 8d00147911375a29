"""The parts of a request that a provider binds reasoning to, for each dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from holdfast.core.dialects.anthropic import render as anthropic
from holdfast.core.dialects.gemini import render as gemini
from holdfast.core.dialects.openai_chat import render as openai_chat
from holdfast.core.dialects.openai_responses import render as openai_responses

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.core.models.catalog import DialectName
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Prompt


class Writer(Protocol):
    """The parts of a request, as one dialect writes them."""

    def write_head(self, prompt: Prompt, target: Target) -> tuple[list[Json], list[Json]]:
        """Return the system prompt and the tools."""

    def write_messages(self, prompt: Prompt, target: Target) -> list[list[Json]]:
        """Return the items that each message becomes."""

    def without_reasoning(self, item: Json) -> Json | None:
        """Return an item without reasoning; None where nothing else is in it."""


_WRITERS = {
    "anthropic": anthropic,
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "gemini": gemini,
}


def writer_of(name: DialectName) -> Writer:
    """Return the writer of a dialect."""
    return cast("Writer", _WRITERS[name])
