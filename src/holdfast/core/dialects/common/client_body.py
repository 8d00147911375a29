"""A client's request in one dialect: its address, its fields, and the errors it understands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.log.records import Json

OUTPUT_FIELDS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_THINKING_TOKENS_MIN: Final = 1_024
"""Anthropic's least budget for thinking; it has to be below the limit of the reply."""
_THINKING_SHARE: Final = 0.75
"""Of a reply, for a budget of thinking that has to shrink: the rest is for the answer."""


class ClientBody(ABC):
    """The requests that clients of one API send, apart from their conversation."""

    upstream: str
    """The provider's own server, as the proxy names it."""
    items_field: str
    """The field that holds the conversation."""
    has_system_field = False
    """True where instructions are no items."""
    key_header = "authorization"
    """The header that names the client, by a key or as `Bearer KEY`."""
    turn_paths: tuple[str, ...]
    """The addresses at which the provider takes requests for a reply, as routes are written."""
    output_field = "max_tokens"
    """The field that limits a reply, where the body has none yet."""

    # Addresses

    @abstractmethod
    def find_turn(self, path: str) -> str | None:
        """The model that a path names, empty where the body does; None where no model replies."""

    def owns_request(self, path: str, headers: Mapping[str, str]) -> bool:
        """True where path or headers, which have small names, are those of the provider alone."""
        del path, headers
        return False

    def owns_path(self, path: str) -> bool:
        """True for paths beside those of turns that only this API has, on any server."""
        del path
        return False

    # Fields

    def read_items(self, body: Json) -> list[Any] | None:
        """The conversation; None where the body belongs to another dialect."""
        found = body.get(self.items_field)
        return found if isinstance(found, list) else None

    def read_output_limit(self, body: Json) -> int | None:
        """The tokens that a body allows for the reply; None where it does not say."""
        return first_count(body, OUTPUT_FIELDS)

    def limit_reply(self, body: Json, tokens: int) -> Json:
        """A body whose reply may take this many tokens. A budget for thinking is part of them: it
        shrinks too, and where it would be less than the least, there is no thinking."""
        limited = {**body, first_name(body, OUTPUT_FIELDS, self.output_field): tokens}
        thinking = body.get("thinking")
        if not isinstance(thinking, dict):
            return limited
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < tokens:
            return limited
        less = max(_THINKING_TOKENS_MIN, int(_THINKING_SHARE * tokens))
        if less < tokens:
            return {**limited, "thinking": {**thinking, "budget_tokens": less}}
        return {name: value for name, value in limited.items() if name != "thinking"}

    def read_compaction_limit(self, body: Json) -> int | None:
        """The tokens from which on the provider is asked to compact the conversation itself; None
        where it is not asked."""
        del body
        return None

    def takes_tools(self, body: Json) -> bool:
        """True where a body that has tools can have more, and wants one reply."""
        return body.get("n") in (None, 1) and not body.get("background")

    def add_tools(self, body: Json, ours: list[Json]) -> Json:
        """A body with tools of ours, as they are rendered, behind the client's own."""
        return {**body, "tools": [*body["tools"], *ours]}

    def response_id(self, body: Json) -> str:
        """The id by which the next request may name this response; empty where none can."""
        del body
        return ""

    # Errors

    @abstractmethod
    def write_error(self, status: int, message: str, code: str) -> Json:
        """The body of an error, so that the client's SDK shows the message."""

    def write_error_event(self, status: int, message: str, code: str) -> bytes:
        """The event that ends a stream which broke off, as the provider itself would send it."""
        return b"data: " + msgspec.json.encode(self.write_error(status, message, code)) + b"\n\n"


def first_count(body: Json, names: tuple[str, ...]) -> int | None:
    """The first positive number under some names."""
    for name in names:
        value = body.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def first_name(body: Json, names: tuple[str, ...], default: str = "") -> str:
    """The first of some names that a body has."""
    return next((name for name in names if name in body), default or names[0])
