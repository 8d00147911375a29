"""The console's pages of what is ahead: calls that wait for a person, and timers."""

from __future__ import annotations

import asyncio
import html
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from tests.support.approvals import pay, paying
from tests.surfaces.http.servers import BASE, serving, token_for

from holdfast import Session, tool
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.engine.timers import Timers
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.console.waiting import ROUTES
from holdfast.surfaces.http.server import ROUTES as API
from holdfast.testing.scripted import ScriptedModel, calls

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


def park(store: MemoryStore, name: str, owner: str, amount: int, **rules: Any) -> str:
    """Park a call in a session of its own; returns its key."""
    options: Any = {"model": pay(amount), "store": store, "owner": owner}
    with Session.open(name, tools=[paying(**rules)], **options) as session:
        session.say("pay")
        return str(session.calls.waiting()[0].key)


def state(store: MemoryStore, name: str, owner: str, key: str) -> Any:
    with Session.open(name, model="offline", store=store, owner=owner) as session:
        found = session.calls.find(key)
        return found and found.decision


async def decide(client: httpx2.AsyncClient, path: str, headers: Any, **form: str) -> int:
    answer = await client.post(path, content=urlencode(form), headers={**FORM, **headers})
    return int(answer.status_code)


def test_what_waits_is_shown_in_full_and_decided_with_one_click(store: MemoryStore) -> None:
    """Each owner's own: the arguments in full, for whom and since when. As it was shown it is
    approved as it is; with other arguments it runs with those."""
    keys = {name: park(store, name, "ann", 5 + place) for place, name in enumerate("abc")}
    bobs = park(store, "bob", "bob", 9)
    ann_token, ann = token_for("ann", "write")
    headers = {"authorization": f"Bearer {ann_token}"}

    async def scenario() -> None:
        async with serving(store, ann) as client:
            page = (await client.get("/waiting", headers=headers)).text
            assert "main/bob" not in page
            shown = re.findall(r"<textarea[^>]*>\s*(.*?)</textarea>", page, re.DOTALL)
            texts = [html.unescape(text) for text in shown]
            assert [text.count('"amount"') for text in texts] == [1, 1, 1]
            assert "anyone who may use the session" in page
            kept = {"arguments": texts[2].replace("\n", "\r\n")}
            path = f"/waiting/{keys['a']}/approve"
            assert await decide(client, path, headers, **kept) == 303
            other = {"arguments": '{"amount": 1}'}
            path = f"/waiting/{keys['b']}/approve"
            assert await decide(client, path, headers, arguments="[1]") == 400
            assert await decide(client, path, headers, **other) == 303
            path = f"/waiting/{keys['c']}/deny"
            assert await decide(client, path, headers, words="not today") == 303
            assert await decide(client, f"/waiting/{bobs}/deny", headers, words="") == 404
            assert "No call waits" in (await client.get("/waiting", headers=headers)).text

    run(scenario)
    found = {name: state(store, name, "ann", key) for name, key in keys.items()}
    assert (found["a"].state, found["a"].arguments, found["a"].by) == (
        "approved",
        None,
        "ann-write",
    )
    assert found["b"].arguments == {"amount": 1}
    assert (found["c"].state, found["c"].reason) == ("denied", "not today")
    assert state(store, "bob", "bob", bobs) is None


def test_who_may_not_decide_is_refused(store: MemoryStore) -> None:
    """Another page's form, a reader, somebody who is no approver: nothing is stored."""
    key = park(store, "a", "ann", 5, approvers=["carl"])
    (reads, reader), (writes, writer) = (token_for("ann", scope) for scope in ("read", "write"))
    path = f"/waiting/{key}/approve"

    async def scenario() -> None:
        async with serving(store, reader, writer) as client:
            for token, origin, status in (
                (writes, "https://evil.example", 403),
                (reads, BASE, 403),
                (writes, BASE, 403),
            ):
                headers = {"authorization": f"Bearer {token}", "origin": origin}
                assert await decide(client, path, headers) == status
            page = await client.get("/waiting", headers={"authorization": f"Bearer {reads}"})
            assert "<form" not in page.text.replace('<form method="dialog"', "")
            assert "amount" in page.text
            assert "carl" in page.text

    run(scenario)
    assert state(store, "a", "ann", key) is None


