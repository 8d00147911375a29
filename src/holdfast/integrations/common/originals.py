"""Exact items of another framework, kept beside the records that have their meaning.

A record is what every reader of Holdfast understands. Where the framework's item cannot be made
from it again, to the last byte of its JSON, the record keeps that JSON too. A resume hands out the
framework's own items. Of most lines, these are all that it needs: so the other fields of a line are
skipped, and its record is decoded where someone asks for it. A log with branches, damage or
repeated ids is read by the rules of the log, record by record.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from holdfast.core.limits import RECORD_NESTING_MAX
from holdfast.core.log import views
from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import (
    MESSAGES,
    ORIGINAL_FIELD,
    Header,
    ToolResult,
    ToolUse,
    Unknown,
    decode,
    encode,
)
from holdfast.core.text.strings import is_shallow, is_too_deep
from holdfast.core.text.typed import decoder_of
from holdfast.errors import BadItem, BadRecord, HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Content, Json, Record
    from holdfast.core.log.walk import OpenLog
    from holdfast.ports import SessionStore


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


_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of a log that is held in memory; a longer one is read record by record."""
_HEADER_TYPE: Final = str(Header.__struct_config__.tag)
_CALL_TYPE: Final = str(ToolUse.__struct_config__.tag)
_RESULT_TYPE: Final = str(ToolResult.__struct_config__.tag)
SPOKEN: Final = frozenset((*MESSAGES, _CALL_TYPE))
"""The types of records that are messages in a framework, no matter who wrote them."""


class StoredItem(NamedTuple):
    """A record of a log, and the framework's item that it keeps."""

    id: str
    kind: str
    spelled: str | None
    """The JSON of the item: empty where the record before it keeps it, None where none does."""
    source: bytes | Record

    @property
    def record(self) -> Record | None:
        """The record itself; None where its own fields are damaged."""
        if not isinstance(self.source, bytes):
            return self.source
        found = decode(self.source)
        return None if isinstance(found, Flaw) else found


def items_of(records: Iterable[Record], form: str) -> Iterator[StoredItem]:
    """Yield records, each with its item in a format."""
    for record in records:
        yield StoredItem(record.id, record.kind, original_json(record, form), record)


def read_items(
    store: SessionStore,
    key: SessionKey,
    form: str,
    *,
    is_everything: bool = False,
    on_rules: Callable[[], None] | None = None,
) -> Iterator[StoredItem]:
    """Yield the records on the path, oldest first, each with its item in a format.

    With `is_everything`, the records of every branch in the order they were written. `on_rules` is
    called where the log has to be read by its rules: it may have damage. Raises `NoSuchSession`.
    """
    with store.open_log(key) as log:
        data = _whole(log)
        lines = _plain_lines(data, ItemLine, is_everything=is_everything)
        sources = data.split(b"\n")
        if lines is None or len(lines) != len(sources) - 1:  # a blank line is not a record
            if on_rules is not None:
                on_rules()
            yield from items_of(_read_records(log, is_everything=is_everything), form)
            return
        for line, source in zip(lines, sources, strict=False):
            spelled = item_json(line.original, form)
            is_told = spelled is not None or on_rules is None or line.type not in SPOKEN
            if not is_told and isinstance(decode(source), Flaw):
                assert on_rules is not None
                on_rules()
            yield StoredItem(line.id, line.type, spelled, source)


def read_lines(
    store: SessionStore,
    key: SessionKey,
    kind: type[AnyLine],
    *,
    is_everything: bool = False,
    on_rules: Callable[[], None] | None = None,
) -> Iterable[AnyLine] | Iterable[Record]:
    """Return the records that `read_items` yields: as lines of a type, or as records where the log
    has to be read by its rules. Raises `NoSuchSession`."""
    with store.open_log(key) as log:
        lines = _plain_lines(_whole(log), kind, is_everything=is_everything)
        if lines is not None and all(line.is_record for line in lines):
            return lines
        if on_rules is not None:
            on_rules()
        return list(_read_records(log, is_everything=is_everything))


class StoredLine(msgspec.Struct):
    """The fields of a line that say where it belongs. A subclass adds those that are wanted."""

    type: str
    id: str
    parent: str | None = None
    more: int | None = None

    @property
    def is_record(self) -> bool:
        """False for a line that is not a record, as far as its fields tell."""
        return True


AnyLine = TypeVar("AnyLine", bound=StoredLine)


class Original(msgspec.Struct, gc=False):
    """The field of a record with the framework's item."""

    format: str = ""
    json: str | None = None


class ItemLine(StoredLine, gc=False):
    """A line with the item that it keeps."""

    original: Original | None = None


class MessageLine(StoredLine, gc=False):
    """A line with the fields that a message is made of, and with the item that it keeps."""

    ts: float = 0.0
    original: Original | None = None
    _content: str | list[dict[str, Any]] | msgspec.UnsetType | None = msgspec.field(
        default=msgspec.UNSET, name="content"
    )
    tool_use_id: str | None = None
    is_error: bool = False
    role: Any = None

    @property
    def content(self) -> Content:
        """The content of the message."""
        return None if self._content is msgspec.UNSET else self._content

    @property
    def is_record(self) -> bool:
        """False for a message that lacks a field, or whose content is nested too deeply."""
        content = self._content
        if self.type == _RESULT_TYPE and self.tool_use_id is None:
            return False
        if isinstance(content, str) or self.type not in MESSAGES:
            return True
        if not isinstance(content, list):
            return content is None or self.type == _RESULT_TYPE
        return is_shallow(content) or not is_too_deep(content, RECORD_NESTING_MAX - 1)


@cache
def _decoder(kind: type[AnyLine]) -> msgspec.json.Decoder[AnyLine]:
    return decoder_of(kind)


def _read_records(log: OpenLog, *, is_everything: bool) -> Iterator[Record]:
    if not is_everything:
        return views.read_path(log)
    entries = views.read_entries(log)
    return (entry.record for entry in entries if entry.standing in ("path", "branch"))


def _whole(log: OpenLog) -> bytes:
    """Return the bytes of a log; none of one that is too long."""
    return b"" if log.size > _BYTES_MAX else b"".join(log.data())


def _plain_lines(data: bytes, kind: type[AnyLine], *, is_everything: bool) -> list[AnyLine] | None:
    """Return the lines of a log whose records all count; None for any other log.

    Without `is_everything`, each also follows the one before it.
    """
    if not data.endswith(b"\n"):
        return None
    try:
        lines = _decoder(kind).decode_lines(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if not _all_count(lines):
        return None
    if not is_everything and any(line.parent is not None for line in lines):
        return None
    return lines


def _all_count(lines: Sequence[StoredLine]) -> bool:
    """True where each record has an id of its own, none doubles a call, and every append of
    several records is complete."""
    if not lines or lines[0].type != _HEADER_TYPE:
        return False
    header, before, left = lines[0].id, "", 0
    for line in islice(lines, 1, None):
        if line.id <= before or line.id == header:
            return False
        if not line.type or line.type == _HEADER_TYPE or line.type == _CALL_TYPE:
            return False
        more = line.more
        if (left and more != left - 1) or (more is not None and more < 0):
            return False
        before, left = line.id, more or 0
    return not left


def item_json(original: Original | None, form: str) -> str | None:
    """Return the JSON of the item that a line keeps in a format, as `original_json` does."""
    return None if original is None or original.format != form else original.json
