"""Values that an adapter keeps in memory for the sessions used last.

Most of them are what a session was at its head. An append that names this head is refused where
another writer came in between, so it needs no look at the log before it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

_Name = TypeVar("_Name")
_Value = TypeVar("_Value")


class RecentValues(Generic[_Name, _Value]):
    """At most so many values by name; the one used longest ago makes room. Safe for threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[_Name, _Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: _Name) -> _Value | None:
        """Return a value; None where there is none, or no longer."""
        with self._lock:
            if name not in self._values:
                return None
            self._values.move_to_end(name)
            return self._values[name]

    def put(self, name: _Name, value: _Value) -> None:
        """Keep a value."""
        with self._lock:
            self._values[name] = value
            self._values.move_to_end(name)
            while len(self._values) > self._most:
                self._values.popitem(last=False)

    def forget(self, name: _Name) -> None:
        """Drop a value, if there is one."""
        with self._lock:
            self._values.pop(name, None)
