"""Chat Completions of OpenAI and of the servers that imitate it."""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.openai_chat.variants import NAME
from holdfast.providers.openai_chat.client import SDK, variant_for
from holdfast.providers.provider import Provider

PROVIDER: Final = Provider(
    dialect=NAME,
    name="openai",
    own_host="api.openai.com",
    variant_for=variant_for,
    sdk=SDK,
)
