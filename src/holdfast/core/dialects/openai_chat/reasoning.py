"""The reasoning that goes back to Chat Completions: as text, or as the details of a host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.core.models.reasoning import ReasoningPolicy

if TYPE_CHECKING:
    from holdfast.core.models.messages import Thinking

DETAILS: Final = "reasoning_details"
"""The field in which a host that leads to many makers gives their reasoning, signed."""


@dataclass(frozen=True, slots=True)
class DetailedReasoning(ReasoningPolicy):
    """A text, or details, which are whole as they came."""

    def _is_readable(self, thinking: Thinking, *, is_ours: bool) -> bool:
        del is_ours
        return bool(thinking.text) or thinking.item is not None


DETAILED: Final = DetailedReasoning()
