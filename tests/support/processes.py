"""Processes for tests, forked from one that has imported what most of them need.

A process that is started by itself imports pytest, Hypothesis and the package again, which takes
more CPU than what it does for the test.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import forkserver
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

FORKED = multiprocessing.get_context("forkserver")
_IMPORTED = (
    "holdfast.engine.session.session",
    "holdfast.stores.jsonl.store",
    "holdfast.stores.postgres.store",
    "holdfast.testing.conformance.processes",
    "holdfast.testing.scripted",
    "holdfast.testing.servers",
    "hypothesis",
    "pytest",
    "tests.strategies",
)


@pytest.fixture(scope="session")
def forked_processes() -> Iterator[None]:
    """Start the process that the others are forked from, and wait for its end: its CPU counts."""
    FORKED.set_forkserver_preload(list(_IMPORTED))
    forkserver.ensure_running()
    yield
    server: Any = forkserver
    server._forkserver._stop()
