"""The comparison of a session with the source that it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.core.log.records import (
    Assistant,
    Checkpoint,
    Compaction,
    Flush,
    Header,
    InjectedContext,
    Label,
    Mode,
    Prune,
    Record,
    Rewind,
    ToolResult,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence


ORIGIN: Final = "imported"
"""The field of the first and the last record of an import that names the source: a session whose
newest record has it was not used here since."""

GrowthState = Literal["same", "grown", "revised", "diverged"]
"""`same`: the session has everything. `grown`: the source went on where the session ends.
`revised`: the source completed the step that the session ends with. `diverged`: both went on, or
the source was rewritten."""

_OWN: Final = (Checkpoint, Flush, Header, InjectedContext, Label, Mode, Rewind)
"""Records that a session gets here, and that no source has in the same place."""
_PLACE: Final = ("id", "ts", "parent", "more", "extra")


class Growth(msgspec.Struct, frozen=True):
    """The relation of a session to its source."""

    state: GrowthState
    shared: int
    """The number of records that both have, from the first on."""
    at: str = ""
    """The last record of the session that both have; empty where there is none."""
    fresh: tuple[Record, ...] = ()
    """The records that the session lacks; references mean records of the session."""


def is_adopted(records: Iterable[Record]) -> bool:
    """Return whether a session came from another tool."""
    return any(ORIGIN in record.extra for record in records)


def compare(stored: Sequence[Record], source: Sequence[Record]) -> Growth:
    """Compare the path of a session with the records of its source, both oldest first."""
    renamed: dict[str, str] = {}
    place = shared = 0
    at = ""
    while place < len(stored) and shared < len(source):
        wanted = refer(source[shared], renamed)
        if is_same(stored[place], wanted):
            at = stored[place].id
            if wanted.id and wanted.id != at:
                renamed[wanted.id] = at
            shared += 1
        elif not isinstance(stored[place], _OWN):
            break
        place += 1
    left = [record for record in stored[place:] if not isinstance(record, _OWN)]
    fresh = tuple(refer(record, renamed) for record in source[shared:])
    if not fresh:
        return Growth("same", shared, at)
    state: GrowthState = "diverged"
    if not left:
        state = "grown"
    elif _is_beginning(left, fresh):
        state = "revised"
    return Growth(state, shared, at, fresh)


def with_free_ids(records: Sequence[Record], taken: Container[str]) -> list[Record]:
    """Give records whose id is taken another one, also where others refer to them."""
    renamed: dict[str, str] = {}
    made: list[Record] = []
    for record in records:
        if record.id and record.id in taken:
            number = 2
            while (name := f"{record.id[:96]}.{number}") in taken:
                number += 1
            renamed[record.id] = name
            record = msgspec.structs.replace(record, id=name)
        made.append(refer(record, renamed))
    return made


def mark(records: Sequence[Record], origin: dict[str, Any]) -> list[Record]:
    """Name the source in the first and the last record."""
    marked = list(records)
    for place in {0, len(marked) - 1}:
        record = marked[place]
        marked[place] = msgspec.structs.replace(record, extra={**record.extra, ORIGIN: origin})
    return marked


def is_same(stored: Record, wanted: Record) -> bool:
    """Return whether a stored record says what a record of a source says, at the same time."""
    if type(stored) is not type(wanted) or stored.kind != wanted.kind:
        return False
    if wanted.ts and wanted.ts != stored.ts:
        return False
    if _extra(stored) != _extra(wanted):
        return False
    names = [name for name in stored.__struct_fields__ if name not in _PLACE]
    if isinstance(wanted, ToolResult) and wanted.output_ref is None:
        names.remove("output_ref")  # the source has thrown the whole output away since
    return all(getattr(stored, name) == getattr(wanted, name) for name in names)


def refer(record: Record, renamed: dict[str, str]) -> Record:
    """Return the record with references to other names of the same records."""
    if not renamed:
        return record
    changes: dict[str, Any] = {}
    for name in ("to", "first_kept", "target"):
        named = getattr(record, name, None)
        if named in renamed:
            changes[name] = renamed[named]
    if isinstance(record, Compaction):
        if record.covers is not None and any(name in renamed for name in record.covers):
            first, last = record.covers
            changes["covers"] = (renamed.get(first, first), renamed.get(last, last))
        if record.turn is not None and any(str(kept.get("id")) in renamed for kept in record.turn):
            changes["turn"] = [_rename(kept, renamed) for kept in record.turn]
    if isinstance(record, Prune):
        changes["decisions"] = [
            msgspec.structs.replace(each, record=renamed.get(each.record, each.record))
            for each in record.decisions
        ]
    return msgspec.structs.replace(record, **changes) if changes else record


def _rename(kept: dict[str, Any], renamed: dict[str, str]) -> dict[str, Any]:
    name = kept.get("id")
    return {**kept, "id": renamed[name]} if isinstance(name, str) and name in renamed else kept


def _extra(record: Record) -> dict[str, Any]:
    return {name: value for name, value in record.extra.items() if name != ORIGIN}


def _is_beginning(left: Sequence[Record], fresh: Sequence[Record]) -> bool:
    """Return whether each record is, in order, an early state of one that the source has now."""
    place = 0
    for record in left:
        while place < len(fresh) and not _begins(record, fresh[place]):
            place += 1
        if place == len(fresh):
            return False
        place += 1
    return True


def _begins(stored: Record, wanted: Record) -> bool:
    """Return whether a reply was stored before its last lines, or its usage, were written."""
    if is_same(stored, wanted):
        return True
    if not isinstance(stored, Assistant) or not isinstance(wanted, Assistant):
        return False
    if wanted.ts and wanted.ts != stored.ts:
        return False
    early, late = stored.content, wanted.content
    if isinstance(early, list) and isinstance(late, list):
        return early == late[: len(early)]
    return early == late
