"""`holdfast memory`: notes for people and programs, on the same files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.surfaces.conftest import Cli


def folder(cli: Cli) -> Path:
    return cli.root / "agents" / "main" / "memory"


def test_a_note_is_added_once(cli: Cli) -> None:
    """And the place is told where it stands."""
    first = cli("memory", "add", "Use tabs.", "Ask Ann first.")
    again = cli("memory", "add", "use TABS")

    assert (first.status, again.status, again.out) == (0, 0, "")
    assert [line.split("  ")[1] for line in first.out.splitlines()] == [
        "Use tabs.",
        "Ask Ann first.",
    ]
    assert "already saved" in again.err


def test_notes_come_from_stdin_as_well(cli: Cli) -> None:
    """One a line."""
    told = cli("memory", "add", "--json", stdin=b"one\n\ntwo\n").json
    assert [note["text"] for note in told["saved"]] == ["one", "two"]
    assert (told["known"], told["refused"]) == ([], [])


def test_a_secret_is_refused_with_a_status(cli: Cli) -> None:
    """It stands neither in the file nor in the answer."""
    done = cli("memory", "add", "the password is hunter2!Xy", "Good.")
    assert done.status == 1
    assert "hunter2" not in done.out + done.err
    with JsonlStore(cli.root) as store:
        assert len(list(store.notes("main").notes())) == 1


def test_the_newest_are_listed_first(cli: Cli) -> None:
    """With where they stand and where they came from."""
    with JsonlStore(cli.root) as store:
        notes = store.notes("main")
        notes.append(["first"], session="main/work", records=["r1"])
        notes.append(["second"])
        notes.put("MEMORY.md", None, b"- of a person\n")

    assert [one["text"] for one in cli("memory", "list", "--json").json] == [
        "second",
        "first",
        "of a person",
    ]
    (one,) = cli("memory", "list", "--json", "FIRST").json
    assert (one["session"], one["records"], one["line"]) == ("main/work", ["r1"], 3)
    plain = cli("memory", "list", "--last", "1")
    assert plain.out.splitlines()[1].endswith("second")
    assert len(plain.out.splitlines()) == 2
    assert cli("memory", "list", "--last", "0").status == 2


def test_a_file_is_shown_by_its_day_its_name_or_its_path(cli: Cli) -> None:
    """Without the comments behind the lines, and without what steers a terminal."""
    with JsonlStore(cli.root) as store:
        saved = store.notes("main").append(["one"], session="main/work").saved[0]
    expected = f"# {saved.day}\n\n- one\n"
    for name in (saved.day, saved.path):
        assert cli("memory", "show", name).out == expected
    assert cli("memory", "show").out == expected
    with JsonlStore(cli.root) as store:
        store.notes("main").put("MEMORY.md", None, b"red \x1b[31m\n")
    assert cli("memory", "show").out == "red \ufffd[31m\n"
    told = cli("memory", "show", "MEMORY", "--json").json
    assert (told["path"], told["lines"]) == ("MEMORY.md", 1)


def test_what_a_person_wrote_down_is_masked_on_the_way_out(cli: Cli) -> None:
    """The file stays as it is."""
    folder(cli).mkdir(parents=True)
    (folder(cli) / "MEMORY.md").write_text("key sk-proj-abcdefghijklmnop1234567890\n")
    for arguments in (("list",), ("show",), ("list", "--json"), ("show", "--json")):
        assert "mnop12345" not in cli("memory", *arguments).out


def test_owners_and_agents_are_kept_apart(cli: Cli) -> None:
    """Each has notes of its own."""
    cli("memory", "add", "--owner", "ann", "of Ann")
    cli("memory", "add", "of the helper", "--agent", "helper")
    assert cli("memory", "list", "--json").json == []
    assert len(cli("memory", "list", "--json", "--owner", "ann").json) == 1


@pytest.mark.parametrize(
    "arguments",
    [("lst",), ("what",), ("show", "2020-01-01"), ("show", "../x"), ("show",)],
)
def test_what_cannot_be_meant_is_answered(cli: Cli, arguments: tuple[str, ...]) -> None:
    """With what to do instead."""
    done = cli("memory", *arguments)
    assert done.status == 2
    assert "hint:" in done.err
    assert arguments != ("lst",) or "`list`" in done.err


def test_no_notes_are_no_error(cli: Cli) -> None:
    """The way to the first one is shown."""
    done = cli("memory", "list")
    assert (done.status, done.out) == (0, "")
    assert "memory add" in done.err
