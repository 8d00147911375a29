"""`token`: made, listed and revoked at the command line; shown once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.cli import run_in_process

from holdfast.engine.access_tokens import hash_token

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_token_is_shown_once(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It is printed when it is made, for people and for programs; no later command shows it, and no
    file has it."""
    root = ["--root", str(tmp_path / "root")]
    made = run_in_process(["token", "new", "laptop", "--owner", "ann", *root], capfd)
    token = made.out.strip()
    assert token.startswith("holdfast_")
    other = run_in_process(["token", "new", "op", "--owner", "*", "--json", *root], capfd)
    assert other.json["row"]["owner"] == "*"
    listed = run_in_process(["token", "list", "--json", *root], capfd)
    assert [row["name"] for row in listed.json["tokens"]] == ["op", "laptop"]
    only = run_in_process(["token", "list", "--owner", "ann", *root], capfd)
    assert "laptop" in only.out
    assert "op" not in only.out.split()
    again = run_in_process(["token", "new", "laptop", *root], capfd)
    assert again.status == 2
    assert "there is a token `laptop` already" in again.err
    assert run_in_process(["token", "revoke", "laptop", *root], capfd).status == 0
    gone = run_in_process(["token", "revoke", "laptop", *root], capfd)
    assert gone.status == 2
    assert "no token `laptop`" in gone.err
    for secret in (token, other.json["token"]):
        assert secret not in listed.out + only.out + again.err
        for file in (tmp_path / "root").rglob("*"):
            assert not file.is_file() or secret.encode() not in file.read_bytes(), file


def test_a_token_for_the_settings_is_not_stored(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The settings get its hash."""
    root = ["--root", str(tmp_path / "root"), "--json"]
    asked = ["token", "new", "laptop", "--owner", "ann", "--for-settings", *root]
    made = run_in_process(asked, capfd)
    assert made.json["settings"]["sha256"] == hash_token(made.json["token"])
    assert made.json["settings"]["owner"] == "ann"
    assert run_in_process(["token", "list", *root], capfd).json == {"tokens": []}


def test_only_the_token_is_shown(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said of it is masked: its name may hold a registered secret."""
    monkeypatch.setenv("HOLDFAST_SECRETS", "PLANTED")
    monkeypatch.setenv("PLANTED", "correct-horse-battery-77")
    asked = ["token", "new", "correct-horse-battery-77", "--root", str(tmp_path), "--json"]
    made = run_in_process(asked, capfd)
    assert made.json["token"].startswith("holdfast_")
    assert "correct-horse" not in made.out
