"""Manners of the command line: help, hints, near misses, the store above, times of the source."""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scripts import house
from tests.support.cli import run_in_process

import holdfast
from holdfast.surfaces.cli.help import COMMANDS, REPLACED, build_parser, words_by_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES = [*COMMANDS]
SOURCE = Path(holdfast.__file__).parent
NOT_OURS = {"--no-deps", "--holdfast-save-baseline"}
"""Options of other programs that a hint names."""


@pytest.fixture(autouse=True)
def _root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_ROOT", raising=False)


def test_help_shows_at_most_twenty_commands(capfd: pytest.CaptureFixture[str]) -> None:
    """The common ones first; `holdfast`, `--help` and `help` say the same."""
    shown = run_in_process(["help"], capfd)
    assert shown.status == 0
    assert run_in_process([], capfd).out == run_in_process(["--help"], capfd).out == shown.out
    assert next(iter(COMMANDS.values())).group == "start here"
    assert len(re.findall(r"^  [a-z]+ ", shown.out, re.MULTILINE)) <= 20


def test_help_with_all_shows_every_command_once(capfd: pytest.CaptureFixture[str]) -> None:
    """Each is in a group, and the short help says how many are left out."""
    whole = run_in_process(["help", "--all"], capfd)
    assert whole.status == 0
    for name in NAMES:
        assert len(re.findall(rf"^  {name} ", whole.out, re.MULTILINE)) == 1, name
    others = 1 + sum(entry.group == "more commands" for entry in COMMANDS.values())
    assert f"`holdfast help --all` shows {others} more" in run_in_process(["help"], capfd).out


