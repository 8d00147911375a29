"""The server over real HTTP: who asks is decided for each request; strangers are refused."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.surfaces.mcp.owners import plant

from holdfast import Caller
from holdfast.core.owners import NamedOwner
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import AccessDenied
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.mcp.server import McpClient, build_server
from holdfast.surfaces.mcp.transports import BODY_BYTES_MAX, http_app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.applications import Starlette

    from holdfast.ports import SessionStore


def client_of(request: Any) -> McpClient:
    """The owner whom a token belongs to, as a gateway would look it up."""
    token = request.headers.get("authorization", "")
    if token not in ("Bearer alice", "Bearer bob"):
        raise AccessDenied("the token is unknown")
    owner = token.removeprefix("Bearer ")
    return McpClient(
        Caller("main", None, owner=NamedOwner(owner), visibility="agent"), owner == "bob"
    )


def app_over(store: SessionStore) -> Starlette:
    return http_app(build_server(client_of, lambda caller: CallerWorkspace(store, caller)))


@contextmanager
def serving(app: Starlette) -> Iterator[str]:
    """Serve an application on this machine; yields its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def url() -> Iterator[str]:
    with MemoryStore() as store:
        plant(store, "alice")
        plant(store, "bob")
        with serving(app_over(store)) as url:
            yield url


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_each_client_sees_its_own(url: str, mode: Any) -> None:
    """Two owners at one server, at the same time, through the SDK's client."""

    async def listing(owner: str, texts: dict[str, str]) -> None:
        headers = {"authorization": f"Bearer {owner}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            tools = (await client.list_tools()).tools
            found = [await client.call_tool("sessions_list", {}) for _ in range(3)]
            found.append(await client.call_tool("memory_search", {"query": "quokka"}))
            texts[owner] = "\n".join(each.model_dump_json() for each in found)
            assert any(tool.name == "memory_write" for tool in tools) == (owner == "alice")

    async def run() -> dict[str, str]:
        texts: dict[str, str] = {}
        async with anyio.create_task_group() as group:
            group.start_soon(listing, "alice", texts)
            group.start_soon(listing, "bob", texts)
        return texts

    texts = anyio.run(run)
    assert "of-alice" in texts["alice"]
    assert "bob" not in texts["alice"]
    assert "of-bob" in texts["bob"]
    assert "alice" not in texts["bob"]


def post(url: str, **more: Any) -> httpx2.Response:
    headers = {
        "accept": "application/json, text/event-stream",
        "authorization": "Bearer alice",
        "mcp-protocol-version": "2025-11-25",
        **more.pop("headers", {}),
    }
    call = {"name": "sessions_list", "arguments": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    return httpx2.post(url, headers=headers, **{"json": body, **more})


def test_requests_that_are_none_are_refused(url: str) -> None:
    """Foreign hosts and origins, bodies that are too large or no JSON, an unknown revision: 4xx."""
    assert post(url).status_code == 200
    refused = {
        "host": post(url, headers={"host": "evil.example"}),
        "origin": post(url, headers={"origin": "http://evil.example"}),
        "size": post(url, json={"x": "y" * BODY_BYTES_MAX}),
        "not JSON": post(url, json=None, content=b"{", headers={"content-type": "text/plain"}),
        "cut off": post(
            url, json=None, content=b'{"jsonrpc":', headers={"content-type": "application/json"}
        ),
        "revision": post(url, headers={"mcp-protocol-version": "1999-01-01"}),
        "method": httpx2.put(url),
        "path": post(f"{url}/../../etc"),
    }
    found = {name: answer.status_code for name, answer in refused.items()}
    assert {name: status for name, status in found.items() if not 400 <= status < 500} == {}
    assert not any("Traceback" in answer.text for answer in refused.values())


def test_an_unknown_token_reads_nothing(url: str) -> None:
    """Without a token that the application knows, a call is an error in its words."""
    answer = post(url, headers={"authorization": "Bearer mallory"})
    assert "the token is unknown" in answer.text
    assert "sessions" not in answer.text
