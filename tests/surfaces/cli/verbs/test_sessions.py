"""`sessions`, `new` and `label` with owners."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.surfaces.terminals import Terminal

from holdfast.surfaces.cli.app import App

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from tests.surfaces.conftest import Cli


def test_owners_at_the_command_line(cli: Cli) -> None:
    """The operator finds every session; `--owner` narrows it; two owners' label is ambiguous."""
    for owner, session in (("ann", "a1"), ("bob", "b1")):
        assert cli("new", "plan", "--id", session, "--owner", owner).status == 0
    cli("new", "ours", "--id", "c1")

    assert {row["session"]: row["owner"] for row in cli("sessions", "--json").json} == {
        "a1": "ann",
        "b1": "bob",
        "c1": "",
    }
    assert [row["session"] for row in cli("sessions", "--owner", "ann", "--json").json] == ["a1"]
    refused = cli("log", "plan")
    assert refused.status == 2
    assert "main/a1 (plan, of ann)" in refused.err
    assert "main/b1 (plan, of bob)" in refused.err
    assert cli("label", "plan", "--owner", "bob", "--json").json["session"] == "b1"
    assert cli("log", "a1", "--owner", "bob").status == 2
    assert cli("--owner", "bob", "log", "b1").status == 0
    assert [row["session"] for row in cli("sessions", "-n", "2", "--json").json] == ["c1", "b1"]


def test_an_id_or_a_label_is_found_without_listing_everything(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("new", "plan", "--id", "a1")
    cli("new", "a1", "--id", "b1")
    monkeypatch.setattr(App, "sessions", None)

    for name in ("a1", "main/a1", "plan"):
        assert cli("label", name, "--json").json["session"] == "a1"


def test_a_terminal_has_each_session_on_a_line(cli: Cli, tmp_path: Path) -> None:
    """Both ends of a long id are shown, and are a name for it."""
    name = "8463c716-a2ea-4c14-9efa-87158ebd9f20-agent-a7be2f0"
    cli("new", "A title that goes on and on, " * 5, "--id", name)
    command = (sys.executable, "-m", "holdfast", "sessions", "--root", str(cli.root))
    with Terminal(*command, folder=tmp_path, PYTHONPATH=":".join(sys.path)) as terminal:
        assert terminal.wait_for_end() == 0
        [row] = [line for line in terminal.text.splitlines() if "A title" in line]
    assert len(row) <= 110  # of the terminal
    short = row.split()[0]
    assert short == "8463c716-a2e…t-a7be2f0"
    assert cli("label", short, "other").status == 0
    assert cli("sessions").out.split("\n")[1].startswith(name)
