"""The keys under which messages were stored, by log; a log is read from where it was known on."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.records import decode
from holdfast.core.log.views import MESSAGE_KEY, key_of
from holdfast.stores.lines import Forward

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.stores.jsonl.log import FileLog

_FIELD: Final = f'"{MESSAGE_KEY}"'.encode()
_LOGS_MAX: Final = 64
"""Logs whose keys are remembered; as many as are held open for appending."""


class _Seen(msgspec.Struct):
    """The keys in the first `size` bytes of a file."""

    identity: tuple[int, int]
    size: int = 0
    keys: set[str] = msgspec.field(default_factory=set)


class MessageKeys:
    """Tells whether a log may hold a key, without reading it again from the beginning."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._logs: OrderedDict[SessionKey, _Seen] = OrderedDict()

    def may_hold(self, log: FileLog, message_key: str) -> bool:
        """Return False where no line of the log has the key."""
        with self._mutex:
            seen = self._entry(log)
            lines = Forward(log.fd, seen.size, log.size)
            for _position, line in lines:
                if isinstance(line, bytes) and _FIELD in line:
                    seen.keys.add(key_of(decode(line)))
            seen.size = lines.tail_position
            tail = lines.tail  # a record without its newline counts, and is read again
            is_last = isinstance(tail, bytes) and key_of(decode(tail)) == message_key
            return is_last or message_key in seen.keys

    def _entry(self, log: FileLog) -> _Seen:
        status = os.fstat(log.fd)
        identity = (status.st_dev, status.st_ino)
        seen = self._logs.get(log.key)
        if seen is None or seen.identity != identity or seen.size > log.size:
            seen = self._logs[log.key] = _Seen(identity)
        self._logs.move_to_end(log.key)
        if len(self._logs) > _LOGS_MAX:
            self._logs.popitem(last=False)
        return seen
