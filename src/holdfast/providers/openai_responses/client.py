"""The Responses API through OpenAI's package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.providers.openai_chat.client import connect
from holdfast.providers.sdk import Sdk

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target


def _arguments(request: Json, _target: Target, streams: bool) -> Json:
    return {**request, "stream": True} if streams else request


SDK: Final = Sdk(connect=connect, method="responses.create", arguments=_arguments)
