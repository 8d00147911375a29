"""`HoldfastSessionStore`: transcripts of the Claude Agent SDK as sessions.

Each line is one or more records, and comes back as it was. A line with a `uuid` is stored once,
however often it is appended. The SDK's summaries are records too, written with the lines they sum
up, so that two processes never disagree.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, Final, Unpack

import msgspec

from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Header,
    Label,
    ToolResult,
    Unknown,
    User,
)
from holdfast.core.text.timestamps import iso_utc
from holdfast.engine.adapters import require
from holdfast.errors import BadItem, NoSuchSession, UsageError
from holdfast.importers.agents.claude_code import read
from holdfast.importers.common.base import Source
from holdfast.importers.export_messages import export_messages
from holdfast.integrations.common.home import (
    DeletingOptions,
    FoldedLogs,
    PeerHome,
    StoreAdapter,
    read_in_thread,
    write_in_thread,
)
from holdfast.integrations.common.originals import (
    ItemLine,
    item_json,
    items_of,
    keep_originals,
    read_original,
    spell_item,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json, Record
    from holdfast.integrations.common.home import PeerName
    from holdfast.integrations.common.originals import StoredItem


FORMAT_NAME: Final = "claude-code"
_NAMESPACE: Final = uuid.UUID("6f9d9f0e-62f1-4b52-9a0e-6d0a52b9d6a5")
"""For the ids of lines that are made from records of others: always the same ones."""


def records_from_entry(entry: Any) -> list[Record]:
    """Return the records of a line: at least one. Raises `BadItem`."""
    spelled = spell_item(entry)
    if not isinstance(entry, dict):
        raise BadItem(
            f"cannot store an entry: it is {type(entry).__name__}, not an object",
            hint="entries are dictionaries, one for each line of a transcript; nothing was stored",
        )
    return keep_originals(_read_entry(entry, spelled), spelled, FORMAT_NAME)


def entries_from_items(items: Iterable[StoredItem], session_id: str) -> list[Any]:
    """Return the lines of a log: those that were stored, and lines for the messages of others."""
    entries: list[Any] = []
    for item in items:
        kept = read_original(item.spelled)
        if kept is not None:
            entries += kept
            continue
        uuids = (entry.get("uuid") for entry in reversed(entries) if isinstance(entry, dict))
        before = next((found for found in uuids if isinstance(found, str)), None)
        entries += _rebuild(item.record, before, session_id)
    return entries


def _read_entry(entry: Json, spelled: str) -> list[Record]:
    """Return the records with the meaning of a line; none where it has none for a model."""
    if not isinstance(entry.get("type"), str):
        return []
    found = read(Source(spelled.encode(), "entry.jsonl"))
    records = [record for session in found for record in session.records]
    label = next((session.label for session in found if session.label), "")
    if not records and label:
        records = [Label(label=label)]
    # The times of a log are those at which it was written; the line itself keeps its own.
    records = [msgspec.structs.replace(record, id="", ts=0.0) for record in records]
    return [_with_own_usage(record) for record in records]


def _with_own_usage(record: Record) -> Record:
    """Of the lines of one reply, only the last has its usage: it is counted once."""
    if isinstance(record, Assistant) and record.stop_reason is None:
        return msgspec.structs.replace(record, usage=None)
    return record


def _rebuild(record: Record | None, before: str | None, session_id: str) -> Sequence[Json]:
    if isinstance(record, Compaction):
        message: Json = {"role": "user", "content": record.summary}
        return [_line(record, message, before, session_id, isCompactSummary=True)]
    if not isinstance(record, User | Assistant | ToolResult):
        return []
    messages = export_messages([record], "anthropic").messages
    return [_line(record, message, before, session_id) for message in messages]


def _line(record: Record, message: Json, before: str | None, session_id: str, **more: Any) -> Json:
    if isinstance(record, Assistant):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        message = {
            "id": f"msg_{record.id}",
            "type": "message",
            "role": "assistant",
            "model": record.model or "unknown",
            "content": blocks,
            "stop_reason": record.stop_reason,
            "usage": record.usage or {},
        }
    return {
        "parentUuid": before,
        "isSidechain": False,
        "sessionId": session_id,
        "type": message["role"],
        "message": message,
        "uuid": str(uuid.uuid5(_NAMESPACE, f"{session_id}/{record.id}")),
        "timestamp": iso_utc(record.ts),
        **more,
    }


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

    uuids: set[str] = msgspec.field(default_factory=set)
    summary: Any = None
    since: int = 0
    """Records after the newest summary."""

    def add(self, items: Iterable[StoredItem]) -> None:
        """Take in what follows."""
        for item in items:
            if item.kind == _SUMMARY_TYPE:
                self.summary, self.since = _read(item.record), 0
                continue
            self.since += 1
            for entry in read_original(item.spelled) or ():
                if isinstance(entry, dict) and isinstance(entry.get("uuid"), str):
                    self.uuids.add(entry["uuid"])


class Transcripts:
    """Appends lines by comparing first: what another process wrote meanwhile is read again."""

    def __init__(self, home: PeerHome) -> None:
        self._home = home
        self._logs = FoldedLogs(home, _REMEMBERED_MAX, fold=self._load, advance=_advance)

    def append(self, name: PeerName, entries: Sequence[Any]) -> None:
        """Store the lines that are new. Raises `BadItem`, and then stores none."""
        made = [(entry, records_from_entry(entry)) for entry in entries]
        main = self._home.key_for(name[:2]) if len(name) > 2 else None
        self._logs.append_new(name, lambda known: _fresh(known, name, made), spawned_by=main)

    def _load(self, key: SessionKey) -> _Transcript:
        known = _Transcript()
        known.add(self.read(key))
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
        self._logs.forget(key)


def _advance(known: _Transcript, records: list[Record]) -> None:
    known.add(items_of(records, FORMAT_NAME))


def _fresh(
    known: _Transcript, name: PeerName, made: Sequence[tuple[Any, list[Record]]]
) -> list[Record]:
    """Return the records of the lines that are new, and the summary with them where it is due."""
    entries, records = [], []
    seen: set[str] = set()
    for entry, found in made:
        uuid = entry.get("uuid")
        if not isinstance(uuid, str) or (uuid not in known.uuids and uuid not in seen):
            entries.append(entry)
            records += found
        if isinstance(uuid, str):
            seen.add(uuid)
    if records and len(name) == 2:
        summary = _fold(known.summary, name, entries)
        if summary != known.summary or known.since + len(records) > _SUMMARY_EVERY:
            spelled = json.dumps(summary, separators=(",", ":"))
            records.append(Unknown(type=_SUMMARY_TYPE, extra={"json": spelled}))
    return records


def _fold(data: Any, name: PeerName, entries: list[Any]) -> Any:
    """Return the SDK's summary with more lines in it."""
    from claude_agent_sdk import fold_session_summary

    before: Any = None
    if data is not None:
        before = {"session_id": name[1], "mtime": 0, "data": data}
    key: Any = {"project_key": name[0], "session_id": name[1]}
    return fold_session_summary(before, key, entries)["data"]


