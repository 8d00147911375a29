"""Chat Completions of OpenAI and of the servers that imitate it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects.openai_chat.variants import NAME
from holdfast.core.models.catalog import family_of
from holdfast.core.models.generation import traits_of
from holdfast.providers.sdk import ClientOptions, Provider, Sdk, import_sdk, missing_key

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target


_CACHE_KEY: Final = "prompt_cache_key"


def connect(options: ClientOptions, _target: Target) -> Any:
    sdk = import_sdk("openai", "openai")
    make = sdk.AsyncOpenAI if options.is_async else sdk.OpenAI
    try:
        return make(**options.settings)
    except sdk.OpenAIError as error:
        if "api_key" not in str(error) and "credential" not in str(error).lower():
            raise
        raise missing_key("OpenAI", "OPENAI_API_KEY") from error


def _arguments(request: Json, target: Target, streams: bool) -> Json:
    if _cache_headers(request, target):
        request = {name: value for name, value in request.items() if name != _CACHE_KEY}
    if not streams:
        return request
    # Mistral refuses the option, and reports usage without it.
    usage = {} if target.variant == "mistral" else {"stream_options": {"include_usage": True}}
    return {**usage, **request, "stream": True}


def _cache_headers(request: Json, target: Target) -> dict[str, str]:
    """The request's cache key as a header, for a host that reads it only there."""
    header = traits_of(target.provider, target.model).cache_key_header
    return {header: request[_CACHE_KEY]} if header and _CACHE_KEY in request else {}


def variant_for(model: str, url: str | None) -> str:
    """The quirks of a server: those of the model's family, or those of a chat template."""
    family = family_of(model)
    dialect, _, variant = (family.dialect if family else "").partition(":")
    if dialect == NAME:
        return variant
    is_ours = family is not None and family.provider == "openai"
    return "local" if url and not is_ours else ""


PROVIDER: Final = Provider(
    dialect=NAME,
    name="openai",
    own_host="api.openai.com",
    variant_for=variant_for,
    sdk=Sdk(
        connect=connect,
        method="chat.completions.create",
        arguments=_arguments,
        headers=_cache_headers,
    ),
)
