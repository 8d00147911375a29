"""Holdfast's own logs, and the seed format (claw0's), which they are a superset of.

The records on the path to the head are carried, as a store would read them.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import BY_TYPE, Header, Label, Record, Rewind, encode, from_json
from holdfast.core.log.replay import without_doubles
from holdfast.core.log.tree import Outline, Place
from holdfast.importers.common.base import Draft, Imported, Importer, Source, is_text

_SEED: Final = frozenset({"user", "assistant", "tool_use", "tool_result"})
_FOREIGN: Final = (
    "uuid",
    "sessionId",
    "session_id",
    "message",
    "timestamp",
    "tool_calls",
    "prompt_index",
    "synthetic_reason",
    "model_id",
    "tool_call_id",
)


def detect(source: Source) -> bool:
    head = source.head
    if not head:
        return False
    if head[0].get("type") == "session" and head[0].get("format") == "holdfast":
        return True
    kinds = {item.get("type") for item in head if is_text(item.get("type"))}
    is_ours = kinds <= BY_TYPE.keys() and bool(kinds & _SEED)
    has_fields = any("content" in item or "tool_use_id" in item for item in head)
    return is_ours and has_fields and not any(name in item for item in head for name in _FOREIGN)


def read(source: Source) -> list[Imported]:
    draft = Draft()
    records: list[Record] = []
    name = ""
    for line in source.lines:
        found = from_json(line.value)
        if isinstance(found, Flaw):
            draft.skip("line that is not a record", found.detail)
        else:
            records.append(found)
    path = _path(records)
    left, places = Draft(), set(map(id, path))
    for record in records:
        if id(record) not in places and not isinstance(record, Header):
            left.carry(record)
    draft.leave(left, len(records) - len(path))
    kept = list(without_doubles(path))
    draft.skip("tool_use line", "a second copy of a call in its message", len(path) - len(kept))
    for record in kept:
        if isinstance(record, Header):
            name, draft.label = record.id, record.label or draft.label
        elif isinstance(record, Label) and record.target is None:
            draft.label = record.label
        elif isinstance(record, Rewind):
            draft.skip("rewind", "only the branch that it leads to is carried")
        else:
            draft.carry(record)
    return [draft.finish(source, "holdfast", name)]


def _path(records: list[Record]) -> list[Record]:
    outline = Outline()
    for place, record in enumerate(records):
        outline.add(place, 1, record)
    outline.end()
    places: dict[str, list[Place]] = {}
    wanted = outline.missing_ids
    for place, record in enumerate(records):
        if record.id in wanted:
            places.setdefault(record.id, []).append(Place(place, hash(encode(record))))
    outline.settle(places)
    return [
        records[place]
        for span in outline.path()
        for place in range(span.first, span.last + 1)
        if place not in outline.skipped
    ]


IMPORTER: Final = Importer(
    "holdfast", "Holdfast's own logs and the seed format (claw0)", detect, read
)
