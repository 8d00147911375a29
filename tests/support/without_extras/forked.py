"""Leaves the extras out of a process that imports this, and of those that are forked from it."""

import sys

sys.modules["kingfisher_sdk"] = None  # type: ignore[assignment]
