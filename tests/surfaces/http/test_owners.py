"""No route shows one owner anything of another, nor that there is another.

Every route of the table is asked for things of the other owner: sessions, records, outputs,
messages, notes. It is asked in two stores, one where the other owner has all that, and one without.
The answers have to be the same.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import closing, suppress
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from tests.support.runs import sample
from tests.surfaces.http.servers import BASE, serving, token_for
from tests.surfaces.test_owners_commands import (
    ANN,
    BOB,
    LATER,
    THEIRS,
    differences,
    plant,
    without_chance,
)

from holdfast.core.log.ids import SessionKey, call_key
from holdfast.core.log.records import Mode, ToolResult, User
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.engine.timers import Timers
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.ports import ANY_HEAD, NewMessage
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.cli.serve.serve import build_server
from holdfast.surfaces.console.console import console_pages
from holdfast.surfaces.http.openapi import document
from holdfast.surfaces.http.server import ROUTES
from holdfast.surfaces.serve_settings import ServeSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2

    from holdfast.core.log.records import Json
    from holdfast.ports import SessionStore
    from holdfast.surfaces.http.route import Route

Answers = dict[str, str]
ANN_TOKEN, ANN_SETTINGS = token_for("ann")
READ_TOKEN, READ_SETTINGS = token_for("ann", "read")
BOB_TOKEN, BOB_SETTINGS = token_for("bob")
TOKENS: Final = {"ann": ANN_TOKEN, "ann reads": READ_TOKEN, "guest": "", "wrong": "x" * 40}
PARTS: Final[dict[str, list[Any]]] = {
    "agent": ["main", "other"],
    "name": ["bob-else", "other.bob-else.1", "bobs", "ann-pandas", "x"],
    "when": ["30m", "R/PT1H"],
    "zone": ["UTC"],
    "hours": ["08:00-22:00"],
    "model": ["anthropic:claude-opus-4-8"],
    "reply": [{"type": "message", "role": "assistant", "content": [{"type": "text", "text": "x"}]}],
    "tools": [[]],
    "records": [[{"type": "user", "content": "x"}]],
    "callId": ["c1"],
}
SHARE: Final = 0.1
"""Of the requests, those of the ordinary run."""
REFUSED_SHARE: Final = 0.03
"""The same for a caller who is refused before anything is looked up."""
FEW: Final = 12
"""Requests of a route that are always made."""


def stock(*, has_other: bool) -> SessionStore:
    """Make a store with two owners and some sessions of nobody's, or with one owner alone."""
    store = MemoryStore()
    plant(store, "ann", "panda", LATER)
    _put(store, "ann", "panda", "m1")
    plan, ann = SessionKey("main", "ann-plan"), NamedOwner("ann")
    Timers(store).set(plan, "R/PT1H", "feed the panda", owner=ann, name="ann-pandas")
    named = "no-such."  # as long
    if has_other:
        plant(store, "bob", THEIRS, LATER + 10_000)
        plant(store, "", THEIRS, LATER + 20_000)
        _put(store, "bob", THEIRS, "m1")
        _put(store, "bob", THEIRS, "m2")
        Timers(store).set(BOB, "R/PT1H", f"feed {THEIRS}", owner=NamedOwner("bob"), name="bobs")
        store.remove(SessionKey("other", "bob-else"))
        named = BOB.session
    # A record of one owner that names a session of the other is not followed.
    continued = [Mode(mode="fresh", continued_in=named)]
    store.append(SessionKey("main", "ann-plan"), continued, expect=ANY_HEAD)
    return store


def _put(store: SessionStore, owner: str, word: str, key: str) -> None:
    session = f"main/{owner}-work"
    body = {"content": f"hello {word}"}
    store.queues.put(
        NewMessage(queue="inbox", lane=session, key=key, body=body, owner=owner, session=session)
    )