@pytest.mark.parametrize("old", REPLACED)
def test_a_command_of_before_names_the_one_of_today(
    old: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """No alias: the error says what to type, and that works."""
    done = run_in_process([old], capfd)
    assert (done.status, old in NAMES) == (2, False)
    assert f"`holdfast {REPLACED[old]}`" in done.err
    run_in_process(["new", "--id", "work"], capfd)
    words = REPLACED[old].replace("SESSION", "work").split()
    assert run_in_process(words, capfd).status == 0


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_help_breaks_no_word(
    columns: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    words = set(run_in_process(["help", "--all"], capfd).out.split())
    helps = " ".join(entry.help for entry in COMMANDS.values())
    assert set(helps.split()) <= words


def test_help_of_a_command_is_its_own_help(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_in_process(["help", "inspect"], capfd).out.startswith("usage: holdfast inspect")


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (["inspect", "x", "--htlm", "r"], "did you mean `--html`?"),
        (["sessions", "--lmit", "3"], "did you mean `--limit`?"),
        (["sessions", "--jsn"], "did you mean `--json`?"),
        (["inspct"], "did you mean `inspect`?"),
    ],
)
def test_a_near_miss_is_named(
    asked: list[str], meant: str, capfd: pytest.CaptureFixture[str]
) -> None:
    done = run_in_process(asked, capfd)
    assert done.status == 2
    assert meant in done.err


def test_a_wrong_choice_of_an_option_is_no_unknown_command(
    capfd: pytest.CaptureFixture[str],
) -> None:
    done = run_in_process(["completion", "tcsh"], capfd)
    assert done.status == 2
    assert "unknown command" not in done.err


@pytest.mark.files_only("it looks for a folder")
def test_the_store_is_found_above(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As git does; messages name the whole path."""
    run_in_process(["new", "--id", "here"], capfd)
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert run_in_process(["sessions", "--json"], capfd).json[0]["session"] == "here"
    assert run_in_process(["disk", "--json"], capfd).json["store"] == str(tmp_path / ".sessions")
    assert not (inner / ".sessions").exists()
    rows = run_in_process(["disk"], capfd).out.splitlines()
    assert [row.split("  ")[-1] for row in rows[-3:]] == [
        "1 session",
        "0 outputs",
        "0 sessions in the trash",
    ]


def test_a_store_of_another_user_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.config import find_root

    (tmp_path / ".sessions").mkdir()
    assert find_root(str(tmp_path)) == str(tmp_path / ".sessions")
    monkeypatch.setattr(os, "getuid", lambda: 12_345)
    assert find_root(str(tmp_path)) == ""


def test_an_import_keeps_the_times_of_its_source(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A session of January is not `just now`, and the newest session stays the newest."""
    lines = [
        {
            "type": kind,
            "uuid": f"u{place}",
            "sessionId": "january",
            "timestamp": f"2026-01-05T10:00:0{place}.000Z",
            "message": {"role": kind, "content": "hello"},
        }
        for place, kind in enumerate(("user", "assistant"))
    ]
    file = tmp_path / "january.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_in_process(["new", "--id", "today"], capfd)
    assert run_in_process(["import", str(file)], capfd).status == 0
    rows = run_in_process(["sessions", "--json"], capfd).json
    assert [row["session"] for row in rows] == ["today", "january"]


def test_verbose_writes_the_log_of_the_library(capfd: pytest.CaptureFixture[str]) -> None:
    done = run_in_process(["sessions", "-v"], capfd)
    assert done.status == 0
    assert "INFO holdfast" in done.err
    assert "INFO" not in run_in_process(["sessions"], capfd).err


def hints() -> Iterator[tuple[str, str]]:
    """Yield (module, text) for every hint in the source."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in house.nodes_of(house.parse(path)):
            given: ast.expr | None = None
            if (isinstance(node, ast.keyword) and node.arg == "hint") or (
                isinstance(node, ast.Assign) and "hint" in ast.unparse(node.targets[0])
            ):
                given = node.value
            if given is not None:
                texts = (part.value for part in ast.walk(given) if isinstance(part, ast.Constant))
                text = " ".join(text for text in texts if isinstance(text, str))
                yield str(path.relative_to(SOURCE)), text


def test_every_hint_names_an_option_that_its_command_has() -> None:
    """A hint of a command's module names options of its commands, or the command that it is of."""
    options = {name: found.options for name, found in words_by_command().items()}
    every = {option for found in options.values() for option in found} | {"--help"}
    modules: dict[str, list[str]] = {}
    for name, entry in COMMANDS.items():
        path = entry.module.removeprefix("holdfast.").replace(".", "/") + ".py"
        modules.setdefault(path, []).append(name)
    wrong, seen = [], 0
    for module, text in hints():
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text):
            seen += 1
            named = [name for name in NAMES if f"holdfast {name}" in text]
            commands = [*named, *modules.get(module, [])]
            known = {each for name in commands for each in options[name]} or every
            if option not in known | {"--help"} | NOT_OURS:
                wrong.append((module, option, text[:80]))
    assert seen > 15
    assert wrong == []


def quoted_by_hand() -> Iterator[tuple[str, int]]:
    """Yield (module, line) of texts with a command of ours and a value between quotes."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in house.nodes_of(house.parse(path)):
            if not isinstance(node, ast.JoinedStr):
                continue
            said = ""
            for part in node.values:
                if isinstance(part, ast.Constant):
                    said += str(part.value)
                elif re.search(r"\bholdfast [a-z]+ .*['\"]$", said):
                    yield str(path.relative_to(SOURCE)), node.lineno


def test_values_in_commands_are_quoted_as_a_shell_reads_them() -> None:
    """A file may be called anything: quotes around it do not keep it one word of a command."""
    assert list(quoted_by_hand()) == []


@pytest.mark.parametrize("place", ["nosuch/page.html", "."])
@pytest.mark.parametrize("command", ["inspect", "evaluate", "simulate"])
def test_a_page_that_cannot_be_written_is_told_of_once(
    command: str, place: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the path and the reason, without the number of the error."""
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    (tmp_path / "talk.json").write_text(json.dumps(messages))
    done = run_in_process([command, "talk.json", "--html", place], capfd)
    assert done.status == 2
    assert f"cannot write `{place}`: " in done.err
    assert "Errno" not in done.err


def test_an_error_of_the_system_names_its_file_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever command meets it."""
    (tmp_path / "file").touch()
    done = run_in_process(["demo", "--fast", "--keep", str(tmp_path / "file" / "below")], capfd)
    assert done.status == 1
    assert "Errno" not in done.err
    assert "file" in done.err


def arguments_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a parser and of the commands inside it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from arguments_of(inner)
        else:
            yield action


def test_every_argument_is_explained() -> None:
    """A line of the help without words explains nothing."""
    parsers = {name: build_parser(name).command for name in COMMANDS}
    bare = [
        (name, action.dest)
        for name, parser in parsers.items()
        for action in arguments_of(parser or build_parser(None))
        if not action.help
    ]
    assert bare == []


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_a_command_fits_a_narrow_terminal(
    name: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 60 columns, below its usage, only an example is wider, which is copied as it is."""
    monkeypatch.setenv("COLUMNS", "60")
    prose = run_in_process(["help", name], capfd).out.split("\n\n", 1)[1].splitlines()
    wide = [line for line in prose if len(line) > 60]
    assert [line for line in wide if not re.match(r"  (holdfast|echo|export|\w+=\S+) ", line)] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_number_may_be_negative(name: str) -> None:
    """Of any argument of any command: nothing on this command line counts below zero."""
    command = build_parser(name).command
    assert command is not None
    for action in command._actions:
        read = action.type
        if callable(read) and isinstance(_read_or_none(read, "1"), int | float):
            with pytest.raises(argparse.ArgumentTypeError, match="too small"):
                read("-1")


def _read_or_none(read: Callable[[str], object], text: str) -> object:
    try:
        return read(text)
    except (argparse.ArgumentTypeError, ValueError):
        return None
