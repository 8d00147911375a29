"""The limits of the Messages API at Anthropic, and at Bedrock."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.core.dialects.anthropic.reasoning import SIGNED
from holdfast.core.models.dialects import DialectVariant

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
