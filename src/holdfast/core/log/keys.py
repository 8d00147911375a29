"""Keys of messages: a caller that repeats a message under the same key means the first one."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from holdfast.core.log.records import Assistant, User, tool_calls
from holdfast.core.log.views import read_entries

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.records import Record
    from holdfast.core.log.walk import OpenLog

MESSAGE_KEY: Final = "key"
"""The field of a `user` record that holds the key."""


def key_of(record: object) -> str:
    """Return the key of a user's message; empty where it has none."""
    key = record.extra.get(MESSAGE_KEY) if type(record) is User else None
    return key if isinstance(key, str) else ""


def find_keyed(log: OpenLog, key: str) -> Record | None:
    """Return the newest message with a key, on whichever branch; one that was never stored whole
    does not count."""
    found = None
    for entry in read_entries(log):
        if entry.standing in ("path", "branch") and key_of(entry.record) == key:
            found = entry.record
    return found


def find_answer(records: Iterable[Record]) -> Assistant | None:
    """Return the last reply of the turn that the first of `records` began or joined; None where it
    has none yet."""
    answer = None
    for record in islice(records, 1, None):
        if isinstance(record, Assistant) and not tool_calls(record.content):
            answer = record
        elif isinstance(record, User) and answer is not None:
            break
    return answer
