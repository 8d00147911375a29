"""The room that a folder takes on its disk."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import Final

from holdfast.ports import DiskUse

ENTRIES_MAX: Final = 100_000
"""Files and folders that are looked at."""
_BLOCK_BYTES: Final = 512
"""The unit of `st_blocks`, on every file system."""


def measure_folder(root: str) -> DiskUse:
    """Add up the files below a folder, up to `ENTRIES_MAX` of them.

    Links are not followed. What vanishes meanwhile, or may not be read, is left out.
    """
    total = seen = 0
    folders = [root]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if seen == ENTRIES_MAX:
                    return DiskUse(total, _free(root), is_whole=False)
                seen += 1
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    blocks = getattr(status, "st_blocks", None)  # not on Windows
                    total += status.st_size if blocks is None else blocks * _BLOCK_BYTES
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return DiskUse(total, _free(root))


def _free(root: str) -> int | None:
    try:
        return shutil.disk_usage(root).free
    except OSError:
        return None
