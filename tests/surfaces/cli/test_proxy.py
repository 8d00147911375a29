"""`holdfast proxy` as a process: it says when it is ready, serves, is killed, and goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.proxy.conversations import Client, exchange
from tests.support.cli import run_in_process
from tests.surfaces.proxy.test_turns import long_client

from holdfast.core.owners import ANY_OWNER
from holdfast.core.window import Window
from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing import Answer, Call, Loopback

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast import SessionKey


@contextmanager
def _proxy(root: Path, upstream: str, *more: str) -> Iterator[str]:
    command = [sys.executable, "-m", "holdfast", "proxy", "--root", str(root), "--port", "0"]
    options = ["--upstream", f"anthropic={upstream}", "--upstream", f"openai={upstream}/v1"]
    process = subprocess.Popen(
        [*command, *options, *more, "--json"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["listening"]
    finally:
        process.kill()
        process.communicate()


def _say(url: str, messages: list[Any]) -> Any:
    return _ask(url, {"model": "claude-opus-4-8", "max_tokens": 100, "messages": messages})


def _ask(url: str, body: Any) -> Any:
    request = urllib.request.Request(
        f"{url}/v1/messages", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


@pytest.mark.files_only("the proxy is another process")
def test_a_proxy_that_is_killed_goes_on_with_the_same_session(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    messages: list[Any] = [{"role": "user", "content": "Hello"}]
    with Loopback() as upstream:
        for _ in range(2):
            with _proxy(root, upstream.url) as url:
                reply = _say(url, messages)
            messages += [
                {"role": "assistant", "content": reply["content"]},
                {"role": "user", "content": "And then?"},
            ]
    with JsonlStore(str(root)) as store:
        (info,) = store.sessions(owner=ANY_OWNER)
        assert info.messages == 4
    shown = run_in_process(["log", info.key.session, "--root", str(root)], capfd)
    assert shown.status == 0
    assert "And then?" in shown.out
    context = run_in_process(
        ["context", info.key.session, "--root", str(root), "--window", "32000", "--json"], capfd
    )
    assert len(json.loads(context.out)["request"]["messages"]) >= 4


@pytest.mark.files_only("the proxy is another process")
def test_budgets_of_the_settings_hold(tmp_path: Path) -> None:
    """A proxy takes the budgets of `serve`: it warns, and refuses what they have no room for and
    what it cannot count. The sums are in the store, so another process goes on with them."""
    settings, root = tmp_path / "serve.toml", tmp_path / "root"
    settings.write_text('[server]\nport = 1\n[budgets.agents."*"]\nday_requests = 2\n')
    body = {
        "model": "claude-opus-4-8",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Hello"}],
    }
    paths = [("v1/messages", {}), ("v1/messages", {"content-encoding": "br"}), ("v1/files", {})]
    with Loopback() as upstream:
        for place in range(3):
            with _proxy(root, upstream.url, "--mode", "observe", "--config", str(settings)) as url:
                said = [_send(url, path, body, headers) for path, headers in paths]
            assert [found[0] for found in said] == [200 if place < 2 else 429, 415, 403]
            (_status, headers, text), *refused = said
            assert ("agent=main; day; requests; 100%" in str(headers)) == (place == 1)
            for _status, _headers, problem in refused:
                assert "there are budgets" in problem
        assert float(headers["x-holdfast-budget-reset"]) % 86_400 == 0
        assert "2 requests of 2 requests per day of agent `main`" in text
        assert "begins again at" in text
        assert len(upstream.requests) == 2


def _send(url: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any, str]:
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01", **headers}
    request = urllib.request.Request(f"{url}/{path}", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.headers, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def test_options_that_cannot_be_used_are_named(capfd: pytest.CaptureFixture[str]) -> None:
    for options, words in (
        (["--host", "0.0.0.0"], "cannot listen"),
        (["--upstream", "openai"], "is not NAME=URL"),
        (["--upstream", "openai=ftp://x"], "cannot be used"),
        (["--upstream", "holdfast=http://x"], "cannot be called"),
        (["--config", "/no/such.toml"], "cannot read the settings"),
    ):
        found = run_in_process(["proxy", "--root", "memory:", "--port", "0", *options], capfd)
        assert found.status != 0
        assert words in found.err


def test_context_counts_the_logged_system_prompt_and_tools(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of the newest request, also where a cut stands between its terms and what is shown."""
    client = Client("openai-chat", system="Be careful. " * 500)
    client.headers = {"x-session-id": "one"}
    client.say("Fix it.")
    with JsonlStore(str(tmp_path)) as store:
        keeper = ProxyKeeper(store, window=Window(20_000))
        for step in range(20):
            exchange(keeper, client, f"look {step}", f"{step}.txt")
            client.answer("a line of output " * 300)
        exchange(keeper, client, "done")
        assert any(entry.record.kind == "compaction" for entry in store.read_all(_only(store)))
    args = ["context", "proxy-one", "--root", str(tmp_path), "--window", "20k", "--json"]
    shown = json.loads(run_in_process(args, capfd).out)
    assert shown["budget"]["system"] > 1_000
    assert shown["budget"]["tools"] > 10


@pytest.mark.files_only("the proxy is another process")
def test_own_tools_are_off_until_they_are_asked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With `--own-tools` a process answers its tools itself; what they did is in the log."""
    body = long_client("anthropic").request().body
    root = tmp_path / "root"

    def read_once(asked: Any) -> Answer:
        if not any(tool.name == "context" for tool in asked.tools):
            return Answer("no tools")
        is_read = any("name='context'" in str(message.blocks) for message in asked.messages)
        return Answer("read") if is_read else Answer("", (Call("context", {"ref": "nothing"}),))

    with Loopback(read_once) as upstream:
        for options, text in (([], "no tools"), (["--own-tools"], "read")):
            with _proxy(root, upstream.url, "--window", "12000", *options) as url:
                assert _ask(url, body)["content"] == [{"type": "text", "text": text}]
    with JsonlStore(str(root)) as store:
        session = _only(store).session
    shown = run_in_process(["log", session, "--root", str(root)], capfd)
    assert "context" in shown.out
    context = run_in_process(["context", session, "--root", str(root)], capfd)
    assert context.status == 0


def _only(store: JsonlStore) -> SessionKey:
    (info,) = store.sessions(owner=ANY_OWNER)
    return info.key
