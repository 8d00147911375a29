"""Processes that tests start do without slow extras; the tests themselves do not."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
from tests.support.processes import COMMAND_ENVIRONMENT, FORKED, WITHOUT_EXTRAS


def _has_extras() -> None:
    sys.exit(not _is_real())


def _is_real() -> bool:
    try:
        found = importlib.util.find_spec("kingfisher_sdk")
    except ValueError:
        return False
    return found is not None and not (found.origin or "").endswith(
        "without_extras/kingfisher_sdk.py"
    )


@pytest.mark.usefixtures("forked_processes")
def test_only_processes_do_without_extras() -> None:
    """A command with this environment, one with its own, and one that is forked."""
    pytest.importorskip("kingfisher_sdk")
    assert _is_real(), "the tests themselves need what is installed"
    for environment in (None, COMMAND_ENVIRONMENT):
        command = [sys.executable, "-c", "import kingfisher_sdk"]
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert (done.returncode == 0) != bool(WITHOUT_EXTRAS), done.stderr
    forked = FORKED.Process(target=_has_extras)
    forked.start()
    forked.join()
    assert (forked.exitcode == 0) != bool(WITHOUT_EXTRAS)
