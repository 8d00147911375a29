"""Where the real transcripts are, for the tests that need them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("HOLDFAST_DATA", Path(__file__).parents[2] / "shared" / "data"))


def need_data() -> Path:
    """The folder with the transcripts; without it, the test is skipped and says so."""
    if not DATA.is_dir():
        pytest.skip(f"NO TRANSCRIPTS: {DATA} is not there; point HOLDFAST_DATA at the folder")
    return DATA
