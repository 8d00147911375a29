"""The Gemini API."""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.gemini.variants import NAME
from holdfast.providers.gemini.client import SDK
from holdfast.providers.provider import Provider

PROVIDER: Final = Provider(
    dialect=NAME,
    name="google",
    sdk=SDK,
)
