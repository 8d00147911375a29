"""`holdfast completion`: the scripts complete in real shells."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.support.cli import run_in_process

from holdfast.surfaces.cli.help import COMMANDS, words_by_command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

HELPS = {name: entry.help for name, entry in COMMANDS.items()}
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
    for name, words in words_by_command().items():
        for option in words.options:
            begun = [each for each in words.options if each.startswith(option[:-1])]
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


# sessions


def begun_names() -> dict[str, list[str]]:
    """Return lines that begin the name of a session, or of a file, and all that may follow."""
    lines: dict[str, list[str]] = {}
    for name, words in words_by_command().items():
        lines[f"holdfast {name} t"] = offers(words.word)
        for option, kind in words.values.items():
            lines[f"holdfast {name} {option} t"] = offers(kind)
    return lines


def offers(kind: str) -> list[str]:
    return {
        "files": ["talk.jsonl"],
        "sessions": ["task-1", "task-2"],
        "both": ["talk.jsonl", "task-1", "task-2"],
    }[kind]


def write_program(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a `holdfast` in front of all others that a shell finds."""
    program = folder / "bin" / "holdfast"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def write_real_program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = f'PYTHONPATH={":".join(sys.path)} exec {sys.executable} -m holdfast "$@"'
    write_program(folder, run, monkeypatch)


