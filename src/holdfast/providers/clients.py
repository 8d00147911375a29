"""Models over the official SDKs, or over any client with their methods.

What the SDK raises passes through untouched: the engine names failures, retries and counts.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.models.generation import traits_of
from holdfast.errors import BadSetting
from holdfast.providers.registry import find_provider
from holdfast.providers.replies import read_reply, read_reply_async
from holdfast.providers.sdk import ClientOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.replies import Reply
    from holdfast.core.window import Window
    from holdfast.ports import OnDelta


_LISTS: Final = frozenset({"anthropic-beta"})
"""Headers whose values are lists: what a request needs is added to what the client sends."""
_PLATFORMS: Final = ("Bedrock", "Vertex", "Foundry", "Azure", "AWS")


def _is_platform(client: object) -> bool:
    """Return whether a client of the maker's package leads to another host, by its class."""
    return any(word in type(client).__name__ for word in _PLATFORMS)


class _Calls:
    """Makes a request the SDK's call, for both kinds of model."""

    def __init__(
        self,
        client: Any,
        target: Target,
        window: Window,
        options: ClientOptions | None = None,
    ) -> None:
        """Use a client, or create one with these options when it is first needed.

        A session can be opened, looked at and guarded without a key; only a call takes one.
        """
        adds_tools = traits_of(target.provider, target.model).adds_tools
        is_own = not target.dialect.is_host and not _is_platform(client)
        self.target = msgspec.structs.replace(target, adds_tools=adds_tools and is_own)
        self.window = window
        self._sdk = find_provider(target.dialect.name).sdk
        self._options = options or ClientOptions()
        self._is_given = client is not None
        if client is not None:
            self.client = client
            self._method(self._sdk.method)  # a client that cannot be used is refused at once

    @functools.cached_property
    def client(self) -> Any:
        return self._sdk.connect(self._options, self.target)

    def ready(self) -> None:
        """Make the client now. Raises `BadSetting` where the SDK or the key is missing."""
        self._method(self._sdk.method)

    @property
    def _is_ours(self) -> bool:
        """There is a client, and it was made here."""
        return "client" in self.__dict__ and not self._is_given

    def _call(self, request: Json, *, streams: bool) -> Any:
        streams = streams or self._sdk.must_stream(request)
        method = self._method((self._sdk.stream_method if streams else "") or self._sdk.method)
        given = self._sdk.arguments(request, self.target, streams)
        headers = self._new_headers(request)
        if headers:
            given = {**given, "extra_headers": {**headers, **given.get("extra_headers", {})}}
        known = _parameters(getattr(method, "__func__", method))
        named = {name: value for name, value in given.items() if not known or name in known}
        others = {name: value for name, value in given.items() if name not in named}
        return method(**named, **({"extra_body": others} if others else {}))

    def _new_headers(self, request: Json) -> dict[str, str]:
        """The headers that a request is to have and the client does not send of itself."""
        found = getattr(self.client, "default_headers", None)
        own = found if isinstance(found, Mapping) else {}
        sent = {str(name).lower(): value for name, value in own.items()}
        headers = self._sdk.headers(request, self.target)
        return {
            name: f"{sent[name]},{value}" if name in sent else value
            for name, value in headers.items()
            if name not in sent or name in _LISTS
        }

    def _method(self, path: str) -> Callable[..., Any]:
        found = self.client
        for name in path.split("."):
            found = getattr(found, name, None)
        if not callable(found):
            dialect = self.target.dialect.name
            raise BadSetting(
                f"`{type(self.client).__name__}` has no `{path}`, "
                f"which the dialect `{dialect}` is called with",
                hint="give a client of the matching SDK, or name the other dialect",
            )
        method: Callable[..., Any] = found
        return method


class SdkModel(_Calls):
    """A model behind a blocking client."""

    def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        raw = self._call(request, streams=on_delta is not None)
        if inspect.isawaitable(raw):
            if inspect.iscoroutine(raw):
                raw.close()
            raise BadSetting(
                f"`{type(self.client).__name__}` is an asynchronous client",
                hint="use `async_model` with `AsyncSession`, or give the blocking client",
            )
        return read_reply(raw, self.target, on_delta, takes_words=False)

    def close(self) -> None:
        """Let go of the connections of a client that was made here."""
        close = getattr(self.client, "close", None) if self._is_ours else None
        if callable(close):
            close()


class AsyncSdkModel(_Calls):
    """A model behind an asynchronous client."""

    async def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        raw = self._call(request, streams=on_delta is not None)
        if not inspect.isawaitable(raw):
            raise BadSetting(
                f"`{type(self.client).__name__}` is a blocking client",
                hint="use `model` with `Session`, or give the asynchronous client",
            )
        return await read_reply_async(raw, self.target, on_delta, takes_words=False)

    async def close(self) -> None:
        """Let go of the connections of a client that was made here."""
        if not self._is_ours:
            return
        close = getattr(self.client, "close", None) or getattr(self.client, "aclose", None)
        if callable(close):
            done = close()
            if inspect.isawaitable(done):
                await done


@functools.cache
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    """The names that a function takes; none where it takes any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return frozenset()
    return frozenset(parameter.name for parameter in parameters)
