"""Server-sent events out of bytes that may be cut anywhere."""

from __future__ import annotations

from typing import Final

_EVENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one event; a longer one is no event of an API that we know, and is not kept."""


class EventReader:
    """Takes the bytes of a stream as they come, and returns the data of each whole event."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._is_in_event = False
        self._is_after_return = False
        """True where the last byte ended a line by itself, and a line feed would belong to it."""

    @property
    def is_between_events(self) -> bool:
        """True where the last byte ended an event, or none has begun."""
        return not self._line and not self._is_in_event

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that this chunk completes. Comments and names are passed over."""
        events: list[bytes] = []
        if b"\r" in chunk or self._is_after_return:
            chunk = self._with_line_feeds(chunk)
        lines = chunk.split(b"\n")
        for line in lines[:-1]:
            if self._line:
                line = bytes(self._line) + line
                self._line.clear()
            self._take(line, events)
        if len(self._line) + self._size < _EVENT_BYTES_MAX:
            self._line += lines[-1]
        return events

    def _with_line_feeds(self, chunk: bytes) -> bytes:
        """The standard has three ends of a line: both characters, or either of them."""
        if self._is_after_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._is_after_return = False
        if chunk:
            self._is_after_return = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def end(self) -> list[bytes]:
        """The data of an event whose closing line never came."""
        events: list[bytes] = []
        if self._line:
            self._take(bytes(self._line), events)
            self._line.clear()
        self._take(b"", events)
        return events

    def _take(self, line: bytes, events: list[bytes]) -> None:
        if not line:
            if self._data:
                events.append(b"\n".join(self._data))
            self._data.clear()
            self._size, self._is_in_event = 0, False
            return
        self._is_in_event = True
        if line.startswith(b"data:"):
            data = line[5:].removeprefix(b" ")
            self._size += len(data)
            if self._size < _EVENT_BYTES_MAX:
                self._data.append(data)


class EventSplitter:
    """Takes the bytes of a stream as they come, and returns whole events: as they came, and the
    data in them."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._line = self._searched = 0
        """The beginning of the next line, and the end of what was searched for its end."""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        """The events that this chunk completes. Comments between them are events without data."""
        self._pending += chunk
        events: list[tuple[bytes, bytes]] = []
        while (line := self._next_line()) is not None:
            self._read(line)
            if not line:
                events.append(self._take())
        if len(self._pending) > _EVENT_BYTES_MAX:  # no event of an API that we know
            self._line = len(self._pending)
            self._data.clear()
            events.append(self._take())
        return events

    def end(self) -> list[tuple[bytes, bytes]]:
        """The rest of a stream that has ended: an event whose closing line never came."""
        self._read(bytes(self._pending[self._line :]).rstrip(b"\r\n"))
        self._line = len(self._pending)
        return [self._take()] if self._pending else []

    def _read(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))

    def _next_line(self) -> bytes | None:
        """The next whole line; None where its end has not come."""
        pending = self._pending
        feed = pending.find(b"\n", self._searched)
        end = pending.find(b"\r", self._searched, len(pending) if feed < 0 else feed)
        if end < 0 and feed < 0:
            self._searched = len(pending)
            return None
        if end == len(pending) - 1:
            self._searched = end  # its line feed may still come
            return None
        after = feed + 1 if end in (-1, feed - 1) else end + 1
        line = bytes(pending[self._line : feed if end < 0 else end])
        self._line = self._searched = after
        return line

    def _take(self) -> tuple[bytes, bytes]:
        event = bytes(self._pending[: self._line]), b"\n".join(self._data)
        del self._pending[: self._line]
        self._line = self._searched = 0
        self._data = []
        return event
