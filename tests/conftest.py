"""Shared by every test run: examples, the quick sample, Ctrl-C, closed connections."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from tests.support.connections import every_connection_is_closed
from tests.support.runs import EXAMPLES, RUN, SLOW_FILES, sample

if TYPE_CHECKING:
    import pytest

# `deadline`, `too_slow`: on a slow or busy machine examples may take long; that says nothing about
# the code. `derandomize`: a change is judged by the same examples every time; the nightly run searches
# for new ones, and prints how to repeat what it finds.
for run, count in EXAMPLES.items():
    settings.register_profile(
        run,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        max_examples=count,
        derandomize=run != "nightly",
        print_blob=run == "nightly",
    )
settings.load_profile(RUN)

__all__ = ["every_connection_is_closed"]

# A shell ignores Ctrl-C for what it starts in the background, and so would every process that a
# test starts. Tests that send it must not depend on how they were started.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The SDKs only talk to 127.0.0.1 here. A folder without certificates spares each of their clients
# reading all that this machine trusts, which takes longer than most tests.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

if RUN == "quick":
    collect_ignore_glob = list(SLOW_FILES)

    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        """Keep a quarter of the tests of each file, chosen by their names."""
        items[:] = sample(
            items, share=1 / 4, name=lambda item: item.nodeid, kind=lambda item: item.path
        )
