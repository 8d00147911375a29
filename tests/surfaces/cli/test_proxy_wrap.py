"""`holdfast wrap`: an unchanged program, led through a proxy by its environment."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.support.cli import run_in_process

from holdfast.core.owners import ANY_OWNER
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing import Loopback

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PROGRAM = """
import json, os, sys, urllib.request
paths = {"ANTHROPIC_BASE_URL": "/v1/messages", "OPENAI_BASE_URL": "/chat/completions"}
for name, path in paths.items():
    body = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": name}]}
    request = urllib.request.Request(
        os.environ[name] + path, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=60).read()
sys.exit(7)
"""


def test_a_command_is_led_through_the_proxy(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its status is the command's, and the upstreams are those that its environment named."""
    root = tmp_path / "root"
    program = tmp_path / "agent.py"
    program.write_text(PROGRAM)
    with Loopback() as upstream:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", upstream.url)
        monkeypatch.setenv("OPENAI_BASE_URL", upstream.openai_url)
        command = [sys.executable, str(program)]
        found = run_in_process(["wrap", "--root", str(root), "--", *command], capfd)
        assert len(upstream.requests) == 2
    assert found.status == 7
    with JsonlStore(str(root)) as store:
        titles = {info.title for info in store.sessions(owner=ANY_OWNER)}
    assert titles == {"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"}


def test_a_command_that_is_not_there_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    found = run_in_process(["wrap", "--root", "memory:", "no-such-command-here"], capfd)
    assert found.status == 2
    assert "`no-such-command-here` cannot be run" in found.err
    none = run_in_process(["wrap", "--root", "memory:"], capfd)
    assert "no command to wrap" in none.err
