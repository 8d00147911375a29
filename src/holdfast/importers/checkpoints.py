"""Checkpoints of other tools, from their files.

Some write `run_checkpoint.json` and, under its old name, `session_checkpoint.json`; some a file for
each, and a copy of the newest as `latest_checkpoint.json`. A copy that was torn when its writer was
killed is passed over for the newest that can be read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.core.checkpoint.state import State, from_foreign, read_state
from holdfast.errors import UsageError

if TYPE_CHECKING:
    import os

NAMES: Final = ("run_checkpoint.json", "session_checkpoint.json", "latest_checkpoint.json")
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
    named = [path / name for name in NAMES]
    dated = [(item.stat().st_mtime, item.name, item) for item in path.glob("ckpt_*.json")]
    newest = [one for *_when, one in sorted(dated, reverse=True)]
    return [item for item in (*named, *newest) if item.is_file()]


def _read(file: Path) -> State | str:
    try:
        if file.stat().st_size > _BYTES_MAX:
            return "it is too large to be one"
        value = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        return f"it cannot be read ({type(error).__name__})"
    if not isinstance(value, dict):
        return "it holds no object"
    own = read_state(value)
    return own if isinstance(own, State) else from_foreign(value)