def names_of(store: SessionStore, other: SessionStore) -> dict[str, list[Any]]:
    """Return names by the parts of addresses that they fit: of things of Ann in one store, and of
    things of Bob in the other."""
    logs = [list(other.read(BOB)), list(store.read(ANN))]
    refs = [
        rec.output_ref.sha256
        for log in logs
        for rec in log
        if isinstance(rec, ToolResult) and rec.output_ref is not None
    ]
    records = [next(rec.id for rec in log if isinstance(rec, User)) for log in logs]
    messages = {
        owner: [
            each.id
            for each in where.queues.messages("inbox", owner=ANY_OWNER)
            if each.owner == owner
        ]
        for owner, where in (("ann", store), ("bob", other))
    }
    assert [len(ids) for ids in messages.values()] == [1, 2]
    return {
        **PARTS,
        "session": ["bob-work", "bob-fresh", "ann-work", "ann-plan", "nobody-work", "no-such"],
        "record": [*records, "r" * 18],
        "ref": [*refs, refs[0][:16], "f" * 64],
        "message": [*messages["ann"], *messages["bob"], 99],
        "key": [call_key(f"main/{whose}-work", "r" * 18, 0) for whose in ("ann", "bob")],
        "text": [
            *(records[0], refs[0], "bob-work", "main/bob-work"),
            *("plan", "animal", "MEMORY.md"),
        ],
    }


def values_of(schema: Json, names: dict[str, list[Any]]) -> list[Any]:
    """Return values that a schema takes, among them names of the other owner's things."""
    kinds = schema.get("anyOf", [schema])
    found: list[Any] = []
    for kind in kinds:
        if "enum" in kind:
            found += kind["enum"]
        elif kind.get("type") == "string":
            found += names["text"]
        elif kind.get("type") == "integer":
            found += [1, 3]
        elif kind.get("type") == "number":
            found += [1]
        elif kind.get("type") == "boolean":
            found += [True]
        elif kind.get("type") == "object":
            found += [{"current_objective": "rest"}]
    return found


def fillings(
    properties: dict[str, Json], required: set[str], names: dict[str, list[Any]]
) -> list[Json]:
    """Return sets of values: the required ones alone, and each of the others beside them."""
    known = {name: names.get(name, []) or values_of(properties[name], names) for name in properties}
    base = {name: known[name][-1] for name in required}
    rest = [{**base, name: value} for name in properties for value in known[name]]
    return [base, *rest]


def requests_of(route: Route, names: dict[str, list[Any]]) -> Iterator[tuple[str, Json, Any]]:
    """Yield addresses, parameters and bodies of a route."""
    api = document([route])
    (operations,) = api["paths"].values()
    (operation,) = operations.values()
    parts = re.findall(r"{(\w+)}", route.path)
    query = {each["name"]: each for each in operation["parameters"] if each["in"] == "query"}
    required = {name for name, each in query.items() if each["required"]}
    queries = fillings({name: each["schema"] for name, each in query.items()}, required, names)
    bodies: list[Any] = [None]
    if route.body is not None:
        schema = api["components"]["schemas"][route.body.__name__]
        bodies = fillings(schema.get("properties", {}), set(schema.get("required", ())), names)
    for values in product(*(names[part] for part in parts)):
        path = route.path.format(**dict(zip(parts, values, strict=True)))
        if "/other/" in path and values[1] != "bob-work":
            continue
        if route.path.endswith("/erase") and values[1] == "ann-plan":
            continue  # it is left for the trash
        if route.method == "PUT" and parts and values[1] not in ("ann-work", "ann-plan"):
            continue  # a taken id: see below
        for given in queries:
            yield path, given | ({"untilIdle": "true"} if route.is_stream else {}), bodies[0]
        for body in bodies[1:]:
            if "bob" not in str(body.get("id")):
                yield path, queries[0], body


def sample_requests(
    route: Route, names: dict[str, list[Any]], share: float
) -> list[tuple[int, tuple[str, Json, Any]]]:
    """Return the requests of this run with their numbers: the first of each own address, and a
    sample of the others."""
    every = list(enumerate(requests_of(route, names)))
    if len(every) <= FEW:
        return every
    if "{" not in route.path:
        every, rest = every[:FEW], every[FEW:]
        return [*every, *sample(rest, share=share, name=lambda row: str(row[0]))]
    chosen = {number for number, _given in sample(every, share=share, name=lambda row: str(row[0]))}
    seen = set()
    for number, (path, _query, _body) in every:
        if "ann-" in path and path not in seen:
            seen.add(path)
            chosen.add(number)
    return [row for row in every if row[0] in chosen]


