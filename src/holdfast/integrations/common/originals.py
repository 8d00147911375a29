"""The exact item of another framework, kept beside the record that has its meaning.

A record is what every reader of Holdfast understands. Where the framework's item cannot be made
from it again, to the last byte of its JSON, the record keeps that JSON too.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import ORIGINAL_FIELD, Unknown, decode, encode
from holdfast.errors import BadItem, BadRecord, HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.integrations.common.stored_items import StoredItem, StoredLine

ITEM_TYPE: Final = "peer_item"
"""The type of a record for an item that has no counterpart among ours."""
_SHAPE_ERRORS: Final = (
    *(AttributeError, LookupError, TypeError, ValueError, RecursionError, msgspec.MsgspecError),
)
"""Raised by code that reads a value of an unexpected shape, and by the frameworks' own types."""


def spell_item(item: object) -> str:
    """Return the JSON of an item. Raises `BadItem`."""
    try:
        return json.dumps(item, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadItem(
            f"cannot store an item: {error}",
            hint="items hold texts, numbers, lists and objects; nothing was stored",
        ) from error


def keep_original(
    record: Record | None, spelled: str, form: str, rebuild: Callable[[Record], Sequence[Json]]
) -> Record:
    """Return a record that gives an item back exactly.

    `spelled` is the item's JSON and `form` the name of its format; `rebuild` makes items from a
    record's own fields. None for `record`: the item has no counterpart, and is a record of its own.
    """
    stored = None if record is None else _as_stored(record)
    if record is None or stored is None:
        record = Unknown(type=ITEM_TYPE)
    elif _spell_all(rebuild(stored)) == [spelled]:
        return record
    original = {"format": form, "json": spelled}
    return msgspec.structs.replace(record, extra={**record.extra, ORIGINAL_FIELD: original})


def keep_originals(records: Sequence[Record], spelled: str, form: str) -> list[Record]:
    """Return records of one item, the first of which gives it back; the others give back nothing.

    Without records, or where the log cannot hold one, the item is a record of its own.
    """
    if not records or any(_as_stored(record) is None for record in records):
        records = [Unknown(type=ITEM_TYPE)]
    kept: list[dict[str, str]] = [{"format": form, "json": spelled}]
    kept += [{"format": form, "json": ""} for _record in records[1:]]
    return [
        msgspec.structs.replace(record, extra={**record.extra, ORIGINAL_FIELD: original})
        for record, original in zip(records, kept, strict=True)
    ]


def original_of(record: Record, form: str) -> list[Any] | None:
    """Return the item that a record keeps in a format, in a list; None where it keeps none.

    The list is empty for a record whose item is kept by the one before it.
    """
    return read_original(original_json(record, form))


def read_original(spelled: str | None) -> list[Any] | None:
    """Return the item of a JSON that `original_json` returned, as `original_of` does."""
    if not spelled:
        return None if spelled is None else []
    try:
        return [msgspec.json.decode(spelled)]
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass  # half a character, or a number that is none: only Python's own reader takes them
    try:
        return [json.loads(spelled)]
    except ValueError:
        return None


def original_json(record: Record, form: str) -> str | None:
    """Return the JSON of the item that a record keeps in a format; None where it keeps none.

    It is empty for a record whose item is kept by the one before it.
    """
    kept = record.extra.get(ORIGINAL_FIELD)
    if not isinstance(kept, dict) or kept.get("format") != form:
        return None
    spelled = kept.get("json")
    return spelled if isinstance(spelled, str) else None


@contextmanager
def reading_item(record: Record | StoredItem | StoredLine) -> Iterator[None]:
    """Raise `BadItem` where a record holds an item in a shape that cannot be read.

    Such a record was written by a newer release, or by hand. Leaving it out would show a
    conversation that never was.
    """
    try:
        yield
    except HoldfastError:
        raise
    except (*_SHAPE_ERRORS, NotImplementedError, StopIteration) as error:
        raise BadItem(
            f"cannot read record {record.id}: {type(error).__name__}: {error}",
            hint="was it written by a newer release? Install that one; "
            f"`holdfast show … {record.id}` shows it",
        ) from error


def _as_stored(record: Record) -> Record | None:
    """Return a record as the log gives it back; None where the log cannot hold it.

    Lone surrogates, NaN and the like do not come back as they went in.
    """
    try:
        stored = decode(encode(record))
    except BadRecord:
        return None
    return None if isinstance(stored, Flaw) else stored


def _spell_all(items: Sequence[Json]) -> list[str]:
    return [json.dumps(item, separators=(",", ":")) for item in items]
