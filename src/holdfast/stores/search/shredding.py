"""Bytes in a SQLite file that can be made unreadable for good by overwriting a few others.

SQLite moves rows between pages while tables grow and shrink, and leaves copies of rows in the room
between them. No deletion finds those, with `secure_delete` neither; `VACUUM` does, by writing the
whole file again. So rows with words are stored scrambled, by a key in a table of its own that only
grows at its end and whose rows never change their size. No row of it is ever moved: a key that is
overwritten where it stands is nowhere any more, and neither are the words.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

KEYS_TABLE: Final = "CREATE TABLE IF NOT EXISTS keys (id INTEGER PRIMARY KEY, key BLOB NOT NULL)"
_KEY_BYTES: Final = 16
_NONCE_BYTES: Final = 8
"""128 bits of a key, and 64 that tell what was stored under it apart: no one meets two alike."""
_SHREDDED: Final = bytes(_KEY_BYTES)


class Key(NamedTuple):
    """A key, and the row that it is in."""

    id: int
    secret: bytes

    def scramble(self, data: bytes) -> bytes:
        """Return data as it is stored; each time another text."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._mix(nonce, data)

    def restore(self, stored: bytes) -> bytes:
        """Return the data that was scrambled."""
        return self._mix(stored[:_NONCE_BYTES], stored[_NONCE_BYTES:])

    def _mix(self, nonce: bytes, data: bytes) -> bytes:
        length = len(data)
        stream = hashlib.shake_128(self.secret + nonce).digest(length)
        mixed = int.from_bytes(data, "little") ^ int.from_bytes(stream, "little")
        return mixed.to_bytes(length, "little")


def new_key(db: sqlite3.Connection) -> Key:
    """Make a key. Its row stands behind all others."""
    secret = os.urandom(_KEY_BYTES)
    made = db.execute("INSERT INTO keys (key) VALUES (?)", (secret,))
    assert made.lastrowid is not None
    return Key(made.lastrowid, secret)


def destroy_keys(db: sqlite3.Connection, keys: Iterable[int]) -> None:
    """Overwrite keys where they stand. Their rows stay: a row that is deleted moves others."""
    db.executemany("UPDATE keys SET key = ? WHERE id = ?", ((_SHREDDED, id_) for id_ in keys))
