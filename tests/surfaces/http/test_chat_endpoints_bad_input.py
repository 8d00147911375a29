"""What an agent cannot do is refused in the shape of the client's API, at every address.

The refusal says what was asked and what to do. Nothing is stored, and no model is called.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from contextlib import closing
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.proxy.conversations import DIALECTS, Client
from tests.support.runs import examples
from tests.surfaces.http.chat_clients import MODEL, Chat, agents, request_of
from tests.surfaces.http.servers import token_for
from tests.surfaces.proxy.test_app_odd_shapes import change
from tests.surfaces.test_owners_commands import without_chance

from holdfast.core.dialects.registry import find_dialect
from holdfast.core.owners import ANY_OWNER
from holdfast.core.proxy.endpoints import find_endpoint
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.http.chat_endpoints import endpoint_paths
from holdfast.surfaces.serve_settings import UpstreamTable
from holdfast.testing import Loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2

    from holdfast.core.log.records import Json

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # a server keeps the clients of its models for its whole life
UPSTREAMS = ("anthropic", "openai", "gemini", "other")
TOKEN, KNOWN = token_for("ann", "write")


def asked(dialect: str, *, is_streamed: bool = False) -> tuple[str, Json]:
    client = Client(dialect)
    client.say("x")
    return request_of(client, is_streamed=is_streamed)


def refusal_in(dialect: str, answer: Any) -> str:
    """Return the sentence of an error, which has the shape of the dialect and no other."""
    body = answer.json()
    wanted = find_dialect(dialect).body.write_error(answer.status_code, "?", "?")
    assert body.keys() == wanted.keys()
    assert body["error"].keys() == wanted["error"].keys()
    said: str = body["error"]["message"]
    assert said.startswith("Holdfast: ")
    assert said.endswith(")"), f"it does not say what to do: {said}"
    return said


async def check(
    store: MemoryStore, dialect: str, path: str, body: Any, statuses: tuple[int, ...], words: str
) -> None:
    """Send a request that is refused."""
    async with agents(store, KNOWN) as (http, provider):
        chat = Chat(http, dialect, TOKEN)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = await http.post(path, content=data, headers=chat.key())
        assert answer.status_code in statuses, answer.text
        assert words in refusal_in(dialect, answer)
        assert len(provider.requests) == 0
    assert list(store.sessions(owner=ANY_OWNER)) == []


def named(dialect: str, model: str, *, is_streamed: bool) -> tuple[str, Json]:
    """A request to a model, which Gemini has in its address."""
    path, body = asked(dialect, is_streamed=is_streamed)
    if "model" in body:
        return path, {**body, "model": model}
    return path.replace(MODEL, quote(model, safe="")), body


NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unknown_model_or_agent_is_named(dialect: str) -> None:
    @given(NAMES, st.booleans(), st.booleans())
    @examples(12)
    def holds(name: str, is_agent: bool, is_streamed: bool) -> None:
        model = f"holdfast/{name}-x" if is_agent else f"{name}-x"
        path, body = named(dialect, model, is_streamed=is_streamed)
        with closing(MemoryStore()) as store:
            asyncio.run(check(store, dialect, path, body, (404,), f"{name}-x`"))

    holds()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unknown_field_is_named(dialect: str) -> None:
    @given(NAMES, st.sampled_from([1, "x", {}, [], True]), st.booleans())
    @examples(12)
    def holds(name: str, value: Any, is_streamed: bool) -> None:
        path, body = asked(dialect, is_streamed=is_streamed)
        with closing(MemoryStore()) as store:
            changed = {**body, f"{name}_x": value}
            asyncio.run(check(store, dialect, path, changed, (400,), f"`{name}_x`"))

    holds()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_body_of_another_dialect_is_refused(dialect: str) -> None:
    """Also what is no JSON, no object, or names nothing."""
    path, own = asked(dialect)
    field = find_dialect(dialect).body.items_field
    others = [body for other in DIALECTS if other != dialect for body in (asked(other)[1],)]
    bodies: list[Any] = [body for body in others if field not in body]
    bodies += [b"{", b"[]", b"3", b"\xff", b"", {}, {**own, field: None}, {**own, field: [3]}]
    for body in bodies:
        changed = {"model": MODEL, **body} if isinstance(body, dict) and body else body
        with closing(MemoryStore()) as store:
            asyncio.run(check(store, dialect, path, changed, (400, 404), ""))


def test_every_address_refuses_in_a_shape_that_its_clients_read() -> None:
    """Each address, with each wrong method and each wrong token: an error of one of the APIs."""
    shapes = [find_dialect(name).body.write_error(400, "?", "?") for name in DIALECTS]

    async def main() -> None:
        with closing(MemoryStore()) as store:
            async with agents(store, KNOWN) as (http, _provider):
                for path in endpoint_paths():
                    address = path.replace("{model:path}", "nobody").replace("{name}", "n")
                    address = address.replace("{model}", "nobody")
                    for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
                        for token in ("", "wrong" * 8, TOKEN):
                            headers = {"Authorization": f"Bearer {token}"} if token else {}
                            answer = await http.request(method, address, headers=headers)
                            if answer.status_code == 200:
                                assert (method, token) == ("GET", TOKEN)
                                continue
                            found = answer.json()
                            about = (method, address, answer.status_code, found)
                            assert answer.status_code < 500, about
                            assert any(found.keys() == shape.keys() for shape in shapes), about
                            assert found["error"]["message"].startswith("Holdfast: "), about
                            if token != TOKEN:
                                assert answer.status_code == 401, about
            assert list(store.sessions(owner=ANY_OWNER)) == []

    asyncio.run(main())


def test_no_answer_depends_on_another_owner() -> None:
    """Each dialect is asked for things of Bob by Ann's token: his words, his responses, his key.
    The answers are those of a server where there is no Bob."""
    bob_token, bob = token_for("bob", "write")

    async def ask(*, has_bob: bool) -> list[str]:
        found: list[str] = []
        with closing(MemoryStore()) as store:
            async with agents(store, KNOWN, bob) as (http, _provider):
                response = "resp_1"
                for dialect in DIALECTS:
                    theirs = Chat(http, dialect, bob_token)
                    theirs.client.say("my secret panda")
                    theirs.client.hear("Answer 1.")
                    theirs.client.say("and its cub")
                    if has_bob:
                        answer = await theirs.send(idempotency_key=f"key-{dialect}")
                        assert answer.status_code == 200
                        response = answer.json().get("id", response)
                    for is_streamed in (False, True):
                        for headers in (
                            {},
                            {"idempotency_key": f"key-{dialect}"},
                            {"x_stainless_retry_count": "1"},
                        ):
                            chat = Chat(http, dialect, TOKEN, is_streamed=is_streamed)
                            chat.items[:] = theirs.items
                            answer = await chat.send(**headers)
                            step = answer.headers.get("x-holdfast-step")
                            session = answer.headers.get("x-holdfast-session", "")
                            if has_bob:
                                key = await http.get(
                                    f"/v1/sessions/main/{session}", headers=theirs.key()
                                )
                                assert key.status_code == 404  # it is Ann's
                            found.append(f"{answer.status_code} {step}")
                for name in (response, "resp_999"):
                    body = {"model": MODEL, "input": "x", "previous_response_id": name}
                    head = {"Authorization": f"Bearer {TOKEN}"}
                    answer = await http.post("/v1/responses", json=body, headers=head)
                    found.append(without_chance(f"{answer.status_code} {answer.text}"))
                    found[-1] = found[-1].replace(name, "NAME")
                for path in ("/v1/models", "/v1beta/models", "/v1/sessions"):
                    answer = await http.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
                    found.append(f"{answer.status_code} {'panda' in answer.text}")
        return found

    assert asyncio.run(ask(has_bob=True)) == asyncio.run(ask(has_bob=False))


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "BREW")
FILLS: list[dict[str, str]] = [
    {"model": MODEL, "name": "n", "path": "v1/messages"},
    {"model": f"{MODEL}:generateContent", "name": "n", "path": "v1/chat/completions"},
    {"model": f"{MODEL}:streamGenerateContent", "name": "a%20b%3F", "path": "v1/responses"},
    {"model": "x:generateContent", "name": "%00", "path": "v1/models"},
    {"model": "%00%ff%22:embedContent", "name": "x" * 300, "path": "v1/files/%2e%2e"},
]
"""What stands in the place of the names in an address."""
SENT = 60
"""Requests of an example, of some hundred pairs of address and method."""
RAW = (b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 5_000, b'{"model": "x", "model": 3}')


def odd_bodies(dialect: str, luck: random.Random) -> Iterator[bytes]:
    """Bodies of each kind, some of this dialect with something odd in them."""
    yield luck.choice(RAW)
    yield json.dumps(asked(luck.choice(DIALECTS))[1]).encode()
    for _again in range(2):
        yield json.dumps(change(asked(dialect, is_streamed=luck.random() < 0.5)[1], luck)).encode()


@pytest.mark.timeout(600)
@given(st.integers(0, 2**32), st.booleans())
@examples(60)
def test_every_address_bears_every_method_and_body(seed: int, has_upstreams: bool) -> None:
    """Each address of every API, of the agents and of upstreams, by each method with each kind of
    body: no mistake of ours, and a refusal of ours is in the dialect of its clients."""
    luck = random.Random(seed)

    async def main() -> None:
        with closing(MemoryStore()) as store, Loopback() as upstream:
            given: Any = {}
            if has_upstreams:
                table = UpstreamTable(url=upstream.url, key="TEST_UPSTREAM_KEY")
                given["upstreams"] = dict.fromkeys(UPSTREAMS, table)
            async with agents(store, KNOWN, **given) as (http, _provider):
                names = (*given.get("upstreams", ()),)
                paths = [*product(endpoint_paths(names), METHODS)]
                for path, method in luck.sample(paths, SENT):
                    fill = luck.choice(FILLS)
                    address = re.sub(r"{(\w+)[^}]*}", partial(_fill, fill), path)
                    await check_answer(http, method, address, names, luck)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEST_UPSTREAM_KEY", "sk-the-servers-own")
        asyncio.run(main())


def _fill(fill: dict[str, str], place: re.Match[str]) -> str:
    return fill[place[1]]


async def check_answer(
    http: httpx2.AsyncClient, method: str, address: str, names: tuple[str, ...], luck: random.Random
) -> None:
    """Send one odd request, and look at its answer."""
    endpoint = find_endpoint(unquote(address), {}, names)
    shape = find_dialect(endpoint.dialect).body.write_error(400, "?", "?")
    body = luck.choice([*odd_bodies(endpoint.dialect, luck)])
    kind = luck.choice(["application/json", "text/plain", "application/json; charset=utf-16", ""])
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
    answer = await http.request(method, address, content=body, headers=headers)
    about = (method, address, body, answer.status_code, answer.text)
    is_theirs = bool(names) and "Holdfast" not in answer.text  # of the provider itself
    is_broken_off = bool(names) and answer.status_code == 502  # by the provider, as we say
    assert answer.status_code < 500 or is_theirs or is_broken_off, about
    if method != "HEAD" and answer.status_code >= 400 and "Holdfast" in answer.text:
        found = answer.json()
        assert found.keys() == shape.keys(), about
        assert found["error"].keys() == shape["error"].keys(), about
        assert found["error"]["message"].startswith("Holdfast"), about
    elif answer.status_code >= 400 and method != "HEAD":
        assert is_theirs, about
