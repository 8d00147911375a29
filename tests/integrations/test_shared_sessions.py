"""Four processes on one session, through each adapter: no turn is lost.

The processes are those of benchmarks/adapters.py, which measures the same beside the frameworks'
own stores.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.adapters import PROCESS_TURNS, PROCESSES
from benchmarks.adapters_stores import MAKERS
from tests.support.peers import needs

from holdfast.stores import open_store

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.files_only("it starts processes, which open the folder"),
]
FOLDER = Path(__file__).parents[2]
EXPECTED = {f"mark-{number}x{turn}" for number in range(PROCESSES) for turn in range(PROCESS_TURNS)}
PACKAGES = {
    "OpenAI Agents": "openai-agents",
    "LangGraph": "langgraph",
    "Pydantic AI": "pydantic-ai-slim",
    "Strands": "strands-agents",
    "Google ADK": "google-adk",
    "Claude Agent SDK": "claude-agent-sdk",
}


def run(option: str, framework: str, place: Path) -> tuple[set[str], set[str]]:
    """Run the processes; returns the turns that the adapter gives back, and those in the log."""
    side = MAKERS[framework](is_ours=True)
    place.mkdir()
    with side.writer(place) as append:
        append("mark-first")
    command = [sys.executable, str(FOLDER / "benchmarks" / "adapters.py"), option]
    environment = {**os.environ, "PYTHONPATH": f"{FOLDER / 'src'}{os.pathsep}{FOLDER}"}
    running = [
        subprocess.Popen(
            [*command, framework, side.store, str(place), str(number)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    told = [process.communicate(timeout=1_800)[1] for process in running]
    assert [process.returncode for process in running] == [0] * PROCESSES, told
    given = _marks(repr(side.read(place)))
    with open_store(place) as store:
        lines = [line for key in store.keys(None) for line in store.export(key)]
    return given, _marks(b"".join(lines).decode())


def _marks(text: str) -> set[str]:
    return set(re.findall(r"mark-\d+x\d+", text))


@pytest.mark.parametrize("framework", PACKAGES)
def test_four_processes_lose_nothing(framework: str, tmp_path: Path) -> None:
    """Each turn is in the log. The adapter gives all of them back; of LangGraph's, whose runs each
    go on from the checkpoint that they read, it does where they hold the thread's turn."""
    needs(PACKAGES[framework])
    given, logged = run("--turns-of", framework, tmp_path / "store")
    assert logged == EXPECTED
    if framework == "LangGraph":
        given, logged = run("--in-turns-of", framework, tmp_path / "in-turns")
        assert logged == EXPECTED
    assert given == EXPECTED


def test_every_adapter_that_is_measured_is_here() -> None:
    shared = {name for name, make in MAKERS.items() if make(is_ours=True).is_shared}
    assert shared == PACKAGES.keys()
