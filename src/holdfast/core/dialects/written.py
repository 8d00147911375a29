"""Messages as a dialect writes them, kept from one request to the next, which begins with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.dialects.registry import find_dialect

if TYPE_CHECKING:
    from holdfast.core.dialects.dialect import MessageWriter
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Message, Prompt


class WrittenMessages:
    """The messages of the newest request. Where the next one begins with them, only what is new is
    written; where it does not, everything is."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._head: tuple[Target, Prompt] | None = None
        self._writer: MessageWriter | None = None
        self.messages: tuple[Message, ...] = ()
        self.items: list[list[Json]] = []
        """The items of each message. No one changes them."""
        self.digests: list[str] = []
        """Those that `prefixes_of` has made of the items."""

    def go_on(self, prompt: Prompt, target: Target) -> list[list[Json]]:
        """Return the items of each message of a prompt. No one changes them."""
        head = target, msgspec.structs.replace(prompt, messages=(), stable=())
        known = self.messages
        if head != self._head or prompt.messages[: len(known)] != known:
            self._begin()
        writer = self._writer or find_dialect(target.dialect.name).message_writer(prompt, target)
        self._head = None  # a writer that fails in the middle cannot go on
        self.items = [*self.items, *map(writer, prompt.messages[len(self.messages) :])]
        self._head, self._writer, self.messages = head, writer, prompt.messages
        return self.items


def copy_json(value: Any) -> Any:
    """Return JSON of which no object or list is the original's."""
    # Most of it is text: asking here spares a call for each.
    if type(value) is dict:
        return {
            name: item if type(item) is str else copy_json(item) for name, item in value.items()
        }
    if type(value) is list:
        return [item if type(item) is str else copy_json(item) for item in value]
    return value
