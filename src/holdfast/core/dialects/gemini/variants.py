"""The limits of the Gemini API, and of Vertex."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.core.models.dialects import DialectVariant

NAME: Final = "gemini"

_OWN: Final = DialectVariant(
    name=NAME,
    variant="gemini",
    body_bytes=20 * 1024 * 1024,
    images_max=3_600,
    image_types=("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"),
    call_id_pattern=r"[^\s\x00-\x1f]+",
    call_id_chars=128,
    names_start_with_letter=True,
)
_VERTEX: Final = replace(_OWN, variant="vertex", is_host=True)

VARIANTS: Final = (_OWN, _VERTEX)
"""The provider's own first."""
