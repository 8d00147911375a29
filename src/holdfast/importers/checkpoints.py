"""Checkpoints of other tools, from their files.

Some write `run_checkpoint.json` and, under its old name, `session_checkpoint.json`; some a file for
each, and a copy of the newest as `latest_checkpoint.json`, in `.urw/checkpoints`; some also write
one for people as Markdown. A copy that was torn when its writer was
killed is passed over for the newest that can be read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.checkpoint.state import State, from_foreign, read_state
from holdfast.errors import UsageError

if TYPE_CHECKING:
    import os

NAMES: Final = ("run_checkpoint.json", "session_checkpoint.json", "latest_checkpoint.json")
_FOR_PEOPLE: Final = ("run_checkpoint.md", "session_checkpoint.md")
_BYTES_MAX: Final = 16 * 1024 * 1024
"""A checkpoint has some kilobytes; a file of this size is something else."""


def read_checkpoint(place: str | os.PathLike[str]) -> State:
    """The checkpoint in a file, or the newest in a folder. Raises `UsageError`."""
    path = Path(place)
    reasons: list[str] = []
    for file in _candidates(path):
        found = _read(file)
        if isinstance(found, State):
            return found
        reasons.append(f"; `{file.name}`: {found}")
    raise UsageError(
        f"no checkpoint can be read from `{path}`{''.join(reasons[:3])}",
        hint=f"give a file, or a folder that has {', '.join(NAMES)} or ckpt_*.json",
    )


def _candidates(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inner = path / ".urw" / "checkpoints"
    if inner.is_dir():
        path = inner if not any((path / name).is_file() for name in NAMES) else path
    named = [path / name for name in (*NAMES, *_FOR_PEOPLE)]
    dated = [(item.stat().st_mtime, item.name, item) for item in path.glob("ckpt_*.json")]
    newest = [one for *_when, one in sorted(dated, reverse=True)]
    return [item for item in (*named, *newest) if item.is_file()]


def _read(file: Path) -> State | str:
    try:
        if file.stat().st_size > _BYTES_MAX:
            return "it is too large to be one"
        data = file.read_bytes()
        is_text = file.suffix == ".md"
        value = _read_markdown(data.decode(errors="replace")) if is_text else json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        return f"it cannot be read ({type(error).__name__})"
    if not isinstance(value, dict):
        return "it holds no object"
    own = read_state(value)
    return own if isinstance(own, State) else from_foreign(value)


_SECTIONS: Final = {
    "original request": "original_request",
    "completed": "completed_tasks",
    "artifacts": "artifacts",
    "sub-agent": "subagent_results",
    "decisions": "key_decisions",
    "failed": "failed_approaches",
    "learnings": "learnings",
    "remaining": "pending_tasks",
    "pending": "pending_tasks",
}
"""Words of headings, and the fields that the lines under them are."""
_MARKS: Final = " \t-*>•✓✅✔❌✗⏳🔄📄📁"


def _read_markdown(text: str) -> dict[str, Any]:
    """Return the fields of a checkpoint that was written for people."""
    fields: dict[str, Any] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("#") or (line.startswith("**") and line.rstrip().endswith("**")):
            heading = line.strip("#* :").casefold()
            section = next((name for word, name in _SECTIONS.items() if word in heading), "")
            continue
        said = line.strip(_MARKS)
        if not said or not section:
            continue
        if section == "original_request":
            fields[section] = f"{fields[section]}\n{said}" if section in fields else said
        elif section == "artifacts":
            path, _, about = said.replace("`", "").partition(" ")
            item = {"path": path.rstrip(":"), "summary": about.strip(" -–—:()")}
            fields.setdefault(section, []).append(item)
        elif section == "subagent_results":
            kind, _, about = said.replace("**", "").partition(":")
            fields.setdefault(section, []).append({"subagent_type": kind, "summary": about.strip()})
        else:
            fields.setdefault(section, []).append(said)
    return fields
