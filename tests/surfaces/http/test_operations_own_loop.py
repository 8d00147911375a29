"""A whole loop over HTTP alone: the client calls an enforcing provider and runs the tools."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

import pytest
from tests.engine.proxy.conversations import DIALECTS, path_for
from tests.surfaces.http.real import ServeProcess
from tests.surfaces.http.servers import serving

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Compaction, Prune, ToolResult, User
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.opening import open_store
from holdfast.testing import Answer, Call, Fault, Loopback

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx2

    from holdfast.core.log.records import Json
    from holdfast.ports import SessionStore
    from holdfast.testing.loopback import Asked

MODELS = {
    "anthropic": "anthropic:claude-opus-4-8",
    "openai-chat": "openai-chat:gpt-4o",
    "openai-responses": "openai-responses:gpt-4o",
    "gemini": "gemini:gemini-2.5-pro",
}
TOOL = {
    "name": "read",
    "description": "Reads a part.",
    "parameters": {"type": "object", "properties": {"part": {"type": "integer"}}},
}
LOOP = "/v1/sessions/main/own/loop"
WINDOW = 16_000
Post = Any
"""`await post(method, path, body, key)` gives status and JSON."""


def brain(asked: Asked) -> Answer:
    """Call the tool twice for each message, then answer; thinking before each reply."""
    if asked.number % 3:
        return Answer("", (Call("read", {"part": asked.number}),), thinking="Which part is next?")
    return Answer(f"Answer {asked.number}.", thinking="That is all of it.")


def read(part: int) -> str:
    return "\n".join(f"part {part}, line {line}" for line in range(300))


def call_provider(
    provider: Loopback, dialect: str, request: Json, *, is_streamed: bool = False
) -> tuple[int, Any]:
    """Send a request as it is, and return status and JSON, or status and the events of a stream."""
    path = path_for(dialect, is_streamed=is_streamed)
    if is_streamed and dialect != "gemini":
        request = {**request, "stream": True}
    data = json.dumps(request).encode()
    headers = {"Content-Type": "application/json", "anthropic-version": "2023-06-01"}
    asked = urllib.request.Request(f"{provider.url}{path}", data, headers)
    try:
        with urllib.request.urlopen(asked) as answer:
            if is_streamed:
                lines = answer.read().split(b"\n")
                return answer.status, [json.loads(x[6:]) for x in lines if x[:7] == b"data: {"]
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


class LoopClient:
    """A loop as a program in any language writes it. Every request is made twice: what got no
    answer is sent again. Every second reply comes as a stream."""

    def __init__(self, post: Post, provider: Loopback, dialect: str) -> None:
        self.post = post
        self.provider = provider
        self.terms = {
            "model": MODELS[dialect],
            "tools": [TOOL],
            "system": "Be brief.",
            "window": 20_000,
        }
        self.dialect = dialect
        self.decisions: list[str] = []
        self.refusals = self.replies = self.calls = self.number = 0

    async def send(self, path: str, body: Json, key: str = "") -> Json:
        first = await self.post("POST", path, body, key)
        again = await self.post("POST", path, body, key)
        assert first[0] in (200, 201), first
        assert again[0] in (200, 201), again
        if path != f"{LOOP}/prepare":
            assert first[1] == again[1]
        return dict(again[1])

    async def say(self, text: str, between: Callable[[], Any] | None = None) -> str:
        """Say something, and go on to the last reply."""
        self.number += 1
        await self.send(f"{LOOP}/messages", {"content": text}, f"user-{self.number}")
        while True:
            reply = await self.call(between)
            self.replies += 1
            self.calls += len(reply["calls"])
            if not reply["calls"]:
                return str(reply["text"])
            for call in reply["calls"]:
                status, place = await self.post("GET", LOOP, None, "")
                assert (status, place["next"]) == (200, "results")
                assert [each["id"] for each in place["calls"]] == [call["id"]]
                result = {"callId": call["id"], "content": read(**call["arguments"])}
                await self.send(f"{LOOP}/results", result)
                if between is not None:
                    await between()

    async def call(self, between: Callable[[], Any] | None) -> Json:
        """Make one call of the model, smaller after each refusal."""
        failed: Json = {}
        while True:
            prepared = await self.prepare(failed)
            if between is not None:
                await between()
            status, answer = await asyncio.to_thread(
                call_provider,
                self.provider,
                self.dialect,
                prepared["request"],
                is_streamed=self.replies % 2 == 1,
            )
            if status == 200:
                break
            self.refusals += 1
            failed = {"failedStatus": status, "failedBody": answer}
        self.number += 1
        body = {**self.terms, "reply": answer, "prepared": prepared["prepared"]}
        return await self.send(f"{LOOP}/replies", body, f"reply-{self.number}")

    async def prepare(self, failed: Json) -> Json:
        status, found = await self.post("POST", f"{LOOP}/prepare", {**self.terms, **failed}, "")
        assert status == 200, found
        self.decisions += found["decisions"]
        return dict(found)


def poster(http: httpx2.AsyncClient, headers: dict[str, str] | None = None) -> Post:
    async def post(method: str, path: str, body: Any, key: str) -> tuple[int, Any]:
        more = {"Idempotency-Key": key} if key else {}
        given = {"json": body} if body is not None else {}
        answer = await http.request(method, path, headers={**(headers or {}), **more}, **given)
        return answer.status_code, answer.json()

    return post


def check_log(store: SessionStore, client: LoopClient, turns: int) -> None:
    """Everything is there once, and no request broke a rule of the provider's."""
    records = list(store.read(SessionKey("main", "own")))
    assert sum(isinstance(record, User) for record in records) == turns
    replies = [record for record in records if isinstance(record, Assistant)]
    assert len(replies) == client.replies
    assert all(record.sent is not None for record in replies)
    assert sum(isinstance(record, ToolResult) for record in records) == client.calls > turns
    assert client.provider.invalid == ()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_loop_over_http_keeps_every_guarantee(dialect: str) -> None:
    """A window of 16,000 tokens that the conversation outgrows, a refused call, each request made
    twice, and the server started again between any two steps of a turn."""

    async def scenario() -> None:
        with closing(MemoryStore()) as store, Loopback(brain, limit=WINDOW) as provider:
            store.create(SessionKey("main", "own"))
            client = LoopClient(None, provider, dialect)
            async with serving(store) as http:
                client.post = poster(http)
                for turn in range(4):
                    if turn == 2:
                        provider.fail_next(Fault.overflow())
                    assert (await client.say(f"question {turn}")).startswith("Answer")
            for turn in range(4, 6):  # another process for each turn
                async with serving(store) as http:
                    client.post = poster(http)
                    assert (await client.say(f"question {turn}")).startswith("Answer")
            assert client.refusals > len(provider.over_limit)
            kinds = (Compaction, Prune)
            records = list(store.read(SessionKey("main", "own")))
            assert any(isinstance(record, kinds) for record in records)
            check_log(store, client, 6)

    asyncio.run(scenario())


