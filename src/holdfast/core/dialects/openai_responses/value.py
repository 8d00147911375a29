"""The Responses API as one value."""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.dialect import Dialect, StreamEnds
from holdfast.core.dialects.openai_responses.client import ResponsesBody, ResponsesItems
from holdfast.core.dialects.openai_responses.joining import ResponsesRounds
from holdfast.core.dialects.openai_responses.render import (
    message_writer,
    render,
    without_reasoning,
    write_head,
)
from holdfast.core.dialects.openai_responses.reply import (
    ResponsesAgentApi,
    ResponsesStream,
    is_reply,
    read,
    report_usage,
)
from holdfast.core.dialects.openai_responses.rules import RULES
from holdfast.core.dialects.openai_responses.validate import validate
from holdfast.core.dialects.openai_responses.variants import NAME, VARIANTS

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
    stream=ResponsesStream,
    ends=StreamEnds(openings=("response.created", "response.in_progress"), has_last_event=True),
    report_usage=report_usage,
    body=ResponsesBody(),
    items=ResponsesItems(),
    rounds=ResponsesRounds(),
    agent=ResponsesAgentApi(),
)
