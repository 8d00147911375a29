"""Links by which a person without a token decides about one call."""

from __future__ import annotations

import asyncio
import html
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import pytest
from tests.support.approvals import pay, paying
from tests.surfaces.http.servers import BASE, serving, token_for

from holdfast import Session
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import CallState
from holdfast.engine.approval_links import find_link, rotate_key
from holdfast.engine.erasing import erase
from holdfast.engine.operations.links import LinkCall, RevokeLinks
from holdfast.errors import UsageError
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    import httpx2

FORM = {"content-type": "application/x-www-form-urlencoded", "origin": BASE}


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with MemoryStore() as made:
        yield made


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


def park(store: MemoryStore, name: str = "a", *amounts: int, **rules: Any) -> list[str]:
    """Park calls in a session of ann's; returns their keys."""
    options: Any = {"model": pay(*(amounts or (5,))), "store": store, "owner": "ann"}
    with Session.open(name, tools=[paying(**rules)], **options) as session:
        session.say("pay")
        return [str(call.key) for call in session.calls.waiting()]


def link(store: MemoryStore, key: str, name: str = "a", **more: Any) -> str:
    """Return the token of a link."""
    asked = LinkCall(key=key, **{"by": "carl", **more})
    return asked.make(store, SessionKey("main", name), time.time()).link.partition("link=")[2]


def decision(store: MemoryStore, key: str, name: str = "a") -> Any:
    with Session.open(name, model="offline", store=store, owner="ann") as session:
        found = session.calls.find(key)
        return found and found.decision


def states(store: MemoryStore) -> list[CallState]:
    """Return what the log of ann's session says of its calls."""
    records = store.read(SessionKey("main", "a"))
    return [record for record in records if isinstance(record, CallState)]


async def decide(client: httpx2.AsyncClient, token: str, word: str = "approve", **more: str) -> int:
    form = {"link": token, "decision": word, **more}
    answer = await client.post("/decide", content=urlencode(form), headers=FORM)
    return int(answer.status_code)


async def look(client: httpx2.AsyncClient, token: str) -> httpx2.Response:
    """Open a link as a browser does from a mail."""
    fetch = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    return await client.get(
        "/decide", params={"link": token}, headers={**fetch, "sec-fetch-dest": "document"}
    )


def test_a_link_decides_once_without_a_token(store: MemoryStore) -> None:
    """Made by the operator, opened by a person from a mail: it shows the call in full, and to look
    at it, however often, decides nothing. One click does, in the name of the person."""
    (key,) = park(store, approvers=["carl"])
    operator_token, operator = token_for("*")
    tokens: list[str] = []
    headers = {"authorization": f"Bearer {operator_token}"}

    async def scenario() -> None:
        async with serving(store, operator) as client:
            made = await client.post(
                f"/v1/sessions/main/a/approvals/{key}/links",
                json={"by": "carl", "address": "https://agents.example/"},
                headers=headers,
            )
            assert made.status_code == 201
            address = urlsplit(made.json()["link"])
            assert address.geturl().startswith("https://agents.example/decide?link=")
            token = address.query.removeprefix("link=")
            tokens.append(token)
            for _ in range(3):
                page = await look(client, token)
                assert page.status_code == 200
                assert page.headers["cache-control"] == "no-store"
                shown = html.unescape(re.findall(r"<pre[^>]*>(.*?)</pre>", page.text, re.S)[0])
                assert '"amount": 5' in shown
            assert (await client.head("/decide", params={"link": token})).status_code == 200
            assert decision(store, key) is None
            assert (await client.get("/waiting")).status_code == 303  # it opens nothing else
            assert await decide(client, token) == 200
            assert await decide(client, token, "deny") == 410
            assert "Approved by carl." in (await look(client, token)).text

    run(scenario)
    found = decision(store, key)
    assert (found.state, found.by) == ("approved", "carl")
    assert found.by in str(accesses := store.audit.entries())
    assert tokens[0].partition(".")[2] not in str(accesses)


def test_a_link_is_refused_where_anything_of_it_is_other(store: MemoryStore) -> None:
    """Each character of its number and its signature counts; so does each of its terms in the
    store, and its key."""
    first, second = park(store, "a", 5)[0], park(store, "b", 6)[0]
    token, other = link(store, first), link(store, second, "b")
    number, _, signature = token.partition(".")
    wrong = [
        "",
        ".",
        token[:-1],
        f"{token}A",
        f" {token}",
        f"{number}.",
        f".{signature}",
        "9" * 300,
    ]
    wrong += [f"{other.partition('.')[0]}.{signature}", f"{number}.{other.partition('.')[2]}"]
    wrong += [f"{int(number) + step}.{signature}" for step in (-1, 1)]
    wrong += [
        f"0{number}.{signature[::-1]}",
        number.translate({48 + n: 0x660 + n for n in range(10)}),
    ]
    wrong += [
        f"{number}.{signature[:place]}{'-' if letter != '-' else '_'}{signature[place + 1 :]}"
        for place, letter in enumerate(signature)
    ]

    async def scenario() -> None:
        async with serving(store) as client:
            for each in wrong:
                assert (await look(client, each[:200])).status_code == 404, each
                assert await decide(client, each[:200]) == 404, each
            assert (await look(client, token)).status_code == 200

    run(scenario)
    assert decision(store, first) is decision(store, second, "b") is None
    assert find_link(store, token, time.time()) is not None
    rotate_key(store)
    assert find_link(store, token, time.time()) is None
    assert find_link(store, link(store, first), time.time()) is not None


