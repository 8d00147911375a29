"""Call a provider through its official package, which is imported when it is first needed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target


NO_KEY: Final = "none"
"""Sent to a server whose address was given without a key: a key from the environment belongs to
the provider and must not reach another server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Settings of a client that we create."""

    is_async: bool = False
    base_url: str | None = None
    api_key: str | None = None
    timeout: float | None = None
    """Seconds."""

    @property
    def key(self) -> str | None:
        """The key to send, or None for the one in the environment."""
        return self.api_key or (NO_KEY if self.base_url else None)

    @property
    def settings(self) -> Json:
        """The arguments of a client of Anthropic or OpenAI; retries are left to the engine."""
        given = {"base_url": self.base_url, "api_key": self.key, "timeout": self.timeout}
        return {"max_retries": 0, **{name: it for name, it in given.items() if it is not None}}


def _never(_request: Json) -> bool:
    return False


def _no_headers(_request: Json, _target: Target) -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdk:
    """Sends requests through a provider's package."""

    connect: Callable[[ClientOptions, Target], Any]
    """Makes a client. Raises `BadSetting` where the package or the key is missing."""
    method: str
    """The client's method that answers a request: `messages.create`."""
    stream_method: str = ""
    """The method that streams, where it is another one."""
    arguments: Callable[[Json, Target, bool], Json]
    """The arguments of that method, for a request, its target, and streaming or not."""
    headers: Callable[[Json, Target], dict[str, str]] = _no_headers
    """The headers that a request is to have, with small names; a caller's own ones win."""
    must_stream: Callable[[Json], bool] = _never
    """Tells requests that the package refuses to answer in one piece."""


def as_json(value: object) -> Any:
    """Plain JSON from an SDK's object, however deep it is inside dicts and lists."""
    return msgspec.to_builtins(_dump_model(value), enc_hook=_dump_model, str_keys=True)


def is_model(value: object) -> bool:
    """Return whether a value is an SDK's object: those can be iterated over and are no streams."""
    return callable(getattr(value, "model_dump", None)) or callable(getattr(value, "to_dict", None))


def _dump_model(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        # What the provider left out stays out; SDKs keep what they do not know, and may warn of it.
        return dump(exclude_unset=True, warnings=False)
    for name in ("to_dict", "dict", "as_dict"):
        dump = getattr(value, name, None)
        if callable(dump) and not isinstance(value, type):
            return dump()
    if isinstance(value, dict | list | tuple | str | int | float | bool | bytes | None):
        return value
    return vars(value) if hasattr(value, "__dict__") else str(value)


def import_sdk(module: str, extra: str) -> Any:
    """Import a package; the error for a missing one says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise BadSetting(
            f"the package `{module}` is not installed",
            hint=f"pip install 'holdfast[{extra}]'; without it, the model `offline` works",
        ) from error


def missing_key(provider: str, variable: str) -> BadSetting:
    return BadSetting(
        f"there is no key for {provider}",
        hint=f"set {variable}, or give `api_key=`; without any key, the model `offline` works",
    )


def _no_variant(_model: str, _url: str | None) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One wire format and the package that speaks it. Limits and windows are in the catalog."""

    dialect: str
    name: str
    """As the log names the provider."""
    own_host: str = ""
    """The provider's own server, where others imitate its API; the log names those by host."""
    variant_for: Callable[[str, str | None], str] = _no_variant
    """The variant of the dialect for a model's name and the server's address, if one was given."""

    sdk: Sdk
