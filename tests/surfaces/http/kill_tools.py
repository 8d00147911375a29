"""A tool with a side effect, for servers that are killed."""

from __future__ import annotations

import os
import time


def mark(name: str) -> str:
    """Write a name into a file, once for each run."""
    with open(os.environ["MARKS"], "a", encoding="utf-8") as file:
        file.write(f"{name}\n")
    time.sleep(0.01)
    return f"marked {name}"
