"""The Gemini API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects.gemini.variants import NAME
from holdfast.providers.sdk import ClientOptions, Provider, Sdk, import_sdk, missing_key

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target


def _connect(options: ClientOptions, target: Target) -> Any:
    """A client that leaves retries to the engine."""
    sdk = import_sdk("google.genai", "gemini")
    http: Json = {"retry_options": {"attempts": 1}}
    if options.base_url:
        http["base_url"] = options.base_url
    if options.timeout is not None:
        http["timeout"] = round(options.timeout * 1_000)
    try:
        client = sdk.Client(
            vertexai=target.variant == "vertex", api_key=options.key, http_options=http
        )
    except ValueError as error:
        if "key" not in str(error).lower():
            raise
        raise missing_key("Gemini", "GEMINI_API_KEY") from error
    return client.aio if options.is_async else client


def _arguments(request: Json, target: Target, _streams: bool) -> Json:
    """The package has one flat `config` for everything but the contents."""
    settings = {name: value for name, value in request.items() if name != "contents"}
    config = {**settings.pop("generationConfig", {}), **settings}
    return {"model": target.model, "contents": request["contents"], "config": config}


PROVIDER: Final = Provider(
    dialect=NAME,
    name="google",
    sdk=Sdk(
        connect=_connect,
        method="models.generate_content",
        stream_method="models.generate_content_stream",
        arguments=_arguments,
    ),
)
