"""The demo: its figures add up, it keeps what it promises, and what it prints works."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.cli import run_in_process
from tests.support.processes import COMMAND_ENVIRONMENT

from holdfast.core.log.records import ToolResult, decode
from holdfast.core.tokens.counting import Estimator
from holdfast.surfaces.cli.demo import recording as demo_recording
from holdfast.surfaces.cli.demo import replay
from holdfast.surfaces.cli.demo.replay import DemoRequest, Scene, ToolLine
from holdfast.surfaces.cli.demo.view import LiveView
from holdfast.testing.recorder import machine_names

pytestmark = pytest.mark.files_only("processes of their own use the folder")


def holdfast(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *args],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


class Kept(NamedTuple):
    """One run of the demo: its folder, what it reported, and the log it left."""

    folder: Path
    found: dict[str, Any]
    log: list[dict[str, Any]]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("demo")
    done = holdfast("demo", "--fast", "--json", "--keep", "kept", cwd=folder)
    assert done.returncode == 0, done.stderr
    log = holdfast("log", "demo", "--json", "--root", "kept", cwd=folder)
    lines = [json.loads(line) for line in log.stdout.splitlines()]
    return Kept(folder, json.loads(done.stdout), lines)


def test_nothing_is_lost_and_nothing_runs_twice(kept: Kept) -> None:
    """Killed with SIGKILL while a tool ran: all that was acknowledged is there, no tool reran."""
    folder, found, records = kept
    crash = found["crash"]
    journal = (folder / "kept" / "tools-that-ran.txt").read_text().splitlines()
    ran = [line.split()[0] for line in journal]
    results = {one["tool_use_id"]: one for one in records if one["type"] == "tool_result"}

    assert crash["acknowledged"] > 60
    assert crash["lost"] == 0
    assert found["told"] == [crash["call"]]
    assert "[Interrupted" in results[crash["call"]]["content"]
    assert sorted(ran) == sorted(results)
    assert found["run_twice"] == []


def test_figures_are_those_of_the_log(kept: Kept) -> None:
    """Calls, tokens, cache and cuts that the demo reports are the sums over what it stored."""
    _folder, found, records = kept
    usages = [one["usage"] for one in records if one["type"] == "assistant"]
    prompts = [
        use["input_tokens"] + use["cache_read_input_tokens"] + use["cache_creation_input_tokens"]
        for use in usages
    ]
    # A cut says once more what was decided before it: its prune is no new decision.
    actions = [
        one["action"]
        for before, rec in pairwise(records)
        if rec["type"] == "prune" and before["type"] != "compaction"
        for one in rec["decisions"]
    ]

    assert found["calls"] == len(prompts)
    assert found["tokens_sent"] == sum(prompts)
    assert found["largest"] == max(prompts)
    assert found["tokens_cached"] == sum(use["cache_read_input_tokens"] for use in usages)
    assert found["tokens_output"] == sum(use["output_tokens"] for use in usages)
    assert found["compactions"] == sum(one["type"] == "compaction" for one in records)
    assert found["cleared"] + found["trimmed"] == len(actions)
    assert found["turns"] == sum(one["type"] == "user" for one in records)


def test_no_answered_request_was_over_the_window(kept: Kept) -> None:
    """The provider refused once, the window was learned, and everything else fitted."""
    _folder, found, records = kept
    learned = [one["window"] for one in records if one["type"] == "model"]

    assert found["refused"] == 1
    assert found["over_window"] == 0
    assert found["largest"] <= found["window_real"] < found["whole_largest"]
    assert 1 < found["overflow_call"] < found["calls"]
    assert set(learned) == {found["window_real"]}


def test_planted_facts_are_in_the_last_request(kept: Kept) -> None:
    """What the user laid down early is still sent, and what was cut is in the log unharmed."""
    found = kept.found

    assert len(found["facts"]) >= 6
    assert [one["what"] for one in found["facts"] if not one["is_kept"]] == []
    assert found["messages_whole"] < found["messages"] / 2
    assert found["results_identical"] == found["results"] == found["tools"] - 1


def test_printed_commands_work(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each command at the end works as it stands, and brings back what it says."""
    monkeypatch.chdir(kept.folder)
    lines = [one["line"] for one in kept.found["commands"]]
    shown = {line: run_in_process(shlex.split(line)[1:], capfd) for line in lines}
    whole = next(line for line in lines if "--window 1000000" in line)
    cleared = next(result for line, result in shown.items() if " show " in line).json

    assert len(lines) >= 6
    assert {line: result.err for line, result in shown.items() if result.status} == {}
    recorded = demo_recording.load().results[cleared["tool_use_id"]]
    assert cleared["content"] == recorded.content
    assert "summarised" not in shown[whole].err
    assert "kept" in shown[whole].err


def run_in_pipe(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "demo"],
        cwd=folder,
        env={"TMPDIR": str(folder), "PATH": os.defpath, **COMMAND_ENVIRONMENT},
        capture_output=True,
        text=True,
    )


def test_plain_output_has_no_control_codes_and_leaves_nothing_behind(
    kept: Kept, tmp_path: Path
) -> None:
    """In a pipe: readable lines, no colours, and the temporary folder is gone afterwards.

    Its figures are those that another run reported.
    """
    done = run_in_pipe(tmp_path)

    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    assert "prompt is too long" in done.stdout
    assert "SIGKILL" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120
    assert list(tmp_path.iterdir()) == []
    figures = ("calls", "largest", "tokens_sent", "tokens_summaries", "whole_sent", "compactions")
    words = set(done.stdout.split())
    assert [name for name in figures if f"{kept.found[name]:,}" not in words] == []


