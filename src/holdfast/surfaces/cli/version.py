"""The version, and for a checkout its commit."""

from __future__ import annotations

import os

from holdfast import __version__

_CHECKOUT = os.path.join(os.path.dirname(__file__), *[os.pardir] * 4)


def version_line() -> str:
    """Return `holdfast VERSION`; in a checkout also its commit, with the date, and whether files
    were changed since."""
    about = _describe_checkout() if os.path.exists(os.path.join(_CHECKOUT, ".git")) else ""
    return f"holdfast {__version__}{about}"


def _describe_checkout() -> str:
    import subprocess

    def ask(*words: str) -> str:
        command = ["git", "-C", _CHECKOUT, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        commit = ask("log", "-1", "--format=%h, %cs")
    except OSError:  # without git
        return ""
    changed = ", changed since" if ask("status", "--porcelain", "-uno", "--", "src") else ""
    return f" ({commit}{changed})" if commit else ""
