"""Programs of Node.js for the tests, which `make node` installs into `.tools/node`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / ".tools" / "node" / "node_modules"
VERSION_MIN = 22


def program(name: str) -> list[str]:
    """The command of a program; skips the test where it is not installed."""
    script, node = FOLDER / ".bin" / name, find_node()
    if not script.exists() or node is None:
        missing = f"`{name}`" if not script.exists() else f"Node.js {VERSION_MIN}"
        pytest.skip(f"NOT TESTED: {missing} is not installed; install it with `make node`")
    return [node, str(script.resolve())]


def package_file(path: str) -> Path:
    """A file of a package; skips the test where it is not installed."""
    found = FOLDER / path
    if not found.exists():
        pytest.skip(f"NOT TESTED: `{path}` is not installed; install it with `make node`")
    return found


def find_node() -> str | None:
    """Node.js as `make node` installed it, or that of the machine if it is new enough."""
    ours = sorted(FOLDER.glob("node-*/bin/node"))
    for path in [*map(str, ours), *filter(None, [shutil.which("node")])]:
        run = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        if run.returncode == 0 and int(run.stdout.lstrip("v").partition(".")[0]) >= VERSION_MIN:
            return path
    return None