def _order(route: Route) -> tuple[int, bool]:
    """What only looks comes first, what takes a session away last."""
    takes_away = route.path.endswith(("/erase", "/{session}"))
    return ("GET", "PUT", "PATCH", "POST", "DELETE").index(route.method), takes_away


def normal(text: str) -> str:
    """Return an answer without what differs by chance: times, ids, numbers of messages."""
    text = re.sub(r'"(id|message|nextBefore)":\d+', r'"\1":N', without_chance(text))
    text = re.sub(r'"(holder|key|nextCursor|cursor)":"[^"]*"', r'"\1":"X"', text)
    text = re.sub(
        r'"(due|next|since|changed|created|removed|ts|idle\w*)":[\d.e+-]+', r'"\1":0', text
    )
    text = re.sub(r'(["`])[0-9a-f]{8}\1', "MADE UP", text)
    text = re.sub(r'"state":"(waiting|running)"', '"state":"open"', text)  # a worker may be faster
    text = re.sub(r"\.trash/\d+T\d+-(\d+-)?", ".trash/", text)
    # The ids of records are part of a request: another one has another digest, and another size.
    text = re.sub(r'"prepared":"[0-9a-f]*"', '"prepared":"X"', text)
    text = re.sub(r'"tokens":\d+,"tokensBefore":\d+', '"tokens":0', text)
    text = re.sub(r'"bytes":\d+', '"bytes":0', text)  # a time has more digits, or fewer
    return re.sub(r"(\bmessage |main\.ann-plan\.)\d+(-\d+)?", r"\1N", text)


async def settle(store: SessionStore) -> None:
    """Wait until every message is answered."""
    while True:
        counts = store.queues.counts("inbox", owner=ANY_OWNER)
        if not (counts.get("waiting") or counts.get("running")):
            return
        await asyncio.sleep(0.005)


async def load(client: httpx2.AsyncClient) -> None:
    """Wait until the server has loaded: how long that takes is chance."""
    while "loading" in (await client.get("/readyz")).text:
        await asyncio.sleep(0.005)


async def walk(
    store: SessionStore, token: str, names: dict[str, list[Any]], routes: tuple[Route, ...] = ROUTES
) -> Answers:
    """Ask every route for everything, and return the answers."""
    answers: Answers = {}
    tokens = (ANN_SETTINGS, READ_SETTINGS, BOB_SETTINGS)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    many = {"requests_burst": 1_000_000}
    share = SHARE if token in (ANN_TOKEN, READ_TOKEN) else REFUSED_SHARE
    async with serving(store, *tokens, server=_settings(many)) as client:
        await load(client)
        await settle(store)
        for route in sorted(routes, key=_order):
            if route.is_stream and "{" not in route.path:
                continue  # it has no end: see the feeds below
            for number, (path, query, body) in sample_requests(route, names, share):
                more = {"json": body} if body is not None else {}
                given = {**headers, "Idempotency-Key": f"{number}"}
                found = await client.request(
                    route.method, path, params=query, headers=given, **more
                )
                if route.method != "GET":
                    await settle(store)
                said = f"{route.method} {route.path} | {number}"
                answers[said] = f"{found.status_code} {normal(found.text)}"
    return answers


def _settings(given: Json) -> Any:
    from holdfast.surfaces.serve_settings import HttpSettings

    return msgspec.convert(given, HttpSettings)


async def walk_both(
    token: str, routes: tuple[Route, ...] = ROUTES
) -> tuple[Answers, dict[str, tuple[str, str]]]:
    """Return the answers where the other owner is, and those that would be others without."""
    with closing(stock(has_other=True)) as store, closing(stock(has_other=False)) as empty:
        names = names_of(store, store), names_of(empty, store)
        found = await walk(store, token, names[0], routes)
        return found, differences(found, await walk(empty, token, names[1], routes))


