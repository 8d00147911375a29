"""`holdfast completion`: the scripts complete in real shells."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.support.cli import run_in_process

from holdfast.surfaces.cli import COMMANDS
from holdfast.surfaces.cli.completion.completion import options_by_command

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_ROOT", str(tmp_path / "root"))


def complete(script: str, *words: str) -> list[str]:
    """Ask bash for the completions of the last word."""
    line = " ".join(f"'{word}'" for word in ("holdfast", *words))
    asked = (
        f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _holdfast; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["/bin/bash", "-c", asked], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_commands_and_their_options(capfd: pytest.CaptureFixture[str]) -> None:
    script = run_in_process(["completion", "bash"], capfd).out
    assert complete(script, "ins") == ["inspect"]
    assert complete(script, "inspect", "--ht") == ["--html"]
    assert complete(script, "help", "ins") == ["inspect"]
    assert set(complete(script, "gc", "--")) == set(options_by_command()["gc"])


def test_every_shell_has_every_command(capfd: pytest.CaptureFixture[str]) -> None:
    """And the scripts are ones that the shells can read, where they are installed."""
    for shell in ("bash", "zsh", "fish"):
        script = run_in_process(["completion", shell], capfd).out
        for name in (name for commands in COMMANDS.values() for name in commands):
            assert name in script
        if shutil.which(shell):
            done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