def test_timers_are_changed_and_cancelled(store: MemoryStore) -> None:
    """What is left empty stays as it is."""
    with Session.open("a", model="offline", store=store, owner="ann") as session:
        for name in ("one", "two"):
            Timers(store).set(
                session.key, "R/PT1H", f"look {name}", owner=NamedOwner("ann"), name=name
            )

    async def scenario() -> None:
        async with serving(store) as client:
            page = (await client.get("/timers")).text
            assert page.index("look one") < page.index("look two")
            given: Any = {"when": "R/PT2H", "text": ""}
            assert await decide(client, "/timers/one/change", {}, **given) == 303
            assert await decide(client, "/timers/two/cancel", {}) == 303
            assert await decide(client, "/timers/three/cancel", {}) == 404
            assert await decide(client, "/timers/one/change", {}, when="tomorrow") in (400, 409)

    run(scenario)
    ((_, timer),) = Timers(store).ahead(ANY_OWNER)
    assert (timer.name, timer.text) == ("one", "look one")


def test_every_page_has_the_scope_of_its_operation() -> None:
    """A form asks for no less than the route of the API."""
    of_api = {route.operation: route.scope for route in API if route.operation is not None}
    for route in ROUTES:
        if route.operation is not None:
            assert route.scope == of_api[route.operation]
            assert route.scope in ("write", "admin")


def test_long_arguments_have_a_page_and_no_page_is_longer_than_its_bound(
    store: MemoryStore,
) -> None:
    """What is not seen in full is not approved; a masked secret that is sent back runs nowhere."""
    secret = "hunter2-is-not-a-password-8f3k2"
    texts = ["<b>" * 2_000, "<b>" * 100_000, f"say {secret}", *['"' * 2_900] * 12]
    keys = [park_text(store, f"t{place}", text) for place, text in enumerate(texts)]

    async def scenario() -> None:
        async with serving(store, secrets={"PASSWORD": secret}) as client:
            page = (await client.get("/waiting")).text
            assert len(page) < 200_000
            assert page.count("<section") == 10
            older = html.unescape(re.findall(r'href="(/waiting\?before=[^"]*)"', page)[0])
            rest = (await client.get(older)).text
            assert rest.count("<section") == 5
            assert f'action="/waiting/{keys[0]}/approve"' not in rest
            assert secret not in rest
            alone, endless = [(await client.get(f"/waiting/{key}")).text for key in keys[:2]]
            assert f'action="/waiting/{keys[0]}/approve"' in alone
            assert f'action="/waiting/{keys[1]}/approve"' not in endless
            assert f'action="/waiting/{keys[1]}/deny"' in endless
            assert max(len(alone), len(endless)) < 200_000
            shown = html.unescape(re.findall(r"<textarea[^>]*>(.*?)</textarea>", rest, re.S)[0])
            assert "[masked" in shown
            changed = shown.replace("say", "shout")
            path = f"/waiting/{keys[2]}/approve"
            assert await decide(client, path, {}, arguments=changed) == 409
            assert state(store, "t2", "ann", keys[2]) is None
            assert await decide(client, path, {}, arguments=shown) == 303
            assert (await client.get(f"/waiting/{keys[2]}")).status_code == 200

    run(scenario)
    found = state(store, "t2", "ann", keys[2])
    assert (found.state, found.arguments) == ("approved", None)


def park_text(store: MemoryStore, name: str, text: str) -> str:
    """Park a call with a text in a session of its own; returns its key."""

    @tool(approval=True)
    def write(text: str) -> str:
        """Write a text."""
        return text

    model = ScriptedModel([calls((name, "write", {"text": text}))], otherwise="done")
    with Session.open(name, model=model, store=store, owner="ann", tools=[write]) as session:
        session.say("write")
        return str(session.calls.waiting()[0].key)


def test_the_operator_makes_a_link_on_the_page(store: MemoryStore) -> None:
    """It is shown once, and opens the call; an owner is not offered one."""
    key = park(store, "a", "ann", 5, approvers=["carl"])
    ann_token, ann = token_for("ann")
    root_token, root = token_for("*")

    async def scenario() -> None:
        async with serving(store, ann, root) as client:
            anns = {"authorization": f"Bearer {ann_token}"}
            roots = {"authorization": f"Bearer {root_token}"}
            path = f"/waiting/{key}/links"
            assert "links" not in (await client.get("/waiting", headers=anns)).text
            assert await decide(client, path, anns, by="carl", hours="1") == 403
            assert "<option>carl" in (await client.get("/waiting", headers=roots)).text
            made = await client.post(
                path, content=urlencode({"by": "carl", "hours": "1"}), headers={**FORM, **roots}
            )
            address = re.findall(r"http[^<]*/decide\?link=[^<]*", made.text)[0]
            assert (await client.get(address)).status_code == 200
            assert await decide(client, f"{path}/revoke", anns) == 303
            assert (await client.get(address)).status_code == 410

    run(scenario)
