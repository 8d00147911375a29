"""Threads of LangGraph in a store: checkpoints, writes, and channel values stored once.

A value that is a list is stored as its difference from the version before it: how many elements
stay, and those that follow. A message among them is a record of its own. So a conversation of a
thousand checkpoints takes the room of its messages, and not of a thousand copies. A version that is
stored again has its newest value, and what goes on from it keeps the value that it went on from.
"""

from __future__ import annotations

import base64
import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.core.log.records import ORIGINAL_FIELD, WORDS_FIELD, Rewind, Unknown
from holdfast.core.text.typed import convert_typed
from holdfast.integrations.common.home import FoldedLogs
from holdfast.integrations.common.langchain_messages import record_from_message
from holdfast.integrations.common.originals import StoredLine, reading_item

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json, Record
    from holdfast.integrations.common.home import PeerHome


Packed = tuple[str, str]
"""A value as a serializer wrote it: the name of its kind, and its bytes as text."""
EMPTY: Final = ("empty", "")
"""A channel that has a version and no value."""
_CONTENTS: Final = 4
"""The fields of a value that say what it is: all but its tips."""
_Version = tuple[str, str, str]
"""The namespace, the channel, and its version as text."""


class StoredValue(msgspec.Struct, gc=False):
    """A version of a channel, as a checkpoint keeps it. A message among its elements is None: its
    record came before the checkpoint."""

    version: tuple[str, Any]
    whole: Packed | None = None
    base: str | None = None
    keep: int = 0
    items: tuple[Packed | None, ...] = ()


class _Value(NamedTuple):
    """A version of a channel: a value, or a list that goes on from another version."""

    whole: Packed | None
    base: str | None = None
    keep: int = 0
    items: Sequence[Packed] = ()
    tips: Sequence[str] = ()
    """For each element, the record of the last message up to it; empty where there is none."""
    tip: str = ""
    """The record of the last message in it; empty where there is none."""


class ChannelValues:
    """The values of all channels of a thread."""

    def __init__(self, root: str) -> None:
        self._root = root
        """The first record of the log."""
        self._values: dict[_Version, _Value] = {}
        self.newest: dict[tuple[str, str], str] = {}
        """The version of each channel that was stored last."""

    def add(
        self, ns: str, channel: str, stored: StoredValue, messages: Iterator[tuple[str, Packed]]
    ) -> None:
        """Take the next version of a channel, and the messages that it lacks."""
        version = spell_version(_read_tag(stored.version))
        value = self._read(ns, channel, stored, messages)
        known = self._values.get((ns, channel, version))
        if known is not None and known[:_CONTENTS] != value[:_CONTENTS]:
            value = self._replace(ns, channel, version, value)
        self._values[ns, channel, version] = value
        self.newest[ns, channel] = version

    def whole(self, ns: str, channel: str, version: Any) -> Packed | None:
        """Return the value of a version: `EMPTY` where it has none, None for a list."""
        stored = self._values.get((ns, channel, spell_version(version)))
        return EMPTY if stored is None else stored.whole

    def items(self, ns: str, channel: str, version: str) -> list[Packed]:
        """Return the elements of a list."""
        chain: list[_Value] = []
        stored = self._values.get((ns, channel, version))
        while stored is not None:
            chain.append(stored)
            if stored.whole is not None or stored.base is None:
                break
            stored = self._values.get((ns, channel, stored.base))
        items: list[Packed] = []
        for link in reversed(chain):
            if link.whole is None:
                del items[link.keep :]
                items += link.items
        return items

    def tip_at(self, ns: str, channel: str, version: str | None, keep: int) -> str:
        """Return the record of the last message among the first `keep` elements of a version."""
        while version is not None:
            stored = self._values[ns, channel, version]
            if keep >= stored.keep + len(stored.items):
                return stored.tip or self._root
            if keep > stored.keep:  # inside of what it added
                return stored.tips[keep - stored.keep - 1] or self._root
            version = stored.base
        return self._root

    def _read(
        self, ns: str, channel: str, stored: StoredValue, messages: Iterator[tuple[str, Packed]]
    ) -> _Value:
        if stored.whole is not None:
            return _Value(stored.whole)
        tip = "" if ns else self.tip_at(ns, channel, stored.base, stored.keep)
        items: list[Packed] = []
        tips: list[str] = []
        for item in stored.items:
            if item is None:
                tip, packed = next(messages)
            else:
                packed = item
            items.append(packed)
            tips.append(tip)
        return _Value(None, stored.base, stored.keep, items, tips, tip)

    def _replace(self, ns: str, channel: str, version: str, value: _Value) -> _Value:
        """Return the value of a version that is stored again, and written in another way."""
        known = self._values[ns, channel, version]
        value = self._without_base(ns, channel, value)
        if known.whole is None and self.items(ns, channel, version) == value.items:
            return known  # the same list: kept as a difference, it takes less room
        for place, stored in list(self._values.items()):
            if place[:2] == (ns, channel) and stored.base == version:  # it keeps what this was
                self._values[place] = self._without_base(ns, channel, stored)
        return value

    def _without_base(self, ns: str, channel: str, value: _Value) -> _Value:
        """Return a list that goes on from no other version: one that is stored again may go on
        from itself."""
        if value.whole is not None or value.base is None:
            return value
        kept = self.items(ns, channel, value.base)[: value.keep]
        tips = [
            "" if ns else self.tip_at(ns, channel, value.base, count + 1)
            for count in range(len(kept))
        ]
        return _Value(None, None, 0, [*kept, *value.items], [*tips, *value.tips], value.tip)


