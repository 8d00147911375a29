"""The Anthropic Messages API."""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.anthropic.variants import NAME
from holdfast.providers.anthropic.client import SDK
from holdfast.providers.provider import Provider

PROVIDER: Final = Provider(
    dialect=NAME,
    name="anthropic",
    sdk=SDK,
)
