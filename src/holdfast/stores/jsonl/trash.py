"""Removed sessions: `<root>/trash/<agent>.<session>.<milliseconds>.jsonl`."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from holdfast.core.limits import LOCK_WAIT_SECONDS
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.ports import Trashed, find_trashed
from holdfast.stores.files import explaining, hold_lock, open_folder
from holdfast.stores.jsonl import last_writer, lease_file
from holdfast.stores.jsonl.folders import SUFFIX, TRASH

if TYPE_CHECKING:
    from holdfast.stores.jsonl.folders import Folders


def move_to_trash(
    folders: Folders, key: SessionKey, folder: int, *, now: float, size: int
) -> Trashed:
    """Move the log of a session, which the caller has locked, from its folder to the trash."""
    trash = open_folder(folders.root, TRASH, create=True)
    try:
        with hold_lock(trash, wait_seconds=LOCK_WAIT_SECONDS):
            stamp, taken = int(now * 1000), set(os.listdir(trash))
            while f"{key.agent}.{key.session}.{stamp}{SUFFIX}" in taken:
                stamp += 1
            name = f"{key.agent}.{key.session}.{stamp}"
            os.rename(key.session + SUFFIX, name + SUFFIX, src_dir_fd=folder, dst_dir_fd=trash)
        last_writer.forget(folder, key.session)
        lease_file.forget(folder, key.session)
        folders.disk.sync_folder(trash)
        folders.disk.sync_folder(folder)
        folders.changes.mark(key)
    finally:
        os.close(trash)
    return Trashed(name, key, stamp / 1000, size)


def list_trash(folders: Folders) -> list[Trashed]:
    """Return the removed sessions, the newest first. Other files there are skipped."""
    found = []
    for name, status in folders.listing(TRASH):
        parts = name.split(".")
        if not stat.S_ISREG(status.st_mode) or len(parts) != 4:
            continue
        if name.endswith(SUFFIX) and parts[2].isdecimal():
            agent, session, stamp, _ = parts
            if is_name(agent) and is_name(session):
                key = SessionKey(agent, session)
                stem = name.removesuffix(SUFFIX)
                found.append(Trashed(stem, key, int(stamp) / 1000, status.st_size))
    return sorted(found, key=lambda trashed: (-trashed.removed, trashed.name))


def restore(folders: Folders, name: str) -> SessionKey:
    """Take the newest session of that name, id or `agent/id` out of the trash."""
    trashed = find_trashed(list_trash(folders), name)
    key = trashed.key
    with explaining(f"restore `{name}`"), folders.free_place(key) as folder:
        trash = open_folder(folders.root, TRASH)
        try:
            source, target = trashed.name + SUFFIX, key.session + SUFFIX
            os.rename(source, target, src_dir_fd=trash, dst_dir_fd=folder)
            folders.disk.sync_folder(folder)
            folders.changes.mark(key)
        finally:
            os.close(trash)
    return key


def empty_trash(folders: Folders, *, before: float) -> list[Trashed]:
    """Delete the sessions that were removed before that time."""
    gone = [trashed for trashed in list_trash(folders) if trashed.removed <= before]
    for trashed in gone:
        folders.unlink(TRASH, trashed.name + SUFFIX)
    return gone