def tag_version(version: Any) -> list[Any]:
    """Return a version as it is stored."""
    return [type(version).__name__, version]


def spell_version(version: Any) -> str:
    """Return a version as text: 1, 1.0 and "1" are three."""
    return f"{type(version).__name__}:{version}"


def _read_tag(tagged: Sequence[Any]) -> Any:
    kind, version = tagged
    return float(version) if kind == "float" else version


FORMAT_NAME: Final = "langgraph"
_CHECKPOINT: Final = "graph_checkpoint"
_WRITES: Final = "graph_writes"
_DELETED: Final = "graph_deleted"
_REWIND: Final = str(Rewind.__struct_config__.tag)

Place = tuple[str, str]
"""The namespace and the id of a checkpoint."""


class StoredCheckpoint(NamedTuple):
    """A checkpoint without the values of its channels."""

    ns: str
    id: str
    parent: str | None
    checkpoint: Packed
    metadata: Packed
    run: str | None
    loose: Mapping[str, Packed] = {}
    """Values of channels that have no version of their own."""


class StoredWrite(NamedTuple):
    """A pending write of a task."""

    task: str
    path: str
    number: int
    channel: str
    value: Packed


class _StoredMessage(msgspec.Struct, gc=False):
    """A message as its record keeps it."""

    format: str = ""
    kind: str = ""
    data: str = ""


class GraphLine(StoredLine, gc=False):
    """A line of a thread's log: a checkpoint, writes, a message, or one of another program."""

    to: str = ""
    original: _StoredMessage | None = None
    ns: str = ""
    name: str | None = None
    before: str | None = None
    checkpoint: Packed | None = None
    metadata: Packed | None = None
    run: str | None = None
    loose: dict[str, Packed] = msgspec.field(default_factory=dict)
    values: dict[str, StoredValue] = msgspec.field(default_factory=dict)
    place: Place | None = None
    writes: tuple[tuple[str, str, int, str, Packed], ...] = ()
    places: tuple[Place, ...] = ()


def line_of(record: Record) -> GraphLine:
    """Return a record as a line of a thread's log. Raises what msgspec raises for a record that
    has another shape."""
    if isinstance(record, Rewind):
        return GraphLine(record.kind, record.id, to=record.to)
    kept = record.extra.get(ORIGINAL_FIELD)
    if record.kind not in (_CHECKPOINT, _WRITES, _DELETED):
        is_ours = isinstance(kept, dict) and kept.get("format") == FORMAT_NAME
        message = convert_typed(kept, _StoredMessage) if is_ours else None
        return GraphLine(record.kind, record.id, original=message)
    return convert_typed({**record.extra, "type": record.kind, "id": record.id}, GraphLine)


