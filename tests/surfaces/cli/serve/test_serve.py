"""`holdfast serve` as a process: it says when it is ready, is alone in its folder, and stops."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest
from tests.support.cli import run_in_process
from tests.support.runs import is_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def _serve(root: Path, *args: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "holdfast", "serve", "--root", str(root), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--json", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())["listening"]
    finally:
        process.kill()
        process.communicate()


def _ask(url: str, method: str = "GET", value: object = None) -> dict[str, object]:
    data = None if value is None else json.dumps(value).encode()
    request = Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urlopen(request, timeout=60) as response:
        found: dict[str, object] = json.load(response)
    return found


@pytest.mark.parametrize("command", [["serve"], ["serve", "--demo"], ["proxy"]])
@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_a_missing_package_is_named_before_anything_is_done(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    command: list[str],
) -> None:
    """The extra is named; no demo is recorded, no setting read, no folder made."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == package else find_spec(name),
    )
    monkeypatch.setattr(subprocess, "run", None)
    root = tmp_path / "root"
    done = run_in_process([*command, "--port", "0", "--root", str(root)], capfd)
    assert done.status == 2, done.err
    assert package in done.err
    assert f"holdfast[{command[0]}]" in done.err
    assert not root.exists()


@pytest.mark.files_only("a process of its own uses the folder")
def test_a_server_says_when_it_is_ready_and_is_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It answers at the address that it printed; a second one is refused with its process id;
    after SIGTERM it ends with 0, and another goes on with what it had."""
    root = tmp_path / "root"
    with _serve(root, "--log", "json") as (process, url):
        assert url.startswith("http://127.0.0.1:")
        assert _ask(f"{url}/healthz")["status"] == "ok"
        assert "paths" in _ask(f"{url}/openapi.json")
        _ask(f"{url}/v1/sessions/main/a", "PUT", {"label": "a"})
        sent = _ask(f"{url}/v1/sessions/main/a/messages?wait=60", "POST", {"content": "hi"})
        assert sent["state"] == "answered"
        second = run_in_process(["serve", "--root", str(root), "--port", "0", "--json"], capfd)
        assert second.status == 1
        assert f"process {process.pid}" in second.out + second.err
        process.send_signal(signal.SIGTERM)
        _out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        lines = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
        assert any(line.get("route") == "/healthz" and line["status"] == 200 for line in lines)
        assert "Traceback" not in err
    with _serve(root) as (_process, url):
        page = _ask(f"{url}/v1/sessions/main/a/messages")
        assert len(page["messages"]) == 2  # type: ignore[arg-type]


def test_open_sessions_share_the_file_descriptors_of_the_process(tmp_path: Path) -> None:
    """1,000 open sessions of a real server take fewer than 256; 260 would show one for each."""
    count = 1_000 if is_whole() else 260
    config = tmp_path / "serve.toml"
    config.write_text(
        f"[gateway]\nsessions_max = {count}\nidle_seconds = 86400.0\nowner_waiting_max = {count}\n"
        "[server]\nrequests_burst = 100000\n[agents.main]\nnotes = 'off'\ncheckpoints = 'off'\n"
    )
    with _serve(tmp_path / "root", "--config", str(config)) as (process, url):
        for number in range(count):
            session = f"{url}/v1/sessions/main/s{number}"
            _ask(session, "PUT", {"label": "x"})
            _ask(f"{session}/messages", "POST", {"content": "hello"})
        answered = 0
        while answered < count:
            assert process.poll() is None
            counts = _ask(f"{url}/v1/inbox?limit=1")["counts"]
            assert isinstance(counts, dict)
            answered = counts["answered"]
        with urlopen(f"{url}/metrics", timeout=60) as response:
            assert f"holdfast_sessions_open {count}\n" in response.read().decode()
        assert len(os.listdir(f"/proc/{process.pid}/fd")) < 256
