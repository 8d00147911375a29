"""The API as a client sees it: sessions, messages, errors."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.surfaces.http.servers import serving, token_for

from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    import httpx2

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
