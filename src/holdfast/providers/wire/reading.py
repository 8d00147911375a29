"""Shared by all readers of replies: plain JSON from any client's objects, and calls."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from holdfast.core.text.nesting import is_too_deep
from holdfast.providers.wire.values import as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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


class StreamReader(Protocol):
    """Puts the events of one dialect together again."""

    is_complete: bool
    """True if the provider has said that this was all."""

    def take(self, event: Json) -> list[Delta]:
        """Add an event; what it brought, for those who listen."""

    def body(self) -> Json:
        """The response so far, in the form it has without streaming. Half a call is left out."""


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
    """Return whether arguments are complete; half of an object is no JSON."""
    return not isinstance(given, str) or not given.strip() or _parse_arguments(given) is not _BROKEN


_BROKEN: Final = object()


def _parse_arguments(given: str) -> object:
    try:
        read = json.loads(given)
        msgspec.json.encode(read)  # what cannot be stored stays the text it was
    except (ValueError, RecursionError, OverflowError, TypeError):
        return _BROKEN
    return _BROKEN if is_too_deep(read) else read


def with_call_ids(content: Sequence[Json]) -> list[Json]:
    """The blocks with an id for each call: some hosts give none, or one for all."""
    seen: set[str] = set()
    named: list[Json] = []
    for block in content:
        if block.get("type") == "tool_use":
            if not as_text(block.get("id")).strip() or block["id"] in seen:
                block = {**block, "id": f"call_{secrets.token_hex(12)}"}
            seen.add(block["id"])
        named.append(block)
    return named


def settle_stop(stop: Stop, content: Iterable[Json]) -> Stop:
    """The reason as the content bears it out: hosts say `stop` beside calls, and the reverse."""
    has_calls = any(block.get("type") == "tool_use" for block in content)
    if has_calls and stop in ("end", "other"):
        return "tools"
    return "end" if stop == "tools" and not has_calls else stop
