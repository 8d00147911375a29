"""The port of a model: how a request is sent and its reply received."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.replies import Delta, Reply
    from holdfast.core.window import Window

OnDelta = Callable[["Delta"], None]
"""Called with each piece of a reply as it comes in."""


class Model(Protocol):
    """A way to reach one model. Whatever it raises is classified, never swallowed."""

    @property
    def target(self) -> Target:
        """The model and dialect that requests are made for."""

    @property
    def window(self) -> Window:
        """The context window, as far as it is known."""

    def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        """Send a rendered request. With `on_delta`, the reply is streamed to it as it is written.

        An exception of `on_delta` ends the call and is raised again.
        """


class AsyncModel(Protocol):
    """A `Model` that is awaited."""

    @property
    def target(self) -> Target: ...

    @property
    def window(self) -> Window: ...

    async def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply: ...


class BackendConversation(Protocol):
    """The session for which a backend is called."""

    @property
    def name(self) -> str:
        """The key of the session."""

    def back(self) -> Iterator[Record]:
        """Its path, newest record first."""

    def retell(self, chars: int) -> str:
        """The conversation before its newest messages, as text of at most so many characters."""
