"""The reasoning that goes back to the Messages API: signed blocks, and redacted ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.core.models.reasoning import ReasoningPolicy, is_signature

if TYPE_CHECKING:
    from holdfast.core.models.messages import Thinking


@dataclass(frozen=True, slots=True)
class SignedReasoning(ReasoningPolicy):
    """A text with its signature, or a redacted block."""

    def _is_readable(self, thinking: Thinking, *, is_ours: bool) -> bool:
        # Some tools keep the signature of a text they threw away; that counts as modified.
        is_signed = is_signature(thinking.signature) and (is_ours or bool(thinking.text))
        return bool(thinking.redacted) or is_signed


SIGNED: Final = SignedReasoning()
