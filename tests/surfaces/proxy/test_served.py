"""Providers behind `holdfast serve`: the token names the owner, and the key is the server's."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.proxy.conversations import DIALECTS, Client, path_for
from tests.surfaces.http.chat_clients import Chat, numbered, read_text
from tests.surfaces.http.servers import serving, token_for

from holdfast.core.dialects.registry import find_dialect
from holdfast.core.log.records import Assistant, Compaction, Prune
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.errors import BadSetting
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.serve_settings import ServeSettings, UpstreamTable
from holdfast.testing import Loopback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import httpx2

    from holdfast.engine.access_tokens import AccessToken

ANN_TOKEN, ANN = token_for("ann", "write")
BOB_TOKEN, BOB = token_for("bob", "write")
KEY = "sk-the-servers-own"
NAMES = ("anthropic", "openai", "gemini", "other")


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with closing(MemoryStore()) as found:
        yield found


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_UPSTREAM_KEY", KEY)


@asynccontextmanager
async def upstreams(
    store: MemoryStore, *tokens: AccessToken, limit: int = 200_000
) -> AsyncIterator[tuple[httpx2.AsyncClient, Loopback]]:
    """Serve a provider that takes the server's key alone."""
    with Loopback(numbered, api_key=KEY if tokens else "", limit=limit) as provider:
        key = "TEST_UPSTREAM_KEY" if tokens else ""
        tables = {name: UpstreamTable(url=provider.url, key=key) for name in NAMES}
        async with serving(store, *tokens, upstreams=tables) as http:
            yield http, provider


def body_of(client: Client) -> Any:
    return json.loads(client.request().data)


def header_of(dialect: str, token: str) -> dict[str, str]:
    name = find_dialect(dialect).body.key_header
    return {name: f"Bearer {token}" if name == "authorization" else token}


async def ask(http: httpx2.AsyncClient, client: Client, token: str) -> httpx2.Response:
    path, headers = path_for(client.dialect), header_of(client.dialect, token)
    return await http.post(path, json=body_of(client), headers=headers)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_conversation_passes_and_is_the_owners(store: MemoryStore, dialect: str) -> None:
    """It goes on byte for byte, with the server's key; the session is the token's owner's."""

    async def scenario() -> None:
        async with upstreams(store, ANN, BOB) as (http, provider):
            sessions: dict[str, set[str]] = {}
            for token in (ANN_TOKEN, BOB_TOKEN):
                client = Client(dialect)
                client.has_tools = False
                for number in range(2):
                    client.say(f"question {number}")
                    answer = await ask(http, client, token)
                    assert answer.status_code == 200, answer.text
                    assert provider.requests[-1].body == body_of(client)
                    sessions.setdefault(token, set()).add(answer.headers["x-holdfast-session"])
                    client.hear(read_text(dialect, answer.content, is_streamed=False))
            assert [len(names) for names in sessions.values()] == [1, 1]
            assert sessions[ANN_TOKEN].isdisjoint(sessions[BOB_TOKEN])
            owners = [info.owner for info in store.sessions(owner=ANY_OWNER)]
            assert sorted(map(str, owners)) == [str(NamedOwner("ann")), str(NamedOwner("bob"))]

    asyncio.run(scenario())


def test_agents_and_upstreams_are_one_server(store: MemoryStore) -> None:
    async def scenario() -> None:
        async with upstreams(store, ANN) as (http, provider):
            chat = Chat(http, DIALECTS[0], ANN_TOKEN)
            await chat.say("to the agent")
            assert not provider.requests
            client = Client(DIALECTS[0])
            client.say("to the provider")
            assert (await ask(http, client, ANN_TOKEN)).status_code == 200
            assert len(provider.requests) == 1
            assert len(store.sessions(owner=NamedOwner("ann"))) == 2

    asyncio.run(scenario())


