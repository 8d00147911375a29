"""The Anthropic Messages API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects.anthropic.variants import NAME
from holdfast.core.models.generation import traits_of
from holdfast.providers.sdk import ClientOptions, Provider, Sdk, import_sdk, missing_key

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target


REPORT_BETA: Final = "thinking-binding-controls-2026-08-01"
TOOLS_BETA: Final = "inline-tools-2026-09-15"
WHOLE_TOKENS_MAX: Final = 8_000
"""The package refuses to wait for a longer reply without streaming it."""


def _connect(options: ClientOptions, target: Target) -> Any:
    sdk = import_sdk("anthropic", "anthropic")
    make = sdk.AsyncAnthropic if options.is_async else sdk.Anthropic
    try:
        client = make(**options.settings, default_headers=_headers(target))
    except sdk.AnthropicError as error:  # a profile that was asked for and is not there
        raise missing_key("Anthropic", "ANTHROPIC_API_KEY") from error
    has_key = client.api_key or client.auth_token or getattr(client, "credentials", None)
    if not has_key:
        raise missing_key("Anthropic", "ANTHROPIC_API_KEY")
    return client


def _headers(target: Target) -> dict[str, str]:
    """Ask for a report of reasoning that is not accepted, of models that check it. The header alone
    changes nothing but the reply."""
    traits = traits_of(target.provider, target.model)
    is_asked = traits.is_bound and traits.endpoint == "messages" and not traits.platform
    return {"anthropic-beta": REPORT_BETA} if is_asked else {}


def _request_headers(request: Json, _target: Target) -> dict[str, str]:
    """Tools that are defined amid the conversation are a beta feature."""
    adds = any(
        message.get("role") == "system"
        and any(block.get("type") == "tool_addition" for block in message["content"])
        for message in request["messages"]
    )
    return {"anthropic-beta": TOOLS_BETA} if adds else {}


def _arguments(request: Json, target: Target, streams: bool) -> Json:
    """Bedrock's client wants the model, and sets its version itself."""
    given = {name: value for name, value in request.items() if name != "anthropic_version"}
    if target.model:
        given.setdefault("model", target.model)
    return {**given, **({"stream": True} if streams else {})}


def _must_stream(request: Json) -> bool:
    wanted = request.get("max_tokens")
    return isinstance(wanted, int) and wanted > WHOLE_TOKENS_MAX


PROVIDER: Final = Provider(
    dialect=NAME,
    name="anthropic",
    sdk=Sdk(
        connect=_connect,
        method="messages.create",
        arguments=_arguments,
        headers=_request_headers,
        must_stream=_must_stream,
    ),
)
