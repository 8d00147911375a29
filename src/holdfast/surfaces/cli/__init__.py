"""The `holdfast` command."""

from __future__ import annotations

import sys

from holdfast import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if [*argv] == ["--version"]:  # at once: a script asks for it, and needs nothing else
        sys.stdout.write(f"holdfast {__version__}\n")
        return 0
    from holdfast.surfaces.cli.dispatch import run_command_line

    return run_command_line(argv)
