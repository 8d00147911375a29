"""Chat Completions as one value."""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.dialect import Dialect, StreamEnds
from holdfast.core.dialects.openai_chat.client import ChatBody, ChatItems
from holdfast.core.dialects.openai_chat.joining import ChatRounds
from holdfast.core.dialects.openai_chat.render import (
    message_writer,
    render,
    without_reasoning,
    write_head,
)
from holdfast.core.dialects.openai_chat.reply import (
    ChatAgentApi,
    ChatStream,
    is_reply,
    read,
    report_usage,
)
from holdfast.core.dialects.openai_chat.rules import RULES
from holdfast.core.dialects.openai_chat.validate import validate
from holdfast.core.dialects.openai_chat.variants import NAME, VARIANTS

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
    stream=ChatStream,
    ends=StreamEnds(is_closed_by_done=True),
    report_usage=report_usage,
    body=ChatBody(),
    items=ChatItems(),
    rounds=ChatRounds(),
    agent=ChatAgentApi(),
)
