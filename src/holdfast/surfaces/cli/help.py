"""The help of `holdfast` itself: commands by what one wants to do, the common ones first."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "start here": ("inspect", "chat", "demo", "sessions", "doctor"),
    "sessions": ("log", "rewind", "import", "adopt", "export", "erase", "verify"),
    "what a model sees": ("context", "simulate", "memory"),
    "servers": ("serve", "proxy", "wrap", "mcp", "telegram"),
}
"""The commands that `holdfast --help` shows, in their order; `holdfast help --all` shows all."""
REPLACED: Final[Mapping[str, str]] = {
    "branches": "log SESSION --branches",
    "repair": "verify SESSION --repair",
    "gc": "disk --clean",
    "du": "disk",
}
"""Commands of version 0.1, and what does the same."""

_NAME_CHARS: Final = 12
"""The column of the names: the longest has ten letters."""
_WIDTH_MIN: Final = 40
"""A terminal narrower than this wraps by itself."""


class CommandHelp(argparse.RawDescriptionHelpFormatter):
    """Help whose examples are left as they are, and whose prose is wrapped at whole words."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            indent + line if line.startswith(" ") else _wrap(line, width, indent, indent)
            for line in text.splitlines()
        )


def _wrap(text: str, width: int, first: str, others: str) -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def format_groups(
    commands: Mapping[str, str], usage: str, options: str, *, is_whole: bool = False
) -> str:
    """Return the help; no word is broken, however narrow the terminal is."""
    width = max(_WIDTH_MIN, min(100, shutil.get_terminal_size().columns))
    indent = " " * (_NAME_CHARS + 2)
    parts = [usage, "Durable sessions and a bounded context for LLM agents.\n"]
    shown = {name for names in GROUPS.values() for name in names}
    others = [name for name in commands if name not in shown]
    for group, names in {**GROUPS, **({"more commands": others} if is_whole else {})}.items():
        parts.append(f"{group}:")
        parts += [_wrap(commands[name], width, f"  {name:{_NAME_CHARS}}", indent) for name in names]
        parts.append("")
    parts += [options.rstrip(), "", "`holdfast help COMMAND` shows the options of a command."]
    if not is_whole:
        parts.append(f"`holdfast help --all` shows {len(others)} more commands.")
    return "\n".join(parts) + "\n"
