"""Models by name: `offline`, `local:smollm2`, `anthropic:NAME`, `openai:NAME@http://host/v1`,
`cli:claude`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from holdfast.core.dialects.registry import target
from holdfast.core.models.catalog import family_of
from holdfast.core.models.dialects import CacheTime, Target
from holdfast.core.models.generation import traits_of
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import BadSetting
from holdfast.providers.registry import PREFIXES, find_provider

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.failures.classify import Rule
    from holdfast.core.models.dialects import CacheTime, Target
    from holdfast.core.models.prices import Price
    from holdfast.core.window import GivenWindow
    from holdfast.ports import AsyncModel, Model
    from holdfast.providers.command_line.model import CommandLineModel
    from holdfast.providers.local import LocalModel
    from holdfast.providers.offline.model import OfflineModel

T = TypeVar("T")
NAMES: Final = (
    *("offline", "local:smollm2", "local:PATH.gguf", "cli:claude", "cli:codex", "cli:COMMAND"),
    *(f"{prefix}:NAME" for prefix in sorted(PREFIXES)),
)
"""The names that `model` takes. Behind a NAME, `@http://host/v1` names another server."""

_KINDS: Final = ("offline", "local", "cli", *PREFIXES)
_ADDRESS: Final = lazy_pattern(r"(?P<name>.*?)@(?P<url>https?://.+)", re.DOTALL)
_HOST: Final = lazy_pattern(r"https?://(?:[^@/]*@)?([^/]+)")


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
            raise BadSetting(
                f"the model `offline` takes no name, found `{text}`", hint=_list_names()
            )
        return Name(kind)
    if kind == "local":
        return Name(kind, rest or "smollm2")
    if kind == "cli" and rest.strip():
        return Name(kind, rest)
    found = _ADDRESS.fullmatch(rest)
    name, url = (found["name"], found["url"]) if found else (rest, None)
    if not name.strip():
        raise BadSetting(
            f"`{text}` names no model", hint=f"say which one: `{kind}:NAME`; {_list_names()}"
        )
    return Name(kind, name, url)


def _unknown(text: str, kind: str) -> BadSetting:
    family = family_of(text)
    import difflib

    close = difflib.get_close_matches(kind.lower(), _KINDS, n=1, cutoff=0.7)
    near = ""
    if close:
        near = text.replace(kind, close[0], 1)
    elif family is not None:
        dialect = family.dialect.partition(":")[0]
        prefix = min((known for known, meant in PREFIXES.items() if dialect in meant), key=len)
        near = f"{prefix}:{text.partition(':')[2] or text}"
    guess = f"did you mean `{near}`? " if near else ""
    return BadSetting(f"no model `{text}`", hint=f"{guess}{_list_names()}")


def _list_names() -> str:
    return f"models: {', '.join(NAMES)}; behind a NAME, `@http://host/v1` names a server"


def model(
    name: str,
    *,
    window: GivenWindow = None,
    base_url: str | None = None,
    api_key: str | None = None,
    client: Any = None,
    cache: CacheTime = "auto",
    thinking: bool | int = False,
    provider: str = "",
    variant: str = "",
    output_max: int = 0,
    timeout: float | None = None,
    price: Price | None = None,
    rules: Sequence[Rule] = (),
) -> Model:
    """A model by name.

    `client` is your own SDK client; `base_url` and `api_key` are for ours, which makes no retries:
    the engine does, and counts them. `thinking` is on, off, or what it may take in tokens. Without
    a `price` it is the list price. Your own `rules` for classifying failures come before ours.
    """
    named = read_name(name)
    if named.kind == "offline":
        return _with_facts(_offline(window, cache), price, rules)
    if named.kind == "local":
        return _with_facts(_local(named.name, window), price, rules)
    if named.kind == "cli":
        return _with_facts(_command_line(named.name, window, timeout), price, rules)
    from holdfast.providers.callables import window_for
    from holdfast.providers.clients import SdkModel
    from holdfast.providers.sdk import ClientOptions

    url = base_url or named.base_url
    options = ClientOptions(base_url=url, api_key=api_key, timeout=timeout)
    whom = _target(named, url, cache, thinking, provider, variant, output_max)
    return _with_facts(SdkModel(client, whom, window_for(whom, window), options), price, rules)


def async_model(
    name: str,
    *,
    window: GivenWindow = None,
    base_url: str | None = None,
    api_key: str | None = None,
    client: Any = None,
    cache: CacheTime = "auto",
    thinking: bool | int = False,
    provider: str = "",
    variant: str = "",
    output_max: int = 0,
    timeout: float | None = None,
    price: Price | None = None,
    rules: Sequence[Rule] = (),
) -> AsyncModel:
    """The same for asynchronous callers."""
    named = read_name(name)
    if named.kind == "offline":
        return _with_facts(_offline(window, cache).as_async(), price, rules)
    if named.kind == "local":
        return _with_facts(_local(named.name, window).as_async(), price, rules)
    if named.kind == "cli":
        return _with_facts(_command_line(named.name, window, timeout).as_async(), price, rules)
    from holdfast.providers.callables import window_for
    from holdfast.providers.clients import AsyncSdkModel
    from holdfast.providers.sdk import ClientOptions

    url = base_url or named.base_url
    options = ClientOptions(is_async=True, base_url=url, api_key=api_key, timeout=timeout)
    whom = _target(named, url, cache, thinking, provider, variant, output_max)
    made = AsyncSdkModel(client, whom, window_for(whom, window), options)
    return _with_facts(made, price, rules)


# Each of these has much to set up, and a caller needs one of them at most.


def _with_facts(made: T, price: Price | None, rules: Sequence[Rule]) -> T:
    """Give a model what its caller states of it; a session reads it there."""
    stated: Any = made
    if price is not None:
        stated.price = price
    if rules:
        stated.rules = tuple(rules)
    return made


def _offline(window: GivenWindow, cache: CacheTime) -> OfflineModel:
    from holdfast.providers.offline.model import WINDOW_TOKENS, OfflineModel

    return OfflineModel(window=WINDOW_TOKENS if window is None else window, cache=cache)


def _local(name: str, window: GivenWindow) -> LocalModel:
    from holdfast.providers.local import LocalModel

    return LocalModel(name, window=window)


def _command_line(command: str, window: GivenWindow, timeout: float | None) -> CommandLineModel:
    from holdfast.providers.command_line.model import CommandLineModel

    return CommandLineModel(command, window=window, timeout=timeout)


def _target(
    named: Name,
    url: str | None,
    cache: CacheTime,
    thinking: bool | int,
    provider: str,
    variant: str,
    output_max: int,
) -> Target:
    family = family_of(named.name)
    dialect, *others = PREFIXES[named.kind]
    if others and not url and traits_of("", named.name).endpoint == "responses":
        dialect = others[0]
    found = find_provider(dialect)
    host = _HOST.match(url or "")
    is_imitation = found.own_host and host is not None and host[1] != found.own_host
    return target(
        dialect,
        variant or found.variant_for(named.name, url),
        provider=provider or (host[1] if host and is_imitation else found.name),
        model=named.name,
        thinking=bool(thinking),
        thinking_tokens=0 if isinstance(thinking, bool) else thinking,
        cache=cache,
        output_max=output_max or (family.output_max if family is not None else 0),
    )
