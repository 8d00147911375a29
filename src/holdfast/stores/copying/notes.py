"""Copies the notes of an agent, or of one of its owners, file by file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.limits import NOTE_FILE_BYTES_MAX, NOTE_FILES_MAX
from holdfast.errors import HoldfastError, NoteChanged, PathRejected, StoreUnavailable
from holdfast.ports.copying import CopiedNotes

if TYPE_CHECKING:
    from holdfast.ports import Notes
    from holdfast.ports.copying import CopyState


def copy_notes(source: Notes, target: Notes, *, is_dry_run: bool = False) -> CopiedNotes:
    """Write every file that the target has not, or has a beginning of; the others stay."""
    files, added, is_new = source.files(), 0, not target.files()
    conflicts: list[str] = []
    failures: list[str] = []
    if len(source.tree()) >= NOTE_FILES_MAX:
        failures.append(f"more than {NOTE_FILES_MAX:,} files")
    for file in files:
        try:
            if file.size > NOTE_FILE_BYTES_MAX:
                failures.append(f"`{file.path}` is larger than {NOTE_FILE_BYTES_MAX:,} bytes")
            elif not _copy_file(source, target, file.path, is_dry_run=is_dry_run):
                continue
            else:
                added += 1
        except (NoteChanged, PathRejected):
            conflicts.append(f"`{file.path}` is another at the target")
        except StoreUnavailable:
            raise
        except HoldfastError as error:
            failures.append(str(error))
    for mark in sorted(source.marks() - target.marks()) if not is_dry_run else ():
        target.append([], once=mark)
    state: CopyState = "same" if not added else "copied" if is_new else "updated"
    state = "failed" if failures else "conflict" if conflicts else state
    detail = "; ".join([*failures, *conflicts][:3])
    return CopiedNotes(source.scope, state, len(files), added, detail)


def _copy_file(source: Notes, target: Notes, path: str, *, is_dry_run: bool) -> bool:
    """Return whether the file had to be written. Raises `NoteChanged` where it is another."""
    data = source.data(path)
    kind = target.kind(path)
    before = target.data(path) if kind == "file" else None
    if before == data:
        return False
    if kind not in ("file", "nothing") or not data.startswith(before or b""):
        raise NoteChanged(path)
    if not is_dry_run:
        target.put(path, before, data)
    return True