@pytest.mark.parametrize(
    "way", ["expired", "revoked", "rotated", "erased", "call-over", "withdrawn"]
)
def test_a_link_that_is_over_decides_nothing(store: MemoryStore, way: str) -> None:
    (key,) = park(store, expires=3_600) if way == "call-over" else park(store)
    token = link(store, key)
    now = time.time()
    status = 410
    if way == "revoked":
        assert RevokeLinks(key=key).revoke(store, SessionKey("main", "a")).revoked == 1
    elif way == "rotated":
        rotate_key(store)
        status = 404
    elif way == "erased":
        erase(store, SessionKey("main", "a"), owner="ann")
        status = 404
    elif way == "withdrawn":
        with Session.open("a", model="offline", store=store, owner="ann") as session:
            session.rewind(turns=1)
    if way in ("expired", "call-over"):
        now += 4 * 86_400
        found = find_link(store, token, now)
        assert found is not None
        assert found.state == "expired"
        return

    async def scenario() -> None:
        async with serving(store) as client:
            assert (await look(client, token)).status_code == status
            assert await decide(client, token) == status

    run(scenario)


def test_a_link_that_was_used_stays_used_after_a_rewind(store: MemoryStore) -> None:
    """The call waits again on that branch, and the link does not decide a second time."""
    (key,) = park(store)
    token = link(store, key)

    def rewind() -> None:
        with Session.open("a", model="offline", store=store, owner="ann") as session:
            session.rewind(states(store)[0].id)
            assert [call.key for call in session.calls.waiting()] == [key]

    async def scenario() -> None:
        async with serving(store) as client:
            assert await decide(client, token, "deny", words="no") == 200
            await asyncio.to_thread(rewind)  # it waits for the turn that the server runs
            assert await decide(client, token) == 410

    run(scenario)
    assert decision(store, key) is None


def test_a_link_allows_what_it_says(store: MemoryStore) -> None:
    first, second = park(store, "a", 5)[0], park(store, "b", 6)[0]
    approves = link(store, first, allows="approve")
    denies = link(store, second, "b", allows="deny")

    async def scenario() -> None:
        async with serving(store) as client:
            assert "Deny" not in (await look(client, approves)).text
            assert "Approve<" not in (await look(client, denies)).text
            assert await decide(client, approves, "deny") == 403
            assert await decide(client, denies, "approve") == 403
            assert decision(store, first) is decision(store, second, "b") is None
            assert await decide(client, approves, "approve") == 200
            assert await decide(client, denies, "deny", words="not today") == 200

    run(scenario)
    assert decision(store, first).state == "approved"
    assert decision(store, second, "b").reason == "not today"


def test_two_people_at_once_decide_once(store: MemoryStore) -> None:
    (key,) = park(store)
    tokens = [link(store, key, by=name) for name in ("ann", "bob", "carl")]

    async def scenario() -> None:
        async with serving(store) as client:
            words = ["approve", "deny", "approve"] * 4
            sent = [decide(client, tokens[n % 3], word) for n, word in enumerate(words)]
            statuses = await asyncio.gather(*sent)
            assert 200 in statuses
            assert set(statuses) <= {200, 410}

    run(scenario)
    found = [record.state for record in states(store)]
    assert len([state for state in found if state in ("approved", "denied")]) == 1


def test_only_the_operator_makes_a_link_and_only_for_an_approver(store: MemoryStore) -> None:
    """An owner could otherwise decide as somebody whom the tool names."""
    (key,) = park(store, approvers=["carl"])
    (ann_token, ann), (write_token, write) = token_for("ann"), token_for("*", "write")
    address = f"/v1/sessions/main/a/approvals/{key}/links"

    async def scenario() -> None:
        async with serving(store, ann, write) as client:
            for token in (ann_token, write_token):
                headers = {"authorization": f"Bearer {token}"}
                answer = await client.post(address, json={"by": "carl"}, headers=headers)
                assert answer.status_code == 403

    run(scenario)
    with pytest.raises(UsageError, match="may not decide"):
        link(store, key, by="ann")
    for wrong in (
        "agents.example",
        "javascript:alert(1)",
        "https://a@b",
        "https://a?b",
        "https://",
    ):
        with pytest.raises(UsageError, match="not the address of a server"):
            link(store, key, address=wrong)
    token = link(store, key)
    with Session.open("a", model="offline", store=store, owner="ann") as session:
        session.calls.approve(key, by="carl")
    with pytest.raises(UsageError, match="no longer waits"):
        link(store, key)
    assert find_link(store, token, time.time()) is not None


def test_a_secret_in_the_arguments_is_masked_and_long_ones_are_not_approved(
    store: MemoryStore,
) -> None:
    from holdfast import tool
    from holdfast.testing.scripted import ScriptedModel, calls

    @tool(approval=True)
    def write(text: str) -> str:
        """Write a text."""
        return text

    secret = "hunter2-is-not-a-password-8f3k2"
    keys = []
    for name, text in (("a", f"it is {secret}"), ("b", "<b>" * 30_000)):
        model = ScriptedModel([calls((f"c{name}", "write", {"text": text}))], otherwise="done")
        with Session.open(name, model=model, store=store, owner="ann", tools=[write]) as session:
            session.say("write")
            keys.append(str(session.calls.waiting()[0].key))

    async def scenario() -> None:
        async with serving(store, secrets={"PASSWORD": secret}) as client:
            page = (await look(client, link(store, keys[0]))).text
            assert secret not in page
            assert "it is" in page
            long = link(store, keys[1], "b")
            page = (await look(client, long)).text
            assert len(page) < 200_000
            assert "<b>" not in page
            assert await decide(client, long) == 403
            assert await decide(client, long, "deny") == 200

    run(scenario)
