"""`holdfast timer`: messages that a session gets at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.surfaces.conftest import Cli


def test_a_timer_is_set_listed_changed_and_cancelled(cli: Cli) -> None:
    cli("new", "--id", "s")
    first = cli("timer", "add", "s", "R/PT1H", "Look at the inbox.", "--name", "look", "--silent")
    assert (first.status, first.out) == (0, "look\n")
    assert "holdfast serve" in first.err

    [row] = cli("timer", "list", "--json").json["timers"]
    assert (row["session"], row["when"], row["silent"], row["sent"]) == (
        *("main/s", "R/1h", True, 0),
    )
    assert "Look at the inbox." in cli("timer", "list").out

    changed = cli("timer", "change", "look", "--when", "R/PT2H", "--json").json
    assert (changed["when"], changed["text"]) == ("R/2h", "Look at the inbox.")
    assert cli("timer", "cancel", "look").out == "look: cancelled\n"
    assert cli("timer", "list", "--json").json["timers"] == []


def test_what_cannot_be_done_says_why_and_changes_nothing(cli: Cli) -> None:
    cli("new", "--id", "s")
    cli("timer", "add", "s", "R/PT1H", "one", "--name", "one")
    for words, said in (
        (("add", "s", "tomorrow", "x"), "2026-11-20T09:00"),
        (("add", "s", "09:00", "x", "--zone", "Mars/Base"), "Europe/Berlin"),
        (("add", "nobody", "09:00", "x"), "nobody"),
        (("add", "s", "09:00", "x", "--name", "one"), "already"),
        (("change", "one"), "nothing is to be changed"),
        (("cancel", "two"), "`one`"),
    ):
        done = cli("timer", *words)
        assert done.status != 0, words
        assert said in done.err, words
    [row] = cli("timer", "list", "--json").json["timers"]
    assert row["text"] == "one"


def test_an_owner_has_their_own(cli: Cli) -> None:
    for name in ("ann", "bob"):
        cli("new", "--id", name, "--owner", name)
        cli("timer", "add", name, "R/PT1H", f"for {name}", "--name", "look", "--owner", name)
    assert [row["owner"] for row in cli("timer", "list", "--json", "--owner", "ann").json["timers"]]
    assert cli("timer", "cancel", "look").status != 0  # whose?
    assert cli("timer", "cancel", "look", "--owner", "bob").status == 0
    [row] = cli("timer", "list", "--json").json["timers"]
    assert (row["owner"], row["text"]) == ("ann", "for ann")
