"""The protocol's own conformance suite, over HTTP, for both revisions that the server speaks."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.node_programs import program
from tests.support.runs import sample
from tests.surfaces.mcp.owners import plant, server_for
from tests.surfaces.mcp.test_transports import serving

from holdfast import SessionKey, User
from holdfast.core.owners import NamedOwner
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.mcp.transports import http_app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

EXPECTED = Path(__file__).parent / "expected_failures.yaml"
OURS: dict[str, dict[str, Any]] = {
    "test_simple_text": {"name": "sessions_list", "arguments": {}},
    "test_error_handling": {"name": "sessions_history", "arguments": {"sessionKey": "nothing"}},
    "test_simple_prompt": {"name": "resume_session", "arguments": {"session": "of-alice"}},
    "test_prompt_with_arguments": {
        "name": "resume_session",
        "arguments": {"session": "testValue1"},
    },
    "test://static-text": {"uri": "session://main/of-alice"},
    "test://template/123/data": {"uri": "session://main/123"},
}
"""What the suite calls by names of its own, and what of ours does the same."""
NOT_OFFERED = re.compile(
    "there is no tool of that name|there is no prompt of that name|"
    "is not a resource of this server|"
    "Method not found|Not testable: server does not list|Expected InputRequiredResult|"
    "could not get initial InputRequiredResult|instead of re-requesting via InputRequiredResult|"
    "did not provide session ID"
)
"""The reasons of expected failures."""


async def translate(ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
    """Answer the suite's names with our tools, resources and prompts."""
    asked = ctx.params or {}
    ours = OURS.get(asked.get("name") or asked.get("uri") or "")
    return await call_next(replace(ctx, params={**asked, **ours}) if ours else ctx)


@pytest.fixture
def url() -> Iterator[str]:
    with MemoryStore() as store:
        plant(store, "alice")
        for name, text in (("testValue1", "testValue2"), ("123", "a template")):
            key = SessionKey("main", name)
            store.create(key, owner=NamedOwner("alice"))
            store.append(key, [User(content=text)], expect=ANY_HEAD)
        server = server_for(store, "alice")
        server.middleware.append(translate)
        with serving(http_app(server)) as url:
            yield url


@pytest.mark.files_only("it is about the protocol, and a process of its own asks")
@pytest.mark.parametrize(
    ("revision", "passing"), sample([("2025-11-25", 14), ("2026-07-28", 18)], share=1 / 2)
)
def test_conformance(url: str, tmp_path: Path, revision: str, passing: int) -> None:
    """Only what the server does not offer fails, each check for that reason and listed as such."""
    run = subprocess.run(
        [
            *(*program("conformance"), "server", "--url", url, "--requirements", revision),
            *("--expected-failures", str(EXPECTED), "-o", str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3_000:]
    assert len(re.findall("^✓", run.stdout, re.MULTILINE)) >= passing, run.stdout[-3_000:]
    listed = set(re.findall(r"^  - (\S+)$", EXPECTED.read_text(), re.MULTILINE))
    scenarios = {entry.partition(":")[0] for entry in listed}
    found = []
    for path in tmp_path.glob("*/checks.json"):
        scenario = re.sub(r"^server-(.*)-\d{4}-\d\d-\d\dT.*", r"\1", path.parent.name)
        for check in json.loads(path.read_text()):
            if scenario in scenarios and check["status"] in ("FAILURE", "WARNING"):
                found.append(f"{scenario}:{check['id']}")
                assert NOT_OFFERED.search(json.dumps(check)), (found[-1], check)
    assert found
    assert set(found) <= listed
