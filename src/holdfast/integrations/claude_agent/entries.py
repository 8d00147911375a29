"""Lines of Claude Code's transcripts as records, and back."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.log.records import Assistant, Compaction, Label, ToolResult, User
from holdfast.core.text.timestamps import iso_utc
from holdfast.errors import BadItem
from holdfast.importers.agents.claude_code import read
from holdfast.importers.common.base import Source
from holdfast.importers.export_messages import export_messages
from holdfast.integrations.common.originals import keep_originals, read_original, spell_item

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.integrations.common.stored_items import StoredItem

FORMAT_NAME: Final = "claude-code"
_NAMESPACE: Final = uuid.UUID("6f9d9f0e-62f1-4b52-9a0e-6d0a52b9d6a5")
"""For the ids of lines that are made from records of others: always the same ones."""


def records_from_entry(entry: Any) -> list[Record]:
    """Return the records of a line: at least one. Raises `BadItem`."""
    spelled = spell_item(entry)
    if not isinstance(entry, dict):
        raise BadItem(
            f"cannot store an entry: it is {type(entry).__name__}, and no object",
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
