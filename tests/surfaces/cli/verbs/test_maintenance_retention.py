"""`holdfast retention`: shows what would go, moves it, and it can be taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.surfaces.conftest import Cli


def test_old_sessions_go_and_come_back(cli: Cli) -> None:
    """By age and by size, of everybody or of one owner."""
    cli("new", "--id", "old")
    cli("append", "old", stdin=b'{"type":"user","content":"long ago","ts":1000}\n')
    cli("new", "--id", "young")
    planned = cli("retention", "--bytes", "0", "--dry-run", "--json").json
    assert planned["dryRun"] is True
    assert {each["id"] for each in planned["sessions"]} == {"old", "young"}
    assert len(cli("sessions", "--json").json) == 2
    assert cli("retention", "--bytes", "0", "--owner", "ann", "--json").json["sessions"] == []
    done = cli("retention", "--bytes", "1k")
    assert done.status == 0
    assert "no session is old or large enough" in done.err
    done = cli("retention", "--bytes", "0", "--json").json
    names = {each["id"]: each["name"] for each in done["sessions"]}
    assert cli("sessions", "--json").json == []
    assert cli("rm", "--restore", names["old"]).status == 0
    assert [each["session"] for each in cli("sessions", "--json").json] == ["old"]
    shown = cli("retention", "--bytes", "0")
    assert "main/old" in shown.out
    assert "holdfast rm --restore main.old." in shown.err


def test_a_rule_is_needed(cli: Cli) -> None:
    asked = cli("retention")
    assert asked.status == 2
    assert "--days" in asked.err
    assert cli("retention", "--days", "0").status == 2
