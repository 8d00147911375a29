"""The API as a client sees it: sessions, messages, errors."""

from __future__ import annotations

import asyncio
import threading
import traceback
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from tests.surfaces.http.servers import BASE, serving, token_for

from holdfast.core.log.ids import SessionKey
from holdfast.core.owners import NamedOwner
from holdfast.core.secrets.redaction import Redactor
from holdfast.engine.gateway.gateway import Gateway
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import StoreUnavailable
from holdfast.ports import NewMessage
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.http.server import HttpServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from holdfast.core.history.access import Caller
    from holdfast.errors import HoldfastError
    from holdfast.ports import SessionStore

PROBLEM = "application/problem+json"
JSON = {"content-type": "application/json"}


@pytest.fixture
def store() -> Iterator[SessionStore]:
    with MemoryStore() as opened:
        yield opened


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scenario())  # type: ignore[arg-type]


def test_a_message_is_answered_over_http(store: SessionStore) -> None:
    """A session is made, a message answered once, and both are found again."""

    async def scenario() -> None:
        async with serving(store) as client:
            made = await client.post("/v1/sessions", json={"id": "a", "label": "hello"})
            assert made.status_code == 201
            assert made.json()["label"] == "hello"
            for _again in range(2):
                sent = await client.post(
                    "/v1/sessions/main/a/messages?wait=30",
                    json={"content": "hi"},
                    headers={"Idempotency-Key": "k1"},
                )
                assert sent.status_code == 200, sent.text
                assert sent.json()["state"] == "answered"
                assert "offline model" in sent.json()["reply"]
            other = await client.post(
                "/v1/sessions/main/a/messages",
                json={"content": "other"},
                headers={"Idempotency-Key": "k1"},
            )
            assert other.status_code == 409
            page = (await client.get("/v1/sessions/main/a/messages")).json()
            assert [message["role"] for message in page["messages"]] == ["user", "assistant"]
            listed = (await client.get("/v1/sessions")).json()["sessions"]
            assert [(row["id"], row["state"], row["messages"]) for row in listed] == [
                ("a", "idle", 2)
            ]
            inbox = (await client.get("/v1/inbox")).json()
            assert inbox["counts"]["answered"] == 1

    run(scenario)


def test_every_access_is_noted_once(store: SessionStore) -> None:
    """An operation, a refusal, an address or a body that cannot be read, and a page have one line
    each, with the word of the operation and the name of the token."""
    ann, ann_settings = token_for("ann")
    requests = {
        ("POST", "/v1/sessions", "{}"): ("create", True),
        ("POST", "/v1/sessions", "no JSON"): ("create", False),
        ("GET", "/v1/sessions/main/none", ""): ("read", False),
        ("GET", "/v1/sessions/main/none/status", ""): ("status", False),
        ("GET", "/v1/inbox", ""): ("list", True),
        ("GET", "/v1/sessions/main/none/context", ""): ("context", False),
        ("GET", "/v1/inbox/abc", ""): ("read", False),
        ("POST", "/v1/inbox/abc/retry", ""): ("retry", False),
        ("POST", "/inbox/abc/retry", ""): ("retry", False),
        ("POST", "/s/main/none/cancel", ""): ("cancel", False),
    }

    async def scenario() -> None:
        async with serving(store, ann_settings) as client:
            for (method, address, body), noted in requests.items():
                before = len(store.audit.entries().accesses)
                headers = {"Authorization": f"Bearer {ann}"} | (JSON if body else {})
                await client.request(method, address, content=body or None, headers=headers)
                (line,) = store.audit.entries().accesses[before:]
                assert (line.action, line.is_allowed) == noted, (method, address)
                assert line.reason.endswith(" Token ann-admin."), line.reason

    run(scenario)


