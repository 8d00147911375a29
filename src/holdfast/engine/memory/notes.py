"""From the log to the files of notes, what the newest ones are, and the running summary."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.records import Flush
from holdfast.core.memory.note_files import RefusedNote, SavedNotes
from holdfast.core.memory.running_summary import Sidecar, advance
from holdfast.core.refusals import reaches_back
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.memory.note_files import Note
    from holdfast.ports import Notes, SessionStore


_RECORDS_MAX: Final = 2_000
"""Newest records that a summary is made from where none is stored; it keeps 60 items of them."""


def refresh(store: SessionStore, key: SessionKey) -> Sidecar:
    """The summary as of now, kept in the store for the next time."""
    before = store.summaries.load(key) or Sidecar()
    after = _advance_from_store(store, key, before)
    if after != before:
        store.summaries.save(key, after)
    return after


def _advance_from_store(store: SessionStore, key: SessionKey, before: Sidecar) -> Sidecar:
    """Read the path back to where the summary ends, or as far as one that is begun again goes."""
    newest: list[Record] = []
    for record in store.back(key):
        newest.append(record)
        if record.id == before.upto:
            if reaches_back(newest[-2::-1]):
                before = Sidecar()
                continue
            return advance(before, newest[::-1])
        if len(newest) == _RECORDS_MAX:
            again = advance(Sidecar(), newest[::-1])
            return msgspec.structs.replace(again, has_more=True)
    return advance(before, newest[::-1])  # the whole path: a rewind left behind what it knew


_NOT_YET: Final = float("-inf")
"""Sorts a note without a time before those of the same day that have one."""


def save_flush(notes: Notes, flush: Flush, key: SessionKey) -> SavedNotes:
    """Carry the notes of a flush into the files. Done again, it adds nothing.

    A note that a person took out since stays out.
    """
    return notes.append(
        flush.notes,
        session=str(key),
        records=_records(flush),
        sources=flush.sources,
        once=_mark(flush, key),
    )


def save_flushes(notes: Notes, records: Iterable[Record], key: SessionKey) -> SavedNotes:
    """`save_flush` for each flush among records: what a crash kept out of the files is put in.

    It never stands in the way of opening a session: one that cannot be saved is reported as
    refused, and tried again the next time.
    """
    kept = SavedNotes()
    for record in records:
        if isinstance(record, Flush) and record.notes:
            kept = _join_results(kept, _try_append(notes, record, key))
    return kept


def newest(notes: Iterable[Note], *, last: int | None = None, words: str = "") -> list[Note]:
    """The notes that hold all of the words, the newest first.

    What people wrote in a file of a day counts for that day, and what is in no such file, such as
    `MEMORY.md`, comes last: no one knows how old it is.
    """
    wanted = words.casefold().split()
    found = [note for note in notes if all(word in note.text.casefold() for word in wanted)]
    found.sort(key=_age, reverse=True)
    return found if last is None else found[: max(0, last)]


def _age(note: Note) -> tuple[str, float, str, int]:
    return note.day, note.ts if note.ts is not None else _NOT_YET, note.path, note.line


def _records(flush: Flush) -> tuple[str, ...]:
    return (flush.id,) if flush.id else ()


def _mark(flush: Flush, key: SessionKey) -> str:
    """A name for a flush, the same in a fork, which has the records of its parent.

    An id that only says where a record stands (`@3`) means something else in every log.
    """
    place = str(key) if flush.id.startswith("@") else ""
    data = msgspec.json.encode([place, flush.id, flush.notes])
    return hashlib.sha256(data).hexdigest()[:32]


def _try_append(notes: Notes, flush: Flush, key: SessionKey) -> SavedNotes:
    try:
        return save_flush(notes, flush, key)
    except HoldfastError as error:
        return SavedNotes(refused=(RefusedNote(f"record {flush.id}", str(error)),))


def _join_results(one: SavedNotes, other: SavedNotes) -> SavedNotes:
    return SavedNotes(one.saved + other.saved, one.known + other.known, one.refused + other.refused)