class GraphThread:
    """The index of a thread's log. It is read once, and follows what is appended here."""

    def __init__(self, root: str) -> None:
        self.checkpoints: dict[Place, StoredCheckpoint] = {}
        self.deleted: set[Place] = set()
        self._writes: dict[Place, list[GraphLine]] = {}
        self._values = ChannelValues(root)
        self._tip = root
        """The newest message on the path."""
        self._told: str | None = None
        """The channel whose messages are records: one conversation is on the path."""
        self._waiting: list[tuple[str, Packed]] = []
        """Messages whose checkpoint is still to come."""

    def add(self, line: GraphLine) -> None:
        """Take the next line of the log."""
        if line.type == _CHECKPOINT:
            self._add_checkpoint(line)
        elif line.type == _WRITES:
            if line.place is None:
                raise ValueError("writes of no checkpoint")
            self._writes.setdefault(line.place, []).append(line)
        elif line.type == _REWIND:
            self._tip = line.to
        elif line.type == _DELETED:
            self.deleted.update(line.places)
        elif line.original is not None and line.original.format == FORMAT_NAME:
            self._waiting.append((line.id, (line.original.kind, line.original.data)))
            self._tip = line.id

    def places(self, ns: str | None = None) -> list[Place]:
        """Return the checkpoints that are not deleted, the newest first."""
        found = [
            place
            for place in tuple(self.checkpoints)  # another thread may add one meanwhile
            if place not in self.deleted and ns in (None, place[0])
        ]
        return sorted(found, key=lambda place: place[1], reverse=True)

    def writes(self, place: Place) -> list[StoredWrite]:
        """Return the pending writes of a checkpoint, in the order in which they are applied."""
        found = self._writes_of(place).values()
        return sorted(found, key=lambda write: (write.path, write.task, write.number))

    def value(
        self,
        ns: str,
        channel: str,
        version: Any,
        load: Callable[[Packed], Any],
        load_all: Callable[[Sequence[Packed]], list[Any]],
    ) -> tuple[Any, ...]:
        """Return the value of a channel in a tuple; an empty one where it has none."""
        whole = self._values.whole(ns, channel, version)
        if whole == EMPTY:
            return ()
        if whole is not None:
            return (load(whole),)
        return (load_all(self._values.items(ns, channel, spell_version(version))),)

    def checkpoint_records(
        self,
        stored: StoredCheckpoint,
        values: Mapping[str, tuple[Any, Any]],
        dump: Callable[[Any], Packed],
        *,
        missing: Iterable[tuple[str, Any]] = (),
        rest: Mapping[str, tuple[Any, Any]] | None = None,
        words: str = "",
    ) -> list[Record]:
        """Return the records of a checkpoint: its messages that are new, and itself.

        `values` has a version and a value for each channel that changed; `missing` are those that
        have a version alone. `rest` are the other channels: of these, only a value that no version
        has is stored. `words` say which checkpoint it is, for people who read the log.
        """
        records: list[Record] = []
        written: Json = {}
        for channel, version in missing:
            written[channel] = {"version": tag_version(version), "whole": EMPTY}
        for channel, (version, value) in values.items():
            if isinstance(value, list):
                known = self._values.newest.get((stored.ns, channel))
                difference = self._difference(stored.ns, channel, known, value, dump, records)
                written[channel] = {"version": tag_version(version), **difference}
            else:
                written[channel] = {"version": tag_version(version), "whole": dump(value)}
        loose = {
            channel: dump(value)
            for channel, (version, value) in (rest or {}).items()
            if self._values.whole(stored.ns, channel, version) == EMPTY
        }
        extra = {**stored._asdict(), "values": written, "loose": loose}
        extra["name"] = extra.pop("id")
        extra["before"] = extra.pop("parent")
        extra[WORDS_FIELD] = f"{words}: {_names_of(written)}" if words else _names_of(written)
        records.append(Unknown(type=_CHECKPOINT, extra=extra))
        return records

    def write_records(self, place: Place, writes: Sequence[StoredWrite]) -> list[Record]:
        """Return the record of writes that are new: those of a task are stored once."""
        known = self._writes_of(place)
        fresh = [
            write for write in writes if write.number < 0 or (write.task, write.number) not in known
        ]
        if not fresh:
            return []
        extra = {
            "place": place,
            "writes": [tuple(write) for write in fresh],
            WORDS_FIELD: f"a task wrote {_names_of(write.channel for write in fresh)}",
        }
        return [Unknown(type=_WRITES, extra=extra)]

    def deletion_records(self, places: Sequence[Place]) -> list[Record]:
        """Return the record that takes checkpoints away."""
        extra = {"places": list(places), WORDS_FIELD: f"{len(places)} checkpoints taken away"}
        return [Unknown(type=_DELETED, extra=extra)] if places else []

    def _difference(
        self,
        ns: str,
        channel: str,
        known: str | None,
        value: list[Any],
        dump: Callable[[Any], Packed],
        records: list[Record],
    ) -> Json:
        """Return a list as its difference from a version, and add its new messages to records."""
        packed = [dump(item) for item in value]
        before = [] if known is None else self._values.items(ns, channel, known)
        keep = 0
        while keep < min(len(before), len(packed)) and before[keep] == packed[keep]:
            keep += 1
        found = [
            _message_record(item, typed)
            for item, typed in zip(value[keep:], packed[keep:], strict=True)
        ]
        is_told = not ns and self._told in (None, channel) and any(found)
        tip = self._values.tip_at(ns, channel, known, keep)
        if is_told:
            self._told = channel
        if is_told and tip != self._tip:
            records.append(Rewind(to=tip, reason="another branch of the graph"))
        items: list[Packed | None] = []
        for record, typed in zip(found, packed[keep:], strict=True):
            if record is None or not is_told:
                items.append(typed)
            else:
                records.append(record)
                items.append(None)
        return {"base": known, "keep": keep, "items": items}

    def _add_checkpoint(self, line: GraphLine) -> None:
        ns, name = line.ns, line.name
        if name is None or line.checkpoint is None or line.metadata is None:
            raise ValueError("a checkpoint without its name, contents or metadata")
        messages = sum(stored.items.count(None) for stored in line.values.values())
        if messages > len(self._waiting):
            raise ValueError("a checkpoint of messages that are not there")
        # The last ones: a message that another program put into the log belongs to no checkpoint.
        waiting = iter(self._waiting[len(self._waiting) - messages :])
        for channel, stored in line.values.items():
            if None in stored.items:
                self._told = channel
            self._values.add(ns, channel, stored, waiting)
        self._waiting.clear()
        self.deleted.discard((ns, name))
        self.checkpoints[ns, name] = StoredCheckpoint(
            ns, name, line.before, line.checkpoint, line.metadata, line.run, line.loose
        )

    def _writes_of(self, place: Place) -> dict[tuple[str, int], StoredWrite]:
        """Return the writes of a checkpoint by task and number; the newest of each counts."""
        return {
            (task, number): StoredWrite(task, path, number, channel, value)
            for line in self._writes.get(place, ())
            for task, path, number, channel, value in line.writes
        }


