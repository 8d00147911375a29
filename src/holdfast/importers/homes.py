"""The folder of another tool: its transcripts, notes, outputs and checkpoints, told apart.

Files are told apart by their place and their name, as OpenClaw, claw0, Universal Agent, Claude
Code, Codex, pi and others lay them out. Nothing is written, no link is followed, and every file is
in exactly one list.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.ids import is_name
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.importers.agents import opencode
from holdfast.importers.common.base import mapping, text_at
from holdfast.importers.common.parsing import NOT_JSON, UNPACKED_BYTES_MAX, parse
from holdfast.importers.databases import is_database

if TYPE_CHECKING:
    from collections.abc import Iterator

_PASSED_OVER: Final = frozenset((".git", "node_modules", "__pycache__", ".venv"))
_TRANSCRIPTS: Final = (".jsonl", ".json", ".jsonl.gz", ".json.gz", ".ndjson")
_AIDER: Final = ".aider.chat.history.md"
_CHECKPOINT: Final = lazy_pattern(
    r"(?:(?:run|session|latest)_checkpoint|ckpt_[\w.-]+)\.(?:json|md)"
)
_INDEX: Final = "sessions.json"
_INDEX_BYTES_MAX: Final = 64 * 1024 * 1024
"""An index has a few hundred bytes for each session."""
_FILES_MAX: Final = 500_000
"""More files than any agent's home has; a walk that finds more took the wrong folder."""
_CREDENTIALS: Final = frozenset(
    (
        *("auth.json", "auth-profiles.json", "oauth_creds.json", "google_accounts.json"),
        *("credentials.json", ".credentials.json", "credentials", "identity"),
    )
)
"""Files and folders with the keys of a person. They are not opened."""
_OF_AGENTS: Final = ("sessions", "transcripts", "agent", "memory")
"""Folders of one agent; other tools have a folder `agents` for something else."""
_DATABASE_PARTS: Final = ("-wal", "-shm", "-journal")


class LeftBehind(msgspec.Struct, frozen=True):
    """Something in the source that is not brought along, and why."""

    path: str
    why: str
    is_trouble: bool = False
    """It may hold what its owner wants, and could not be read or trusted."""


class IndexEntry(msgspec.Struct, frozen=True):
    """A session as an index lists it."""

    session: str
    key: str = ""
    label: str = ""
    file: str = ""


class HomeFile(msgspec.Struct, frozen=True):
    """A file, and the agent that it belongs to where its place tells."""

    path: str
    agent: str = ""
    name: str = ""
    """Its name here: of a note, its path among the notes; of a checkpoint, its session."""


class Home(msgspec.Struct):
    """Everything found in a folder."""

    root: str
    transcripts: list[HomeFile] = msgspec.field(default_factory=list)
    databases: list[HomeFile] = msgspec.field(default_factory=list)
    notes: list[HomeFile] = msgspec.field(default_factory=list)
    outputs: list[HomeFile] = msgspec.field(default_factory=list)
    checkpoints: list[HomeFile] = msgspec.field(default_factory=list)
    left: list[LeftBehind] = msgspec.field(default_factory=list)
    index: dict[tuple[str, str], IndexEntry] = msgspec.field(default_factory=dict)
    """Sessions by the folder of their transcript and their id."""


def scan(root: str) -> Home:
    """Tell apart the files of a folder; a single file is a home of its own."""
    home = Home(root)
    if not os.path.isdir(root):
        _sort(home, root, os.path.dirname(root) or ".")
        return home
    for number, path in enumerate(_walk(home, root)):
        if number >= _FILES_MAX:
            why = f"more than {_FILES_MAX:,} files"
            home.left.append(LeftBehind(root, why, is_trouble=True))
            break
        _sort(home, path, root)
    return home


