"""Other people's frameworks for the tests, which `make peers` installs into `.venv-peers`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2]
ARCHIVES = FOLDER / ".tools" / "peers"
PLUGINS = Path(__file__).parent / "peer_plugins"


def needs(package: str) -> str:
    """The release of an installed package; skips the test where there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        pytest.skip(f"NOT TESTED: {package} is not installed; `make peers` installs and tests it")


@cache
def archive(package: str) -> Path:
    """The unpacked source archive of the installed release, fetched with pip once."""
    release = needs(package)
    stem = f"{package.replace('-', '_')}-{release}"
    folder = ARCHIVES / stem
    if not folder.exists():
        ARCHIVES.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command = [*pip, "--no-binary", package, f"{package}=={release}", "--dest", str(ARCHIVES)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        with tarfile.open(ARCHIVES / f"{stem}.tar.gz") as packed:
            packed.extractall(ARCHIVES, filter="data")
    return folder


def run_suite(folder: Path, plugin: str, *paths: str, report: Path) -> dict[str, dict[str, Any]]:
    """What became of each test of an outside suite, with our class in the place of theirs."""
    environment = {
        **os.environ,
        "HOLDFAST_SUITE_REPORT": str(report),
        "PYTHONPATH": os.pathsep.join([str(FOLDER / "src"), str(PLUGINS)]),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    # An older opentelemetry, which older frameworks pin, warns; some suites make errors of that.
    command += ["-W", "ignore:SelectableGroups dict interface:DeprecationWarning"]
    done = subprocess.run(
        [*command, "-p", plugin, *paths],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    tests: dict[str, dict[str, Any]] = json.loads(report.read_text())
    return tests
