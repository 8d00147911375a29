"""Read from the log what providers refused: it is not sent to the same model again.

Each repair after a refusal is an `epoch` record that names what was left out of which records. The
records themselves stay as they are; every reader that writes for a model takes `as_sent`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.records import Assistant, Epoch, InjectedContext, Undo, User

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.core.log.records import LeftOut, Record

REFUSED: Final = "refused"
"""The cause of an epoch that begins with a repair after a refusal."""
REFUSAL: Final = "refusal"
"""The field of an `assistant` record that is true where a provider refused to answer."""
_NOTE: Final = {"meta": True, "injected": "refusal"}
"""Marks a note in the place of a message: nobody said it."""


def refusals_in(records: Sequence[Record], provider: str, model: str) -> list[Epoch]:
    """Return the repairs that hold for a model, oldest first."""
    found = [record for record in records if type(record) is Epoch and record.cause == REFUSED]
    if not found:
        return []
    undone = {record.target for record in records if type(record) is Undo}
    return [
        epoch
        for epoch in found
        if epoch.id not in undone
        and (epoch.provider or provider) == provider
        and (epoch.model or model) == model
    ]


def left_out_in(records: Sequence[Record], provider: str, model: str) -> dict[str, LeftOut]:
    """Return what a model refused of records, by record; the newest refusal of each decides."""
    found: dict[str, LeftOut] = {}
    for epoch in refusals_in(records, provider, model):
        for item in epoch.left_out:
            before = found.get(item.record)
            if before is None or before.what == "media" or item.what == "all":
                found[item.record] = item
    return found


def refused_fields_in(records: Sequence[Record], provider: str, model: str) -> tuple[str, ...]:
    """Return the fields beside the conversation that a model refused."""
    epochs = refusals_in(records, provider, model)
    return tuple(dict.fromkeys(field for epoch in epochs for field in epoch.fields))


def is_refusal(record: Record) -> bool:
    """Return whether a record is a refusal that was stored as the reply."""
    return type(record) is Assistant and record.extra.get(REFUSAL) is True


def as_sent(records: Iterable[Record], left_out: Mapping[str, LeftOut]) -> list[Record]:
    """Return records without what was refused as a whole: notes stand in its place, or nothing."""
    if not left_out:
        return list(records)
    found: list[Record] = []
    for record in records:
        item = left_out.get(record.id)
        if is_refusal(record):
            continue
        if item is None or item.what != "all":
            found.append(record)
        elif item.note:
            found.append(_as_note(record, item.note))
    return found


def _as_note(record: Record, note: str) -> Record:
    match record:
        case User():
            return msgspec.structs.replace(record, content=note, extra={**record.extra, **_NOTE})
        case InjectedContext():
            return msgspec.structs.replace(record, text=note)
        case _ if hasattr(record, "content"):
            return msgspec.structs.replace(record, content=note)
        case _:
            return record
