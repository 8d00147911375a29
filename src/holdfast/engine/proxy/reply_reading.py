"""A reply read while it passes: whole, or event by event, compressed or not."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.dialects.common.reading import ReplyFailed
from holdfast.core.dialects.registry import find_dialect
from holdfast.core.proxy.event_stream import EventReader
from holdfast.engine.proxy.encodings import (
    BadEncoding,
    Inflater,
    TooLarge,
    find_unreadable,
    read_encodings,
)
from holdfast.providers.replies import Accumulator, read_reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.models.dialects import Target
    from holdfast.core.models.replies import Reply

ChunkState = Literal["pass", "hold", "last", "refused"]
"""`hold`: nothing is decided yet. `last`: the reply is whole, and is stored before this goes out.
`refused`: an error before anything was said."""

_log: Final = logging.getLogger(__name__)
_DONE: Final = b"[DONE]"
_REPLY_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of a reply that is not streamed; a longer one is passed on and not read."""
_STREAM_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Of a compressed stream without its encoding, for the same reason."""


class ReplyReader:
    """The reply of one exchange. Never raises for what an upstream sends."""

    def __init__(self, target: Target, content_type: str, encoding: str) -> None:
        self.is_stream = content_type.partition(";")[0].strip().lower() == "text/event-stream"
        self.is_complete = False
        self.error: dict[str, object] | None = None
        """An error that came as an event, or as the body."""
        self._target = target
        self._ends = find_dialect(target.dialect.name).ends
        encodings = read_encodings(encoding)
        self.is_readable = not find_unreadable(encodings)
        most = _STREAM_BYTES_MAX if self.is_stream else _REPLY_BYTES_MAX
        self._inflaters = _make_inflaters(encodings, most) if self.is_readable else []
        self._is_plain = not encodings
        self._accumulator = Accumulator(target)
        self._events = EventReader()
        self._parts: list[bytes] = []
        self._size = 0
        self._has_content = False
        self._is_damaged = False
        """True once an event could not be read: what is kept is not the whole reply."""
        self._is_done = False
        self.plain = b""
        """The last chunk without its encoding."""

    @property
    def is_between_events(self) -> bool:
        return self._is_plain and self._events.is_between_events

    @property
    def is_cut_off(self) -> bool:
        """True where a stream ended in good form, and the reply had not."""
        if not self.is_stream or self.is_complete or self.error is not None:
            return False
        return self.is_between_events and self._ends.has_last_event

    def take(self, chunk: bytes) -> ChunkState:
        """Read a chunk as it passes."""
        data = self.plain = self._plain(chunk)
        if not self.is_stream:
            self._size += len(data)
            if self._size <= _REPLY_BYTES_MAX:
                self._parts.append(data)
            return "hold"
        for event in self._events.feed(data):
            self._take_event(event)
        return self._state()

    def _state(self) -> ChunkState:
        if self.error is not None:
            return "pass" if self._has_content else "refused"
        if self.is_complete:
            is_last = self._is_done or not self._ends.is_closed_by_done
            return "last" if is_last else "hold"
        return "pass" if self._has_content or not self.is_readable else "hold"

    def _take_event(self, data: bytes) -> None:
        if data == _DONE:
            self._is_done = self.is_complete = True
            return
        try:
            event = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._has_content = True
            return
        if not isinstance(event, dict):
            return
        try:
            self._accumulator.take_json(event)
        except ReplyFailed as failed:
            self.error = failed.body
            return
        except Exception as error:  # a host that deviates must not end its client's stream
            _log.warning("an event of the reply cannot be read: %r", error)
            self._has_content = self._is_damaged = True
        self.is_complete = self.is_complete or self._accumulator.is_complete
        if event.get("type") not in self._ends.openings:
            self._has_content = True

    @property
    def plain_body(self) -> bytes:
        """The body of a reply that is not streamed, without its encoding."""
        return b"".join(self._parts)

    def reply(self) -> tuple[Reply, bool] | None:
        """The reply so far, and True where it is whole; None where there is nothing to keep."""
        try:
            return self._read() if self.is_readable else None
        except Exception as error:  # its bytes reach the client, whatever we make of them
            _log.warning("the reply cannot be read: %r", error)
            return None

    def _read(self) -> tuple[Reply, bool] | None:
        if self.is_stream:
            for event in self._events.end():
                self._take_event(event)
            partial = self._accumulator.partial
            is_whole = self.is_complete and self.error is None and not self._is_damaged
            return (partial, is_whole) if is_whole or _says_something(partial) else None
        try:
            return read_reply(self.plain_body, self._target, takes_words=False), True
        except ReplyFailed as failed:
            self.error = failed.body
            return None

    def _plain(self, chunk: bytes) -> bytes:
        if self._is_plain:
            return chunk
        if not self.is_readable:
            return b""
        try:
            for inflater in self._inflaters:
                chunk = inflater.feed(chunk)
        except (BadEncoding, TooLarge):
            self.is_readable = False
            return b""
        return chunk


def _says_something(reply: Reply) -> bool:
    """True unless all that came is the beginning of a block."""
    names = ("text", "thinking", "signature", "input", "data")
    return any(block.get(name) for block in reply.content for name in names)


def decompress(data: bytes, encoding: str) -> bytes:
    """A body without its encoding, as far as it can be read."""
    encodings = read_encodings(encoding)
    if find_unreadable(encodings):
        return data
    plain = data
    try:
        for inflater in _make_inflaters(encodings, _REPLY_BYTES_MAX):
            plain = inflater.feed(plain)
    except (BadEncoding, TooLarge):
        return data
    return plain


def _make_inflaters(encodings: Sequence[str], bytes_max: int) -> list[Inflater]:
    return [Inflater(encoding, bytes_max) for encoding in reversed(encodings)]
