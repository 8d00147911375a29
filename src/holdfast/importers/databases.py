"""Sessions that other tools keep in SQLite, as the transcripts that they used to write.

The database is copied first, with its write-ahead log, and the copy is opened: a source is never
written to, not even by the recovery that SQLite does when it opens one.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.limits import LINE_BYTES_MAX
from holdfast.errors import UsageError
from holdfast.importers.common.base import mapping
from holdfast.importers.common.parsing import NOT_JSON, SQLITE_MAGIC, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json


DATABASE_BYTES_MAX: Final = 4 * 1024**3
"""A larger database is not copied: it would fill the disk for temporary files."""
_TRIES: Final = 3
"""Copies of a database that its program writes to meanwhile."""


class DatabaseSession(msgspec.Struct, frozen=True):
    """A session in a database: the bytes of a transcript, and what is known beside it."""

    name: str
    data: bytes
    key: str = ""
    """The name by which its program finds it."""
    label: str = ""
    damaged: int = 0
    """Rows that cannot be read."""


def is_database(path: str) -> bool:
    """Return whether a file is a SQLite database."""
    try:
        with open(path, "rb") as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError:
        return False


def read_database(path: str) -> tuple[str, list[DatabaseSession]]:
    """Return the format of a database of OpenClaw or OpenCode, and its sessions.

    Raises `UsageError` where it is neither, or cannot be read.
    """
    try:
        with _open_copy(path) as connection:
            tables = {
                row[0] for row in connection.execute("SELECT name FROM sqlite_master").fetchall()
            }
            if {"transcript_events", "session_nodes"} <= tables:
                return "openclaw", list(_openclaw(connection))
            if {"session", "message", "part"} <= tables:
                return "opencode", list(_opencode(connection))
    except (sqlite3.Error, OSError) as error:
        raise UsageError(
            f"cannot read the database `{path}`: {error}",
            hint="stop the program that uses it, or check the file with `sqlite3 FILE .recover`",
        ) from error
    raise UsageError(
        f"`{path}` is a SQLite database of no agent that is known here",
        hint="known are those of OpenClaw (openclaw-agent.sqlite) and OpenCode (opencode.db)",
    )


@contextmanager
def _open_copy(path: str) -> Iterator[sqlite3.Connection]:
    size = sum(state[1] for state in _states(path) if state)
    if size > DATABASE_BYTES_MAX:
        raise UsageError(
            f"the database `{path}` has {size:,} bytes, more than {DATABASE_BYTES_MAX:,}",
            hint="export its sessions with the program that wrote them",
        )
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        copy = os.path.join(folder, "copy.sqlite")
        for _try in range(_TRIES):
            before = _states(path)
            shutil.copyfile(path, copy)
            if os.path.exists(f"{path}-wal"):
                shutil.copyfile(f"{path}-wal", f"{copy}-wal")
            elif os.path.exists(f"{copy}-wal"):
                os.remove(f"{copy}-wal")
            if before == _states(path):
                break
        else:
            raise UsageError(
                f"the database `{path}` changed while it was copied, {_TRIES} times",
                hint="stop the program that writes to it, and run this again",
            )
        with closing(sqlite3.connect(copy)) as connection:
            yield connection


def _states(path: str) -> list[tuple[int, int] | None]:
    states: list[tuple[int, int] | None] = []
    for name in (path, f"{path}-wal"):
        try:
            found = os.stat(name)
            states.append((found.st_mtime_ns, found.st_size))
        except FileNotFoundError:
            states.append(None)
    return states


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})").fetchall()}


def _openclaw(connection: sqlite3.Connection) -> Iterator[DatabaseSession]:
    """Yield the sessions of OpenClaw: each event is a line of the transcripts it wrote before."""
    keys: dict[str, str] = {}
    labels: dict[str, str] = {}
    if "session_windows" in _tables(connection):
        for session, key in connection.execute(
            "SELECT session_id, session_key FROM session_windows"
        ):
            keys[str(session)] = str(key)
    for key, session, entry in connection.execute(
        "SELECT session_key, current_session_id, entry_json FROM session_nodes"
    ):
        keys[str(session)] = str(key)
        about = mapping(_value(entry))
        label = about.get("label") or about.get("displayName") or about.get("subject")
        labels[str(session)] = label if isinstance(label, str) else ""
    columns = _columns(connection, "transcript_events")
    packed = "event_zstd" if "event_zstd" in columns else "NULL"
    rows = connection.execute(
        f"SELECT session_id, seq, event_json, {packed} FROM transcript_events "  # noqa: S608
        "ORDER BY session_id, seq"
    )
    lines: list[bytes] = []
    damaged = 0
    current: str | None = None
    for session, _seq, text, data in rows:
        name = str(session)
        if current is not None and name != current:
            yield _session(current, lines, keys, labels, damaged)
            lines, damaged = [], 0
        current = name
        value = _value(text if text is not None else _unpack(data))
        if isinstance(value, dict):
            lines.append(msgspec.json.encode(value))
        else:
            damaged += 1
    if current is not None:
        yield _session(current, lines, keys, labels, damaged)


def _session(
    name: str, lines: list[bytes], keys: dict[str, str], labels: dict[str, str], damaged: int
) -> DatabaseSession:
    data = b"\n".join(lines) + b"\n"
    key = keys.get(name, "")
    return DatabaseSession(name, data, key, labels.get(name, ""), damaged)


def _opencode(connection: sqlite3.Connection) -> Iterator[DatabaseSession]:
    """Yield the sessions of OpenCode, each as `opencode export` prints it."""
    for row in _rows(connection, "session"):
        identifier = str(row.get("id", ""))
        damaged = 0
        messages: list[Json] = []
        by_id: dict[str, list[Json]] = {}
        for found in _rows(connection, "part", identifier):
            info = _row_value(found)
            damaged += info is None
            if info is not None:
                by_id.setdefault(str(found.get("message_id", "")), []).append(info)
        for found in _rows(connection, "message", identifier):
            info = _row_value(found)
            damaged += info is None
            if info is not None:
                parts = by_id.get(str(found.get("id", "")), [])
                messages.append({"info": info, "parts": parts})
        about = _row_value(row) or {}
        title = row.get("title") or about.get("title") or ""
        info = {**about, "id": identifier, "title": title, "directory": row.get("directory", "")}
        data = msgspec.json.encode({"info": info, "messages": messages})
        yield DatabaseSession(identifier, data, "", str(title), damaged)


def _rows(connection: sqlite3.Connection, table: str, session: str = "") -> list[Json]:
    names = _columns(connection, table)
    order: list[str] = [name for name in ("time_created", "id") if name in names]
    where = " WHERE session_id = ?" if session else ""
    cursor = connection.execute(
        f"SELECT * FROM {table}{where} ORDER BY {', '.join(order) or 'rowid'}",  # noqa: S608
        (session,) if session else (),
    )
    titles = [each[0] for each in cursor.description]
    return [dict(zip(titles, row, strict=True)) for row in cursor]


def _row_value(row: Json) -> Json | None:
    """Return the JSON in a row, with the ids that newer versions keep in columns alone."""
    value = _value(row.get("data")) if "data" in row else {}
    if not isinstance(value, dict):
        return None
    more = {"id": row.get("id"), "sessionID": row.get("session_id")}
    more["messageID"] = row.get("message_id")
    return {**{name: item for name, item in more.items() if item is not None}, **value}


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_master").fetchall()}


def _value(text: object) -> Any:
    if not isinstance(text, str | bytes):
        return None
    value = parse(text)
    return None if value is NOT_JSON else value


def _unpack(data: object) -> bytes | None:
    """Return what a row has packed with Zstandard; None where it is damaged, or too large."""
    if not isinstance(data, bytes):
        return None
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    unpacker = zstd.ZstdDecompressor()
    try:
        unpacked = unpacker.decompress(data, LINE_BYTES_MAX + 1)
    except zstd.ZstdError:
        return None
    return unpacked if unpacker.eof else None