@pytest.mark.files_only("it asks shells")
@pytest.mark.parametrize(("shell", "ask"), [("bash", ask_bash), ("fish", ask_fish)])
def test_sessions_are_offered_where_a_command_takes_one(
    shell: str,
    ask: Callable[[str, Sequence[str], Path], list[list[str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """For every command and every option with a value, as its metavar says: sessions, files or
    both, and nothing else."""
    need(shell)
    write_program(tmp_path, r"printf 'task-1\tone\ntask-2\ttwo\nother\t\n'", monkeypatch)
    lines = begun_names()
    found = ask(run_in_process(["completion", shell], capfd).out, [*lines], tmp_path)
    shown = dict(zip(lines, map(sorted, found), strict=True))
    assert shown == lines
    assert sum("task-1" in names for names in lines.values()) >= 20


PLACES = [
    ["--root", "r"],
    ["--root=r"],
    ["--owner", "ann"],
    ["--agent", "main", "--root", "r", "--owner=ann"],
]


@pytest.mark.files_only("it asks shells")
@pytest.mark.parametrize(("shell", "ask"), [("bash", ask_bash), ("fish", ask_fish)])
@pytest.mark.parametrize("is_before", [True, False])
def test_sessions_are_those_of_the_store_that_is_named(
    shell: str,
    ask: Callable[[str, Sequence[str], Path], list[list[str]]],
    is_before: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Wherever `--root`, `--owner` and `--agent` are on the line."""
    need(shell)
    write_program(tmp_path, f"echo \"$@\" >> '{tmp_path}/asked'", monkeypatch)
    lines = [
        " ".join(["holdfast", *places, "log t"] if is_before else ["holdfast log", *places, "t"])
        for places in PLACES
    ]
    ask(run_in_process(["completion", shell], capfd).out, lines, tmp_path)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == [" ".join(["completion sessions", *places]) for places in PLACES]


NAMES = ["release-1", "Weekly release", "budget", 'it\'s (a) #1 & "more"; * ?']


def write_sessions(capture: pytest.CaptureFixture[str]) -> None:
    run_in_process(["new", NAMES[1], "--id", NAMES[0]], capture)
    run_in_process(["new", NAMES[3], "--id", NAMES[2]], capture)


def type_into(shell: Sequence[str], setup: str, lines: Sequence[str], folder: Path) -> list[str]:
    """Type each line into a shell at a terminal, complete it, and return its last word."""
    (folder / "setup").write_text(setup)
    environment = {"HOME": str(folder), "PATH": os.environ["PATH"], "TERM": "dumb"}
    environment["HOLDFAST_ROOT"] = os.environ["HOLDFAST_ROOT"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe(shell[0], [*shell], environment)
    heard = b""

    def listen(until: bytes) -> bytes:
        nonlocal heard
        while until not in heard:
            ready, _, _ = select.select([terminal], [], [], SECONDS_MAX)
            assert ready, heard[-2_000:]
            heard += os.read(terminal, 65_536)
        before, _, heard = heard.partition(until)
        return before

    found = []
    try:
        os.write(terminal, b". ./setup; echo rea''dy\n")
        listen(b"ready\r\n")
        for line in lines:
            os.write(terminal, line.encode() + b"\t\x01probe \n")
            listen(b"<<")
            found.append(listen(b">>").decode())
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    return found


@pytest.mark.files_only("it asks shells")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_key_press_completes_ids_and_labels(
    shell: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """At a terminal, with the real command: the shell hands the whole name to the program, also
    where it has spaces and quotation marks."""
    need(shell)
    write_real_program(tmp_path, monkeypatch)
    write_sessions(capfd)
    script = run_in_process(["completion", shell], capfd).out
    probe = {
        "bash": 'probe() { printf "<%s%s>>\\n" "<" "${@: -1}"; }\nbind "set bell-style none"\n',
        "zsh": 'probe() { printf "<%s%s>>\\n" "<" "${@[-1]}" }\nunsetopt beep\nbindkey -e\n',
        "fish": "function probe; printf '<%s%s>>\\n' '<' $argv[-1]; end\n",
    }[shell]
    command = {
        "bash": ["bash", "--norc", "--noprofile", "-i"],
        "zsh": ["zsh", "-f", "-i"],
        "fish": ["fish", "-N", "-i"],
    }[shell]
    lines = ["holdfast log rel", "holdfast log Week", "holdfast show -s bud", "holdfast log it"]
    assert type_into(command, script + probe, lines, tmp_path) == NAMES


def test_names_are_ids_and_labels(capfd: pytest.CaptureFixture[str]) -> None:
    """The most recently active first; each beside what a person knows the session by."""
    write_sessions(capfd)
    shown = run_in_process(["completion", "sessions"], capfd)
    assert shown.out.splitlines() == [
        f"{NAMES[2]}\t{NAMES[3]}",
        f"{NAMES[0]}\t{NAMES[1]}",
        f"{NAMES[3]}\t{NAMES[2]}",
        f"{NAMES[1]}\t{NAMES[0]}",
    ]
    assert shown.err == ""
    names = json.loads(run_in_process(["completion", "sessions", "--json"], capfd).out)
    assert sorted(names) == sorted(NAMES)


def test_every_name_opens_its_session(capfd: pytest.CaptureFixture[str]) -> None:
    """Also where two agents have sessions of the same id."""
    write_sessions(capfd)
    run_in_process(["new", "--id", NAMES[0], "--agent", "other"], capfd)
    names = json.loads(run_in_process(["completion", "sessions", "--json"], capfd).out)
    assert len(names) == 5
    for name in names:
        assert run_in_process(["log", name], capfd).status == 0, name


def test_a_name_with_a_secret_is_not_offered(capfd: pytest.CaptureFixture[str]) -> None:
    """It would be masked, and then it names nothing."""
    secret = "sk-ant-api03-" + "Zq8" * 31 + "AA"
    run_in_process(["new", f"key {secret}", "--id", "quiet"], capfd)
    shown = run_in_process(["completion", "sessions"], capfd)
    assert [line.split("\t")[0] for line in shown.out.splitlines()] == ["quiet"]
    assert secret not in shown.out


@pytest.mark.parametrize("label", ["$(touch gone)", "`touch gone`", "a\\b", "wow!!", "a$HOME"])
def test_a_name_that_a_shell_would_run_is_not_offered(
    label: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """bash inserts such characters as they are. The session has its id."""
    run_in_process(["new", label, "--id", "safe"], capfd)
    names = json.loads(run_in_process(["completion", "sessions", "--json"], capfd).out)
    assert [*names] == ["safe"]


def test_names_are_of_one_owner(capfd: pytest.CaptureFixture[str]) -> None:
    """With `--owner`, as for every other command."""
    run_in_process(["new", "--id", "hers", "--owner", "ann"], capfd)
    run_in_process(["new", "--id", "his", "--owner", "bob"], capfd)
    shown = run_in_process(["completion", "sessions", "--owner", "ann"], capfd)
    assert shown.out.split() == ["hers"]


def test_no_store_is_silence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Where there is none, a key press says nothing and creates nothing."""
    shown = run_in_process(["completion", "sessions"], capfd)
    assert (shown.status, shown.out, shown.err) == (0, "", "")
    assert not (tmp_path / "root").exists()