@pytest.mark.nightly
def test_two_runs_print_the_same(tmp_path: Path) -> None:
    """The text is the same but for the id of the process that is killed."""
    texts = [run_in_pipe(tmp_path).stdout for _ in range(2)]
    masked = [re.sub(r"(?i)process \d+", "process PID", text).splitlines() for text in texts]

    assert masked[0] == masked[1]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--window", "9000"], "16,000 or more"),
        (["--recording", "nothing.gz"], "cannot read"),
        (["--recording", "empty.jsonl"], "calls a tool"),
        (["--recording", "text.txt"], "is not a recording"),
        (["--keep", "full"], "not empty"),
    ],
)
def test_what_cannot_be_shown_is_refused(
    tmp_path: Path,
    args: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A window too small, a file that is no recording, a folder in use: one clear sentence."""
    (tmp_path / "empty.jsonl").write_text('{"type":"user","content":"hello"}\n')
    (tmp_path / "text.txt").write_text("hello\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    monkeypatch.chdir(tmp_path)

    refused = run_in_process(["demo", "--fast", *args], capfd)

    assert refused.status == 2
    assert said in refused.err


def test_any_session_with_tools_can_be_replayed(tmp_path: Path) -> None:
    """A log of one's own is a recording, too, with what real logs have: words in two messages,
    calls side by side, a call without a result, an end without an answer."""
    lines: list[dict[str, Any]] = [
        {"type": "user", "content": "Look at the files."},
        {"type": "user", "content": "All of them."},
    ]
    for number in range(3):
        calls = [
            {"type": "tool_use", "id": f"c{number}{side}", "name": "read", "input": {"n": number}}
            for side in "ab"
        ]
        lines.append({"type": "assistant", "content": calls})
        lines += [
            {"type": "tool_result", "tool_use_id": call["id"], "content": "x " * 200}
            for call in calls
            if call["id"] != "c2b"
        ]
    lines.append({"type": "assistant", "content": "Done."})
    lines.append({"type": "user", "content": "Thank you."})
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = holdfast("demo", "--fast", "--json", "--recording", "own.jsonl", cwd=tmp_path)
    found = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert (found["turns"], found["calls"], found["tools"]) == (1, 4, 6)
    assert found["crash"]["call"] in found["told"]
    assert set(found["told"]) <= {"c1a", "c1b"}
    assert (found["compactions"], found["refused"], found["overflow_call"]) == (0, 0, None)
    assert found["facts"] == []


# The recording


def recording() -> str:
    return gzip.decompress(Path(demo_recording.SHIPPED).read_bytes()).decode()


def test_shipped_recording_is_worth_a_demo() -> None:
    """Enough work to outgrow a window many times, in a file that is small enough to ship."""
    records = [decode(line.encode()) for line in recording().splitlines()]
    results = [one for one in records if isinstance(one, ToolResult)]

    assert Path(demo_recording.SHIPPED).stat().st_size < 300_000
    assert len(results) >= 60
    assert sum(one.is_error for one in results) >= 3
    assert Estimator().count(recording()) > 150_000


def test_shipped_recording_names_no_machine() -> None:
    """No folder, user, host, address or time of the machine it was made on, and no secret."""
    text = recording()

    assert machine_names(text) == []
    assert re.findall(r"(?<![\w.])/(?:work|home|Users|root|mnt|opt|private)/\w+", text) == []
    assert re.findall(rf"{tempfile.gettempdir()}/(?:tmp|holdfast|pytest)\w+", text) == []
    assert re.findall(r"\b[\w.+-]+@[\w-]+\.(?:com|org|net|io|dev)\b", text) == []
    assert re.findall(r"sk-[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|ghp_\w{20,}", text) == []
    assert set(re.findall(r'"ts":([\d.]+)', text)) <= {"0.0"}
    assert set(re.findall(r"passed in (\S+)s", text)) == {"0.10"}


# What is drawn


@pytest.mark.parametrize(("width", "height"), [(72, 20), (80, 24), (100, 35), (300, 90)])
def test_live_picture_fits_the_terminal(width: int, height: int) -> None:
    """Every line of the picture is within the terminal's width, and all of them in its height."""
    rich = pytest.importorskip("rich.console")
    scene = Scene(title="A title", stated=48_000, real=24_000)
    scene.ask(1, 2, "What is here? " * 30, 0.0)
    scene.calling = DemoRequest(1, 30_000, 24_000, {"fixed": 500, "results": 29_500}, 90_000)
    scene.add("bad", "refused", "prompt is too long " * 9)
    scene.add("note", "guard", "smaller " * 20)
    for number in range(40):
        scene.add("cut", "compaction", f"{number:,} messages give way " * 9)
    scene.tools += [ToolLine(f"c{number}", "read_file", "path/" * 40) for number in range(50)]
    scene.end_tool("c49", 1_234_567, is_error=True)
    scene.add_reply(20_000, 10_000, 50, "I look. " * 40, replay.price())
    console = rich.Console(width=width, height=height, file=io.StringIO())
    console.print(LiveView(scene, console).picture())
    drawn = console.file.getvalue()

    assert len(drawn.splitlines()) < height
    assert max(len(line.rstrip()) for line in drawn.splitlines()) <= width
    assert "30,000 of 24,000" in drawn
    assert "over since 1" in drawn


def test_another_store_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """The second process could not see what is in the memory of the first."""
    done = holdfast("demo", "--keep", "memory:", cwd=tmp_path)
    assert done.returncode == 2
    assert "gone when this process ends" in done.stderr
    assert not list(tmp_path.iterdir())
