"""The threads of LangGraph in a store, each with an index of its log."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.errors import LogConflict, NoSuchSession
from holdfast.integrations.common.originals import reading_item
from holdfast.integrations.common.recent import RecentValues
from holdfast.integrations.langgraph.threads import GraphLine, GraphThread, line_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.integrations.common.home import PeerHome

_REMEMBERED_MAX: Final = 64
"""Threads whose index is held in memory; that of another one is read from its log."""


class ThreadLogs:
    """The threads of a store, each with its index."""

    def __init__(self, home: PeerHome) -> None:
        self._home = home
        self._known: RecentValues[str, GraphThread] = RecentValues(_REMEMBERED_MAX)
        self._lock = threading.RLock()

    def read(self, thread_id: str) -> GraphThread | None:
        """Return the index of a thread as it is now; None where there is none."""
        key = self._home.key_for((thread_id,))
        with self._lock:
            known = self._known.get(thread_id)
            if known is not None and self._home.is_head(key, known.head):
                return known
            self._known.forget(thread_id)
            if not self._home.exists(key, is_read_whole=True):
                return None
            known = self._load(thread_id)
            self._known.put(thread_id, known)
            return known

    def change(self, thread_id: str, make: Callable[[GraphThread], list[Record]]) -> None:
        """Append what `make` makes of a thread; again, where another writer came in between."""
        key = self._home.key_for((thread_id,))
        with self._lock:
            thread = self._known.get(thread_id)
            while True:
                if thread is None:
                    self._home.ensure((thread_id,))
                    thread = self.read(thread_id) or self._load(thread_id)
                records = make(thread)
                if self._append(key, thread, records):
                    return
                self._known.forget(thread_id)
                thread = None

    def _append(self, key: SessionKey, thread: GraphThread, records: list[Record]) -> bool:
        """Append to a thread; False where the log is another one by now."""
        if not records:
            return self._home.is_head(key, thread.head)
        try:
            done = self._home.store.append(key, records, expect=thread.head)
        except (LogConflict, NoSuchSession):
            return False
        for record, record_id in zip(records, done.ids, strict=True):
            thread.add(line_of(msgspec.structs.replace(record, id=record_id)))
        return True

    def names(self) -> list[str]:
        """Return the names of all threads."""
        return [name[0] for name, _key in self._home.names() if len(name) == 1]

    def delete(self, thread_id: str) -> None:
        """Delete a thread."""
        with self._lock:
            self._known.forget(thread_id)
            self._home.remove(self._home.key_for((thread_id,)))

    def _load(self, thread_id: str) -> GraphThread:
        key = self._home.key_for((thread_id,))
        head = self._home.store.head(key)
        thread = GraphThread(self._home.store.header(key).id)
        for found in self._home.lines(key, GraphLine, is_everything=True):
            try:
                thread.add(found if isinstance(found, GraphLine) else line_of(found))
            except Exception:
                with reading_item(found):
                    raise
        thread.head = head
        return thread