def test_owners_do_not_meet(store: SessionStore) -> None:
    """A token opens its owner's sessions; another's are answered as if they were not there."""
    ann, ann_settings = token_for("ann")
    bob, bob_settings = token_for("bob")

    async def scenario() -> None:
        async with serving(store, ann_settings, bob_settings) as client:

            def as_(token: str) -> dict[str, str]:
                return {"Authorization": f"Bearer {token}"}

            assert (await client.get("/v1/sessions")).status_code == 401
            made = await client.post("/v1/sessions", json={"id": "a"}, headers=as_(ann))
            assert made.json()["owner"] == "ann"
            absent = await client.get("/v1/sessions/main/none", headers=as_(bob))
            hidden = await client.get("/v1/sessions/main/a", headers=as_(bob))
            assert (hidden.status_code, hidden.text) == (absent.status_code, absent.text)
            assert (await client.get("/v1/sessions", headers=as_(bob))).json()["sessions"] == []
            send = "/v1/sessions/main/a/messages?wait=30"
            sent = await client.post(send, json={"content": "hi"}, headers=as_(ann))
            assert (sent.status_code, sent.json()["state"]) == (200, "answered")
            refused = await client.post(send, json={"content": "hi"}, headers=as_(bob))
            assert (refused.status_code, refused.text) == (absent.status_code, absent.text)
            number = sent.json()["id"]
            assert (await client.get(f"/v1/inbox/{number}", headers=as_(ann))).status_code == 200
            assert (await client.get(f"/v1/inbox/{number}", headers=as_(bob))).status_code == 404

    run(scenario)


@pytest.mark.parametrize(
    ("method", "path", "more", "status"),
    [
        ("GET", "/v1/nothing", {}, 404),
        ("PUT", "/v1/inbox", {}, 405),
        ("FOO", "/v1/inbox", {}, 405),
        ("GET", "/v1/sessions?limit=0", {}, 400),
        ("GET", "/v1/sessions?colour=red", {}, 400),
        ("GET", "/v1/sessions?cursor=AAAA", {}, 400),
        ("GET", "/v1/sessions/main/none", {}, 404),
        ("GET", "/v1/sessions/main/..%2F..%2Fetc", {}, 404),
        ("POST", "/v1/sessions", {"content": b"{", "headers": JSON}, 400),
        ("POST", "/v1/sessions", {"content": b"{}"}, 415),
        ("POST", "/v1/sessions", {"content": b'{"label": "\xff"}', "headers": JSON}, 400),
        ("POST", "/v1/sessions", {"json": {"colour": "red"}}, 400),
        ("GET", "/healthz", {"headers": {"host": "evil.example"}}, 421),
        ("GET", "/healthz", {"headers": {"origin": "https://evil.example"}}, 403),
        ("GET", "/v1/inbox/99", {}, 404),
        ("GET", "/v1/inbox/x", {}, 404),
    ],
)  # fmt: skip
def test_bad_requests_get_a_clear_answer(
    store: SessionStore, method: str, path: str, more: dict[str, object], status: int
) -> None:
    """What is wrong is said as problem details, with the status that fits."""

    async def scenario() -> None:
        async with serving(store) as client:
            found: httpx2.Response = await client.request(method, path, **more)  # type: ignore[arg-type]
            assert found.status_code == status, found.text
            assert found.headers["content-type"] == PROBLEM
            assert found.json()["status"] == status
            assert found.json()["detail"]

    run(scenario)


def test_a_scope_is_a_bound(store: SessionStore) -> None:
    """A token that may read does not send, and one that may write does not erase."""
    reading, reading_settings = token_for("ann", "read")
    writing, writing_settings = token_for("ann", "write")

    async def scenario() -> None:
        async with serving(store, reading_settings, writing_settings) as client:
            as_reader = {"Authorization": f"Bearer {reading}"}
            as_writer = {"Authorization": f"Bearer {writing}"}
            refused = await client.post("/v1/sessions", json={"id": "a"}, headers=as_reader)
            assert refused.status_code == 403
            made = await client.post("/v1/sessions", json={"id": "a"}, headers=as_writer)
            assert made.status_code == 201
            assert (await client.get("/v1/sessions/main/a", headers=as_reader)).status_code == 200
            gone = await client.post("/v1/sessions/main/a/erase", headers=as_writer)
            assert gone.status_code == 403

    run(scenario)


def test_an_erasure_is_of_the_owner_of_the_token(store: SessionStore) -> None:
    """A removed session of somebody else that had the same id can still be restored."""
    token, settings = token_for("ann")
    key = SessionKey("main", "plan")
    store.create(key, owner=NamedOwner("bob"))
    removed = store.remove(key)
    store.create(key, owner=NamedOwner("ann"))

    async def scenario() -> None:
        async with serving(store, settings) as client:
            address, headers = "/v1/sessions/main/plan", {"Authorization": f"Bearer {token}"}
            assert (await client.post(f"{address}/erase", headers=headers)).status_code == 200
            assert (await client.get(address, headers=headers)).status_code == 404

    run(scenario)
    assert store.restore(removed.name) == key
    assert store.header(key).owner == "bob"


