"""The Gemini API."""

from __future__ import annotations

from typing import Final

from holdfast.providers.gemini.client import SDK
from holdfast.providers.gemini.render import render
from holdfast.providers.gemini.reply import GeminiStream, is_reply, read, report_usage
from holdfast.providers.gemini.rules import RULES
from holdfast.providers.gemini.validate import validate
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
