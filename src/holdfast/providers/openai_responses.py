"""The Responses API of OpenAI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.openai_responses.variants import NAME
from holdfast.providers.openai_chat import connect
from holdfast.providers.sdk import Provider, Sdk

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target


def _arguments(request: Json, _target: Target, streams: bool) -> Json:
    return {**request, "stream": True} if streams else request


PROVIDER: Final = Provider(
    dialect=NAME,
    name="openai",
    own_host="api.openai.com",
    sdk=Sdk(connect=connect, method="responses.create", arguments=_arguments),
)