def test_a_request_prepared_before_a_restart_has_its_reply(tmp_path: Path) -> None:
    """Between the call and its reply a real process is killed, at every step of the turns: the
    reply is stored with the request that it answers, so that its reasoning goes back."""

    async def scenario() -> None:
        root = str(tmp_path / "store")
        with open_store(root) as store:
            store.create(SessionKey("main", "own"))
        with Loopback(brain) as provider, ServeProcess(root, "", tmp_path) as server:

            def request(method: str, path: str, body: Any, key: str) -> tuple[int, Any]:
                data = None if body is None else json.dumps(body).encode()
                headers = {"Content-Type": "application/json"}
                headers |= {"Idempotency-Key": key} if key else {}
                url = f"http://127.0.0.1:{server.port}{path}"
                asked = urllib.request.Request(url, data, headers, method=method)
                with urllib.request.urlopen(asked) as answer:
                    return answer.status, json.load(answer)

            async def post(*given: Any) -> tuple[int, Any]:
                return await asyncio.to_thread(request, *given)

            async def kill() -> None:
                server.kill()
                server.start()

            client = LoopClient(post, provider, "anthropic")
            assert (await client.say("question", between=kill)).startswith("Answer")
            await client.say("question")
            with open_store(root) as store:
                check_log(store, client, 2)

    asyncio.run(scenario())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_rate_limit_ends_the_recovery(dialect: str) -> None:
    """Nothing is waited for on the server: the client is told, and tries again itself."""

    async def scenario() -> None:
        with closing(MemoryStore()) as store, Loopback(brain) as provider:
            store.create(SessionKey("main", "own"))
            async with serving(store) as http:
                client = LoopClient(poster(http), provider, dialect)
                await client.send(f"{LOOP}/messages", {"content": "hello"}, "k")
                await client.prepare({})
                failed = {
                    "failedStatus": 429,
                    "failedBody": {"error": {"type": "rate_limit_error"}},
                }
                status, body = await client.post(
                    "POST", f"{LOOP}/prepare", {**client.terms, **failed}, ""
                )
                assert status == 422, body
                await client.prepare({})

    asyncio.run(scenario())


def test_what_cannot_be_done_is_said() -> None:
    async def scenario() -> None:

        with closing(MemoryStore()) as store:
            store.create(SessionKey("main", "own"))
            async with serving(store) as http:
                post = poster(http)
                for model in ("offline", "nobody:x", "local:x", "cli:x", ""):
                    status, body = await post("POST", f"{LOOP}/prepare", {"model": model}, "")
                    assert status == 400, body
                    assert body["hint"]
                terms = {"model": MODELS["anthropic"]}
                body = {**terms, "tools": [{"nothing": 1}]}
                assert (await post("POST", f"{LOOP}/prepare", body, ""))[0] == 400
                body = {"callId": "c1", "content": "x"}
                status, said = await post("POST", f"{LOOP}/results", body, "")
                assert (status, "no result of a call" in said["detail"]) == (400, True)
                await post("POST", f"{LOOP}/messages", {"content": "one"}, "same")
                status, _said = await post("POST", f"{LOOP}/replies", {**terms, "reply": {}}, "")
                assert 400 <= status < 500

    asyncio.run(scenario())
