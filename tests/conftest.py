"""What every test run shares: how hypothesis searches, what a quick run does, no certificates."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import settings
from tests.support.runs import EXAMPLES, RUN, SLOW_FILES, sample

if TYPE_CHECKING:
    import pytest

# `deadline`: on a slow or busy machine a single example may take long; that says nothing about the
# code. `derandomize`: a change is judged by the same examples every time; the nightly run searches
# for new ones, and prints how to repeat what it finds.
for run, count in EXAMPLES.items():
    settings.register_profile(
        run,
        deadline=None,
        max_examples=count,
        derandomize=run != "nightly",
        print_blob=run == "nightly",
    )
settings.load_profile(RUN)

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