def _read(record: Record | None) -> Any:
    """Return the summary that a record holds; None where it holds none."""
    if record is None:
        return None
    try:
        found = json.loads(record.extra["json"])
    except (KeyError, TypeError, ValueError):
        return None
    return found if isinstance(found, dict) else None


class HoldfastSessionStore(StoreAdapter):
    """A `SessionStore` of the SDK, over any store of Holdfast.

    `root` is the address of a store, `store` an open one. `delete` says what the SDK's
    `delete_session_via_store` does: a session in the trash can be restored, an erased one not.
    """

    def __init__(self, **where: Unpack[DeletingOptions]) -> None:
        require("claude_agent")
        super().__init__(**where)
        self._transcripts = Transcripts(self._home)

    def key_for(self, key: Mapping[str, str]) -> SessionKey:
        """Return the key in our store of a key of the SDK."""
        return self._home.key_for(_name_of(key))

    async def append(self, key: Mapping[str, str], entries: Sequence[Any]) -> None:
        """Store the lines that are new, durably and together."""
        name = _name_of(key)
        if entries:
            await write_in_thread(lambda: self._transcripts.append(name, entries))

    async def load(self, key: Mapping[str, str]) -> list[Any] | None:
        """Return all lines in the order they were stored; None where there are none."""
        name = _name_of(key)
        return await read_in_thread(lambda: self._load(name))

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        """Return the sessions of a project, with the time of the newest line in milliseconds."""
        return await read_in_thread(lambda: list(self._list(project_key)))

    async def list_session_summaries(self, project_key: str) -> list[dict[str, Any]]:
        """Return the SDK's summary of every session of a project."""
        return await read_in_thread(lambda: list(self._summaries(project_key)))

    async def delete(self, key: Mapping[str, str]) -> None:
        """Delete a transcript; a session goes with the transcripts of its subagents."""
        name = _name_of(key)
        await write_in_thread(lambda: self._delete(name))

    async def list_subkeys(self, key: Mapping[str, str]) -> list[str]:
        """Return the subpaths of a session that have a transcript."""
        name = _name_of(key)[:2]
        return await read_in_thread(
            lambda: [found[2] for found, _key in self._home.names() if _is_below(found, name)]
        )

    def _load(self, name: PeerName) -> list[Any] | None:
        key = self._home.key_for(name)
        if not self._home.exists(key, is_read_whole=True):
            return None
        return self._transcripts.entries(key, name[1]) or None

    def _list(self, project: str) -> Iterator[dict[str, Any]]:
        for name, key in self._mains(project):
            try:
                changed = self._home.store.info(key).last_active
            except NoSuchSession:
                continue  # deleted meanwhile
            yield {"session_id": name[1], "mtime": _milliseconds(changed)}

    def _summaries(self, project: str) -> Iterator[dict[str, Any]]:
        for name, key in self._mains(project):
            try:
                changed = self._home.store.info(key).last_active
                data = self._transcripts.summary(key)
            except NoSuchSession:
                continue  # deleted meanwhile
            if data is not None:
                yield {"session_id": name[1], "mtime": _milliseconds(changed), "data": data}

    def _mains(self, project: str) -> Iterator[tuple[PeerName, SessionKey]]:
        for name, key in self._home.names():
            if len(name) == 2 and name[0] == project:
                yield name, key

    def _delete(self, name: PeerName) -> None:
        keys = [self._home.key_for(name)]
        if len(name) == 2:
            keys += [key for found, key in self._home.names() if _is_below(found, name)]
        for key in keys:
            self._transcripts.forget(key)
            self._home.remove(key)


def _name_of(key: Mapping[str, str]) -> PeerName:
    """Return the parts of a key of the SDK."""
    try:
        name = (key["project_key"], key["session_id"])
        subpath = key.get("subpath")
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{key!r:.80} is not the key of a transcript",
            hint="pass a dictionary with `project_key`, `session_id` and perhaps `subpath`",
        ) from error
    return (*name, subpath) if subpath else name


def _is_below(name: PeerName, main: PeerName) -> bool:
    return len(name) == 3 and name[:2] == main


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
