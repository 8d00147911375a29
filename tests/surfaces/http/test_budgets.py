"""Budgets at every door of a server: one point, one count, and refusals that each client reads."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, closing
from itertools import product
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest
from tests.engine.proxy.conversations import DIALECTS, Client, path_for
from tests.support.bot_api import TOKEN, BotApiServer
from tests.surfaces.http.chat_clients import MODEL, Chat
from tests.surfaces.http.servers import BASE, OPTIONS, token_for
from tests.surfaces.http.test_operations_own_loop import MODELS, call_provider
from tests.surfaces.proxy.test_served import body_of, header_of

import holdfast.surfaces.cli.serve.serve as serve
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.core.spending.budgets import Account, Budgets, SpendingLimits, period_at
from holdfast.engine.spending.meter import BudgetNear
from holdfast.engine.timers import Timers
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.http.events import SessionStream
from holdfast.surfaces.http.operations import ROUTES
from holdfast.surfaces.serve_settings import (
    AgentSettings,
    ServeSettings,
    TelegramTable,
    UpstreamTable,
)
from holdfast.testing import Answer, Loopback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from holdfast.surfaces.http.server import HttpServer
    from holdfast.testing.loopback import Asked

import httpx2

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # a server keeps the clients of its models for its whole life
ANN_TOKEN, ANN = token_for("ann", "write")
BOB_TOKEN, BOB = token_for("bob", "write")
KEY = "sk-the-servers-own"
ANNS = SessionKey("main", "anns")
NAMES = ("anthropic", "openai", "gemini")
NUMBERED = (
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens"),
    *("n", "candidateCount"),
)
"""Fields by which a client says how much it wants."""


def numbered(asked: Asked) -> Answer:
    return Answer(f"Answer {asked.number}.")


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with closing(MemoryStore()) as found:
        found.create(ANNS, owner=NamedOwner("ann"))
        yield found


@asynccontextmanager
async def served(
    store: MemoryStore,
    budgets: Budgets | None,
    brain: Any = numbered,
    telegram: TelegramTable | None = None,
) -> AsyncIterator[tuple[httpx2.AsyncClient, Loopback, HttpServer]]:
    """Serve an agent and upstreams, whose calls all go to one provider."""
    with Loopback(brain) as provider, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEST_UPSTREAM_KEY", KEY)
        agent = AgentSettings(
            model=f"anthropic:claude-opus-4-8@{provider.url}", checkpoints="off", timers=True
        )
        settings = ServeSettings(
            tokens=(ANN, BOB),
            gateway=OPTIONS,
            agents={"main": agent},
            budgets=budgets,
            telegram=telegram,
            upstreams={
                name: UpstreamTable(url=provider.url, key="TEST_UPSTREAM_KEY") for name in NAMES
            },
        )
        server = serve.build_server(settings, store, "offline", telegram_token=TOKEN)
        app = server.app()
        async with app.inner.router.lifespan_context(app.inner):
            transport = httpx2.ASGITransport(app=app)
            async with httpx2.AsyncClient(transport=transport, base_url=BASE, timeout=60) as http:
                yield http, provider, server


def limited(**limits: float) -> Budgets:
    """Budgets of owners, each with the same limits."""
    return Budgets(owners={"*": SpendingLimits(**limits)})  # type: ignore[arg-type]


BEARER = {"Authorization": f"Bearer {ANN_TOKEN}"}


async def say(http: httpx2.AsyncClient, text: str, wait: float = 30) -> httpx2.Response:
    path = f"/v1/sessions/{ANNS}/messages?wait={wait}"
    return await http.post(path, json={"content": text}, headers=BEARER)


def sums_of(server: HttpServer, *whose: tuple[Any, str]) -> list[Any]:
    meter = server.gateway.meter
    day = period_at("day", meter.clock(), "UTC")
    accounts = [Account(kind, name, day) for kind, name in whose]
    return list(meter.ledger.sums(accounts).values())


async def through_proxy(http: httpx2.AsyncClient, dialect: str, text: str) -> httpx2.Response:
    client = Client(dialect)
    client.say(text)
    headers = header_of(dialect, ANN_TOKEN)
    return await http.post(path_for(dialect), json=body_of(client), headers=headers)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_spent_budget_is_refused_in_the_clients_dialect(store: MemoryStore, dialect: str) -> None:
    """One request fits; the next is a 429 in the shape of the API, with the moments to go on."""

    async def scenario() -> None:
        async with served(store, limited(day_requests=1)) as (http, provider, _server):
            chat = Chat(http, dialect, ANN_TOKEN)
            await chat.say("one")
            chat.client.say("two")
            answers = [await chat.send(), await through_proxy(http, dialect, "three")]
            for answer in answers:
                assert answer.status_code == 429, answer.text
                assert int(answer.headers["retry-after"]) > 0
                assert float(answer.headers["x-holdfast-budget-reset"]) % 86_400 == 0
                assert answer.headers["x-should-retry"] == "false"
                error = answer.json()["error"]
                assert "1 requests of 1 requests per day of owner `ann`" in error["message"]
                assert "begins again at" in error["message"]
                if dialect == "anthropic":
                    assert error["type"] == "rate_limit_error"
                elif dialect == "gemini":
                    assert error["status"] == "RESOURCE_EXHAUSTED"
                else:
                    assert error["code"] == "budget-spent"
            assert len(provider.requests) == 1
            bob = Chat(http, dialect, BOB_TOKEN)
            await bob.say("a budget of his own")

    asyncio.run(scenario())


def test_the_packages_raise_their_own_error(store: MemoryStore) -> None:
    """`openai` and `anthropic` show the sentence, once: they do not send it again."""

    async def scenario() -> None:
        async with served(store, limited(day_requests=0)) as (http, provider, _server):
            one = openai.AsyncOpenAI(
                api_key=ANN_TOKEN,
                base_url=f"{BASE}/v1",
                http_client=http,
            )
            two = anthropic.AsyncAnthropic(
                api_key=ANN_TOKEN,
                base_url=BASE,
                http_client=http,
            )
            words: list[Any] = [{"role": "user", "content": "hello"}]
            with pytest.raises(openai.RateLimitError, match="the budget is spent"):
                await one.chat.completions.create(model=MODEL, messages=words)
            with pytest.raises(anthropic.RateLimitError, match="the budget is spent"):
                await two.messages.create(model=MODEL, messages=words, max_tokens=100)
            assert not provider.requests

    asyncio.run(scenario())


def test_no_door_reaches_a_model_without_a_budget(store: MemoryStore) -> None:
    """With nothing to spend, every route of the server, every API, the proxy, timers and messages
    that waited since before end without a call of a model."""

    async def scenario() -> None:
        waiting = {"content": "waited since before"}
        async with served(store, limited(day_requests=0)) as (http, provider, server):
            await server.gateway.submit(ANNS, "nobody waits for it", owner="ann")
            Timers(store).set(ANNS, "1s", "ring", owner=NamedOwner("ann"))
            asked = 0
            for route in ROUTES:
                path = route.path.replace("{agent}", "main").replace("{session}", "anns")
                if "{" in path or route.method in ("GET", "DELETE"):
                    continue
                for body in (waiting, {"model": MODELS["anthropic"]}, {}, None):
                    given: Any = {"json": body} if body is not None else {}
                    answer = await http.request(route.method, path, headers=BEARER, **given)
                    assert answer.status_code < 500, (path, answer.text)
                    asked += answer.status_code == 429
            for dialect in DIALECTS:
                answers = [await through_proxy(http, dialect, "hi")]
                client = Chat(http, dialect, ANN_TOKEN)
                client.client.say("hi")
                answers.append(await client.send())
                assert [answer.status_code for answer in answers] == [429, 429]
            assert asked >= 2  # messages, and the own loop
            for _look in range(600):
                failed = store.queues.messages("inbox", owner=ANY_OWNER, states=("failed",))
                if len(failed) >= 2:
                    break
                await asyncio.sleep(0.05)
            assert {"the budget is spent" in message.reason for message in failed} == {True}
            assert not provider.requests
            assert sums_of(server, ("owner", "ann"))[0].requests == 0

    asyncio.run(scenario())


def test_every_door_is_counted_once_by_what_the_provider_said(store: MemoryStore) -> None:
    """Say, the compatible APIs, the proxy and an own loop: requests and tokens are the provider's,
    for the token, the owner and the agent."""

    async def scenario() -> None:
        budgets = limited(month_tokens=10_000_000)
        async with served(store, budgets) as (http, provider, server):
            tokens = 0
            for number in range(2):
                answer = await say(http, f"say {number}")
                assert answer.json()["state"] == "answered", answer.text
            for dialect in DIALECTS:
                await Chat(http, dialect, ANN_TOKEN).say("hello")
                assert (await through_proxy(http, dialect, "hello")).status_code == 200
            through = len(provider.requests)
            assert through == 2 + 2 * len(DIALECTS)
            store.create(SessionKey("main", "own"), owner=NamedOwner("ann"))
            loop = "/v1/sessions/main/own/loop"
            terms = {"model": MODELS["anthropic"]}
            for number in range(2):
                await http.post(f"{loop}/messages", json={"content": "own"}, headers=BEARER)
                for _again in range(2):  # what is asked again is held once
                    made = await http.post(f"{loop}/prepare", json=terms, headers=BEARER)
                    assert made.status_code == 200, made.text
                request = made.json()["request"]
                _status, reply = await asyncio.to_thread(
                    call_provider, provider, "anthropic", request
                )
                stored = {**terms, "reply": reply, "prepared": made.json()["prepared"]}
                key = {**BEARER, "Idempotency-Key": f"reply {number}"}
                for _again in range(2):
                    kept = await http.post(f"{loop}/replies", json=stored, headers=key)
                    assert kept.status_code == 201, kept.text
            for asked in provider.requests:
                tokens += asked.tokens
            found = sums_of(server, ("token", ANN.name), ("owner", "ann"), ("agent", "main"))
            assert [sums.requests for sums in found] == [len(provider.requests)] * 3
            assert {sums.held_tokens for sums in found} == {0}
            assert len({sums.tokens for sums in found}) == 1
            assert found[0].tokens > tokens  # and the replies
            counts = server.gateway.meter.counts
            counted = {kind for (_labels, kind) in counts.tokens}
            assert sum(counts.tokens.values()) == found[0].tokens
            assert counted == {"input", "cache_read", "cache_write", "output"}

    asyncio.run(scenario())


def test_a_budget_that_is_near_is_told_once(store: MemoryStore) -> None:
    """At four fifths a header warns with each answer, and an event once."""

    async def scenario() -> None:
        async with served(store, limited(day_requests=5)) as (http, _provider, server):
            told: list[BudgetNear] = []
            publish = server.gateway.meter.on_near

            def hear(near: BudgetNear) -> None:
                told.append(near)
                publish(near)

            server.gateway.meter.on_near = hear
            headers = []
            with server.gateway.live.watch(ANNS) as watcher:
                for number in range(6):
                    answer = await say(http, f"say {number}")
                    headers.append(answer.headers.get("x-holdfast-budget", ""))
                seen = [p for p in await watcher.pieces(0) if isinstance(p, BudgetNear)]
            assert answer.status_code == 429
            assert headers[:4] == [""] * 4
            assert headers[4].startswith("owner=ann; day; requests; 80%; resets=")
            assert headers[5].startswith("owner=ann; day; requests; 100%; resets=")
            assert [(near.session, near.unit, near.spent) for near in told] == [
                (str(ANNS), "requests", 4.0)
            ]
            assert seen == told
            call: Any = SimpleNamespace(store=store, workspace=SimpleNamespace(mask=dict))
            (sent,) = SessionStream(call, ANNS, "")._piece(told[0])
            assert sent.startswith(b"event: budget\n")

    asyncio.run(scenario())


def test_a_budget_that_ends_amid_a_turn_ends_it(store: MemoryStore) -> None:
    """A turn whose second call has no room ends with the reason; the session goes on later."""

    async def scenario() -> None:
        from holdfast.testing import Call

        def brain(asked: Asked) -> Answer:
            if asked.number == 1:
                return Answer("", (Call("list_timers", {}),))
            return Answer("done")

        async with served(store, limited(day_requests=1), brain) as (http, provider, server):
            answer = (await say(http, "use a tool")).json()
            assert answer["state"] == "failed"
            assert "the budget is spent" in answer["reason"]
            assert len(provider.requests) == 1
            server.gateway.meter.budgets = limited(day_requests=3)
            assert (await say(http, "go on")).json()["reply"] == "done"

    asyncio.run(scenario())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_number_of_a_client_breaks_a_budget(store: MemoryStore, dialect: str) -> None:
    """Whatever length of a reply is asked for, the upstream judges it; what it takes is counted."""

    async def scenario() -> None:
        limits = limited(day_tokens=10_000_000, day_dollars=1_000.0)
        async with served(store, limits) as (http, _provider, server):
            asked = 0
            for name, number in product(NUMBERED, (10**400, 10**30, 2**63, -5, 0, 10**9)):
                client = Client(dialect)
                client.say(f"{name} {number % 7919}")
                body = body_of(client)
                inner = body.setdefault("generationConfig", {}) if dialect == "gemini" else body
                inner[name] = number
                answer = await http.post(
                    path_for(dialect), json=body, headers=header_of(dialect, ANN_TOKEN)
                )
                assert answer.status_code in (200, 400), (name, answer.text)
                asked += 1
            (sums,) = sums_of(server, ("owner", "ann"))
            assert (sums.held_tokens, sums.held_nanodollars) == (0, 0)
            assert sums.requests >= asked  # some are sent again with a number that fits
            assert sums.tokens < 100_000

    asyncio.run(scenario())


def test_a_model_of_the_server_is_found_beside_upstreams(store: MemoryStore) -> None:
    """One agent is described where all are listed, whatever upstreams there are."""

    async def scenario() -> None:
        async with served(store, None) as (http, _provider, _server):
            for name, status in (("holdfast/main", 200), ("holdfast/no-one", 404), ("gpt-5", 404)):
                answer = await http.get(f"/v1/models/{name}", headers=BEARER)
                assert answer.status_code == status, answer.text
            assert "`holdfast/main`" in answer.json()["error"]["message"]

    asyncio.run(scenario())


def test_a_chat_is_told_when_its_budget_begins_again(store: MemoryStore) -> None:
    """A message to a bot that no budget has room for is set aside with the reason and the moment;
    later it is answered once, and counted once."""

    async def scenario() -> None:
        with BotApiServer() as bot:
            table = TelegramTable(allow=(99,), api_base=bot.url)
            budgets = Budgets(agents={"*": SpendingLimits(day_requests=1)})
            async with served(store, budgets, telegram=table) as (_http, provider, server):

                async def ask(text: str, count: int) -> str:
                    bot.say(text, user=99, chat=99)
                    return (await asyncio.to_thread(bot.wait_for_texts, count, 99))[count - 1]

                assert await ask("one", 1) == "Answer 1."
                refused = await ask("two", 2)
                assert "1 requests of 1 requests per day of agent `main`" in refused
                assert "the budget begins again at 20" in refused
                assert "/continue tries it again" in refused
                assert "the budget is spent" in await ask("/continue", 4)
                made = [len(provider.requests)]
                server.gateway.meter.budgets = Budgets(agents={"*": SpendingLimits(day_requests=9)})
                assert await ask("/continue", 6) == "Answer 2."
                assert [*made, len(provider.requests)] == [1, 2]
                assert sums_of(server, ("agent", "main"))[0].requests == 2
                (info,) = store.sessions(owner=ANY_OWNER, agent="main", limit=1)
                said = [rec.content for rec in store.read(info.key) if isinstance(rec, User)]
                assert [str(text).rpartition("\n")[2] for text in said] == ["one", "two"]

    asyncio.run(scenario())


def test_money_needs_a_price(store: MemoryStore) -> None:
    """A model without a known price is refused where money is limited, or counted in tokens."""

    async def scenario() -> None:
        for unpriced, status in (("refuse", 422), ("count", 200)):
            budgets = Budgets(
                owners={"ann": SpendingLimits(day_dollars=1.0)},
                unpriced=unpriced,  # type: ignore[arg-type]
            )
            async with served(store, budgets) as (http, provider, server):
                client = Client("openai-chat")
                client.say("hello")
                body = {**body_of(client), "model": "nobody-knows-1"}
                headers = header_of("openai-chat", ANN_TOKEN)
                answer = await http.post(path_for("openai-chat"), json=body, headers=headers)
                assert answer.status_code == status, answer.text
                assert len(provider.requests) == (status == 200)
                if status == 422:
                    assert "the price of the model is not known" in json.dumps(answer.json())
                else:
                    (sums,) = sums_of(server, ("owner", "ann"))
                    assert sums.tokens > 0
                    assert sums.nanodollars == 0

    asyncio.run(scenario())


def test_the_console_and_the_metrics_show_what_is_spent(store: MemoryStore) -> None:
    """One reader has the figures of both; a token of one owner sees no other's."""

    async def scenario() -> None:
        async with served(store, limited(day_requests=5)) as (http, _provider, server):
            await say(http, "hello")
            await Chat(http, "anthropic", BOB_TOKEN).say("hello")
            page = (await http.get("/health", headers=BEARER)).text
            assert "Budgets and what is spent of them" in page
            assert "owner ann" in page
            assert "20 %" in page
            assert "owner bob" not in page
            text = server.metrics.text(server.gateway)
            for name in ("ann", "bob"):
                named = f'payer="owner",name="{name}",span="day",unit="requests"'
                assert f"holdfast_budget_spent{{{named}}} 1" in text
                assert f"holdfast_budget_limit{{{named}}} 5" in text
            assert 'agent="main",state="answered"} 2' in text

    asyncio.run(scenario())
