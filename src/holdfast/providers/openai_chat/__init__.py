"""Chat Completions of OpenAI and of the servers that imitate it."""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.openai_chat.render import render
from holdfast.core.dialects.openai_chat.reply import ChatStream, is_reply, read, report_usage
from holdfast.core.dialects.openai_chat.rules import RULES
from holdfast.core.dialects.openai_chat.validate import validate
from holdfast.providers.openai_chat.client import SDK, variant_for
from holdfast.providers.provider import Provider

PROVIDER: Final = Provider(
    dialect="openai-chat",
    name="openai",
    own_host="api.openai.com",
    variant_for=variant_for,
    render=render,
    rules=RULES,
    validate=validate,
    is_reply=is_reply,
    read=read,
    stream=ChatStream,
    report_usage=report_usage,
    sdk=SDK,
)
