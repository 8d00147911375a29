"""The Messages API as one value."""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.anthropic.client import AnthropicBody, AnthropicItems
from holdfast.core.dialects.anthropic.joining import AnthropicRounds
from holdfast.core.dialects.anthropic.render import (
    message_writer,
    render,
    without_reasoning,
    write_head,
)
from holdfast.core.dialects.anthropic.reply import (
    AnthropicAgentApi,
    AnthropicStream,
    is_reply,
    read,
    report_usage,
)
from holdfast.core.dialects.anthropic.rules import RULES
from holdfast.core.dialects.anthropic.validate import validate
from holdfast.core.dialects.anthropic.variants import NAME, VARIANTS
from holdfast.core.dialects.dialect import Dialect, StreamEnds

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
    stream=AnthropicStream,
    ends=StreamEnds(openings=("message_start",), has_last_event=True),
    report_usage=report_usage,
    body=AnthropicBody(),
    items=AnthropicItems(),
    rounds=AnthropicRounds(),
    agent=AnthropicAgentApi(),
)
