"""The `holdfast` command."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if [*argv] == ["--version"]:  # at once: a script asks for it, and needs nothing else
        from holdfast.surfaces.cli.version import version_line

        sys.stdout.write(f"{version_line()}\n")
        return 0
    from holdfast.surfaces.cli.dispatch import run_command_line

    return run_command_line(argv)