@pytest.mark.parametrize("who", TOKENS)
def test_no_answer_depends_on_another_owner(who: str) -> None:
    """Neither a word of the other owner is shown, nor that something of theirs exists."""
    found, leaked = asyncio.run(walk_both(TOKENS[who]))
    assert leaked == {}
    statuses = {text[:3] for text in found.values()}
    assert not any(status.startswith("5") for status in statuses)
    if who.startswith("ann"):
        assert any("panda" in text for text in found.values())
    done = {said.partition(" | ")[0] for said, text in found.items() if text[0] == "2"}
    names = {f"{route.method} {route.path}" for route in ROUTES}
    open_ones = {f"{route.method} {route.path}" for route in ROUTES if route.is_open}
    feeds = {f"GET {route.path}" for route in ROUTES if "{" not in route.path and route.is_stream}
    operators = {f"{route.method} {route.path}" for route in ROUTES if route.is_for_operator}
    if who == "ann":  # each route works for an owner, so that the walk sees its answers
        late = {f"POST /v1/inbox/{{message}}/{act}" for act in ("drop", "retry")}
        late |= {
            f"POST /v1/sessions/{{agent}}/{{session}}/approvals/{{key}}/{act}"
            for act in ("approve", "deny")
        }
        late |= {"POST /v1/sessions/{agent}/{session}/loop/results"}
        assert names - feeds - operators - done <= late  # answered by then; nothing waits
    elif who != "ann reads":
        assert done == open_ones
        assert statuses == {"200", "401"}
    else:
        assert not any(said[:3] != "GET" for said in done)


def test_a_taken_id_tells_no_more_than_that() -> None:
    """An id is one session of the whole store. An id of another owner is refused like one's own."""

    async def scenario() -> None:
        headers = {"Authorization": f"Bearer {ANN_TOKEN}"}
        with closing(stock(has_other=True)) as store:
            async with serving(store, ANN_SETTINGS) as client:
                for path, of in [("/v1/sessions", "id"), ("/v1/sessions/main/ann-work/fork", "id")]:
                    answers = [
                        await client.post(path, json={of: name}, headers=headers)
                        for name in ("bob-plan", "ann-plan")
                    ]
                    texts = [answer.text.replace("bob-plan", "ann-plan") for answer in answers]
                    assert texts[0] == texts[1]
                    assert {answer.status_code for answer in answers} == {409}
                path, body = "/v1/sessions/main/{}", {"label": "x"}
                put = await client.put(path.format("bob-work"), json=body, headers=headers)
                assert put.status_code == 409
                assert THEIRS not in put.text
                assert store.info(BOB).label == "bob at work"

    asyncio.run(scenario())


async def follow(
    app: Any, path: str, token: str, until: asyncio.Event, parts: list[bytes]
) -> tuple[int, str]:
    """Read a stream until something happened, as a client that then goes away."""
    status, asked = 0, False

    async def receive() -> Any:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await until.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [
            (b"host", BASE.removeprefix("http://").encode()),
            (b"authorization", f"Bearer {token}".encode()),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8484),
    }
    with suppress(asyncio.CancelledError):
        await app(scope, receive, send)
    return status, b"".join(parts).decode()


