"""Patterns of names, with `*` and `?`, as settings have them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def name_pattern(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """Return what matches names like any of these, in upper or lower case; None for none."""
    if not patterns:
        return None
    parts = (re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".") for pattern in patterns)
    return re.compile("|".join(parts), re.IGNORECASE | re.DOTALL)


def is_like(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a name is like any of these patterns."""
    pattern = name_pattern(patterns)
    return pattern is not None and pattern.fullmatch(name) is not None
