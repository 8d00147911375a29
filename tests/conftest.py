"""What every test run shares: how hypothesis searches."""

from __future__ import annotations

import os

from hypothesis import settings

# On a slow or busy machine a single example may take long; that says nothing about the code.
settings.register_profile("local", deadline=None)
# The same examples every time, so that a change is not judged by another one's luck.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
