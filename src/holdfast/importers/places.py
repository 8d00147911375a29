"""Find transcripts: in the folders of agents on this machine, and in any folder."""

from __future__ import annotations

import os
from glob import escape, glob
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from holdfast.errors import UsageError
from holdfast.importers.agents import opencode
from holdfast.importers.common import parsing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_HIDDEN_TRANSCRIPTS: Final = (".aider.chat.history.md",)


def find(path: str) -> Iterator[str]:
    """The files under a path that may be transcripts, in order; a plain file is itself.

    A storage folder of OpenCode, whose messages are a file each, counts as one file. So does a
    folder below that cannot be read: `load` says why.
    """
    if not os.path.isdir(path):
        yield path
        return
    entries = _entries(path)
    if opencode.is_storage(entry.name for entry in entries):
        yield path
        return
    for entry in entries:
        if entry.name.startswith(".") and entry.name not in _HIDDEN_TRANSCRIPTS:
            continue
        if entry.is_dir(follow_symlinks=False):
            can_be_read = os.access(entry.path, os.R_OK | os.X_OK)
            yield from find(entry.path) if can_be_read else [entry.path]
        elif entry.is_file():
            yield entry.path


def load(path: str) -> bytes:
    """The bytes of a file, or of a folder that is one transcript."""
    try:
        if os.path.isdir(path):
            os.listdir(path)  # a walk passes over a folder that cannot be read
            return opencode.assemble(_files_of(path))
        with open(path, "rb") as file:
            return read_bounded(file, path)
    except OSError as error:
        hint = "pass a file or a folder with transcripts that this user may read"
        raise UsageError(f"cannot read `{path}`: {error.strerror}", hint=hint) from error


def read_bounded(file: BinaryIO, name: str) -> bytes:
    """The bytes of an open file; raises where there are more than an import takes."""
    data = file.read(parsing.UNPACKED_BYTES_MAX + 1)
    if len(data) > parsing.UNPACKED_BYTES_MAX:
        raise UsageError(
            f"`{name}` has more than {parsing.UNPACKED_BYTES_MAX:,} bytes",
            hint="split it, and import the transcripts in it one by one",
        )
    return data


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(f"cannot read the folder `{folder}`: {error.strerror}") from error


def _files_of(folder: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for place, _folders, names in os.walk(folder):
        for name in sorted(names):
            if name.endswith(".json"):
                path = os.path.join(place, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder).replace(os.sep, "/")] = file.read()
    return found


class _Habit(msgspec.Struct, frozen=True):
    """The folders of an agent with transcripts, or its databases, in its home folder."""

    agent: str
    patterns: tuple[str, ...]
    endings: tuple[str, ...] = (".jsonl",)
    variable: str = ""
    """The variable that names another home folder."""
    home: str = ""
    """Its folder by default, in the user's."""


_HABITS: Final = (
    _Habit("Claude Code", ("projects",), variable="CLAUDE_CONFIG_DIR", home=".claude"),
    _Habit("Claude Code", ("projects",), home=".config/claude"),
    _Habit("Codex", ("sessions", "archived_sessions"), variable="CODEX_HOME", home=".codex"),
    _Habit("Gemini CLI", ("tmp/*/chats",), (".json", ".jsonl"), home=".gemini"),
    _Habit("pi", ("sessions",), variable="PI_CODING_AGENT_DIR", home=".pi/agent"),
    _Habit("OpenClaw", ("agents/*/sessions",), variable="OPENCLAW_STATE_DIR", home=".openclaw"),
    _Habit("OpenClaw", ("agents/*/sessions",), home=".clawdbot"),
    _Habit(
        "OpenClaw",
        ("agents/*/agent/openclaw-agent.sqlite",),
        (".sqlite",),
        variable="OPENCLAW_STATE_DIR",
        home=".openclaw",
    ),
    _Habit("Qwen Code", ("projects/*/chats", "tmp/*/chats"), (".json", ".jsonl"), home=".qwen"),
    _Habit("OpenCode", ("storage",), (".json",), home=".local/share/opencode"),
    _Habit("OpenCode", ("opencode.db",), (".db",), home=".local/share/opencode"),
    _Habit("Kimi CLI", ("sessions",), home=".kimi"),
    _Habit("Copilot CLI", ("session-state",), home=".copilot"),
    _Habit("Droid", ("sessions",), home=".factory"),
)
AGENTS: Final = tuple(dict.fromkeys(habit.agent for habit in _HABITS))
"""The agents whose transcripts are looked for."""
VARIABLES: Final = tuple(dict.fromkeys(habit.variable for habit in _HABITS if habit.variable))
"""The variables that name another home folder of an agent."""


class TranscriptFolder(msgspec.Struct, frozen=True):
    """A folder with transcripts of one agent, or a database with all of them."""

    agent: str
    path: str
    files: int
    bytes: int
    newest: float
    """When one of them was last changed, in seconds since 1970."""


def find_transcripts(homes: Mapping[str, str]) -> list[TranscriptFolder]:
    """Return the folders with transcripts, the one used last first. Files are not opened.

    `homes` has the user's home folder as `HOME`, and other homes of agents by `VARIABLES`.
    """
    found: dict[str, TranscriptFolder] = {}
    for habit in _HABITS:
        base = homes.get(habit.variable) or os.path.join(homes["HOME"], habit.home)
        for pattern in habit.patterns:
            for path in glob(os.path.join(escape(base), pattern)):
                folder = _look(habit, path)
                if folder.files:
                    found.setdefault(os.path.realpath(path), folder)
    return sorted(found.values(), key=lambda folder: -folder.newest)


def find_homes(homes: Mapping[str, str], agent: str | None = None) -> list[str]:
    """Return the home folders of an agent, or of all, that are there."""
    found: dict[str, str] = {}
    for habit in _HABITS:
        base = homes.get(habit.variable) or os.path.join(homes["HOME"], habit.home)
        if agent in (None, habit.agent) and os.path.isdir(base):
            found.setdefault(os.path.realpath(base), base)
    return list(found.values())


def newest_files(folder: TranscriptFolder) -> list[tuple[float, str]]:
    """Return the files of a folder with their times, the newest first."""
    if folder.agent == "OpenCode":
        return [(folder.newest, folder.path)]  # a folder that is one transcript
    endings = tuple(
        ending for habit in _HABITS if habit.agent == folder.agent for ending in habit.endings
    )
    return sorted(
        ((stat.st_mtime, path) for path, stat in _files(folder.path, endings)), reverse=True
    )


def _look(habit: _Habit, path: str) -> TranscriptFolder:
    stats = [stat for _path, stat in _files(path, habit.endings)]
    return TranscriptFolder(
        agent=habit.agent,
        path=path,
        files=len(stats),
        bytes=sum(stat.st_size for stat in stats),
        newest=max((stat.st_mtime for stat in stats), default=0.0),
    )


def _files(path: str, endings: tuple[str, ...]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files in a folder, with their sizes; what cannot be read is passed over."""
    if os.path.isfile(path):
        # What a program has just written to its database is in the log beside it.
        logs = [path, f"{path}-wal"]
        yield path, max((os.stat(each) for each in logs if os.path.exists(each)), key=_mtime)
        return
    for place, _folders, names in os.walk(path):
        for name in names:
            if name.endswith(endings):
                file = os.path.join(place, name)
                try:
                    yield file, os.stat(file)
                except OSError:
                    continue


def _mtime(stat: os.stat_result) -> float:
    return stat.st_mtime
