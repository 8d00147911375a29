"""The Responses API of OpenAI."""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.openai_responses.render import render
from holdfast.core.dialects.openai_responses.reply import (
    ResponsesStream,
    is_reply,
    read,
    report_usage,
)
from holdfast.core.dialects.openai_responses.rules import RULES
from holdfast.core.dialects.openai_responses.validate import validate
from holdfast.providers.openai_responses.client import SDK
from holdfast.providers.provider import Provider

PROVIDER: Final = Provider(
    dialect="openai-responses",
    name="openai",
    own_host="api.openai.com",
    render=render,
    rules=RULES,
    validate=validate,
    is_reply=is_reply,
    read=read,
    stream=ResponsesStream,
    report_usage=report_usage,
    sdk=SDK,
)
