"""The page of `holdfast simulate` compares the policies that were replayed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.support.cli import Result, run_in_process

from holdfast.engine.simulation.simulate import Run
from holdfast.surfaces.cli.verbs.simulate import policy_page

if TYPE_CHECKING:
    from pathlib import Path


def test_every_policy_has_a_bar_in_every_chart() -> None:
    """The largest fills its track; an overflow is told beside the cost; names are escaped."""
    runs = [
        Run("<nothing>", 32_000, cost=4.0, overflows=3),
        Run("holdfast", 32_000, cost=1.0),
    ]
    page = policy_page(runs, "one transcript", "prices as given")
    assert page.count("&lt;nothing&gt;") == 5
    assert "<nothing>" not in page
    assert "$4.00, 3 over" in page
    assert "width:100.00%" in page
    assert "width:25.00%" in page


@pytest.mark.files_only("it reads a file")
def test_simulate_writes_the_page(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the output reserve that was asked for, and its whole path in the note."""
    monkeypatch.setenv("HOLDFAST_ROOT", str(tmp_path / "root"))
    talk, page = tmp_path / "talk.json", tmp_path / "page.html"
    roles = ("user", "assistant") * 3
    talk.write_text(json.dumps([{"role": role, "content": f"words {role}"} for role in roles]))
    asked = ["simulate", str(talk), "--window", "32k", "--output", "2k", "--html", str(page)]
    done = run_in_process(asked, capfd)
    assert done.status == 0, done.err
    assert f"wrote {page}" in done.err
    text = page.read_text()
    for policy in ("holdfast", "compact", "trim"):
        assert policy in text


@pytest.mark.files_only("it reads files")
def test_simulate_leaves_out_short_sessions_and_takes_the_time_between_calls(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--calls` counts calls of the model, `--idle` is part of what was asked; both are checked."""
    monkeypatch.setenv("HOLDFAST_ROOT", str(tmp_path / "root"))
    folder = tmp_path / "talks"
    folder.mkdir()
    for calls in (1, 3):
        lines = [{"role": role, "content": "word " * 900} for role in ("user", "assistant") * calls]
        (folder / f"{calls}.json").write_text(json.dumps(lines))

    def simulate(*options: str) -> Result:
        return run_in_process(["simulate", str(folder), "--policy", "nothing", *options], capfd)

    assert simulate("--json").json["sessions"] == 2
    long = simulate("--calls", "2", "--json").json
    assert (long["sessions"], long["runs"][0]["requests"]) == (1, 3)
    assert long["runs"][0]["tokens_read"] > 0
    assert simulate("--idle", "301", "--json").json["runs"][0]["tokens_read"] == 0
    assert "301 s between calls" in simulate("--idle", "301").out
    none = simulate("--calls", "9")
    assert none.status == 2
    assert "no session among 2 transcripts has 9 calls or more" in none.err
    for wrong in ("soon", "inf", "nan"):
        assert "is not a number" in simulate(f"--idle={wrong}").err
    assert "too small: pass 0 or more" in simulate("--idle=-1").err
