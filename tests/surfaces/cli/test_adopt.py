"""`adopt`, through `main`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.engine import homes

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from tests.surfaces.conftest import Cli


def test_adopt_finds_the_homes_of_a_user(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a path, where the tool keeps its files; again, nothing is new."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    homes.openclaw_files(tmp_path / "home")
    homes.opencode_database(tmp_path / "home")

    tried = cli("adopt", "--from", "openclaw", "--dry-run", "--json")
    assert not cli("sessions", "--json").json
    done = cli("adopt", "--from", "openclaw", "--json")
    again = cli("adopt", "--from", "openclaw", "--json")
    all_of_it = cli("adopt")

    assert (done.status, again.status, all_of_it.status) == (0, 0, 0)
    (session,) = done.json["sessions"]
    assert (session["session"], session["state"], session["added"]) == (
        *("scout/openclaw-1", "new"),
        8,
    )
    assert session["outputs"] == 1
    assert [each["session"] for each in tried.json["sessions"]] == ["scout/openclaw-1"]
    assert [each["state"] for each in again.json["sessions"]] == ["same"]
    assert [each["state"] for each in again.json["notes"]] == ["same", "same"]
    assert "ses_1" in all_of_it.out
    assert "credentials, which are never read" in all_of_it.err
    # What nobody used here is opened by its name alone.
    opened = cli("chat", "--json", "--agent", "scout", stdin=b"/status\n")
    assert '"is_new":true' in opened.out.replace(" ", "")


def test_adopt_says_what_is_wrong(cli: Cli, tmp_path: Path) -> None:
    """Tools and folders that are not there, and files that stayed behind by their status."""
    assert "known tools" in cli("adopt", "--from", "what").err
    assert "name its folder" in cli("adopt", "--from", "claw0").err
    assert cli("adopt", str(tmp_path / "none")).status == 2
    (tmp_path / "empty").mkdir()
    assert "nothing to adopt" in cli("adopt", str(tmp_path / "empty")).err
    homes.claw0(tmp_path)
    (tmp_path / "workspace" / "link").symlink_to("/etc/hostname")
    done = cli("adopt", str(tmp_path / "workspace"))
    assert done.status == 1
    assert "! link: a link" in done.err
    assert "claw0/0123456789ab" in done.out
