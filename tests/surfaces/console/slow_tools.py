"""A tool that runs until a test lets it end."""

from __future__ import annotations

import os
import time


def wait_for_file(name: str) -> str:
    """Wait until a file is there."""
    path = os.path.join(os.environ["GATES"], os.path.basename(name))
    while not os.path.exists(path):
        time.sleep(0.02)
    return f"{name} is there"