def _names_of(channels: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(channels)) or "nothing new"


def pack(typed: tuple[str, bytes]) -> Packed:
    """Return what a serializer wrote as text."""
    kind, data = typed
    return kind, base64.b64encode(data).decode()


def unpack(packed: Packed) -> tuple[str, bytes]:
    """Return what `pack` was given."""
    return packed[0], base64.b64decode(packed[1])


def _message_record(item: Any, packed: Packed) -> Record | None:
    """Return the record of a message; None for anything else, and for what is encrypted."""
    kind, data = packed
    if "+" in kind:  # an encrypted value is not told in plain text
        return None
    record = record_from_message(item)
    if record is None:
        return None
    kept = {"format": FORMAT_NAME, "kind": kind, "data": data}
    return msgspec.structs.replace(record, extra={**record.extra, ORIGINAL_FIELD: kept})


_REMEMBERED_MAX: Final = 64
"""Threads whose index is held in memory; that of another one is read from its log."""


class ThreadLogs:
    """The threads of a store, each with its index."""

    def __init__(self, home: PeerHome) -> None:
        self._home = home
        self._logs = FoldedLogs(home, _REMEMBERED_MAX, fold=self._load, advance=_advance)
        self._lock = threading.RLock()

    def read(self, thread_id: str) -> GraphThread | None:
        """Return the index of a thread as it is now; None where there is none."""
        with self._lock:
            return self._logs.find(self._home.key_for((thread_id,)))

    def change(self, thread_id: str, make: Callable[[GraphThread], list[Record]]) -> None:
        """Append what `make` makes of a thread; again, where another writer came in between."""
        with self._lock:
            self._logs.append_new((thread_id,), make)

    def names(self) -> list[str]:
        """Return the names of all threads."""
        return [name[0] for name, _key in self._home.names() if len(name) == 1]

    def delete(self, thread_id: str) -> None:
        """Delete a thread."""
        key = self._home.key_for((thread_id,))
        with self._lock:
            self._logs.forget(key)
            self._home.remove(key)

    def _load(self, key: SessionKey) -> GraphThread:
        thread = GraphThread(self._home.store.header(key).id)
        for found in self._home.lines(key, GraphLine, is_everything=True):
            try:
                thread.add(found if isinstance(found, GraphLine) else line_of(found))
            except Exception:
                with reading_item(found):
                    raise
        return thread


def _advance(thread: GraphThread, records: list[Record]) -> None:
    for record in records:
        thread.add(line_of(record))
