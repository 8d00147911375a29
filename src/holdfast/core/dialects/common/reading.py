"""Shared by all readers of replies: blocks, calls and their arguments, and the failed reply."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from holdfast.core.dialects.common.values import as_text
from holdfast.core.text.strings import is_too_deep

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.core.log.records import Json
    from holdfast.core.models.replies import Delta, Stop

INTERRUPTED: Final = "interrupted"
"""Why a partial reply ended, in our words: its provider never said."""


class ReplyFailed(Exception):
    """A reply that is an error, or that ended before it was whole. `body` is what was said.

    It stands beside the exceptions of the SDKs: the engine names it as it names those, and tells
    its own callers with a `ModelError`.
    """

    def __init__(self, what: str, body: Mapping[str, object] | None = None) -> None:
        self.body = dict(body or {})
        inner = self.body.get("error")
        said = inner if isinstance(inner, dict) else {"message": inner, **self.body}
        self.type = said.get("type") if isinstance(said.get("type"), str) else None
        self.status_code = next(
            (said[name] for name in ("status", "code") if isinstance(said.get(name), int)), None
        )
        message = said.get("message")
        super().__init__(f"{what}: {message}" if isinstance(message, str) and message else what)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounts:
    """The tokens of one call, in no provider's spelling."""

    prompt: int
    """All input, cached or not."""
    read: int
    """Of the prompt: read from the cache."""
    written: int
    """Of the prompt: written to the cache."""
    output: int


class StreamReader(Protocol):
    """Puts the events of one dialect together again."""

    is_complete: bool
    """True if the provider has said that this was all."""

    def take(self, event: Json) -> list[Delta]:
        """Add an event; what it brought, for those who listen."""

    def body(self) -> Json:
        """The response so far, in the form it has without streaming. Half a call is left out."""


def text_block(said: str) -> list[Json]:
    """A block with a text, or none for nothing."""
    return [{"type": "text", "text": said}] if said else []


def thinking_block(thought: str) -> list[Json]:
    return [{"type": "thinking", "thinking": thought}] if thought.strip() else []


def call_block(call_id: object, name: object, given: object) -> Json:
    return {
        "type": "tool_use",
        "id": as_text(call_id),
        "name": as_text(name),
        "input": arguments(given),
    }


def arguments(given: object) -> Any:
    """A call's arguments: the object they are, or the text where it holds none."""
    if not isinstance(given, str):
        if is_too_deep(given):
            return msgspec.json.encode(given).decode()
        return {} if given is None else given
    read = _parse_arguments(given)
    return read if isinstance(read, dict) else (given if given.strip() else {})


def is_whole(given: object) -> bool:
    """Return whether arguments are complete; half of an object is not JSON."""
    return not isinstance(given, str) or not given.strip() or _parse_arguments(given) is not _BROKEN


_BROKEN: Final = object()


def _parse_arguments(given: str) -> object:
    try:
        read = json.loads(given)
        msgspec.json.encode(read)  # what cannot be stored stays the text it was
    except (ValueError, RecursionError, OverflowError, TypeError):
        return _BROKEN
    return _BROKEN if is_too_deep(read) else read


def settle_stop(stop: Stop, content: Iterable[Json]) -> Stop:
    """The reason as the content bears it out: hosts say `stop` beside calls, and the reverse."""
    has_calls = any(block.get("type") == "tool_use" for block in content)
    if has_calls and stop in ("end", "other"):
        return "tools"
    return "end" if stop == "tools" and not has_calls else stop
