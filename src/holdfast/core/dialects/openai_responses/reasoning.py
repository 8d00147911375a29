"""The reasoning that goes back to the Responses API: items with their encrypted content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.core.models.reasoning import ReasoningPolicy

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