def test_mcp_is_served_beside_the_api(store: SessionStore) -> None:
    """MCP knows the same tokens: each sees its owner's sessions, and nobody else is answered."""
    ann, ann_settings = token_for("ann", "write")
    bob, bob_settings = token_for("bob", "write")

    async def scenario() -> None:
        async with serving(store, ann_settings, bob_settings) as client:

            async def listing(token: str) -> str:
                found = await client.post(
                    "/mcp",
                    json={
                        "jsonrpc": "2.0",
                        "id": 1,
                        "method": "tools/call",
                        "params": {"name": "sessions_list", "arguments": {}},
                    },
                    headers={
                        "Accept": "application/json, text/event-stream",
                        "Authorization": f"Bearer {token}",
                        "MCP-Protocol-Version": "2025-11-25",
                    },
                )
                return found.text

            made = await client.post(
                "/v1/sessions", json={"id": "heron"}, headers={"Authorization": f"Bearer {ann}"}
            )
            assert made.status_code == 201
            assert "heron" in await listing(ann)
            assert "heron" not in await listing(bob)
            assert "heron" not in await listing("unknown")

    run(scenario)


def test_what_a_channel_did_not_take_is_listed_and_tried_again(store: SessionStore) -> None:
    """Outgoing messages that were set aside are seen by their owner and the operator, in pages,
    over HTTP and in the console; each can be tried again or dropped."""
    operator, operator_settings = token_for("*")
    ann, ann_settings = token_for("ann", "write")
    for number in range(7):
        owner, queue = ("ann", "bob")[number % 2], ("outbox:telegram:5", "inbox")[number == 6]
        put = store.queues.put(
            NewMessage(
                queue=queue,
                lane="99",
                key=f"answer:{number}",
                body={"text": f"words for {owner}"},
                owner=owner,
                session=f"main/{owner}-chat",
            )
        )
        (claimed,) = store.queues.claim(queue, "sender", 60)
        assert claimed.id == put.id
        assert store.queues.finish(claimed, "failed", reason="403 the bot was blocked")

    async def scenario() -> None:
        async with serving(store, operator_settings, ann_settings) as client:

            async def keys(token: str) -> list[str]:
                found: list[str] = []
                before = 0
                while True:
                    asked = {"limit": 2, **({"before": before} if before else {})}
                    headers = {"Authorization": f"Bearer {token}"}
                    page = (await client.get("/v1/outbox", params=asked, headers=headers)).json()
                    found += [message["key"] for message in page["messages"]]
                    assert len(page["messages"]) <= 2
                    before = page["nextBefore"] or 0
                    if not before:
                        return found

            assert await keys(operator) == [f"answer:{number}" for number in (5, 4, 3, 2, 1, 0)]
            assert await keys(ann) == [f"answer:{number}" for number in (4, 2, 0)]
            headers = {"Authorization": f"Bearer {ann}"}
            shown = (await client.get("/inbox", headers=headers)).text
            assert "Not delivered" in shown
            assert "the bot was blocked" in shown
            assert "bob" not in shown
            failed = (await client.get("/v1/outbox", headers=headers)).json()["messages"]
            assert "words for" not in str(failed)
            first, second, _third = (message["id"] for message in failed)
            again = await client.post(f"/v1/inbox/{first}/retry", headers=headers)
            assert (again.status_code, again.json()["state"]) == (200, "waiting")
            drop = await client.post(f"/v1/inbox/{second}/drop", json={}, headers=headers)
            assert (drop.status_code, drop.json()["state"]) == (200, "dropped")
            assert await keys(ann) == ["answer:0"]
            for number in (2, 4, 6):  # of another owner
                gone = await client.post(f"/v1/inbox/{number}/retry", headers=headers)
                assert gone.status_code == 404

    run(scenario)
    assert store.queues.counts("outbox:telegram:5", owner=NamedOwner("bob")) == {"failed": 3}


