"""The Gemini API as one value."""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.dialect import Dialect, StreamEnds
from holdfast.core.dialects.gemini.client import GeminiBody, GeminiItems
from holdfast.core.dialects.gemini.joining import GeminiRounds
from holdfast.core.dialects.gemini.render import (
    message_writer,
    render,
    without_reasoning,
    write_head,
)
from holdfast.core.dialects.gemini.reply import (
    GeminiAgentApi,
    GeminiStream,
    is_reply,
    read,
    report_usage,
)
from holdfast.core.dialects.gemini.rules import RULES
from holdfast.core.dialects.gemini.validate import validate
from holdfast.core.dialects.gemini.variants import NAME, VARIANTS

DIALECT: Final = Dialect(
    name=NAME,
    render=render,
    write_head=write_head,
    message_writer=message_writer,
    without_reasoning=without_reasoning,
    rules=RULES,
    validate=validate,
    reasoning=VARIANTS[0].reasoning,
    is_reply=is_reply,
    read=read,
    stream=GeminiStream,
    ends=StreamEnds(),
    report_usage=report_usage,
    body=GeminiBody(),
    items=GeminiItems(),
    rounds=GeminiRounds(),
    agent=GeminiAgentApi(),
)
