"""Items of a framework in a log, read without building the records that keep them.

A resume hands out the framework's own items. Of most lines, these are all that it needs: so the
other fields of a line are skipped, and its record is decoded where somebody asks for it. A log
with branches, damage or repeated ids is read by the rules of the log, record by record.
"""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.core.log import views
from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import Header, ToolUse, decode
from holdfast.core.text.typed import decoder_of
from holdfast.integrations.common.originals import original_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.log.walk import OpenLog
    from holdfast.ports import SessionStore

_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of a log that is held in memory; a longer one is read record by record."""
_HEADER_TYPE: Final = str(Header.__struct_config__.tag)
_CALL_TYPE: Final = str(ToolUse.__struct_config__.tag)


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
    store: SessionStore, key: SessionKey, form: str, *, is_everything: bool = False
) -> Iterator[StoredItem]:
    """Yield the records on the path, oldest first, each with its item in a format.

    With `is_everything`, the records of every branch in the order they were written. Raises
    `NoSuchSession`.
    """
    with store.open_log(key) as log:
        plain = _read_plain(log, form)
        if plain is not None:
            yield from plain
            return
        records = views.read_path(log)
        if is_everything:
            entries = views.read_entries(log)
            records = (entry.record for entry in entries if entry.standing in ("path", "branch"))
        yield from items_of(records, form)


class _Original(msgspec.Struct, gc=False):
    """The field of a record with the framework's item."""

    format: str = ""
    json: str | None = None


class _Line(msgspec.Struct, gc=False):
    """The fields of a line that say where it belongs, and the item that it keeps."""

    type: str
    id: str
    parent: str | None = None
    more: int | None = None
    original: _Original | None = None


@cache
def _decoder() -> msgspec.json.Decoder[_Line]:
    return decoder_of(_Line)


def _read_plain(log: OpenLog, form: str) -> list[StoredItem] | None:
    """Return the items of a log whose records follow each other; None for any other log."""
    if log.size > _BYTES_MAX:
        return None
    data = b"".join(log.data())
    try:
        lines = _decoder().decode_lines(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    sources = data.split(b"\n")
    if sources.pop() or len(sources) != len(lines) or not _is_plain(lines):
        return None
    return [
        StoredItem(line.id, line.type, _item_json(line.original, form), source)
        for line, source in zip(lines, sources, strict=True)
    ]


def _is_plain(lines: Sequence[_Line]) -> bool:
    """True where each record follows the one before it, under an id of its own, and every append
    of several records is complete."""
    if not lines or lines[0].type != _HEADER_TYPE:
        return False
    header, before, left = lines[0].id, "", 0
    for line in islice(lines, 1, None):
        if line.parent is not None or line.id <= before or line.id == header:
            return False
        if not line.type or line.type == _HEADER_TYPE or line.type == _CALL_TYPE:
            return False
        more = line.more
        if (left and more != left - 1) or (more is not None and more < 0):
            return False
        before, left = line.id, more or 0
    return not left


def _item_json(original: _Original | None, form: str) -> str | None:
    return None if original is None or original.format != form else original.json
