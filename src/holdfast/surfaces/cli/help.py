"""The help of `holdfast` itself: commands by what one wants to do, the common ones first."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "start here": ("inspect", "chat", "demo", "sessions", "doctor"),
    "sessions and records": (
        *("new", "log", "show", "append", "label", "fork", "rewind", "branches", "rm", "erase"),
        *("import", "adopt", "export", "copy"),
    ),
    "what a model sees": (
        *("context", "simulate", "evaluate", "models", "output", "reseed", "checkpoint"),
    ),
    "memory and other agents": ("memory", "history", "audit"),
    "servers": ("serve", "proxy", "wrap", "mcp", "telegram"),
    "care": ("verify", "repair", "gc", "du", "classify", "completion", "help"),
}
"""Every command, in the order in which they are shown."""

_NAME_CHARS: Final = 12
"""The column of the names: the longest has ten letters."""
_WIDTH_MIN: Final = 40
"""A terminal narrower than this wraps by itself."""


def format_groups(commands: Mapping[str, str], usage: str, options: str) -> str:
    """Return the help; no word is broken, however narrow the terminal is."""
    width = max(_WIDTH_MIN, min(100, shutil.get_terminal_size().columns))
    indent = " " * (_NAME_CHARS + 2)
    parts = [usage, "Durable sessions and a bounded context for LLM agents.\n"]
    for group, names in GROUPS.items():
        parts.append(f"{group}:")
        for name in names:
            text = textwrap.fill(
                commands[name],
                width,
                initial_indent=f"  {name:{_NAME_CHARS}}",
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
            parts.append(text)
        parts.append("")
    parts += [options.rstrip(), "", "`holdfast help COMMAND` shows the options of a command."]
    return "\n".join(parts) + "\n"
