"""Models over the official SDKs, or over any client with their methods.

What the SDK raises passes through untouched: the engine names failures, retries and counts.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import BadSetting
from holdfast.providers.replies import read_reply, read_reply_async

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.replies import Reply
    from holdfast.core.models.window import Window
    from holdfast.ports import Hear

WHOLE_TOKENS_MAX: Final = 8_000
"""Anthropic's SDK refuses to wait for a longer reply without streaming it."""

_PATHS: Final = {
    "anthropic": ("messages", "create"),
    "openai-chat": ("chat", "completions", "create"),
    "openai-responses": ("responses", "create"),
}
"""Where an SDK's client has the call of each dialect."""


class _Calls:
    """What both kinds of model share: how a request becomes the SDK's call."""

    def __init__(
        self,
        client: Any,
        target: Target,
        window: Window,
        *,
        connect: Callable[[], Any] | None = None,
    ) -> None:
        """`connect` makes the client when it is first needed, where none is given.

        A session can be opened, looked at and guarded without a key; only a call takes one.
        """
        self.target = target
        self.window = window
        self._connect = connect
        self._is_given = client is not None
        if client is not None:
            self.client = client
            _method(client, target)  # a client that cannot be used is said at once

    @functools.cached_property
    def client(self) -> Any:
        assert self._connect is not None
        return self._connect()

    @functools.cached_property
    def _create(self) -> Callable[..., Any]:
        return _method(self.client, self.target)

    def ready(self) -> None:
        """Make the client now. Raises `BadSetting` where the SDK or the key is missing."""
        assert self._create is not None

    @property
    def _is_ours(self) -> bool:
        """Whether there is a client, and nobody else holds it."""
        return "client" in self.__dict__ and not self._is_given

    def _call(self, request: Json, *, streams: bool) -> Any:
        streams = streams or self._is_long(request)
        given = _spoken(request, self.target)
        if streams:
            given["stream"] = True
            if self.target.dialect.name == "openai-chat" and self.target.flavour != "mistral":
                given.setdefault("stream_options", {"include_usage": True})
        known = _parameters(self._create)
        named = {name: value for name, value in given.items() if not known or name in known}
        others = {name: value for name, value in given.items() if name not in named}
        return self._create(**named, **({"extra_body": others} if others else {}))

    def _is_long(self, request: Json) -> bool:
        wanted = request.get("max_tokens")
        is_anthropic = self.target.dialect.name == "anthropic"
        return is_anthropic and isinstance(wanted, int) and wanted > WHOLE_TOKENS_MAX


class SdkModel(_Calls):
    """A model behind a blocking client."""

    def send(self, request: Json, hear: Hear | None = None) -> Reply:
        raw = self._call(request, streams=hear is not None)
        if inspect.isawaitable(raw):
            if inspect.iscoroutine(raw):
                raw.close()
            raise BadSetting(
                f"`{type(self.client).__name__}` is an asynchronous client",
                hint="use `async_model` with `AsyncSession`, or give the blocking client",
            )
        return read_reply(raw, self.target, hear, takes_words=False)

    def close(self) -> None:
        """Let go of the connections of a client that was made here."""
        close = getattr(self.client, "close", None) if self._is_ours else None
        if callable(close):
            close()


class AsyncSdkModel(_Calls):
    """A model behind an asynchronous client."""

    async def send(self, request: Json, hear: Hear | None = None) -> Reply:
        raw = self._call(request, streams=hear is not None)
        if not inspect.isawaitable(raw):
            raise BadSetting(
                f"`{type(self.client).__name__}` is a blocking client",
                hint="use `model` with `Session`, or give the asynchronous client",
            )
        return await read_reply_async(raw, self.target, hear, takes_words=False)

    async def close(self) -> None:
        """Let go of the connections of a client that was made here."""
        if not self._is_ours:
            return
        close = getattr(self.client, "close", None) or getattr(self.client, "aclose", None)
        if callable(close):
            done = close()
            if inspect.isawaitable(done):
                await done


def _method(client: Any, target: Target) -> Callable[..., Any]:
    path = _PATHS.get(target.dialect.name)
    if path is None:
        raise BadSetting(
            f"no SDK is known here for the dialect `{target.dialect.name}`",
            hint="give its call as a function: `from_callable(send, target)`",
        )
    found = client
    for name in path:
        found = getattr(found, name, None)
    if not callable(found):
        raise BadSetting(
            f"`{type(client).__name__}` has no `{'.'.join(path)}`, "
            f"which the dialect `{target.dialect.name}` is called with",
            hint="give a client of the matching SDK, or name the other dialect",
        )
    create: Callable[..., Any] = found
    return create


def _spoken(request: Json, target: Target) -> Json:
    """A request as the SDK takes it: Bedrock's client wants the model, and sets its version."""
    given = {name: value for name, value in request.items() if name != "anthropic_version"}
    if target.dialect.name == "anthropic" and target.model:
        given.setdefault("model", target.model)
    return given


@functools.cache
def _known(function: Callable[..., Any]) -> frozenset[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return frozenset()  # it takes anything
    return frozenset(one.name for one in parameters)


def _parameters(method: Callable[..., Any]) -> frozenset[str]:
    """What a method can be given by name; nothing where it takes anything."""
    return _known(getattr(method, "__func__", method))
