"""Numbers of tokens and characters as people write them: `64k`, `1m`, `200_000`."""

from __future__ import annotations

import argparse
from typing import Final

_UNITS: Final = {"k": 1_000, "m": 1_000_000}


def size(text: str) -> int:
    """Read a size: a whole number, or one with `k` (thousand) or `m` (million) behind it."""
    plain = text.strip().lower().replace("_", "").replace(",", "")
    unit = _UNITS.get(plain[-1:], 1)
    digits = plain[:-1] if unit > 1 else plain
    try:
        number = float(digits) * unit if unit > 1 else int(digits)
        if number == int(number):
            return int(number)
    except (ValueError, OverflowError):
        pass  # no number, or an endless one
    raise argparse.ArgumentTypeError(f"`{text}` is not a size: write 64000, 64k or 1m")
