"""The limits of the Responses API."""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.openai_responses.reasoning import ENCRYPTED_ITEMS
from holdfast.core.models.dialects import DialectVariant

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
