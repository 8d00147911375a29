"""A reply from whatever a client returned: an SDK's object, JSON, a stream of either.

A stream that breaks leaves what came in so far on the exception; `partial_of` reads it.
"""

from __future__ import annotations

import inspect
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.dialects.common.reading import INTERRUPTED, ReplyFailed
from holdfast.core.dialects.common.values import as_text
from holdfast.core.dialects.registry import find_dialect
from holdfast.core.models.replies import Delta, Reply
from holdfast.errors import BadSetting
from holdfast.providers.sdk import as_json, is_model

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterable, Sequence

    from holdfast.core.dialects.dialect import Dialect
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.ports import OnDelta

_PARTIAL: Final = "holdfast_partial"


class Accumulator:
    """Takes the events of a stream one by one, as objects of the SDK or as JSON."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._dialect = find_dialect(target.dialect.name)
        self._stream = self._dialect.stream()

    def take(self, event: object) -> list[Delta]:
        """Return the deltas of an event. Raises `ReplyFailed` for an error event."""
        read = msgspec.json.decode(event) if isinstance(event, str | bytes) else as_json(event)
        return self._stream.take(read) if isinstance(read, dict) else []

    def take_json(self, event: Json) -> list[Delta]:
        """Return the deltas of an event that is plain JSON already. Raises `ReplyFailed`."""
        return self._stream.take(event)

    @property
    def is_complete(self) -> bool:
        """True if the provider has said that this was all."""
        return self._stream.is_complete

    @property
    def partial(self) -> Reply:
        """Return the reply so far: its text is kept, an incomplete call is left out."""
        body = self._stream.body()
        with suppress(ReplyFailed):
            reply = _read_body(self._dialect, body, self._target)
            if not self._stream.is_complete:
                reply = msgspec.structs.replace(reply, stop="other", stop_reason=INTERRUPTED)
            return msgspec.structs.replace(reply, raw=body)
        return Reply(content=[], stop="other", stop_reason=INTERRUPTED, raw=body)

    def finish(self) -> Reply:
        """The whole reply. Raises `ReplyFailed` where the stream never said that it was whole."""
        if not self._stream.is_complete:
            raise ReplyFailed("the stream ended before the reply did: the connection was lost")
        body = self._stream.body()
        reply = _read_body(self._dialect, body, self._target)
        return msgspec.structs.replace(reply, raw=body)


def partial_of(error: BaseException) -> Reply | None:
    """Return the partial reply of a stream that broke with this exception; None if there was
    none."""
    found = getattr(error, _PARTIAL, None)
    return found if isinstance(found, Reply) else None


def keep_partial(error: BaseException, partial: Reply) -> None:
    """Leave on an exception what had come in; those that take no attributes go without."""
    with suppress(AttributeError, TypeError):
        setattr(error, _PARTIAL, partial)


def read_reply(
    raw: object, target: Target, on_delta: OnDelta | None = None, *, takes_words: bool = True
) -> Reply:
    """The reply in whatever a client returned for a request of the target's dialect.

    Takes an SDK's object, its JSON as dict or text, or an iterable of stream events, which are
    given to `on_delta` as they come and closed at the end. A text that is not JSON is the answer,
    unless it is known to be from a server (`takes_words`): there it is a gateway's page.
    """
    if isinstance(raw, Reply):
        return _stream_whole(raw, on_delta)
    if _is_stream(raw):
        return _read_stream(raw, target, on_delta)  # type: ignore[arg-type]
    if not is_model(raw) and hasattr(raw, "__enter__"):
        with raw as opened:  # type: ignore[attr-defined]
            return read_reply(opened, target, on_delta, takes_words=takes_words)
    return _stream_whole(_read_whole(raw, target, takes_words=takes_words), on_delta)


async def read_reply_async(
    raw: object, target: Target, on_delta: OnDelta | None = None, *, takes_words: bool = True
) -> Reply:
    """The same for what an asynchronous client returned, awaited or not."""
    if inspect.isawaitable(raw):
        raw = await raw
    if hasattr(raw, "__aiter__"):
        return await _read_stream_async(raw, target, on_delta)
    if not is_model(raw) and hasattr(raw, "__aenter__"):
        async with raw as opened:  # type: ignore[attr-defined]
            return await read_reply_async(opened, target, on_delta, takes_words=takes_words)
    return read_reply(raw, target, on_delta, takes_words=takes_words)


def _is_stream(raw: object) -> bool:
    is_data = isinstance(raw, dict | str | bytes) or is_model(raw)
    return not is_data and hasattr(raw, "__iter__")


def _read_stream(events: Iterable[object], target: Target, on_delta: OnDelta | None) -> Reply:
    accumulator = Accumulator(target)
    try:
        for event in events:
            for delta in accumulator.take(event):
                if on_delta is not None:
                    on_delta(delta)
        return accumulator.finish()
    except BaseException as error:
        keep_partial(error, accumulator.partial)
        raise
    finally:
        close = getattr(events, "close", None)
        if callable(close):
            close()


async def _read_stream_async(
    events: AsyncIterable[object], target: Target, on_delta: OnDelta | None
) -> Reply:
    accumulator = Accumulator(target)
    try:
        async for event in events:
            for delta in accumulator.take(event):
                if on_delta is not None:
                    on_delta(delta)
        return accumulator.finish()
    except BaseException as error:
        keep_partial(error, accumulator.partial)
        raise
    finally:
        close = getattr(events, "aclose", None) or getattr(events, "close", None)
        if callable(close):
            done = close()
            if inspect.isawaitable(done):
                await done


def _stream_whole(reply: Reply, on_delta: OnDelta | None) -> Reply:
    """A reply that came all at once, told in one piece."""
    if on_delta is not None:
        for block in reply.content:
            for kind, name in (("text", "text"), ("thinking", "thinking"), ("tool_use", "name")):
                said = block.get(name) if block.get("type") == kind else None
                if isinstance(said, str) and said:
                    on_delta(Delta("call" if kind == "tool_use" else kind, said))  # type: ignore[arg-type]
    return reply


def _read_whole(raw: object, target: Target, *, takes_words: bool) -> Reply:
    dialect = find_dialect(target.dialect.name)
    body = _parse_raw(raw) if isinstance(raw, str | bytes) else as_json(raw)
    if isinstance(body, dict) and dialect.is_reply(body):
        return msgspec.structs.replace(_read_body(dialect, body, target), raw=raw)
    if isinstance(body, dict) and body.get("error"):
        raise ReplyFailed("the provider answered with an error", body=body)
    if not takes_words:
        if not raw:
            raise ReplyFailed("the server answered with nothing: the connection was closed")
        said = raw.decode(errors="replace") if isinstance(raw, bytes) else raw
        raise ReplyFailed(
            f"the server answered with something other than a reply: {_describe_raw(raw)}",
            body=body if isinstance(body, dict) else {"message": said},
        )
    if isinstance(raw, str | bytes):
        said = raw if isinstance(raw, str) else raw.decode(errors="replace")
        content = [{"type": "text", "text": said}] if said else []
        return Reply(content=content, provider=target.provider, model=target.model, raw=raw)
    raise BadSetting(
        f"this is not a reply of the dialect `{target.dialect.full_name}`: {_describe_raw(raw)}",
        hint="return what the SDK's call returned: its object, its JSON, or its stream",
    )


def _read_body(dialect: Dialect, body: Json, target: Target) -> Reply:
    """The reply in a response, with an id for each call: some hosts give none, or one for all."""
    reply = dialect.read(body, target)
    return msgspec.structs.replace(reply, content=_with_call_ids(reply.content))


def _with_call_ids(content: Sequence[Json]) -> list[Json]:
    seen: set[str] = set()
    named: list[Json] = []
    for block in content:
        if block.get("type") == "tool_use":
            if not as_text(block.get("id")).strip() or block["id"] in seen:
                block = {**block, "id": f"call_{os.urandom(12).hex()}"}
            seen.add(block["id"])
        named.append(block)
    return named


def _parse_raw(raw: str | bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError):
        return None


def _describe_raw(raw: object) -> str:
    if isinstance(raw, dict):
        names = ", ".join(f"`{name}`" for name in list(raw)[:6])
        return f"an object with {names or 'nothing in it'}"
    if isinstance(raw, str | bytes):
        return f"a text of {len(raw):,} characters" if raw else "nothing"
    return "None" if raw is None else f"a `{type(raw).__module__}.{type(raw).__name__}`"
