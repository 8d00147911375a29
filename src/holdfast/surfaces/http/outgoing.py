"""The answer to a request on its way out: one wrapper for all that change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping

    from starlette.types import Message, Send

_ANSWER: Final = "holdfast.answer"
"""The answer of a request in its scope."""


class OutgoingAnswer:
    """Sends an answer, and lets several parts of the server change its headers.

    A wrapper of `send` runs for each piece of a stream, so there is one for all of them.
    """

    def __init__(self, scope: MutableMapping[str, Any], send: Send) -> None:
        self._send = send
        self._changes: list[Callable[[Message], None]] = []
        self.has_begun = False
        """Part of it was sent."""
        scope[_ANSWER] = self

    def on_start(self, change: Callable[[Message], None]) -> None:
        """Let `change` see the message with status and headers, before those who asked earlier."""
        self._changes.insert(0, change)

    async def send(self, message: Message) -> None:
        """Send a message of the ASGI protocol."""
        if not self.has_begun:
            self.has_begun = True
            for change in self._changes:
                change(message)
        await self._send(message)


def answer_in(scope: Mapping[str, Any]) -> OutgoingAnswer:
    """Return the answer of a request."""
    found: OutgoingAnswer = scope[_ANSWER]
    return found
