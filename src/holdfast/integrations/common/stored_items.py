"""Items of a framework in a log, read without building the records that keep them.

A resume hands out the framework's own items. Of most lines, these are all that it needs: so the
other fields of a line are skipped, and its record is decoded where somebody asks for it. A log
with branches, damage or repeated ids is read by the rules of the log, record by record.
"""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from holdfast.core.limits import RECORD_NESTING_MAX
from holdfast.core.log import views
from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import MESSAGES, Header, ToolResult, ToolUse, decode
from holdfast.core.text.nesting import is_shallow, is_too_deep
from holdfast.core.text.typed import decoder_of
from holdfast.integrations.common.originals import original_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Content, Record
    from holdfast.core.log.walk import OpenLog
    from holdfast.ports import SessionStore

_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of a log that is held in memory; a longer one is read record by record."""
_HEADER_TYPE: Final = str(Header.__struct_config__.tag)
_CALL_TYPE: Final = str(ToolUse.__struct_config__.tag)
_RESULT_TYPE: Final = str(ToolResult.__struct_config__.tag)
SPOKEN: Final = frozenset((*MESSAGES, _CALL_TYPE))
"""The types of records that are messages in a framework, whoever wrote them."""


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
        if lines is None or len(lines) != len(sources) - 1:  # a blank line is no record
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
        """False for a line that is no record, as far as its fields tell."""
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
