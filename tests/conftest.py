"""What every test run shares: how hypothesis searches."""

from __future__ import annotations

from hypothesis import settings
from tests.support.runs import EXAMPLES, RUN

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
