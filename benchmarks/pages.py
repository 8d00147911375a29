"""The parts that several benchmarks share: made-up words, processes of their own, and pages."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path


def words(count: int, rng: random.Random) -> str:
    """Return made-up words of a vocabulary of 3,000."""
    return " ".join(
        f"w{rng.randrange(3_000):x}{'abcdefgh'[: rng.randrange(8)]}" for _ in range(count)
    )


def output_of(
    script: str, *arguments: str, source: Path, python: str = sys.executable, **more: str
) -> str:
    """Run a benchmark in a process of its own, with the version in `source`; `more` are variables
    of its environment. Raises `RuntimeError` with what it wrote where it failed."""
    env = {**os.environ, **more, "PYTHONPATH": str(source)}
    done = subprocess.run(
        [python, script, *arguments], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def write_table(page: Path, lines: Sequence[str], start: str, end: str) -> None:
    """Put a table into a page between two marks, with the day."""
    head, _, rest = page.read_text().partition(start)
    day = datetime.now(UTC).date().isoformat()
    table = "\n".join((f"Measured on {day}.", "", *lines))
    page.write_text(f"{head}{start}\n{table}\n{end}{rest.partition(end)[2]}")
