"""The ids of logs whose ids do not grow, such as imported ones, in two tables of the index.

Where ids only grow, a record is found by halving the log. Others are read once, when a record of
the log is first looked for, and then from where they ended. Like the rest of the index the tables
are a cache: what they say is compared with the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.log.walk import record_at, records_that_count

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from holdfast.stores.jsonl.index_rows import IndexRow
    from holdfast.stores.jsonl.log import FileLog

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS id_logs (
    log INTEGER PRIMARY KEY, agent TEXT NOT NULL, session TEXT NOT NULL,
    inode INTEGER NOT NULL, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
    fingerprint BLOB NOT NULL, UNIQUE (agent, session)
);
CREATE TABLE IF NOT EXISTS record_ids (
    log INTEGER NOT NULL, id BLOB NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (log, id)
) WITHOUT ROWID
"""
"""Ids are bytes: they sort alike everywhere, and a prefix is a range."""
TABLES: Final = ("id_logs", "record_ids")
_AFTER: Final = b"\xff"
"""Sorts after every text."""
_KNOWN: Final = """SELECT log, inode, size, mtime_ns, ctime_ns, fingerprint FROM id_logs
  WHERE agent = ? AND session = ?"""
_NEAR: Final = """SELECT id, position FROM record_ids WHERE log = ? AND id >= ? AND id < ?
  ORDER BY id LIMIT ?"""


def find_ids(
    db: sqlite3.Connection, log: FileLog, row: IndexRow, prefix: str, limit: int
) -> dict[str, int] | None:
    """Return the first ids that begin with a prefix, with the positions of their records: that
    one alone where it is an id itself. None where the tables do not know this log as it is."""
    known = db.execute(_KNOWN, (log.key.agent, log.key.session)).fetchone()
    if known is None or tuple(known[1:5]) != row.stamp:
        return None
    name = prefix.encode()
    rows = db.execute(_NEAR, (known[0], name, name + _AFTER, limit)).fetchall()
    found = {bytes(record_id).decode(): position for record_id, position in rows}
    if prefix in found:
        found = {prefix: found[prefix]}
    for record_id, position in found.items():
        record = record_at(log, position)
        if record is None or record.id != record_id:
            return None
    return found


def store_ids(
    db: sqlite3.Connection, log: FileLog, row: IndexRow, fingerprint: bytes | None
) -> None:
    """Read the ids of a log that the tables lack; `row` is what the index knows of it now.

    `fingerprint` are the bytes before the end that the tables know, as the log has them now.
    """
    names = (log.key.agent, log.key.session)
    known = db.execute(_KNOWN, names).fetchone()
    start = 0
    if known is not None and _has_grown(known, row, fingerprint):
        start = known[2]
    else:
        delete_ids(db, [names])
        db.execute(
            "INSERT INTO id_logs (agent, session, inode, size, mtime_ns, ctime_ns, fingerprint)"
            " VALUES (?, ?, 0, 0, 0, 0, x'')",
            names,
        )
    number = db.execute(_KNOWN, names).fetchone()[0]
    # The first record with an id has it.
    db.executemany(
        "INSERT OR IGNORE INTO record_ids VALUES (?, ?, ?)",
        ((number, record_id.encode(), position) for record_id, position in _ids(log, start)),
    )
    db.execute(
        "UPDATE id_logs SET inode = ?, size = ?, mtime_ns = ?, ctime_ns = ?, fingerprint = ?"
        " WHERE log = ?",
        (*row.stamp, row.fingerprint, number),
    )


def end_of_ids(db: sqlite3.Connection, log: FileLog) -> int:
    """Return the byte up to which the tables know a log, as it was then; 0 for none."""
    known = db.execute(_KNOWN, (log.key.agent, log.key.session)).fetchone()
    return 0 if known is None else int(known[2])


def delete_ids(db: sqlite3.Connection, sessions: Iterable[tuple[str, str]]) -> None:
    """Delete the ids of sessions."""
    for names in sessions:
        known = db.execute(_KNOWN, names).fetchone()
        if known is not None:
            db.execute("DELETE FROM record_ids WHERE log = ?", known[:1])
            db.execute("DELETE FROM id_logs WHERE log = ?", known[:1])


def _ids(log: FileLog, start: int) -> Iterator[tuple[str, int]]:
    for position, record in records_that_count(log, start):
        if record.id:
            yield record.id, position


def _has_grown(
    known: tuple[int, int, int, int, int, bytes], row: IndexRow, now: bytes | None
) -> bool:
    _log, inode, size, _mtime, _ctime, fingerprint = known
    return inode == row.stamp[0] and 0 < size <= row.stamp[1] and fingerprint == now != b""
