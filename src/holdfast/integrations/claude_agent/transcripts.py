"""Transcripts of the Claude Agent SDK in a store: lines once, and a summary of all of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.limits import BATCH_RECORDS_MAX
from holdfast.core.log.records import Header, Unknown
from holdfast.errors import LogConflict, NoSuchSession
from holdfast.integrations.claude_agent.entries import (
    FORMAT_NAME,
    entries_from_items,
    records_from_entry,
)
from holdfast.integrations.common.originals import read_original
from holdfast.integrations.common.recent import RecentValues
from holdfast.integrations.common.stored_items import ItemLine, item_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.integrations.common.home import PeerHome
    from holdfast.integrations.common.names import PeerName
    from holdfast.integrations.common.stored_items import StoredItem

_SUMMARY_TYPE: Final = "peer_summary"
"""The type of a record that holds the SDK's summary of the lines before it."""
_SILENT: Final = (Header.__struct_config__.tag, _SUMMARY_TYPE)
"""The types of records that are no line of a transcript."""
_SUMMARY_EVERY: Final = 500
"""Records after which a summary is written again: a listing reads no further back."""
_REMEMBERED_MAX: Final = 128
"""Transcripts whose uuids are held in memory; those of another one are read from its log."""


class _Transcript(msgspec.Struct):
    """A transcript as far as it is known here."""

    head: str
    uuids: set[str]
    summary: Any
    since: int
    """Records after the newest summary."""


class Transcripts:
    """Appends lines by comparing first: what another process wrote meanwhile is read again."""

    def __init__(self, home: PeerHome) -> None:
        self._home = home
        self._known: RecentValues[SessionKey, _Transcript] = RecentValues(_REMEMBERED_MAX)

    def append(self, name: PeerName, entries: Sequence[Any]) -> None:
        """Store the lines that are new. Raises `BadItem`, and then stores none."""
        made = [(entry, records_from_entry(entry)) for entry in entries]
        main = self._home.key_for(name[:2]) if len(name) > 2 else None
        key = self._home.key_for(name)
        known = self._known.get(key)
        while known is None or not self._try_append(key, name, made, known):
            self._known.forget(key)  # unknown, or another process was faster
            self._home.ensure(name, spawned_by=main)
            known = self._transcript(key)

    def _try_append(
        self,
        key: SessionKey,
        name: PeerName,
        made: Sequence[tuple[Any, list[Record]]],
        known: _Transcript,
    ) -> bool:
        """Append the lines that are new; False where another writer came in between."""
        fresh, seen = [], set()
        for entry, records in made:
            uuid = entry.get("uuid")
            if not isinstance(uuid, str) or (uuid not in known.uuids and uuid not in seen):
                fresh.append((entry, records))
            if isinstance(uuid, str):
                seen.add(uuid)
        if not fresh:
            return self._home.is_head(key, known.head)
        records = [record for _entry, found in fresh for record in found]
        summary = known.summary
        if len(name) == 2:
            summary = _fold(summary, name, [entry for entry, _found in fresh])
        since = known.since + len(records)
        if len(name) == 2 and (summary != known.summary or since > _SUMMARY_EVERY):
            records.append(Unknown(type=_SUMMARY_TYPE, extra={"json": _spell(summary)}))
            since = 0
        head = known.head
        try:
            for start in range(0, len(records), BATCH_RECORDS_MAX):
                batch = records[start : start + BATCH_RECORDS_MAX]
                head = self._home.store.append(key, batch, expect=head).head
        except (LogConflict, NoSuchSession):
            return False
        known.uuids |= seen  # one set for all appends: copies of it would cost more than they
        self._known.put(key, _Transcript(head, known.uuids, summary, since))
        return True

    def _transcript(self, key: SessionKey) -> _Transcript:
        """Return a transcript as it is now in the store."""
        known = _Transcript(self._home.store.head(key), set(), None, 0)
        for item in self.read(key):
            if item.kind == _SUMMARY_TYPE:
                known.summary, known.since = _read(item.record), 0
                continue
            known.since += 1
            for entry in read_original(item.spelled) or ():
                if isinstance(entry, dict) and isinstance(entry.get("uuid"), str):
                    known.uuids.add(entry["uuid"])
        self._known.put(key, known)
        return known

    def read(self, key: SessionKey) -> Iterator[StoredItem]:
        """Yield every record in the order it was written, on whichever branch, with its line."""
        return self._home.items(key, FORMAT_NAME, is_everything=True)

    def entries(self, key: SessionKey, session_id: str) -> list[Any]:
        """Return all lines of a transcript in the order they were written."""
        entries: list[Any] = []
        for line in self._home.lines(key, ItemLine, is_everything=True):
            if not isinstance(line, ItemLine):
                break
            kept = read_original(item_json(line.original, FORMAT_NAME))
            if kept is not None:
                entries += kept
            elif line.type not in _SILENT:
                break
        else:
            return entries
        return entries_from_items(self.read(key), session_id)  # another program wrote to it

    def summary(self, key: SessionKey) -> Any:
        """Return the SDK's summary of a transcript; None where there is none."""
        for record in self._home.store.back(key):
            if record.kind == _SUMMARY_TYPE:
                return _read(record)
        return None

    def forget(self, key: SessionKey) -> None:
        """Forget what is known of a transcript that is deleted."""
        self._known.forget(key)


def _fold(data: Any, name: PeerName, entries: list[Any]) -> Any:
    """Return the SDK's summary with more lines in it."""
    from claude_agent_sdk import fold_session_summary

    before: Any = None
    if data is not None:
        before = {"session_id": name[1], "mtime": 0, "data": data}
    key: Any = {"project_key": name[0], "session_id": name[1]}
    return fold_session_summary(before, key, entries)["data"]


def _spell(summary: Any) -> str:
    return json.dumps(summary, separators=(",", ":"))


def _read(record: Record | None) -> Any:
    """Return the summary that a record holds; None where it holds none."""
    if record is None:
        return None
    try:
        found = json.loads(record.extra["json"])
    except (KeyError, TypeError, ValueError):
        return None
    return found if isinstance(found, dict) else None