def test_the_server_is_ready_once_everything_is_loaded(store: SessionStore) -> None:
    """`/readyz` refuses before the last step of loading, after a step that failed, and at the
    end; `/healthz` answers all the time."""

    async def scenario() -> None:
        go_on, steps = threading.Event(), []

        def wait_for_it() -> None:
            assert go_on.wait(60)
            steps.append("loaded")

        server = HttpServer(_idle_gateway(store), _no_workspace, loading=[wait_for_it])
        async with running(server) as client:
            early = await client.get("/readyz")
            assert (early.status_code, early.json()["detail"]) == (503, "the server is loading")
            assert (await client.get("/healthz")).status_code == 200
            go_on.set()
            while (late := await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.01)
            assert steps == ["loaded"]
            assert late.json()["status"] == "ok"
            await server.gateway.stop()
            assert (await client.get("/readyz")).status_code == 503

        def fail() -> None:
            raise RuntimeError("no rules")

        server = HttpServer(_idle_gateway(store), _no_workspace, loading=[fail, wait_for_it])
        async with running(server) as client:
            while "loading" in (refused := await client.get("/readyz")).json()["detail"]:
                await asyncio.sleep(0.01)
            assert refused.status_code == 503
            assert len(steps) == 1

    run(scenario)


def test_readiness_asks_the_store_seldom(store: SessionStore) -> None:
    """Anybody may ask: a hundred requests at once look into the store once."""
    looks = []

    async def scenario() -> None:
        gateway = _idle_gateway(store)
        server = HttpServer(gateway, _no_workspace)
        look = server.readiness._look

        def noting() -> HoldfastError | None:
            looks.append(1)
            return look()

        server.readiness._look = noting  # type: ignore[method-assign]
        async with running(server) as client:
            await server.readiness.load()
            answers = await asyncio.gather(*(client.get("/readyz") for _ in range(100)))
            assert {answer.status_code for answer in answers} == {200}

    run(scenario)
    assert len(looks) <= 2  # the second where the hundred took longer than a second


def test_a_server_that_cannot_claim_messages_is_not_ready(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full can be read, and answers no turn; with room again the server is ready."""
    queues, is_full = type(store.queues), True
    claim = queues.claim

    def refuse(self: Any, *given: Any, **more: Any) -> Any:
        if is_full:
            raise StoreUnavailable("the disk is full")
        return claim(self, *given, **more)

    async def scenario() -> None:
        nonlocal is_full
        server = HttpServer(_idle_gateway(store), _no_workspace)
        async with running(server) as client:
            await server.readiness.load()
            while (found := await client.get("/readyz")).status_code == 200:
                await asyncio.sleep(0.01)
            assert found.json()["detail"] == "the store does not take messages"
            is_full = False
            server.gateway.wake()
            while (await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.01)

    monkeypatch.setattr(queues, "claim", refuse)
    run(scenario)


def test_nothing_is_masked_on_the_event_loop(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masking may wait for its rules: whoever waits is a thread, so that all others are answered.
    A message, its events, the feed, a cancel, a compaction, and the same from the console."""
    on_loop: list[str] = []
    for name in ("text", "value", "find"):
        mask = getattr(Redactor, name)

        def noting(*args: Any, mask: Any = mask, name: str = name, **kwargs: Any) -> Any:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                return mask(*args, **kwargs)
            on_loop.append(name + "".join(traceback.format_stack(limit=6)))
            return mask(*args, **kwargs)

        monkeypatch.setattr(Redactor, name, noting)

    async def scenario() -> None:
        async with serving(store) as client:
            await client.post("/v1/sessions", json={"id": "a"})
            path = "/v1/sessions/main/a"
            sent = await client.post(f"{path}/messages?wait=30", json={"content": "hi"})
            assert sent.json()["state"] == "answered"
            await client.get(f"{path}/events?after=&untilIdle=true")
            await client.post(f"{path}/cancel")
            await client.post(f"{path}/compact", json={})
            form = {"content-type": "application/x-www-form-urlencoded", "origin": BASE}
            await client.post("/s/main/a/send", content="content=x&key=k", headers=form)
            await client.post("/s/main/a/cancel", headers=form)
            for page in ("/", "/s/main/a", "/inbox", "/s/main/a/context"):
                await client.get(page)

    run(scenario)
    assert on_loop == []


def _idle_gateway(store: SessionStore) -> Gateway:
    async def open_session(_key: object) -> Any:
        raise AssertionError("no message is sent")

    return Gateway(store, open_session)


def _no_workspace(caller: Caller) -> CallerWorkspace:
    return CallerWorkspace(MemoryStore(), caller)


@asynccontextmanager
async def running(server: HttpServer) -> AsyncIterator[httpx2.AsyncClient]:
    """Give a client of a server, within its lifespan."""
    app = server.app()
    async with app.inner.router.lifespan_context(app.inner):
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url=BASE) as client:
            yield client
