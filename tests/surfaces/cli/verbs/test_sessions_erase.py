"""`holdfast erase`: asks, deletes, and says what remains."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from tests.surfaces.terminals import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.support.databases import Contents
    from tests.surfaces.conftest import Cli


def words_in(found: Iterable[tuple[str, bytes]], word: bytes) -> list[str]:
    return [name for name, data in found if word in data]


def test_an_erased_session_is_in_no_file(cli: Cli, contents: Contents) -> None:
    """The session goes, the fork is reported, and both can be erased by id after a removal."""
    cli("new", "--id", "work", "a qlabel")
    cli("append", "work", stdin=b'{"type":"user","content":"qwords to forget"}\n')
    cli("fork", "work", "--id", "copy")
    cli("sessions")
    planned = cli("erase", "work", "--dry-run", "--json").json
    assert planned["dry_run"] is True
    assert words_in(contents(cli.root), b"qlabel")
    done = cli("erase", "work", "--yes", "--json").json
    assert done == {**planned, "dry_run": False}
    assert [copy["where"] for copy in done["remaining"]] == ["main/copy", ""]
    cli("rm", "copy")
    assert words_in(contents(cli.root), b"qwords")
    shown = cli("erase", "copy", "--yes")
    assert shown.status == 0
    assert "main/copy" in shown.out
    assert words_in(contents(cli.root), b"qwords") == words_in(contents(cli.root), b"qlabel") == []
    assert cli("erase", "copy", "--yes").status == 2


def test_an_owner_is_erased(cli: Cli, contents: Contents) -> None:
    """`--owner` takes notes as well; an owner without anything is no error."""
    cli("memory", "add", "qnote of ann", "--owner", "ann")
    cli("memory", "add", "qnote by an agent without sessions", "--owner", "ann", "--agent", "a2")
    cli("new", "--id", "work")
    assert cli("erase", "--owner", "ann", "--yes", "--json").json["notes"] == 2
    assert words_in(contents(cli.root), b"qnote") == []
    assert cli("sessions", "--json").json[0]["session"] == "work"


def test_erasing_needs_a_yes(cli: Cli) -> None:
    """Without a terminal nothing is erased unless `--yes` is given; nor without a name."""
    cli("new", "--id", "work")
    asked = cli("erase", "work")
    assert (asked.status, "--yes" in asked.err) == (2, True)
    assert cli("erase", "--yes").status == 2
    assert cli("erase", "work", "--owner", "ann", "--yes").status == 2
    assert len(cli("sessions", "--json").json) == 1


@pytest.mark.files_only("another process opens the folder")
def test_erasing_asks_on_a_terminal(cli: Cli, tmp_path: Path) -> None:
    """Anything but yes leaves everything as it was."""
    command = (sys.executable, "-m", "holdfast", "erase", "work", "--root", str(cli.root))
    environment = {"PYTHONPATH": ":".join(sys.path)}
    for answer, is_gone in (("n", False), ("y", True)):
        cli("new", "--id", "work")
        with Terminal(*command, folder=tmp_path, **environment) as terminal:
            terminal.wait_for("for good? [y/N]")
            terminal.send(answer + "\r")
            terminal.wait_for("erased")
        assert (cli("sessions", "--json").json == []) is is_gone
