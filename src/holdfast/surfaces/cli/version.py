"""The version, and for a checkout its commit."""

from __future__ import annotations

import os

from holdfast import __version__


def checkout_of(file: str) -> str:
    """Return the folder of the checkout that this file would be of; empty where the package lies
    elsewhere, as in a folder of another project, whose commit is not ours."""
    source = os.path.abspath(os.path.join(os.path.dirname(file), *[os.pardir] * 3))
    return os.path.dirname(source) if os.path.basename(source) == "src" else ""


_CHECKOUT = checkout_of(__file__)


def version_line() -> str:
    """Return `holdfast VERSION`; in a checkout also its commit, with the date, and whether files
    were changed since."""
    is_checkout = _CHECKOUT and os.path.exists(os.path.join(_CHECKOUT, ".git"))
    about = _describe_checkout() if is_checkout else ""
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
