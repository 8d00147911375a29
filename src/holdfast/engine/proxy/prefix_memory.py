"""The beginnings of long requests, kept so that the next one is not read from the start."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.registry import find_dialect
from holdfast.core.proxy.known_prefix import ITEMS_LEFT, KnownPrefix, find_prefix_end

if TYPE_CHECKING:
    from holdfast.engine.proxy.request import ClientRequest

_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of all beginnings together."""
_BYTES_MIN: Final = 64 * 1024
"""A shorter request is read as fast as it is looked up."""
_ITEMS_NEW: Final = 32
"""Messages that may come before a beginning is kept again: it is a copy."""
_BYTES_NEW: Final = 256 * 1024
"""The same in bytes: it takes two milliseconds to parse them."""


class PrefixMemory:
    """Beginnings of the requests that came last. Bounded; safe for threads."""

    def __init__(self, bytes_max: int = _BYTES_MAX, bytes_min: int = _BYTES_MIN) -> None:
        self._bytes_max = bytes_max
        self._bytes_min = bytes_min
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], KnownPrefix] = OrderedDict()
        """By dialect and number, the oldest first."""
        self._number = 0
        self._size = 0

    def attach(self, request: ClientRequest) -> ClientRequest:
        """A request with the longest beginning of it that is known, if there is one."""
        if len(request.data) < self._bytes_min:
            return request
        with self._lock:
            kept = [item for item in self._kept.items() if item[0][0] == request.dialect]
        found = [(key, prefix) for key, prefix in kept if request.data.startswith(prefix.data)]
        if not found:
            return request
        key, prefix = max(found, key=lambda item: len(item[1].data))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
        return msgspec.structs.replace(request, known=prefix)

    def remember(self, request: ClientRequest) -> None:
        """Keep the beginning of a request that was read."""
        if not self._bytes_min <= len(request.data) <= self._bytes_max:
            return
        before = request.known if request.short[0] else None
        if before is not None and not self._is_much_new(request, before):
            return
        made = _make_prefix(request, before)
        if made is None:
            return
        with self._lock:
            self._drop(before)
            self._number += 1
            self._kept[request.dialect, self._number] = made
            self._size += len(made.data)
            while self._size > self._bytes_max:
                _key, oldest = self._kept.popitem(last=False)
                self._size -= len(oldest.data)

    @staticmethod
    def _is_much_new(request: ClientRequest, before: KnownPrefix) -> bool:
        items = request.item_count - before.count
        return items > _ITEMS_NEW or len(request.data) - len(before.data) > _BYTES_NEW

    def _drop(self, prefix: KnownPrefix | None) -> None:
        for key in [key for key, kept in self._kept.items() if kept is prefix]:
            self._size -= len(self._kept.pop(key).data)


def _make_prefix(request: ClientRequest, before: KnownPrefix | None) -> KnownPrefix | None:
    first, items = request.new_items
    dialect = find_dialect(request.dialect)
    place = dialect.items.last_boundary(items, len(items) - ITEMS_LEFT)
    if first + place <= len(request.leading):
        return None
    left, data = len(items) - place, request.data
    if before is not None:
        data = data[: before.opening] + data[len(before.data) :]
    end = find_prefix_end(data, request.items_field, request.fields, left)
    if end is None:
        return None
    known = 0 if before is None else len(before.data) - before.opening
    count = first + place
    said = len(request.atoms)
    while said and request.atoms[said - 1].item >= count:
        said -= 1
    return KnownPrefix(
        data=request.data[: end.offset + known],
        opening=end.opening,
        count=count,
        leading=request.leading,
        atoms=request.atoms[:said],
        chains=request.chains[:said],
    )