async def feeds_of_ann() -> dict[str, tuple[int, str]]:
    """Follow every stream with Ann's token while both owners send a message."""
    streams = [route.path for route in ROUTES if route.is_stream]
    paths = {
        path.format(agent="main", session=session)
        for path in streams
        for session in ("ann-work", "bob-work", "no-such")
    }
    with closing(stock(has_other=True)) as store:
        async with serving(store, ANN_SETTINGS, BOB_SETTINGS) as client:
            app, until = client._transport.app, asyncio.Event()  # type: ignore[attr-defined]
            await settle(store)
            parts: dict[str, list[bytes]] = {path: [] for path in paths}
            tasks = {
                path: asyncio.create_task(follow(app, path, ANN_TOKEN, until, parts[path]))
                for path in paths
            }
            while not all(map(any, parts.values())):  # every stream is open, or refused
                await asyncio.sleep(0.005)
            for name, token, word in [("bob", BOB_TOKEN, THEIRS), ("ann", ANN_TOKEN, "panda")]:
                sent = await client.post(
                    f"/v1/sessions/main/{name}-work/messages?wait=30",
                    json={"content": f"dear {word}"},
                    headers={"Authorization": f"Bearer {token}"},
                )
                assert sent.json()["state"] == "answered", sent.text
            own = [parts["/v1/events"], parts["/v1/sessions/main/ann-work/events"]]
            while not all(b'"state":"answered"' in b"".join(feed) for feed in own):
                await asyncio.sleep(0.005)
            until.set()
            return {path: await task for path, task in tasks.items()}


def test_feeds_show_the_own_messages_alone() -> None:
    """Every stream, found in the table, while both owners are answered."""
    feeds = asyncio.run(feeds_of_ann())
    assert feeds["/v1/sessions/main/ann-work/events"][1].count("dear panda") >= 1
    assert '"state":"answered"' in feeds["/v1/events"][1]
    for status, text in feeds.values():
        assert THEIRS not in text
        assert "bob" not in text
        assert status in (200, 404)
    hidden, absent = (feeds[f"/v1/sessions/main/{name}/events"] for name in ("bob-work", "no-such"))
    assert hidden == absent


def _any_session(
    _workspace: CallerWorkspace, session: str, *, to_change: bool = False
) -> tuple[SessionKey, str]:
    agent, _, name = session.partition("/")
    return SessionKey(agent, name), "Allowed: everybody."


BREAKS: dict[str, tuple[Any, str, Any]] = {
    "sessions are opened for everybody": (CallerWorkspace, "resolve", _any_session),
    "lists ignore the owner": (CallerWorkspace, "owner", ANY_OWNER),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_the_walk_notices_a_leak(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the code broken in one place, an answer depends on the other owner."""
    monkeypatch.setattr(*BREAKS[broken])
    routes = tuple(route for route in ROUTES if route.method == "GET")
    assert asyncio.run(walk_both(ANN_TOKEN, routes))[1] != {}


def test_the_feeds_notice_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CallerWorkspace, "owner", ANY_OWNER)
    assert "bob" in asyncio.run(feeds_of_ann())["/v1/events"][1]


def test_every_access_is_in_the_audit_log() -> None:
    """Each route of the API that shows or changes something of a store, and each page, leaves a
    line with the owner who asked, also where the answer is that there is no such thing."""
    silent: set[tuple[str, str, int]] = set()
    asked: set[str] = set()

    async def scenario() -> None:
        with closing(stock(has_other=True)) as store:
            names = names_of(store, store)
            pages = console_pages(build_server(ServeSettings(), store, "offline"))
            settings = _settings({"requests_burst": 1_000_000})
            async with serving(store, ANN_SETTINGS, server=settings) as client:
                await settle(store)
                for route in sorted((*ROUTES, *pages), key=_order):
                    if route.is_open or (route.is_stream and "{" not in route.path):
                        continue
                    for number, (path, query, body) in sample_requests(
                        replace(route, problem_page=None), names, SHARE
                    )[:4]:
                        sent = {"data" if route.is_page else "json": body} if body else {}
                        before = len(store.audit.entries().accesses)
                        answer = await client.request(
                            route.method,
                            path,
                            params=query,
                            headers={
                                "Authorization": f"Bearer {ANN_TOKEN}",
                                "Idempotency-Key": f"{number}",
                            },
                            **sent,
                        )
                        status = answer.status_code
                        lines = store.audit.entries().accesses[before:]
                        asked.add(route.path)
                        if not lines and status < 400:
                            silent.add((route.method, route.path, status))
                        assert not lines or "ann" in {line.owner for line in lines}, path
                        await settle(store)

    asyncio.run(scenario())
    assert len(asked) > 40
    assert silent == set()
