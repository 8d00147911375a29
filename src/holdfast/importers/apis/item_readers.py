"""The items of a request as records, one by one, in each dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from holdfast.core.dialects.anthropic.variants import NAME as ANTHROPIC
from holdfast.core.dialects.gemini.variants import NAME as GEMINI
from holdfast.core.dialects.openai_chat.variants import NAME as CHAT
from holdfast.core.dialects.openai_responses.variants import NAME as RESPONSES
from holdfast.importers.apis import anthropic, chat, gemini
from holdfast.importers.apis.responses import ResponseReply

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.log.records import Json
    from holdfast.importers.common.base import Draft


class ItemReader(Protocol):
    """Carries the items of a conversation into a draft."""

    def item(self, item: Json, /) -> None:
        """Carry one item."""

    def end(self) -> None:
        """Carry what is still open: a reply may be several items."""


class _Whole:
    """Items that are a message each."""

    def __init__(self, carry: Callable[[Json], None]) -> None:
        self._carry = carry

    def item(self, item: Json, /) -> None:
        self._carry(item)

    def end(self) -> None:
        """Do nothing: no item waits for the next."""


def _anthropic(draft: Draft, provider: str, model: str) -> ItemReader:
    return _Whole(lambda it: anthropic.carry_message(draft, it, provider=provider, model=model))


def _chat(draft: Draft, provider: str, model: str) -> ItemReader:
    return _Whole(lambda it: chat.carry_message(draft, it, provider=provider, model=model or None))


def _responses(draft: Draft, provider: str, model: str) -> ItemReader:
    reply = ResponseReply(draft, provider=provider)
    reply.model = model or None
    return reply


def _gemini(draft: Draft, provider: str, model: str) -> ItemReader:
    return _Whole(
        lambda it: gemini.carry_content(
            draft, it.get("role"), it.get("parts"), provider=provider, model=model or None
        )
    )


ITEM_READERS: Final[Mapping[str, Callable[[Draft, str, str], ItemReader]]] = {
    ANTHROPIC: _anthropic,
    CHAT: _chat,
    RESPONSES: _responses,
    GEMINI: _gemini,
}
"""By dialect: a reader for a draft, a provider and a model."""
