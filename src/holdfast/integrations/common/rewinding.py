"""Taking messages back: the head of a log moves, and what was after it stays on a branch."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from holdfast.core.log.records import MESSAGES, Rewind
from holdfast.errors import LogConflict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.ports import SessionStore


def move_head(
    store: SessionStore, key: SessionKey, to: str, head: str, records: Sequence[Record] = ()
) -> bool:
    """Move the head from one record to another, and append; False where another writer was
    faster."""
    try:
        store.append(key, [Rewind(to=to), *records], expect=head)
    except LogConflict:
        return False
    return True


def clear_path(store: SessionStore, key: SessionKey, also: str = "") -> None:
    """Move the head to the first record, if there are messages, or records of the type `also`."""
    while True:
        head, has_messages = "", False
        last: deque[Record] = deque(maxlen=1)
        for record in store.back(key):
            head = head or record.id
            has_messages = has_messages or record.kind in (*MESSAGES, also)
            last.append(record)
        if not has_messages or move_head(store, key, last[0].id, head):
            return
