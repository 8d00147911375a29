"""The Anthropic Messages API."""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.anthropic.render import render
from holdfast.core.dialects.anthropic.reply import AnthropicStream, is_reply, read, report_usage
from holdfast.core.dialects.anthropic.rules import RULES
from holdfast.core.dialects.anthropic.validate import validate
from holdfast.providers.anthropic.client import SDK
from holdfast.providers.provider import Provider

PROVIDER: Final = Provider(
    dialect="anthropic",
    name="anthropic",
    render=render,
    rules=RULES,
    validate=validate,
    is_reply=is_reply,
    read=read,
    stream=AnthropicStream,
    report_usage=report_usage,
    sdk=SDK,
)
