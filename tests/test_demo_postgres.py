"""`make demo-postgres`: machines share a session, and take it home; on a real server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "demo_postgres.py"


def run(*arguments: str) -> str:
    """Run the demo in a process of its own, and return what it prints."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.usefixtures("postgres_server")
def test_two_machines_share_a_session() -> None:
    """Six messages in turns, and the same bytes in the database and in the folder."""
    shown = run("--short")
    assert shown.count("Machine A") == shown.count("Machine B") == 3
    assert "one turn at a time" in shown
    assert "main/shared: exports identical" in shown


@pytest.mark.nightly
@pytest.mark.usefixtures("postgres_server")
def test_a_recorded_agent_moves_to_another_machine() -> None:
    """It is killed in a tool call; the other machine waits for its lease, and goes on."""
    shown = run()
    assert "none lost" in shown
    assert "each of them once" in shown
    assert "main/demo: exports identical" in shown
