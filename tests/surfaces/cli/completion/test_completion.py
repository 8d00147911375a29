"""`holdfast completion`: the scripts complete in real shells."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.support.cli import run_in_process

from holdfast.surfaces.cli import COMMANDS
from holdfast.surfaces.cli.completion.completion import options_by_command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

HELPS = {name: text for commands in COMMANDS.values() for name, text in commands.items()}
SECONDS_MAX = 120
"""A shell that says nothing for so long hangs."""


@pytest.fixture(autouse=True)
def _root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_ROOT", str(tmp_path / "root"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.jsonl").touch()


def begun_lines() -> dict[str, list[str]]:
    """Return lines that somebody begins to type, and everything that may follow the last word."""
    names = [*HELPS, "help"]
    lines = {"holdfast tal": [], "holdfast inspect tal": ["talk.jsonl"]}
    for name in names:
        lines[f"holdfast {name[:-1]}"] = [each for each in names if each.startswith(name[:-1])]
    for name in HELPS:
        begun = [each for each in HELPS if each.startswith(name[:-1])]
        lines[f"holdfast help {name[:-1]}"] = begun
    for name, options in options_by_command().items():
        for option in options:
            begun = [each for each in options if each.startswith(option[:-1])]
            lines[f"holdfast {name} {option[:-1]}"] = begun
    return lines


def ask_bash(script: str, lines: Sequence[str], _folder: Path) -> list[list[str]]:
    asked = [script]
    for line in lines:
        words = line.split(" ")
        given = " ".join(f"'{word}'" for word in words)
        asked.append(
            f"COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _holdfast; "
            'echo "${COMPREPLY[*]}"'
        )
    done = subprocess.run(
        ["/bin/bash", "-c", "\n".join(asked)], capture_output=True, text=True, check=True
    )
    return [line.split() for line in done.stdout.split("\n")[:-1]]


def ask_fish(script: str, lines: Sequence[str], folder: Path) -> list[list[str]]:
    (folder / "holdfast.fish").write_text(script)
    asked = ["source holdfast.fish"]
    asked += [f"echo (complete -C '{line}' | string split -f1 \\t)" for line in lines]
    (folder / "ask.fish").write_text("\n".join(asked))
    environment = {"HOME": str(folder), "PATH": os.environ["PATH"], "TERM": "dumb"}
    done = subprocess.run(
        ["fish", "-N", "ask.fish"],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env=environment,
    )
    assert done.stderr == ""
    return [line.split() for line in done.stdout.split("\n")[:-1]]


def ask_zsh(script: str, lines: Sequence[str], folder: Path) -> list[list[str]]:
    """Type each line into an interactive zsh and press a key that completes it.

    A shell at a terminal shows what is common to all that may follow."""
    (folder / "holdfast.zsh").write_text(script)
    (folder / "setup.zsh").write_text(
        "source holdfast.zsh\nunsetopt auto_menu auto_list auto_remove_slash beep\n"
        'probe() { zle complete-word; print -r -- "$BUFFER" >> found; BUFFER= }\n'
        "zle -N probe; bindkey '^T' probe\nprint rea''dy\n"
    )
    environment = {"HOME": str(folder), "PATH": os.environ["PATH"], "TERM": "dumb"}
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe("zsh", ["zsh", "-f", "-i"], environment)
    heard = b""
    found = folder / "found"

    def listen(is_done: Callable[[], bool]) -> None:
        nonlocal heard
        while not is_done():
            ready, _, _ = select.select([terminal], [], [], SECONDS_MAX)
            assert ready, heard[-2_000:]
            heard += os.read(terminal, 65_536)

    def has(count: int) -> bool:
        return found.exists() and found.read_text().count("\n") >= count

    try:
        os.write(terminal, b"source setup.zsh\n")
        listen(lambda: b"ready" in heard)
        for number, line in enumerate(lines, 1):
            os.write(terminal, f"{line}\x14".encode())
            listen(lambda number=number: has(number))  # type: ignore[misc]
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    typed = found.read_text().split("\n")[:-1]
    return [line.strip().split(" ")[-1:] for line in typed]


@pytest.mark.files_only("it asks shells")
def test_bash_completes_every_command_and_option(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    check_all_that_may_follow("bash", ask_bash, tmp_path, capfd)


@pytest.mark.files_only("it asks shells")
def test_fish_completes_every_command_and_option(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    check_all_that_may_follow("fish", ask_fish, tmp_path, capfd)


def check_all_that_may_follow(
    shell: str,
    ask: Callable[[str, Sequence[str], Path], list[list[str]]],
    folder: Path,
    capture: pytest.CaptureFixture[str],
) -> None:
    """Whatever is begun is completed to all that may follow, and to nothing else."""
    need(shell)
    lines = begun_lines()
    found = ask(run_in_process(["completion", shell], capture).out, [*lines], folder)
    shown = dict(zip(lines, map(sorted, found), strict=True))
    assert shown == {line: sorted(names) for line, names in lines.items()}


@pytest.mark.files_only("it asks shells")
def test_zsh_completes_every_command_and_option(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """At a terminal: as far as all that may follow is the same."""
    need("zsh")
    lines = begun_lines()
    found = ask_zsh(run_in_process(["completion", "zsh"], capfd).out, [*lines], tmp_path)
    expected = {
        line: [common(names)] if names else [line.split(" ")[-1]] for line, names in lines.items()
    }
    assert dict(zip(lines, found, strict=True)) == expected


@pytest.mark.files_only("it asks shells")
def test_fish_shows_the_help_of_every_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Beside its name, with every quotation mark."""
    need("fish")
    (tmp_path / "holdfast.fish").write_text(run_in_process(["completion", "fish"], capfd).out)
    done = subprocess.run(
        ["fish", "-N", "-c", "source holdfast.fish; complete -C 'holdfast '"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    shown = dict(line.split("\t") for line in done.stdout.splitlines() if "\t" in line)
    assert {name: shown[name] for name in HELPS} == HELPS


def common(names: Sequence[str]) -> str:
    """Return the beginning that all names have."""
    shortest = min(names, key=len)
    ends = range(len(shortest), 0, -1)
    return next(shortest[:end] for end in ends if all(n.startswith(shortest[:end]) for n in names))


def need(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"`{shell}` is not installed: its completions are not tested")


def test_every_shell_has_every_command(capfd: pytest.CaptureFixture[str]) -> None:
    """Also where the shell is not installed."""
    for shell in ("bash", "zsh", "fish"):
        script = run_in_process(["completion", shell], capfd).out
        assert all(name in script for name in HELPS)