def _walk(home: Home, folder: str) -> Iterator[str]:
    """Yield the regular files below a folder; a folder that is one transcript is one of them."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
        home.left.append(LeftBehind(folder, why, is_trouble=True))
        return
    if opencode.is_storage(entry.name for entry in entries):
        home.transcripts.append(HomeFile(folder))
        return
    for entry in entries:
        if entry.is_symlink():
            why = "a link: what it points to may be outside of the folder"
            home.left.append(LeftBehind(entry.path, why, is_trouble=True))
        elif entry.is_dir(follow_symlinks=False):
            if entry.name not in _PASSED_OVER:
                yield from _walk(home, entry.path)
        elif entry.is_file(follow_symlinks=False):
            yield entry.path
        else:
            home.left.append(LeftBehind(entry.path, "neither a file nor a folder"))


def _sort(home: Home, path: str, root: str) -> None:
    relative = os.path.relpath(path, root).split(os.sep)
    *folders, name = relative
    agent = _agent(os.path.abspath(path).split(os.sep)[:-1])
    size = _size(path)
    if not _CREDENTIALS.isdisjoint(relative):
        home.left.append(LeftBehind(path, "credentials, which are never read"))
    elif size is None or size > UNPACKED_BYTES_MAX:
        too_large = f"larger than {UNPACKED_BYTES_MAX:,} bytes"
        if size is not None and is_database(path):
            home.databases.append(HomeFile(path, agent))
        else:
            why = "cannot be read" if size is None else too_large
            home.left.append(LeftBehind(path, why, is_trouble=True))
    elif name.endswith(_DATABASE_PARTS):
        pass  # read together with its database
    elif "tool-output" in folders:
        home.outputs.append(HomeFile(path, agent, name))
    elif _CHECKPOINT.fullmatch(name):
        home.checkpoints.append(HomeFile(path, agent, _workspace(path)))
    elif name == _INDEX and _read_index(home, path, size):
        pass
    elif name.endswith(".md") and (note := _note_name(folders, name)):
        home.notes.append(HomeFile(path, agent, note))
    elif is_database(path):
        home.databases.append(HomeFile(path, agent))
    elif name.endswith(_TRANSCRIPTS) or name == _AIDER:
        home.transcripts.append(HomeFile(path, agent))
    else:
        why = "neither a transcript, a note, an output nor a checkpoint"
        home.left.append(LeftBehind(path, why))


def _size(path: str) -> int | None:
    try:
        return os.lstat(path).st_size
    except OSError:
        return None


def _agent(folders: list[str]) -> str:
    """Return the agent of `agents/NAME/sessions/…`, the innermost; empty where there is none."""
    for place in range(len(folders) - 3, -1, -1):
        name, inner = folders[place + 1], folders[place + 2]
        if folders[place] == "agents" and inner in _OF_AGENTS and is_name(name):
            return name
    return ""


def _note_name(folders: list[str], name: str) -> str:
    """Return the path of a note among notes; empty for Markdown that is none."""
    if "memory" in folders:
        inner = folders[len(folders) - folders[::-1].index("memory") :]
        return "/".join((*inner, name))
    return name if name == "MEMORY.md" else ""


def _workspace(path: str) -> str:
    """Return the name of the workspace that a checkpoint was written in."""
    folders = os.path.abspath(path).split(os.sep)[:-1]
    if folders[-2:] == [".urw", "checkpoints"]:
        folders = folders[:-2]
    return folders[-1] if folders and folders[-1] else "checkpoint"


def _read_index(home: Home, path: str, size: int) -> bool:
    """Read an index of sessions; return False where the file is none."""
    if size > _INDEX_BYTES_MAX:
        return False
    try:
        with open(path, "rb") as file:
            value = parse(file.read())
    except OSError:
        return False
    rows = mapping(value)
    entries = [_entry(key, mapping(row)) for key, row in rows.items() if isinstance(row, dict)]
    known = [entry for entry in entries if entry is not None]
    if not known:
        if rows:
            return False
        if value is NOT_JSON:
            why = "a damaged index: its sessions come without their labels"
            home.left.append(LeftBehind(path, why, is_trouble=True))
        return True
    folder = os.path.dirname(path)
    for entry in known:
        for place in (
            folder,
            *(os.path.join(folder, each) for each in ("sessions", "transcripts")),
        ):
            home.index[place, entry.session] = entry
    return True


def _entry(key: str, row: dict[str, object]) -> IndexEntry | None:
    """Return the session of a row, as OpenClaw (by key) or claw0 (by id) writes it."""
    session = text_at(row, "sessionId", "session_id")
    file = text_at(row, "sessionFile", "transcript_file")
    if not session and ("created_at" in row or "message_count" in row):
        session = key
    if not session:
        return None
    names = (row.get(name) for name in ("label", "displayName", "subject", "session_key"))
    label: str = next((text for text in names if isinstance(text, str) and text), "")
    named = "" if key == session else key
    return IndexEntry(session, named, label or named, os.path.basename(file))
