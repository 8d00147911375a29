"""The limits of the Messages API at Anthropic, and at Bedrock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.core.models.dialects import DialectVariant, ReasoningPolicy, is_signature

if TYPE_CHECKING:
    from holdfast.core.models.messages import Thinking


@dataclass(frozen=True, slots=True)
class SignedReasoning(ReasoningPolicy):
    """A text with its signature, or a redacted block."""

    def _is_readable(self, thinking: Thinking, *, is_ours: bool) -> bool:
        # Some tools keep the signature of a text they threw away; that counts as modified. Where
        # the API itself left the text out, the block is whole.
        is_signed = is_signature(thinking.signature) and (is_ours or bool(thinking.text))
        return bool(thinking.redacted) or is_signed


SIGNED: Final = SignedReasoning()


NAME: Final = "anthropic"

_OWN: Final = DialectVariant(
    name=NAME,
    variant="anthropic",
    body_bytes=32_000_000,
    images_max=100,
    image_bytes=5 * 1024 * 1024,
    image_pixels=8_000,
    many_images=20,
    many_image_pixels=2_000,
    pdf_pages=100,
    pdf_window=200_000,
    call_id_chars=128,
    tool_name_chars=128,
    cache_marks=4,
    cache_lookback=20,
    reasoning=SIGNED,
)
_BEDROCK: Final = replace(
    _OWN,
    variant="bedrock",
    is_host=True,
    body_bytes=20_000_000,
    images_max=20,
    image_bytes=3_932_160,
    call_id_chars=64,
    tool_name_chars=64,
)

VARIANTS: Final = (_OWN, _BEDROCK)
"""The provider's own first."""
