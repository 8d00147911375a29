"""The TypeScript client's own tests, against this server: `clients/typescript`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.node_programs import VERSION_MIN, find_node

CLIENT = Path(__file__).parents[1] / "clients" / "typescript"
TESTS = sorted(path.name for path in (CLIENT / "test").glob("*.test.ts"))

pytestmark = pytest.mark.timeout(900)


def run(*command: str) -> str:
    """Run a program of Node.js in the client's folder, and return what it says."""
    node = find_node()
    missing = [
        *([] if node else [f"Node.js {VERSION_MIN}"]),
        *([] if shutil.which("npm") else ["npm"]),
        *(
            []
            if (CLIENT / "node_modules" / ".stamp").exists()
            else ["what the client is built with"]
        ),
    ]
    if node is None or missing:
        pytest.skip(f"NOT TESTED: {missing[0]} is not installed; install it with `make node`")
    place = f"{Path(node).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [node, *command],
        cwd=CLIENT,
        env={**os.environ, "PATH": place, "HOLDFAST_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    said = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, said[-8_000:]
    return said


def test_the_client_is_typed_strictly() -> None:
    run("node_modules/typescript/bin/tsc", "-p", "tsconfig.check.json")


@pytest.mark.parametrize("name", TESTS)
def test_the_client_keeps_its_promises(name: str) -> None:
    said = run("--test", "--test-reporter=tap", "--test-timeout=300000", f"test/{name}")
    assert "# fail 0" in said, said
    assert "# pass 0" not in said, said
