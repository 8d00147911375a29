"""Tokens that are made and revoked while servers run: refused at once everywhere, streams too."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.surfaces.http.real import ServeProcess
from tests.surfaces.http.servers import serving, token_for

from holdfast.core.owners import ANY_OWNER
from holdfast.errors import StoreUnavailable
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.http.server import ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def run(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_a_server_without_tokens_closes_with_the_first_one() -> None:
    """The next request without a token is refused, also when that token was revoked."""

    async def scenario() -> None:
        with MemoryStore() as store:
            async with serving(store) as client:
                assert (await client.get("/v1/sessions")).status_code == 200
                asked = {"name": "me", "owner": "*", "scope": "admin"}
                made = await client.post("/v1/tokens", json=asked)
                assert made.status_code == 201
                headers = bearer(made.json()["token"])
                assert (await client.get("/v1/sessions")).status_code == 401
                assert (await client.get("/v1/sessions", headers=headers)).status_code == 200
                listed = (await client.get("/v1/tokens", headers=headers)).json()
                assert [row["name"] for row in listed["tokens"]] == ["me"]
                assert (await client.delete("/v1/tokens/me", headers=headers)).status_code == 200
                assert (await client.get("/v1/sessions", headers=headers)).status_code == 401
                assert (await client.get("/v1/sessions")).status_code == 401
                assert (await client.get("/healthz")).status_code == 200
            async with serving(store) as client:  # another start of the server
                assert (await client.get("/v1/sessions")).status_code == 401

    run(scenario)


@pytest.mark.parametrize(
    "token", [("ann", "admin"), ("*", "write"), ("*", "read"), ("", "admin")], ids="-".join
)
def test_only_an_operator_works_with_tokens(token: tuple[str, str]) -> None:
    """Any other token is refused at each of the addresses, and nothing is made."""
    given, settings = token_for(*token)

    async def scenario() -> None:
        with MemoryStore() as store:
            async with serving(store, settings) as client:
                for route in ROUTES:
                    if not route.path.startswith("/v1/tokens"):
                        continue
                    path = route.path.replace("{name}", settings.name)
                    body = {"name": "x"} if route.method == "POST" else None
                    answer = await client.request(
                        route.method, path, json=body, headers=bearer(given)
                    )
                    assert answer.status_code == 403, route.path
            assert store.queues.messages("tokens", owner=ANY_OWNER) == []

    run(scenario)


def test_a_store_that_does_not_answer_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that cannot be looked up gets 503 everywhere, in the client's own shape; what needs
    no token, and tokens of the settings, are answered."""
    admin_token, admin = token_for("*")

    async def scenario() -> None:
        with MemoryStore() as store:
            async with serving(store, admin) as client:

                def fail(*_args: object, **_more: object) -> None:
                    raise StoreUnavailable("the disk is gone")

                monkeypatch.setattr(type(store.queues), "messages", fail)
                asked = bearer("holdfast_x")
                answer = await client.get("/v1/sessions", headers=asked)
                assert answer.status_code == 503
                body = {"model": "holdfast/main", "messages": [{"role": "user", "content": "x"}]}
                answer = await client.post("/v1/chat/completions", json=body, headers=asked)
                assert answer.status_code == 503
                assert "message" in answer.json()["error"]
                large = {**body, "user": "x" * 100_000}
                answer = await client.post("/v1/chat/completions", json=large, headers=asked)
                assert answer.status_code == 503
                assert (await client.get("/healthz", headers=asked)).status_code == 200
                answer = await client.get("/v1/notes", headers=bearer(admin_token))
                assert answer.status_code == 200

    run(scenario)


# Real processes


def ask(url: str, method: str = "GET", value: Any = None, token: str = "") -> Any:
    data = None if value is None else json.dumps(value).encode()
    headers = {"Content-Type": "application/json", **(bearer(token) if token else {})}
    try:
        with urlopen(Request(url, data, headers, method=method), timeout=60) as response:
            return json.load(response)
    except HTTPError as error:
        return error.code


@contextmanager
def following(port: int, path: str, token: str) -> Iterator[socket.socket]:
    """Follow a stream; its first bytes have come."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
        connection.sendall(head.encode())
        got = b""
        while b"retry:" not in got:
            got += connection.recv(4_096)
        assert got.startswith(b"HTTP/1.1 200")
        yield connection


def rest_of(connection: socket.socket) -> bytes:
    """Read to the end of a connection."""
    got = b""
    while part := connection.recv(4_096):
        got += part
    return got


def test_a_revoked_token_ends_in_every_process(empty_postgres_address: str, tmp_path: Path) -> None:
    """Two servers share a store. A token made by one works at both; revoked at one, its next
    request is refused by both, and the streams of both end in the middle, so that no client takes
    them for whole. Another token's go on."""
    servers = [ServeProcess(empty_postgres_address, "", tmp_path) for _ in range(2)]
    try:
        for server in servers:
            server.start()
        first, second = (f"http://127.0.0.1:{server.port}" for server in servers)
        asked = {"name": "op", "owner": "*", "scope": "admin"}
        operator = ask(f"{first}/v1/tokens", "POST", asked)["token"]
        made = {"name": "laptop", "owner": "ann"}
        laptop = ask(f"{first}/v1/tokens", "POST", made, operator)["token"]
        ask(f"{second}/v1/sessions/main/a", "PUT", {}, laptop)
        for url in (first, second):
            assert ask(f"{url}/v1/sessions", token=laptop)["sessions"]
        path = "/v1/sessions/main/a/events"
        with (
            following(servers[0].port, path, laptop) as near,
            following(servers[1].port, "/v1/events", laptop) as far,
            following(servers[1].port, "/v1/events", operator) as other,
        ):
            ask(f"{first}/v1/tokens/laptop", "DELETE", token=operator)
            assert [ask(f"{url}/v1/sessions", token=laptop) for url in (first, second)] == [401] * 2
            for connection in (near, far):
                assert not rest_of(connection).endswith(b"0\r\n\r\n")
            other.settimeout(0.2)
            with pytest.raises(TimeoutError):
                other.recv(4_096)
        assert "Traceback" not in servers[0].log() + servers[1].log()
    finally:
        for server in servers:
            server.__exit__()
