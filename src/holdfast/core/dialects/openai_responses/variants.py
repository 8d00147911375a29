"""The limits of the Responses API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.core.models.dialects import DialectVariant, ReasoningPolicy

if TYPE_CHECKING:
    from holdfast.core.models.messages import Thinking


@dataclass(frozen=True, slots=True)
class EncryptedReasoning(ReasoningPolicy):
    """Nothing is stored on the server, so an item without its content cannot be found."""

    def _is_readable(self, thinking: Thinking, *, is_ours: bool) -> bool:
        del is_ours
        item = thinking.item or {}
        parts = (item.get("id"), item.get("encrypted_content"))
        return all(isinstance(part, str) and part for part in parts)


ENCRYPTED_ITEMS: Final = EncryptedReasoning()


NAME: Final = "openai-responses"

_OWN: Final = DialectVariant(
    name=NAME,
    variant="openai",
    body_bytes=50_000_000,
    images_max=500,
    string_chars=10_485_760,
    tools_max=128,
    call_id_chars=64,
    reasoning=ENCRYPTED_ITEMS,
)

VARIANTS: Final = (_OWN,)
"""The provider's own first."""