def test_neither_token_nor_key_goes_where_it_does_not_belong(store: MemoryStore) -> None:
    """No upstream sees a token; nothing of a wrong client passes."""

    async def scenario() -> None:
        async with upstreams(store, ANN) as (http, provider):
            for dialect in DIALECTS:
                client = Client(dialect)
                client.say("hello")
                every: dict[str, str] = {"cookie": f"holdfast_token={ANN_TOKEN}"}
                for other in DIALECTS:
                    every |= header_of(other, ANN_TOKEN)
                path = path_for(dialect)
                answer = await http.post(path, json=body_of(client), headers=every)
                assert answer.status_code == 200, answer.text
                seen = str(provider.requests[-1].headers).casefold()
                assert ANN_TOKEN.casefold() not in seen
                before = len(provider.requests)
                for token in ("", "x" * 40):
                    refused = await ask(http, client, token or "y")
                    assert refused.status_code == 401
                    assert KEY not in refused.text
                assert len(provider.requests) == before

    asyncio.run(scenario())


def test_nothing_of_another_owner_is_reached(store: MemoryStore) -> None:
    """Neither by the name of a session, nor by the id of a client, nor by a response."""

    async def scenario() -> None:
        async with upstreams(store, ANN, BOB) as (http, provider):
            client = Client("openai-responses")
            client.say("my panda")
            path = path_for(client.dialect)
            for header in ("x-holdfast-session", "thread-id"):
                for token, status in ((ANN_TOKEN, 200), (BOB_TOKEN, 409), (ANN_TOKEN, 200)):
                    headers = {**header_of(client.dialect, token), header: "shared"}
                    answer = await http.post(path, json=body_of(client), headers=headers)
                    assert answer.status_code == status, answer.text
            made = await ask(http, client, ANN_TOKEN)
            body = {**body_of(client), "previous_response_id": made.json()["id"]}
            before = len(provider.requests)
            stolen = await http.post(path, json=body, headers=header_of(client.dialect, BOB_TOKEN))
            assert stolen.status_code == 404
            assert "panda" not in stolen.text
            for url in ("/openai/v1/files", "/openai/v1/responses/resp_1", "/other/v1/batches"):
                got = await http.get(url, headers=header_of(client.dialect, BOB_TOKEN))
                assert got.status_code == 404
            assert len(provider.requests) == before
            assert store.sessions(owner=NamedOwner("bob")) == []

    asyncio.run(scenario())


def test_what_does_not_fit_is_cut(store: MemoryStore) -> None:
    """As through the proxy: it is its code."""

    async def scenario() -> None:
        async with upstreams(store, ANN, limit=16_000) as (http, _provider):
            client = Client(DIALECTS[0])
            statuses = set()
            for number in range(12):
                client.say(f"question {number} " + "with many words " * 600)
                answer = await ask(http, client, ANN_TOKEN)
                statuses.add(answer.status_code)
                client.hear(read_text(client.dialect, answer.content, is_streamed=False))
            assert statuses == {200}
            (info,) = store.sessions(owner=ANY_OWNER)
            records = list(store.read(info.key))
            assert any(isinstance(record, Compaction | Prune) for record in records)
            assert sum(isinstance(record, Assistant) for record in records) == 12

    asyncio.run(scenario())


def test_without_tokens_the_clients_key_passes(store: MemoryStore) -> None:
    async def scenario() -> None:
        async with upstreams(store) as (http, provider):
            client = Client(DIALECTS[0])
            client.say("hello")
            assert (await ask(http, client, "sk-mine")).status_code == 200
            assert "sk-mine" in str(provider.requests[-1].headers)

    asyncio.run(scenario())


def test_settings_that_leak_or_lead_nowhere_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is missing is found before anything is served."""
    tables = {"openai": UpstreamTable()}
    with pytest.raises(BadSetting, match="no key of the server's own"):
        ServeSettings(tokens=(ANN,), upstreams=tables).check()

    async def start(tables: dict[str, UpstreamTable]) -> None:
        with closing(MemoryStore()) as store:
            async with serving(store, upstreams=tables):
                raise AssertionError("it has to be refused")

    with pytest.raises(BadSetting, match="no address"):
        asyncio.run(start({"elsewhere": UpstreamTable()}))
    monkeypatch.delenv("TEST_UPSTREAM_KEY")
    with pytest.raises(BadSetting, match="TEST_UPSTREAM_KEY is not set"):
        asyncio.run(start({"openai": UpstreamTable(key="TEST_UPSTREAM_KEY")}))
