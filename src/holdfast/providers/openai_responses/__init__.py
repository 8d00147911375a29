"""The Responses API of OpenAI."""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.openai_responses.variants import NAME
from holdfast.providers.openai_responses.client import SDK
from holdfast.providers.provider import Provider

PROVIDER: Final = Provider(
    dialect=NAME,
    name="openai",
    own_host="api.openai.com",
    sdk=SDK,
)
