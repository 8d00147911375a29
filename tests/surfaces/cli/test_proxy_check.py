"""`holdfast doctor proxy`: which upstreams answer through a proxy."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

from tests.support.cli import run_in_process
from tests.surfaces.proxy.upstreams import RawUpstream

if TYPE_CHECKING:
    import pytest

ANSWER = b"HTTP/1.1 401 No\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"


def test_each_upstream_is_asked_through_a_proxy(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()[1]
    with RawUpstream([ANSWER]) as upstream:
        options = [f"{name}={upstream.url}" for name in ("anthropic", "gemini")]
        options.append(f"openai=http://127.0.0.1:{closed}")
        arguments = [word for option in options for word in ("--upstream", option)]
        command = ["doctor", "proxy", "--root", "memory:", "--json", *arguments]
        found = run_in_process(command, capfd)
    checks = {row["check"]: row for row in json.loads(found.out)["findings"]}
    assert checks["upstream anthropic"]["outcome"] == "ok"
    assert "status 401" in checks["upstream gemini"]["found"]
    assert checks["upstream openai"]["outcome"] == "problem"
    assert "cannot be reached" in checks["upstream openai"]["found"]
    assert found.status == 1
