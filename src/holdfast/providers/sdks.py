"""Clients of the official SDKs. They are heavy to import, so nobody does before one is needed."""

from __future__ import annotations

import importlib
from typing import Any, Final

from holdfast.errors import BadSetting

NO_KEY: Final = "none"
"""Sent to a server whose address was given without a key: a key from the environment is the
provider's, and no business of anybody else's."""


def anthropic_client(
    *,
    is_async: bool = False,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout: float | None = None,
) -> Any:
    """A client of Anthropic's SDK that leaves retries to the engine."""
    sdk = _imported("anthropic")
    make = sdk.AsyncAnthropic if is_async else sdk.Anthropic
    try:
        client = make(**_settings(base_url, api_key, timeout))
    except sdk.AnthropicError as error:  # a profile that was asked for and is not there
        raise _no_key("Anthropic", "ANTHROPIC_API_KEY") from error
    has_key = client.api_key or client.auth_token or getattr(client, "credentials", None)
    if not has_key:
        raise _no_key("Anthropic", "ANTHROPIC_API_KEY")
    return client


def openai_client(
    *,
    is_async: bool = False,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout: float | None = None,
) -> Any:
    """A client of OpenAI's SDK that leaves retries to the engine."""
    sdk = _imported("openai")
    make = sdk.AsyncOpenAI if is_async else sdk.OpenAI
    try:
        return make(**_settings(base_url, api_key, timeout))
    except sdk.OpenAIError as error:
        if "api_key" not in str(error) and "credential" not in str(error).lower():
            raise
        raise _no_key("OpenAI", "OPENAI_API_KEY") from error


def _settings(base_url: str | None, api_key: str | None, timeout: float | None) -> dict[str, Any]:
    key = api_key or (NO_KEY if base_url else None)
    given = {"base_url": base_url, "api_key": key, "timeout": timeout}
    kept = {name: value for name, value in given.items() if value is not None}
    return {"max_retries": 0, **kept}


def _no_key(provider: str, variable: str) -> BadSetting:
    return BadSetting(
        f"there is no key for {provider}",
        hint=f"set {variable}, or give `api_key=`; without any key, the model `offline` works",
    )


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BadSetting(
            f"the package `{name}` is not installed",
            hint=f"pip install 'holdfast[{name}]'; without it, the model `offline` works",
        ) from error
