"""The limits of Chat Completions at OpenAI, and at hosts that imitate it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.core.models.dialects import DialectVariant, ReasoningPolicy

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


NAME: Final = "openai-chat"

_OWN: Final = DialectVariant(
    name=NAME,
    variant="openai",
    body_bytes=50_000_000,
    images_max=500,
    string_chars=1_048_576,
    tools_max=128,
    messages_max=2_048,
    call_id_chars=40,
    replays_thinking=False,
    reasoning=DETAILED,
)
_MISTRAL: Final = replace(
    _OWN,
    variant="mistral",
    is_host=True,
    images_max=8,
    image_bytes=10_000_000,
    call_id_pattern="[a-zA-Z0-9]{9}",
    call_id_chars=9,
)
_DEEPSEEK: Final = replace(
    _OWN, variant="deepseek", is_host=True, images_max=0, string_chars=0, replays_thinking=True
)
_KIMI: Final = replace(
    _OWN,
    variant="kimi",
    is_host=True,
    call_id_pattern="[a-zA-Z0-9_.:-]+",
    call_id_chars=64,
    replays_thinking=True,
)
_LOCAL: Final = replace(_OWN, variant="local", is_host=True, string_chars=0)

VARIANTS: Final = (_OWN, _MISTRAL, _DEEPSEEK, _KIMI, _LOCAL)
"""The provider's own first."""
