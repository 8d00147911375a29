"""What is a command, how it ended, and which two are the same."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.extract.shell_commands import (
    command_in,
    exit_code,
    is_look,
    same_command,
    without_setup,
)
from holdfast.core.log.records import ToolResult


@pytest.mark.parametrize(
    ("tool", "arguments", "command"),
    [
        ("Bash", {"command": "ls -l", "description": "List"}, "ls -l"),
        ("run_shell_command", {"command": "ls", "cwd": "/tmp"}, "ls"),
        ("shell", {"command": ["bash", "-lc", "ls | wc"]}, "ls | wc"),
        ("shell", {"command": ["git", "status"]}, "git status"),
        ("exec", {"cmd": "make"}, "make"),
        ("run_ipython", {"code": "1 + 1"}, "1 + 1"),
        ("anything", {"command": "deploy now"}, "deploy now"),
        ("str_replace_editor", {"command": "view", "path": "/r/x.py"}, ""),
        ("write_file", {"path": "a.sh", "script": "echo"}, ""),
        ("interpret", {"code": "SKU-7"}, ""),
        ("Bash", {"command": 7}, ""),
        ("Bash", {}, ""),
    ],
)
def test_a_command_is_what_a_shell_is_given(
    tool: str, arguments: dict[str, Any], command: str
) -> None:
    assert command_in(tool, arguments) == command


@pytest.mark.parametrize(
    ("content", "details", "code"),
    [
        ("Exit code 1\nboom", None, 1),
        ("out\nProcess exited with code 0", None, 0),
        ("out\n[exit code: -9]", None, -9),
        ('{"exit_code": 2, "output": ""}', None, 2),
        ("<returncode>127</returncode>\n<output>", None, 127),
        ("fine", {"exitCode": 4}, 4),
        ("fine", {"metadata": {"returncode": 5}}, 5),
        ("fine", {"exit_code": True}, None),
        ("the script says exit 1 here", None, None),
        ("", None, None),
    ],
)
def test_an_exit_code_is_what_a_result_says_outright(
    content: str, details: Any, code: int | None
) -> None:
    assert exit_code(ToolResult(tool_use_id="c", content=content, details=details)) == code


def test_options_pipes_and_folders_do_not_make_another_command() -> None:
    alike = (
        "pytest tests/a.py",
        "pytest -q tests/a.py 2>&1 | tail -20",
        "cd /srv/app && pytest tests/a.py",
        "FOO=1 timeout 60 pytest --maxfail=1 tests/a.py",
    )
    assert len({same_command(one) for one in alike}) == 1
    assert same_command("pytest tests/b.py") != same_command(alike[0])
    assert same_command("--version") == "--version"
    assert same_command("make > log 2> errors") == same_command("make") != same_command("make x")
    assert same_command("a | b") != same_command("a")
    for hostile in (">" * 300 + " x y", "| tail " * 60 + "!", "a=1;" * 80, " \n" * 200 + "-"):
        same_command(hostile)
    assert without_setup("cd /x && make") == "make"
    assert without_setup("cd /x") == "cd /x"


def test_a_command_that_only_reads_is_a_look() -> None:
    """One that may also write is one where its options say that it does not."""
    looks = ("sed -n 5,9p a.py", "sudo cat a.py", "git -C sub log", "find . -name x", "ls | wc -l")
    changes = ("sed -i s/a/b/ a.py", "sed -n -i 5p a.py", "sed s/a/b/ a.py", "git commit", "make")

    assert [command for command in (*looks, *changes) if is_look(command)] == list(looks)
