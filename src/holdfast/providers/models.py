"""Models by name: `offline`, `local:smollm2`, `anthropic:NAME`, `openai:NAME@http://host/v1`."""

from __future__ import annotations

import difflib
import functools
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.models.catalog import family_of
from holdfast.core.models.dialects import CacheTime, Target, target
from holdfast.errors import BadSetting
from holdfast.providers.callables import window_for
from holdfast.providers.clients import AsyncSdkModel, SdkModel
from holdfast.providers.sdks import anthropic_client, openai_client

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.models.window import Window
    from holdfast.ports import AsyncModel, Model
    from holdfast.providers.local import LocalModel
    from holdfast.providers.offline.model import OfflineModel

NAMES: Final = (
    "offline",
    "local:smollm2",
    "local:PATH.gguf",
    "anthropic:NAME",
    "openai:NAME",
    "openai-chat:NAME",
    "openai-responses:NAME",
)
"""What `model` understands. Behind a NAME, `@http://host/v1` names another server."""

_SDKS: Final = ("anthropic", "openai", "openai-chat", "openai-responses")
_KINDS: Final = ("offline", "local", *_SDKS)
_ADDRESS: Final = re.compile(r"(?P<name>.*?)@(?P<url>https?://.+)", re.DOTALL)
_HOST: Final = re.compile(r"https?://(?:[^@/]*@)?([^/]+)")


class Name(msgspec.Struct, frozen=True):
    """A model's name, taken apart."""

    kind: str
    name: str = ""
    base_url: str | None = None


def read_name(text: str) -> Name:
    """Take a model's name apart. Raises `BadSetting` with what exists and what comes nearest."""
    kind, colon, rest = text.strip().partition(":")
    if kind not in _KINDS:
        raise _unknown(text, kind)
    if kind == "offline":
        if colon:
            raise BadSetting(f"the model `offline` takes no name, found `{text}`", hint=_listed())
        return Name(kind)
    if kind == "local":
        return Name(kind, rest or "smollm2")
    found = _ADDRESS.fullmatch(rest)
    name, url = (found["name"], found["url"]) if found else (rest, None)
    if not name.strip():
        raise BadSetting(
            f"`{text}` names no model", hint=f"say which one: `{kind}:NAME`; {_listed()}"
        )
    return Name(kind, name, url)


def _unknown(text: str, kind: str) -> BadSetting:
    family = family_of(text)
    if family is not None and family.dialect == "gemini":
        return BadSetting(
            f"there is no client for Gemini here, asked for `{text}`",
            hint="give its SDK's call to `session.call`, or use its OpenAI-compatible address: "
            "openai-chat:NAME@https://generativelanguage.googleapis.com/v1beta/openai/",
        )
    close = difflib.get_close_matches(kind.lower(), _KINDS, n=1, cutoff=0.7)
    near = ""
    if close:
        near = text.replace(kind, close[0], 1)
    elif family is not None:
        name = text.partition(":")[2] or text
        near = f"{'anthropic' if family.dialect == 'anthropic' else 'openai'}:{name}"
    guess = f"did you mean `{near}`? " if near else ""
    return BadSetting(f"no model `{text}`", hint=f"{guess}{_listed()}")


def _listed() -> str:
    return f"models: {', '.join(NAMES)}; behind a NAME, `@http://host/v1` names a server"


def model(
    name: str,
    *,
    window: int | Window | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    client: Any = None,
    cache: CacheTime = "5m",
    thinking: bool | int = False,
    provider: str = "",
    flavour: str = "",
    output_max: int = 0,
    timeout: float | None = None,
) -> Model:
    """A model by name.

    `client` is your own SDK client; `base_url` and `api_key` are for ours, which makes no retries:
    the engine does, and counts them. `thinking` is on, off, or what it may take in tokens.
    """
    named = read_name(name)
    if named.kind == "offline":
        return _offline(window, cache)
    if named.kind == "local":
        return _local(named.name, window)
    url = base_url or named.base_url
    whom = _target(named, url, cache, thinking, provider, flavour, output_max)
    make = functools.partial(_maker(named.kind), base_url=url, api_key=api_key, timeout=timeout)
    return SdkModel(client, whom, window_for(whom, window), connect=make)


def async_model(
    name: str,
    *,
    window: int | Window | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    client: Any = None,
    cache: CacheTime = "5m",
    thinking: bool | int = False,
    provider: str = "",
    flavour: str = "",
    output_max: int = 0,
    timeout: float | None = None,
) -> AsyncModel:
    """The same for asynchronous callers."""
    named = read_name(name)
    if named.kind == "offline":
        return _offline(window, cache).as_async()
    if named.kind == "local":
        return _local(named.name, window).as_async()
    url = base_url or named.base_url
    whom = _target(named, url, cache, thinking, provider, flavour, output_max)
    make = functools.partial(
        _maker(named.kind), is_async=True, base_url=url, api_key=api_key, timeout=timeout
    )
    return AsyncSdkModel(client, whom, window_for(whom, window), connect=make)


# Each of these has much to set up, and a caller needs one of them at most.


def _offline(window: int | Window | None, cache: CacheTime) -> OfflineModel:
    from holdfast.providers.offline.model import WINDOW_TOKENS, OfflineModel

    return OfflineModel(window=WINDOW_TOKENS if window is None else window, cache=cache)


def _local(name: str, window: int | Window | None) -> LocalModel:
    from holdfast.providers.local import LocalModel

    return LocalModel(name, window=window)


def _maker(kind: str) -> Callable[..., Any]:
    return anthropic_client if kind == "anthropic" else openai_client


def _target(
    named: Name,
    url: str | None,
    cache: CacheTime,
    thinking: bool | int,
    provider: str,
    flavour: str,
    output_max: int,
) -> Target:
    dialect, known = _dialect(named, url)
    tokens = 0 if isinstance(thinking, bool) else thinking
    family = family_of(named.name)
    return target(
        dialect,
        flavour or known,
        provider=provider or _provider(named, url),
        model=named.name,
        thinking=bool(thinking),
        thinking_tokens=tokens,
        cache=cache,
        output_max=output_max or (family.output_max if family is not None else 0),
    )


def _dialect(named: Name, url: str | None) -> tuple[str, str]:
    """The dialect and, where a host has manners of its own, its flavour."""
    if named.kind != "openai" and named.kind != "openai-chat":
        return named.kind, ""
    family = family_of(named.name)
    dialect, _, flavour = (family.dialect if family else "openai-chat").partition(":")
    if named.kind == "openai" and dialect == "openai-responses" and not url:
        return dialect, ""
    if dialect != "openai-chat" and url and family and family.provider != "openai":
        flavour = "local"  # another provider's model behind an imitation
    if family is None and url:
        flavour = "local"
    return "openai-chat", flavour


def _provider(named: Name, url: str | None) -> str:
    """As the log will name it; of a server that imitates OpenAI, its host is all that is known."""
    if named.kind == "anthropic":
        return "anthropic"
    host = _HOST.match(url or "")
    if host is None or host[1] == "api.openai.com":
        return "openai"
    return host[1]
