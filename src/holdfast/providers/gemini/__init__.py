"""The Gemini API."""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.gemini.render import render
from holdfast.core.dialects.gemini.reply import GeminiStream, is_reply, read, report_usage
from holdfast.core.dialects.gemini.rules import RULES
from holdfast.core.dialects.gemini.validate import validate
from holdfast.providers.gemini.client import SDK
from holdfast.providers.provider import Provider

PROVIDER: Final = Provider(
    dialect="gemini",
    name="google",
    render=render,
    rules=RULES,
    validate=validate,
    is_reply=is_reply,
    read=read,
    stream=GeminiStream,
    report_usage=report_usage,
    sdk=SDK,
)
