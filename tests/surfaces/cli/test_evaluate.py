"""`holdfast evaluate`: a report, a baseline, and a status that a script can trust."""

from __future__ import annotations

import html
import json
import re
import shlex
from typing import TYPE_CHECKING

import pytest
from tests.support.cli import Result, run_in_process
from tests.support.planted import PLANTED, planted_session

from holdfast.core.log.ids import SessionKey
from holdfast.ports import ANY_HEAD
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., Result]

SIZES = ("--window", "32k", "--static", "2k")


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(tmp_path)
    with JsonlStore(tmp_path / ".sessions") as store:
        store.create(SessionKey("main", "work"))
        store.append(SessionKey("main", "work"), planted_session(), expect=ANY_HEAD)
    (tmp_path / "forgetful.toml").write_text('keep = 0.01\nallow = ["nothing"]\n')
    (tmp_path / "forgetful.json").write_text('{"keep": 0.01, "allow": ["nothing"]}')
    return lambda *args: run_in_process([*map(str, args)], capfd)


@pytest.mark.files_only("the command reads any store by the port")
def test_a_worse_policy_fails_against_the_baseline(cli: Cli, tmp_path: Path) -> None:
    """The default passes against its own baseline; what a worse policy loses is named."""
    saved = cli("evaluate", "work", *SIZES, "--save-baseline", "b.json")
    assert saved.status == 0, saved.err
    assert cli("evaluate", "work", *SIZES, "--baseline", "b.json").status == 0
    worse = cli(
        *("evaluate", "work", *SIZES, "--policy", "forgetful.toml", "--baseline", "b.json"),
        *("--html", "page.html"),
    )
    assert worse.status == 1
    for kind, text in PLANTED.items():
        assert f"{kind}  {text}" in worse.out
        assert f"worse: {kind}: 1 lost, 0 before" in worse.out
    assert "taken by    cut 1 before call" in worse.out
    page = (tmp_path / "page.html").read_text()
    assert all(text in page for text in PLANTED.values())
    assert "Worse than the baseline" in page


def test_commands_of_the_page_can_be_pasted_whatever_a_file_is_called(
    cli: Cli, tmp_path: Path
) -> None:
    """A shell reads each as one command with the address of the session as one word."""
    name = 'it\'s $(touch pasted); `touch pasted` & "x".jsonl'
    cli("export", "work", "--output", tmp_path / name)
    done = cli("evaluate", name, *SIZES, "--policy", "forgetful.toml", "--html", "page.html")
    assert done.status == 0, done.err
    page = html.unescape((tmp_path / "page.html").read_text())
    commands = re.findall(r"<code>(holdfast show .*?)</code>", page)
    assert commands
    for command in commands:
        words = shlex.split(command)
        assert words[:2] + words[3:4] == ["holdfast", "show", "--session"]
        assert len(words) == 5
        assert words[4].startswith(f"{name}#")


def test_a_window_without_room_names_the_options(cli: Cli) -> None:
    for command in ("evaluate", "simulate"):
        done = cli(command, "work", "--window", "16k")
        assert done.status == 3
        assert "18,000" in done.err
        assert "`--static N`" in done.err
        assert "`--window N`" in done.err


@pytest.mark.files_only("the command reads any store by the port")
def test_json_and_the_bound_on_losses(cli: Cli) -> None:
    done = cli(
        *("evaluate", "work", *SIZES, "--policy", "forgetful.json", "--max-losses", 3, "--json")
    )
    assert done.status == 1
    found = json.loads(done.out)
    assert found["passed"] is False
    assert found["failures"] == ["4 losses, 3 allowed"]
    assert {loss["kind"]: loss["text"] for loss in found["sessions"][0]["losses"]} == PLANTED
    allowed = ("evaluate", "work", *SIZES, "--policy", "forgetful.json", "--max-losses", 4)
    assert cli(*allowed).status == 0


@pytest.mark.files_only("the command reads any store by the port")
def test_what_cannot_be_used_is_refused(cli: Cli, tmp_path: Path) -> None:
    """Every error names the file and the next step, and nothing is replayed before it."""
    (tmp_path / "bad.toml").write_text("carry_token = 1\n")
    (tmp_path / "broken.toml").write_text("keep =\n")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "b.json").write_text("{}")
    for options, words in (
        (("--policy", "nowhere.toml"), "no policy `nowhere.toml`"),
        (("--policy", "bad.toml"), "no threshold `carry_token`"),
        (("--policy", "broken.toml"), "cannot be read"),
        (("--policy", "list.json"), "is not a table"),
        (("--baseline", "b.json"), "is not a baseline"),
        (("--baseline", "nowhere.json"), "cannot read `nowhere.json`"),
        (("--html", "no/where.html"), "cannot write `no/where.html`"),
    ):
        done = cli("evaluate", "work", *options)
        assert (done.status, words in done.err) == (2, True), (options, done.err)
        assert "hint:" in done.err
