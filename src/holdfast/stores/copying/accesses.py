"""Copies the audit log: the accesses that the target has not, in their order.

The same access may be noted several times, and a target has accesses of its own. So the two logs
are compared as collections: what the target has is counted in a temporary file, by a hash of each
access, and neither log is ever whole in memory.
"""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.history.access import bound

if TYPE_CHECKING:
    from holdfast.core.history.access import Access
    from holdfast.ports import Audit

_TABLE: Final = "CREATE TABLE known (digest BLOB PRIMARY KEY, times INTEGER) WITHOUT ROWID"
_ADD: Final = """INSERT INTO known VALUES (?, 1)
  ON CONFLICT (digest) DO UPDATE SET times = times + 1"""
_TAKE: Final = "UPDATE known SET times = times - 1 WHERE digest = ? AND times > 0"


def copy_accesses(source: Audit, target: Audit, *, is_dry_run: bool = False) -> tuple[int, int]:
    """Return the number of accesses that the target had not, and that of damaged ones."""
    added = damaged = 0
    # A database without a name is a temporary file, of which a few megabytes are held in memory.
    with closing(sqlite3.connect("", isolation_level=None)) as known:
        known.execute(_TABLE)
        known.execute("BEGIN")
        for page in target.pages():
            known.executemany(_ADD, map(_digest, page.accesses))
        for page in source.pages():
            damaged += page.damaged
            missing = [
                access
                for access in page.accesses
                if not known.execute(_TAKE, _digest(access)).rowcount
            ]
            added += len(missing)
            if missing and not is_dry_run:
                target.note_all(missing)
    return added, damaged


def _digest(access: Access) -> tuple[bytes]:
    return (hashlib.sha256(msgspec.json.encode(bound(access))).digest(),)
