"""`holdfast doctor`: finds what does not work, says what to do, and leaves nothing behind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.support.bot_api import TOKEN, BotApiServer
from tests.support.cli import run_in_process

from holdfast.core.log.ids import SessionKey
from holdfast.core.owners import ANY_OWNER
from holdfast.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_ROOT", str(tmp_path / "root"))
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)


def test_a_sound_set_up_has_no_problem(capfd: pytest.CaptureFixture[str]) -> None:
    """Exit 0, and no session is left."""
    done = run_in_process(["doctor", "--json"], capfd)
    assert done.status == 0, done.err
    found = {row["check"]: row["outcome"] for row in done.json["findings"]}
    assert found["store takes writes"] == "ok"
    assert found["model offline"] == "ok"
    with open_store(os.environ["HOLDFAST_ROOT"]) as store:
        assert store.sessions(owner=ANY_OWNER) == []
        assert store.trash() == []
        assert store.erasures() == []


@pytest.mark.files_only("it links files")
def test_a_backup_by_hard_links_is_noted(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Files with a second name are counted, and the next step says what to do."""
    with open_store(os.environ["HOLDFAST_ROOT"]) as store:
        store.create(SessionKey("main", "s"))
    log = tmp_path / "root" / "agents" / "main" / "sessions" / "s.jsonl"
    (tmp_path / "backup").hardlink_to(log)
    done = run_in_process(["doctor", "--json"], capfd)
    (row,) = [row for row in done.json["findings"] if row["check"] == "hard links"]
    assert (row["outcome"], row["found"][:7]) == ("note", "1 files")


@pytest.mark.files_only("it looks at the folder")
@pytest.mark.parametrize("root", ["root", "a/b/root"])
def test_no_store_is_made(
    root: str, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store in a folder is found by every command below that folder, so a check makes none."""
    monkeypatch.setenv("HOLDFAST_ROOT", str(tmp_path / root))
    done = run_in_process(["doctor", "--json"], capfd)
    assert done.status == 0, done.err
    found = {row["check"]: row["outcome"] for row in done.json["findings"]}
    assert found["store takes writes"] == "ok"
    assert [*tmp_path.iterdir()] == []


def test_a_missing_key_is_a_problem(capfd: pytest.CaptureFixture[str]) -> None:
    """Exit 1, with the variable to set."""
    done = run_in_process(["doctor", "--model", "anthropic:claude-sonnet-4-5"], capfd)
    assert done.status == 1
    assert "ANTHROPIC_API_KEY" in done.out


def test_settings_are_checked(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A mistake in the file is a problem with its place; a sound file is not."""
    file = tmp_path / "holdfast.toml"
    file.write_text("[server]\nprot = 1\n", "utf-8")
    done = run_in_process(["doctor", "--config", str(file), "--json"], capfd)
    assert done.status == 1
    (row,) = (row for row in done.json["findings"] if row["check"] == "settings")
    assert "prot" in row["found"]
    file.write_text("[agents.main]\nmodel = 'offline'\n", "utf-8")
    done = run_in_process(["doctor", "--config", str(file), "--json"], capfd)
    assert done.status == 0, done.out


@pytest.mark.files_only("a file stands in the place of the folder")
def test_a_store_that_cannot_be_written_is_a_problem(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Something else in the place of the folder is named, with what to do."""
    (tmp_path / "root").write_text("a file", "utf-8")
    done = run_in_process(["doctor", "--json"], capfd)
    assert done.status == 1


def test_a_bot_is_checked(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token and the server are tried; a problem says what to do, and never shows the token."""
    file = tmp_path / "holdfast.toml"
    monkeypatch.delenv("TELEGRAM_BOT_TOKEN", raising=False)
    with BotApiServer() as server:
        file.write_text(f'[telegram]\napi_base = "{server.url}"\n', "utf-8")
        for token, outcome, words in (
            ("", "problem", "TELEGRAM_BOT_TOKEN is not set"),
            (f"{TOKEN}x", "problem", "401"),
            (TOKEN, "ok", "@loopback_bot"),
        ):
            monkeypatch.setenv("TELEGRAM_BOT_TOKEN", token)
            done = run_in_process(["doctor", "--config", str(file), "--json"], capfd)
            rows = {row["check"]: row for row in done.json["findings"]}
            assert rows["telegram"]["outcome"] == outcome
            assert words in rows["telegram"]["found"]
            assert TOKEN.partition(":")[2] not in done.out + done.err
            assert done.status == int(outcome == "problem")
    assert rows["telegram allow"]["outcome"] == "note"
