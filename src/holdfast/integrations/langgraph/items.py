"""Items of a LangGraph store as notes: a file for each, with its text for people and for search.

An item stands in `langgraph/<namespace>/<key>.md`. The texts to search are one note each, and a
comment below them holds the item itself.
"""

from __future__ import annotations

import json
import time
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.limits import NOTE_FILE_BYTES_MAX, NOTE_FILES_MAX
from holdfast.core.text.cut import scrub
from holdfast.core.text.typed import convert_typed
from holdfast.errors import BadItem, NoSuchNote, NoteChanged, StoreUnavailable
from holdfast.importers.common.blocks import as_text
from holdfast.integrations.common.home import session_id_for
from holdfast.integrations.common.originals import spell_item

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.memory.note_files import NoteFile
    from holdfast.integrations.common.home import PeerName
    from holdfast.ports import Notes

_FOLDER: Final = "langgraph"
_OPEN: Final = "<!-- langgraph: "
_CLOSE: Final = " -->"
_BULLET: Final = "- "
_FIRST_LINE: Final = 3
"""The line of a file with its first text: a heading and an empty line are above."""
_NAME_CHARS_MAX: Final = 100
"""A longer key or namespace has a name made for it: a file system bounds names."""


class NotedItem(msgspec.Struct):
    """An item of the store, as its file has it."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    created: float
    updated: float
    texts: tuple[str, ...] = ()
    """The texts that a search looks at, a line each."""

    @property
    def path(self) -> str:
        return path_of(self.namespace, self.key)

    def text_at(self, line: int) -> str:
        """Return the text on a line of the file."""
        place = line - _FIRST_LINE
        return self.texts[place] if 0 <= place < len(self.texts) else ""


def path_of(namespace: PeerName, key: str) -> str:
    """Return the path of the note that holds an item."""
    return f"{_FOLDER}/{_name(namespace)}/{_name((key,))}.md"


def _name(parts: PeerName) -> str:
    is_long = sum(map(len, parts)) > _NAME_CHARS_MAX
    return session_id_for((*parts, "\0long") if is_long else parts)


def line_of(text: str) -> str:
    """Return a text as one line that opens and closes nothing in a file of notes."""
    return " ".join(scrub(text).split()).replace("<!--", "<! --").replace("-->", "-- >")


def whole_text(value: Mapping[str, Any]) -> str:
    """Return all of a value as text: its fields with their names."""
    return "; ".join(f"{name}: {as_text(part)}" for name, part in value.items())


def _encode(item: NotedItem) -> bytes:
    about = {name: getattr(item, name) for name in item.__struct_fields__ if name != "texts"}
    spelled = spell_item(about).replace(">", "\\u003e")  # nothing in it ends the comment
    lines = [f"# {line_of(item.key)}", "", *(f"{_BULLET}{text}" for text in item.texts)]
    return "\n".join([*lines, "", f"{_OPEN}{spelled}{_CLOSE}", ""]).encode()


def _decode(path: str, data: bytes) -> NotedItem | None:
    """Return the item of a file; None for a file that has none, which another wrote."""
    text = data.decode(errors="replace")
    start = text.rfind(_OPEN)
    if start < 0:
        return None
    spelled = text[start + len(_OPEN) :].rstrip().removesuffix(_CLOSE)
    try:
        item = convert_typed(json.loads(spelled), NotedItem)
    except (ValueError, RecursionError) as error:
        raise BadItem(
            f"cannot read the item in the note `{path}`: {error}",
            hint="put it again, or delete the file",
        ) from error
    shown = takewhile(lambda line: line.startswith(_BULLET), text[:start].split("\n")[2:])
    item.texts = tuple(line.removeprefix(_BULLET) for line in shown)
    return item


class NotedItems:
    """The items in the notes of an agent or owner. A file is read again when it has changed."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self._seen: dict[str, tuple[NoteFile, NotedItem | None]] = {}
        self._room = 0
        """New items that are stored without counting the files again."""

    def get(self, namespace: PeerName, key: str) -> NotedItem | None:
        """Return an item; None where there is none."""
        data = self._data(path_of(namespace, key))
        return None if data is None else _decode(path_of(namespace, key), data)

    def all(self) -> list[NotedItem]:
        """Return all items: namespaces in the order of their oldest item, and items by age."""
        seen: dict[str, tuple[NoteFile, NotedItem | None]] = {}
        for file in self.notes.tree():
            if file.is_folder or not file.path.startswith(f"{_FOLDER}/"):
                continue
            known = self._seen.get(file.path)
            if known is None or known[0] != file:
                data = self._data(file.path)
                known = (file, None if data is None else _decode(file.path, data))
            seen[file.path] = known
        self._seen = seen
        items = [item for _file, item in seen.values() if item is not None]
        began: dict[PeerName, float] = {}
        for item in items:
            began[item.namespace] = min(item.created, began.get(item.namespace, item.created))
        return sorted(items, key=lambda it: (began[it.namespace], it.namespace, it.created, it.key))

    def put(
        self, namespace: PeerName, key: str, value: dict[str, Any], texts: Sequence[str]
    ) -> None:
        """Store an item durably, in the place of one with its key. Raises `BadItem`."""
        path = path_of(namespace, key)
        lines = tuple(line for text in texts if (line := line_of(text)))
        while True:
            before = self._data(path)
            known = None if before is None else _decode(path, before)
            now = time.time()
            created = now if known is None else known.created
            item = NotedItem(namespace, key, value, created, max(now, created), lines)
            data = _encode(item)
            if len(data) > NOTE_FILE_BYTES_MAX:
                raise BadItem(
                    f"cannot store an item of {len(data):,} bytes",
                    hint=f"an item has at most {NOTE_FILE_BYTES_MAX:,}; nothing was stored",
                )
            if before is None:
                self._make_room()
            try:
                self.notes.put(path, before, data)
            except NoteChanged:  # another program stored it meanwhile: the later one counts
                continue
            return

    def delete(self, namespace: PeerName, key: str) -> None:
        """Move the note of an item to the trash. Does nothing where there is none."""
        try:
            self.notes.discard(path_of(namespace, key))
        except NoSuchNote:
            return

    def _make_room(self) -> None:
        """Raise `StoreUnavailable` where there are as many notes as may be."""
        if self._room <= 0:
            left = NOTE_FILES_MAX - len(self.notes.tree())
            if left <= 2:  # a folder and a file
                raise StoreUnavailable(
                    f"cannot store another item: there are {NOTE_FILES_MAX:,} notes",
                    hint="delete items, or give each of your users an owner",
                )
            self._room = left // 4
        self._room -= 1

    def _data(self, path: str) -> bytes | None:
        if self.notes.kind(path) != "file":  # asking for the data of nothing lists what there is
            return None
        try:
            return self.notes.data(path)
        except NoSuchNote:
            return None  # deleted meanwhile
