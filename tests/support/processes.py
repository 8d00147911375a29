"""Processes for tests, which take no more CPU to start than they need.

Some are forked from one that has imported what most of them need: by itself, each would import
pytest, Hypothesis and the package again. Commands do without Kingfisher, but in the nightly run.
"""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.support.runs import is_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

WITHOUT_EXTRAS: Final = "" if is_whole() else str(Path(__file__).parent / "without_extras")
"""A folder for `PYTHONPATH`, in front of what is installed; the nightly run has none."""
COMMAND_ENVIRONMENT: Final = {"PYTHONPATH": WITHOUT_EXTRAS} if WITHOUT_EXTRAS else {}
"""For commands that get an environment of their own."""


def spare_commands() -> None:
    """Let commands that inherit the environment of this process do without extras."""
    if WITHOUT_EXTRAS:
        known = filter(None, [WITHOUT_EXTRAS, os.environ.get("PYTHONPATH")])
        os.environ["PYTHONPATH"] = os.pathsep.join(known)


FORKED = multiprocessing.get_context("forkserver")
_IMPORTED = (
    *(["tests.support.without_extras.forked"] if WITHOUT_EXTRAS else []),
    "holdfast.engine.session.session",
    "holdfast.stores.jsonl.store",
    "holdfast.stores.postgres.store",
    "holdfast.testing.conformance.processes",
    "holdfast.testing.scripted",
    "holdfast.testing.servers",
    "hypothesis",
    "pytest",
    "tests.strategies",
    "tests.support.first_turn",
)


@pytest.fixture(scope="session")
def forked_processes() -> Iterator[None]:
    """Start the process that the others are forked from, and wait for its end: its CPU counts."""
    FORKED.set_forkserver_preload(list(_IMPORTED))
    forkserver.ensure_running()
    yield
    server: Any = forkserver
    server._forkserver._stop()
