"""`holdfast mcp` as clients start it: a process that speaks over stdin and stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from tests.surfaces.mcp.owners import plant

from holdfast.engine.operations.tools import TOOLS
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.surfaces.conftest import Cli


@pytest.mark.files_only("a process of its own reads the folder")
@pytest.mark.sampled(1 / 2, "mode")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_starts_it(tmp_path: Path, mode: Any) -> None:
    """The SDK's client starts the command, finds its owner's session and none of another's."""
    root = str(tmp_path / "root")
    with JsonlStore(root) as store:
        alice = plant(store, "alice")
        plant(store, "bob")
    words = ["-m", "holdfast", "mcp", "--root", root, "--owner", "alice", "--words-only"]

    async def run() -> None:
        command = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
        async with Client(command, mode=mode) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == set(TOOLS)
            found = await client.call_tool("sessions_history", {"sessionKey": "of-alice"})
            assert alice.words[1] in str(found.structured_content)
            refused = await client.call_tool("sessions_history", {"sessionKey": "of-bob"})
            assert refused.is_error
            listed = await client.call_tool("sessions_list", {})
            assert "bob" not in str(listed)

    anyio.run(run)
    with JsonlStore(root) as store:
        assert [access.owner for access in store.audit.entries().accesses] == ["alice"] * 3


@pytest.mark.files_only("a process of its own reads the folder")
def test_a_pipe_is_answered_to_its_end(tmp_path: Path) -> None:
    """Requests that came before the end of the input are answered; a bad line stops nothing."""
    root = str(tmp_path / "root")
    with JsonlStore(root) as store:
        alice = plant(store, "alice")
    about = {"protocolVersion": "2025-11-25", "capabilities": {}}
    client = {"clientInfo": {"name": "a pipe", "version": "1"}}
    history = {"name": "sessions_history", "arguments": {"sessionKey": str(alice.key)}}
    compact = {"name": "context_compact", "arguments": {"sessionKey": str(alice.key)}}
    lines: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {**about, **client}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": history},
        {"id": "three", "method": "tools/call", "params": compact},
        {"id": 4, "method": "nothing"},
        {"id": 5, "method": "tools/call", "params": history},
        {"method": "notifications/cancelled", "params": {"requestId": 5}},
    ]
    text = "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)
    run = subprocess.run(
        [sys.executable, "-m", "holdfast", "mcp", "--root", root, "--owner", "alice"],
        input=f"{text}this is no message\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    answers = {answer.get("id"): answer for answer in map(json.loads, run.stdout.splitlines())}
    assert {1, 2, "three", 4} <= set(answers)
    assert alice.words[1] in str(answers[2]["result"])
    assert "outcome" in str(answers["three"]["result"])
    assert answers[4]["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--visibility", "tree"], "needs the client's own session"),
        (["--session", "../x"], "session"),
        (["--window", "0"], "a window of 0 tokens"),
        (["--model", "nothing"], "no model `nothing`"),
        (["extra"], "unrecognized arguments"),
    ],
)
def test_wrong_options_are_refused_before_serving(cli: Cli, words: list[str], said: str) -> None:
    """The command says what is wrong, and writes nothing to stdout."""
    result = cli("mcp", *words)
    assert result.status == 2
    assert said in result.err
    assert result.out == ""


def test_without_the_package_it_names_the_extra(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the SDK is not installed, the command says what to install."""
    for name in [name for name in sys.modules if name.startswith("holdfast.surfaces.mcp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    result = cli("mcp")
    assert result.status == 2
    assert "pip install 'holdfast[mcp]'" in result.err
