"""The pages as a browser gets them: whole, escaped, small, within one owner, equal to the API."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from contextlib import contextmanager
from html import unescape
from html.parser import HTMLParser
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from tests.shared_data import need_data
from tests.support.cli import run_in_process
from tests.support.runs import is_whole
from tests.surfaces.console.stores import HOSTILE, USAGE, fill, fill_long
from tests.surfaces.http.servers import BASE, serving, token_for

from holdfast.core.adoption import ORIGIN
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    InjectedContext,
    ModelChange,
    Rewind,
    Undo,
    User,
    text_of,
)
from holdfast.core.owners import ANY_OWNER, NO_OWNER, NamedOwner
from holdfast.engine.operations.links import LINK_PATH
from holdfast.engine.operations.memory import version_of
from holdfast.engine.workspace.facts import last_call
from holdfast.engine.workspace.request_preview import RequestTerms, read_request
from holdfast.importers import detect_format
from holdfast.importers import read_transcript as read_transcript
from holdfast.ports import ANY_HEAD, NewMessage
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.opening import open_store
from holdfast.surfaces.cli.serve.serve import build_server
from holdfast.surfaces.console.charts import categories, draw_window
from holdfast.surfaces.console.console import console_pages
from holdfast.surfaces.console.session_pages import reports
from holdfast.surfaces.serve_settings import AgentSettings, HttpSettings, ServeSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    import httpx2

    from holdfast.core.log.records import Record
    from holdfast.ports import QueuedMessage, SessionStore
    from holdfast.surfaces.http.route import Route

PAGE_BYTES = 200_000
FORM = {"content-type": "application/x-www-form-urlencoded"}


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scenario())  # type: ignore[arg-type]


@pytest.fixture
def store() -> Iterator[SessionStore]:
    with MemoryStore() as opened:
        yield opened


def pages(store: SessionStore) -> tuple[Route, ...]:
    """Every route of the console, as the server has them."""
    return console_pages(build_server(ServeSettings(), store, "offline"))


def addresses(store: SessionStore, key: SessionKey) -> list[str]:
    """The address of every page that can be read, with the names of a session filled in; the page
    of one call that waits, and that of a link, need theirs."""
    names = {
        "agent": key.agent,
        "session": key.session,
        "record": "assistant0",
        "ref": "0" * 16,
        "message": "1",
    }
    return [
        route.path.format(**names)
        for route in pages(store)
        if route.method == "GET" and route.path not in ("/waiting/{key}", LINK_PATH)
    ]


class Reader(HTMLParser):
    """Collects what a strict policy forbids, and what is not closed."""

    VOID = ("meta", "link", "input", "br", "hr", "col")

    def __init__(self) -> None:
        super().__init__()
        self.forbidden: list[str] = []
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "style" or (tag == "script" and not given.get("src", "").startswith("/static/")):  # type: ignore[union-attr]
            self.forbidden.append(tag)
        self.forbidden += [name for name in given if name == "style" or name.startswith("on")]
        if tag == "img":
            self.forbidden.append(tag)
        if "id" in given:
            self.ids.append(str(given["id"]))
        if tag == "a":
            self.links.append(str(given.get("href")))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag


def read(text: str, *, of: str) -> Reader:
    """Parse a page, and check it."""
    reader = Reader()
    reader.feed(text)
    assert reader.open == [], (of, reader.open)
    assert reader.forbidden == [], (of, reader.forbidden)
    assert len(set(reader.ids)) == len(reader.ids), (of, reader.ids)
    for link in reader.links:
        assert link.startswith(("/", "#")), (of, link)
        assert not link.startswith("//"), (of, link)
    return reader


def is_html(answer: httpx2.Response) -> bool:
    return answer.headers["content-type"].startswith("text/html")


def test_every_page_on_an_empty_store(store: SessionStore) -> None:
    """Pages without a session are whole; pages of a session that is not there say so as a page."""

    async def scenario() -> None:
        async with serving(store) as client:
            for address in addresses(store, SessionKey("main", "none")):
                answer = await client.get(address)
                wanted = 404 if address.startswith("/s/") else 200
                assert answer.status_code == wanted, (address, answer.text)
                if is_html(answer):
                    read(answer.text, of=address)
            assert "Three ways to begin" in (await client.get("/")).text

    run(scenario)


def test_hostile_words_stay_words(store: SessionStore) -> None:
    """In every kind of record, label, model, tool, note and reason: nothing becomes an element."""
    key = fill(store, "", HOSTILE)

    async def scenario() -> None:
        async with serving(store) as client:
            seen = 0
            for address in [
                *addresses(store, key),
                f"/sessions?q={'script'}",
                "/sessions?sort=cost",
                "/memory?q=remember",
                f"/s/main/{key.session}/compaction?record=prune0",
                f"/s/main/{key.session}/tail?after=model0",
                f"/s/main/{key.session}/context/what-if?window=20000&model=%3Cb%3E&idle=900",
                f"/s/main/{key.session}/evaluate?policy=last&window=32000",
                *(
                    f"/s/main/{key.session}/records/{record}0"
                    for record in ("user", "cut", "flush")
                ),
            ]:
                answer = await client.get(address)
                if "/outputs/" in address:
                    assert answer.status_code == 404
                    continue
                assert answer.status_code == 200, (address, answer.text[-600:])
                assert len(answer.content) <= PAGE_BYTES, address
                if is_html(answer):
                    read(answer.text, of=address)
                    assert "<script>alert" not in answer.text
                    seen += "&lt;script&gt;" in answer.text
                policy = answer.headers["content-security-policy"]
                assert "unsafe" not in policy
            assert seen >= 8

    run(scenario)


def test_reader_sees_what_is_forbidden() -> None:
    """The check of the pages finds each thing that it is for."""
    for text in (
        "<script>x</script>",
        "<p style='x'></p>",
        "<p onclick='x'></p>",
        "<style></style>",
        "<a href='https://evil.example'></a>",
        "<p>",
        "<p id='a'></p><p id='a'></p>",
    ):
        with pytest.raises(AssertionError):
            read(text, of=text)


def test_two_owners_never_meet(store: SessionStore) -> None:
    """Every page, form and fragment, found in the route table: no word of one in another's."""
    ann, ann_settings = token_for("ann")
    bob, bob_settings = token_for("bob")
    fill(store, "ann", "annsecretword", "anns")
    fill(store, "bob", "bobsecretword", "bobs")
    bobs = SessionKey("main", "bobs")
    messages = store.queues.messages("inbox", owner=NamedOwner("bob"), limit=10)
    head = store.head(bobs)
    notes = store.notes("main", NamedOwner("bob"))
    (file,) = notes.files()
    written = notes.data(file.path)
    fields = {
        "content": "x",
        "idempotencyKey": "k",
        "record": "cut0",
        "reason": "x",
        "text": "x",
        "token": "x",
        "to": "user0",
        "focus": "x",
        "path": file.path,
        "before": written.decode(),
        "version": version_of(written),
    }

    async def scenario() -> None:
        async with serving(store, ann_settings, bob_settings) as client:
            names = {
                "agent": "main",
                "session": "bobs",
                "record": "assistant0",
                "ref": "0" * 16,
                "message": str(messages[0].id),
                "key": "0-0-0",
                "name": "none",
            }
            cookie = {"cookie": f"holdfast_token={ann}"}
            seen = 0
            for route in pages(store):
                answer = await client.request(
                    route.method,
                    route.path.format(**names),
                    headers={**cookie, **FORM, "origin": BASE},
                    content=urlencode(fields) if route.method == "POST" else None,
                )
                assert "bobs" not in answer.text.replace("/s/main/bobs", ""), route.path
                assert "bobsecretword" not in answer.text, route.path
                assert answer.status_code < 500, route.path
                if "{" in route.path:
                    refusals = (400, 403, 404)
                    assert answer.status_code in refusals, (route.path, answer.status_code)
                seen += "annsecretword" in answer.text
            for address in (
                "/sessions?owner=bob",
                "/sessions?q=bobsecretword",
                "/memory?q=bobsecretword",
            ):
                answer = await client.get(address, headers=cookie)
                assert answer.text.count("bobsecretword") == address.count("bobsecretword")
            assert seen >= 2
            mine = await client.get("/s/main/bobs", headers={"cookie": f"holdfast_token={bob}"})
            assert "bobsecretword" in mine.text

    run(scenario)
    assert store.head(bobs) == head
    assert notes.data(file.path) == written
    assert store.queues.messages("inbox", owner=NamedOwner("bob"), limit=10) == messages


def test_no_page_shows_a_secret(store: SessionStore) -> None:
    """A registered value stands in every kind of record, and on no page."""
    value = "correct-horse-battery-77"
    key = fill(store, "", value)

    async def scenario() -> None:
        async with serving(store, secrets={"PASSWORD": value}) as client:
            base = f"/s/main/{key.session}"
            names = [record.id for record in store.read(key) if record.kind != "session"]
            shown = []
            for address in [
                *addresses(store, key),
                "/memory?q=remember",
                f"{base}/compaction?record=prune0",
                f"{base}/tail?after=model0",
                f"{base}/context/what-if?window=20000",
                f"{base}/evaluate?policy=last&window=32000",
                *(f"{base}/records/{name}" for name in names),
            ]:
                answer = await client.get(address)
                shown += [address] if value in answer.text else []
            assert shown == []

    run(scenario)


@pytest.mark.files_only("the command reads a folder")
def test_numbers_equal_the_command(tmp_path: Path) -> None:
    """`holdfast context --json`, as the page shows it, prints the numbers of the page."""
    with open_store(str(tmp_path)) as files:
        key = fill_long(files, 3_000 if is_whole() else 600)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "holdfast", "--root", str(tmp_path), "context"),
                *(key.session, "--agent", key.agent, "--window", "200000", "--json"),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        printed = json.loads(done.stdout)

        async def scenario() -> None:
            async with serving(files) as client:
                text = (
                    await client.get(f"/s/main/{key.session}/context/what-if?window=200000")
                ).text
                cells = re.search(r'<tr id="compare-total">(.*?)</tr>', text)
                assert cells is not None
                assert str(printed["tokens"]["total"]) in _numbers(cells[1])
                await compare_with_plan(client, files, key)
                text = (await client.get(f"/s/main/{key.session}/context")).text
                assert str(printed["tokens"]["total"]) in _numbers(text)

        run(scenario)


@pytest.mark.files_only("the commands read a folder")
def test_reports_equal_the_commands(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`holdfast inspect --json` and `holdfast evaluate --json` print the numbers of the pages; a
    session that is too long for a page gets the command instead."""
    root = tmp_path / "store"
    with open_store(str(root)) as files:
        key = SessionKey("main", "long")
        files.create(key)
        place = "src/heron/water_level_4711.py"
        rule = User(id="rule", content=f"Never change {place}: its checksum is 8841-2213-9907.")
        files.append(key, [rule, Assistant(id="ok", content="Noted.")], expect=ANY_HEAD)
        for number in range(60):
            turn: list[Record] = [
                User(content=f"question {number}"),
                Assistant(content=f"answer {number}"),
            ]
            files.append(key, turn, expect=ANY_HEAD)
        late = Assistant(content=f"I keep {place} as it is: 8841-2213-9907.")
        files.append(key, [User(content="what else?"), late], expect=ANY_HEAD)
        origin = {"file": "old.jsonl", "format": "claude_code"}
        adopted = User(id="adopted", content="hello", extra={ORIGIN: origin})
        files.append(key, [adopted], expect=ANY_HEAD)
        terms = ["--policy", "last", "--window", "64000"]
        inspected, evaluated = (
            json.loads(run_in_process([*each, "--root", str(root), "--json"], capfd).out)
            for each in (["inspect", str(key)], ["evaluate", str(key), *terms])
        )
        base = f"/s/{key.agent}/{key.session}"

        async def scenario() -> None:
            async with serving(files) as client:
                text = (await client.get(f"{base}/inspect")).text
                for name, wanted in (
                    ("all-tokens", inspected["tokens"]),
                    ("doubled", inspected["doubled_tokens"]),
                ):
                    found = re.search(rf'id="{name}">([^<]*)<', text)
                    assert found is not None
                    assert _numbers(found[1]) == {str(wanted)}
                for item in (*inspected["kinds"], *inspected["biggest"]):
                    assert not item["tokens"] or str(item["tokens"]) in _numbers(text), item
                assert "old.jsonl" in text
                assert "nothing was added here" in text
                text = (await client.get(f"{base}/evaluate?policy=last&window=64000")).text
                assert "needed" in evaluated, evaluated
                for kind, wanted in evaluated["needed"].items():
                    cells = re.search(rf'<tr id="need-{kind}">(.*?)</tr>', text)
                    assert cells is not None
                    shown = _numbers(cells[1])
                    assert shown == {str(wanted), str(evaluated["lost"][kind])}, kind
                losses = sum(evaluated["lost"].values())
                assert losses
                assert f'id="losses">{losses}<' in text
                assert "Losses" not in (await client.get(f"{base}/evaluate")).text
                small = (await client.get(f"{base}/evaluate?policy=last&window=1000")).text
                assert "18,000" in small, "it says why a window is too small"
                monkeypatch.setattr(reports, "_RECORDS_MAX", 100)
                for path in ("inspect", "evaluate?policy=last"):
                    text = (await client.get(f"{base}/{path}")).text
                    assert f"holdfast {path.partition('?')[0]} {key}" in text
                    assert "takes longer" in text

        run(scenario)


def test_login_by_form(store: SessionStore) -> None:
    """Without a token pages lead to the form; the cookie opens them, and no other page uses it."""
    token, settings = token_for("ann", "write")

    async def scenario() -> None:
        async with serving(store, settings) as client:
            away = await client.get("/inbox?state=failed")
            assert away.status_code == 303
            assert away.headers["location"] == "/login?next=%2Finbox%3Fstate%3Dfailed"
            assert (await client.get("/static/console.css")).status_code == 200
            wrong = await client.post(
                "/login", content="token=guess", headers={**FORM, "origin": BASE}
            )
            assert wrong.status_code == 403
            assert "set-cookie" not in wrong.headers
            for address, lands in (("/inbox", "/inbox"), ("//evil.example", "/"), ("x", "/")):
                right = await client.post(
                    "/login",
                    content=f"token={token}&next={address}",
                    headers={**FORM, "origin": BASE},
                )
                assert (right.status_code, right.headers["location"]) == (303, lands)
            cookie = right.headers["set-cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Lax" in cookie
            assert "Secure" not in cookie
            kept = {"cookie": cookie.partition(";")[0]}
            client.cookies.clear()
            assert (await client.get("/", headers=kept)).status_code == 200
            assert (await client.get("/v1/sessions", headers=kept)).status_code == 200
            assert (await client.get("/metrics", headers=kept)).status_code == 403
            for origin in ("http://127.0.0.1:3000", "https://evil.example", "null"):
                made = await client.post(
                    "/new", content="label=x", headers={**kept, **FORM, "origin": origin}
                )
                assert made.status_code == 403, origin
            made = await client.post(
                "/new", content="label=x", headers={**kept, **FORM, "origin": BASE}
            )
            assert made.status_code == 303
            assert (await client.get(made.headers["location"], headers=kept)).status_code == 200

    run(scenario)
    assert len(store.sessions(owner=ANY_OWNER)) == 1


def test_a_cookie_over_https_is_secure(store: SessionStore) -> None:
    """Behind a proxy that speaks TLS, the cookie never travels in the clear."""
    token, settings = token_for("ann")

    async def scenario() -> None:
        async with serving(store, settings, server=HttpSettings(hosts=("c.example",))) as client:
            answer = await client.post(
                "/login",
                content=f"token={token}",
                headers={**FORM, "origin": "https://c.example", "host": "c.example"},
            )
            assert "; Secure" in answer.headers["set-cookie"]

    run(scenario)


def test_send_answer_and_retry(store: SessionStore) -> None:
    """A form sends once however often it is sent; the answer is on the page, and in the tail."""

    async def scenario() -> None:
        async with serving(store) as client:
            post = {**FORM, "origin": BASE}
            made = await client.post("/new", content="label=hello", headers=post)
            here = made.headers["location"]
            before = (await client.get(here)).text
            assert "Nothing was said yet" in before
            last = re.search(r'data-last="([^"]+)"', before)
            assert last is not None
            for _again in range(2):
                sent = await client.post(
                    f"{here}/send", content="content=hi+there&idempotencyKey=once", headers=post
                )
                assert sent.status_code == 303, sent.text
            for _look in range(600):
                text = (await client.get(here)).text
                if "offline model" in text:
                    break
                await asyncio.sleep(0.05)
            assert text.count("hi there") >= 1
            assert text.count('class="record user"') == 1
            tail = (await client.get(f"{here}/tail?after={last[1]}")).text
            assert tail.count('class="record user"') == 1
            again = re.search(r'data-last="([^"]+)"', tail)
            assert again is not None
            rest = await client.get(f"{here}/tail?after={again[1]}")
            assert 'class="record' not in rest.text
            assert (await client.post(f"{here}/cancel", headers=post)).status_code == 303
            inbox = (await client.get("/inbox")).text
            assert "answered" in inbox

    run(scenario)


def test_inbox_retries_and_drops(store: SessionStore) -> None:
    """The buttons of the inbox do what the API does."""
    fill(store, "", "words")
    message = store.queues.messages("inbox", limit=1, owner=ANY_OWNER)[0]

    async def scenario() -> None:
        async with serving(store) as client:
            post = {**FORM, "origin": BASE}
            page = (await client.get("/inbox")).text
            assert f'action="/inbox/{message.id}/retry"' in page
            answer = await client.post(f"/inbox/{message.id}/retry", headers=post)
            assert answer.status_code == 303
            answer = await client.post(
                f"/inbox/{message.id}/drop", content="reason=enough", headers=post
            )
            assert answer.status_code in (303, 409)  # the gateway may have answered it meanwhile

    run(scenario)


def test_undo_takes_a_compaction_back(store: SessionStore) -> None:
    """The page of a compaction can undo it."""
    key = fill(store, "", "words")

    async def scenario() -> None:
        async with serving(store) as client:
            here = f"/s/main/{key.session}/compaction"
            assert 'name="record" value="cut0"' in (await client.get(here)).text
            answer = await client.post(
                f"{here}/undo", content="record=cut0", headers={**FORM, "origin": BASE}
            )
            assert answer.status_code == 303, answer.text

    run(scenario)
    assert any(record.kind == "undo" and record.target == "cut0" for record in store.read(key))  # type: ignore[union-attr]


class Counter:
    """Counts the records that a store hands out."""

    def __init__(self) -> None:
        self.records = 0


@contextmanager
def counted(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter]:
    """Count records that are read through the store."""
    counter = Counter()
    back, last, live = store.back, store.last, store.live

    def count_back(*args: Any, **options: Any) -> Any:
        for record in back(*args, **options):
            counter.records += 1
            yield record

    def count_last(*args: Any, **options: Any) -> Any:
        found = last(*args, **options)
        counter.records += len(found)
        return found

    def count_live(*args: Any, **options: Any) -> Any:
        found = live(*args, **options)
        counter.records += len(found.records)
        return found

    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError("a page reads a whole log")

    with monkeypatch.context() as patched:
        patched.setattr(store, "back", count_back)
        patched.setattr(store, "last", count_last)
        patched.setattr(store, "live", count_live)
        patched.setattr(store, "read_all", refuse)
        yield counter


@pytest.mark.sampled(1 / 2, "agents")
@pytest.mark.parametrize("agents", [{}, {"main": AgentSettings(window=60_000, system="Be brief.")}])
def test_a_long_session_costs_what_is_shown(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch, agents: dict[str, AgentSettings]
) -> None:
    """Every page of a long session is small, and reads as many records as a quarter of it. That
    holds for an agent with settings, too."""
    size = 100_000 if is_whole() else 10_000
    short, long = fill_long(store, size // 4, "short"), fill_long(store, size)
    found: dict[str, list[int]] = {}

    async def scenario() -> None:
        async with serving(store, agents=agents) as client:
            with counted(store, monkeypatch) as counter:
                for key, record in ((short, "v0000003"), (long, "v0000003")):
                    for address in addresses(store, key):
                        if not address.startswith("/s/") or "/outputs/" in address:
                            continue
                        counter.records = 0
                        answer = await client.get(address.replace("assistant0", record))
                        assert answer.status_code == 200, (address, answer.text[-500:])
                        assert len(answer.content) <= PAGE_BYTES, (address, len(answer.content))
                        name = address.replace(f"/{key.session}", "/x")
                        found.setdefault(name, []).append(counter.records)

    run(scenario)
    assert len(found) >= 8
    for name, (few, many) in found.items():
        # Two calls are compared by what the model saw in them: at most 2,001 records each here.
        limit = 5_000 if name.endswith("/changes") else few + 100
        assert many <= limit, (name, few, many)


def test_every_page_of_a_session_that_learned_a_small_window(store: SessionStore) -> None:
    """A window below the floor, as a local model or an old log may have: every page is shown."""
    key = fill(store, "", "a few words", "small")
    window = ModelChange(model=last_call(store, key).model or "offline", window=6_000)
    store.append(key, [window], expect=ANY_HEAD)
    wrong: list[tuple[str, int]] = []

    async def scenario() -> None:
        async with serving(store) as client:
            for address in addresses(store, key):
                status = (await client.get(address)).status_code
                if status != 200 and "/outputs/" not in address:
                    wrong.append((address, status))

    run(scenario)
    assert last_call(store, key).context_window.tokens == 6_000
    assert wrong == []


def test_earlier_records_are_reached_by_links(store: SessionStore) -> None:
    """Following the links from the end, every record is on one page."""
    key = fill_long(store, 200)

    async def scenario() -> None:
        async with serving(store) as client:
            address = f"/s/main/{key.session}"
            seen: list[str] = []
            while address:
                text = (await client.get(address)).text
                seen = re.findall(r'id="r-(\w+)"', text) + seen
                link = re.search(r'href="([^"]+before=[^"]+)" rel="prev"', text)
                address = link[1].replace("&amp;", "&") if link else ""
            wanted = [record.id for record in store.read(key) if record.kind != "session"]
            assert seen == wanted

    run(scenario)


def _numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+", text.replace(",", "")))


async def compare_with_plan(client: httpx2.AsyncClient, store: SessionStore, key: Any) -> None:
    """The numbers of the pages are those of the plan that the API and the command print."""
    window = last_call(store, key).window
    found = read_request(store, key, RequestTerms(window=window))
    plan = found.plan
    base = f"/s/{key.agent}/{key.session}"
    api = (await client.get(f"/v1/sessions/{key.agent}/{key.session}/context")).json()
    assert api["tokens"]["total"] == plan.tokens.total
    assert len(api["ledger"]) == len(found.ledger)
    assert api["unlisted"] == found.unlisted
    page = (await client.get(f"{base}/context")).text
    numbers = _numbers(page)
    half_percent = plan.window.tokens / 200
    runs = draw_window(key, plan, str).runs
    drawn = [(run.kind, place) for run in runs for place in run.cells]
    assert [place for _kind, place in drawn] == [(at % 40, at // 40) for at in range(200)]
    for kind, label, size in categories(plan):
        assert str(size) in numbers, label
        in_cells = half_percent * sum(each == kind for each, _place in drawn)
        assert abs(in_cells - size) <= half_percent, label
    assert str(api["tokens"]["total"]) in numbers
    parts = {kind: size for kind, _label, size in categories(plan)}
    used = sum(size for kind, size in parts.items() if kind not in ("reply", "reserve"))
    assert used == api["tokens"]["total"]
    rows: list[tuple[str, ...]] = []
    start = 0
    while start < len(api["ledger"]):
        text = (await client.get(f"{base}/context/fate?start={start}")).text
        body = text.partition("<tbody>")[2].partition("</tbody>")[0]
        rows += [
            tuple(re.sub(r"<[^>]+>", "", cell).replace(",", "") for cell in cells)
            for line in body.split("</tr>")[:-1]
            if (cells := re.findall(r"<td[^>]*>(.*?)</td>", line, re.DOTALL))
        ]
        start += 100
    assert len(rows) == len(api["ledger"])
    for shown, line in zip(rows, api["ledger"], strict=True):
        wanted = (line["action"], str(line.get("before") or ""), str(line.get("after") or ""))
        assert shown[1:4] == wanted


def test_numbers_equal_the_plan(store: SessionStore) -> None:
    """Every number of the context pages is the one of the API."""
    small, long = fill(store, "", "some words " * 50), fill_long(store, 500)

    async def scenario() -> None:
        async with serving(store) as client:
            for key in (small, long):
                await compare_with_plan(client, store, key)

    run(scenario)


def test_numbers_of_real_sessions(store: SessionStore) -> None:
    """The same for sessions of real agents."""
    wanted = 50 if is_whole() else 3
    keys = list(islice(import_real(store), wanted))
    assert len(keys) == wanted

    async def scenario() -> None:
        async with serving(store) as client:
            for key in keys:
                await compare_with_plan(client, store, key)

    run(scenario)


def import_real(store: SessionStore) -> Iterator[SessionKey]:
    """Import transcripts of agents, the smaller ones in an ordinary run."""
    folder = need_data()
    lines = (folder / "MANIFEST.jsonl").read_text("utf-8").splitlines()
    entries = [entry for line in lines if "agents/" in (entry := json.loads(line))["file"]]
    most = 4_000_000 if is_whole() else 300_000
    for number, entry in enumerate(entries):
        if entry.get("raw_bytes", entry["bytes"]) > most or not entry.get("messages"):
            continue
        data = (folder / entry["file"]).read_bytes()
        found = read_transcript(data, entry["file"]) if detect_format(data, entry["file"]) else []
        if found and found[0].records:
            key = SessionKey("main", f"real-{number}")
            store.create(key)
            store.append(key, found[0].records, expect=ANY_HEAD)
            yield key


def test_forms_that_make_no_sense(store: SessionStore) -> None:
    """A wrong value is answered by a page that says so, never by a mistake of ours."""
    key = fill(store, "", "words")
    here = f"/s/main/{key.session}"

    async def scenario() -> None:
        async with serving(store) as client:
            for address, status in (
                (f"{here}/context/what-if?window=x", 400),
                (f"{here}/context/what-if?compact=0.1", 400),
                (f"{here}/context/what-if?window=5", 200),
                (f"{here}/context/request?dialect=none", 400),
                (f"{here}?before=nothing", 404),
                (f"{here}/compaction?record=user0", 404),
                (f"{here}/compaction?record=none", 404),
                (f"{here}/records/none", 404),
                (f"{here}/tail?after=none", 404),
                ("/sessions?cursor=AAAA", 400),
                ("/sessions?colour=red", 400),
                ("/inbox?before=0", 400),
                ("/memory?citation=../../etc/passwd", 404),
            ):
                answer = await client.get(address)
                assert answer.status_code == status, (address, answer.text[-300:])
                assert is_html(answer)
                read(answer.text, of=address)
            post = {**FORM, "origin": BASE}
            for content in ("", "content=", "colour=x"):
                answer = await client.post(f"{here}/send", content=content, headers=post)
                assert answer.status_code == 400, content
            answer = await client.post(f"{here}/send", json={"content": "x", "idempotencyKey": "k"})
            assert answer.status_code == 415

    run(scenario)


def test_lists_go_on_beyond_the_newest(store: SessionStore) -> None:
    """A filter finds the oldest session, and every order shows each session once, in pages."""
    count = 130
    for number in range(count):
        key = SessionKey("main", f"s{number:03}")
        store.create(key)
        said = [User(id=f"u{number}-{place}", content="x") for place in range(number % 7 + 1)]
        store.append(key, said, expect=ANY_HEAD)
    oldest = SessionKey("main", "s000")
    put = NewMessage(
        queue="inbox", lane=str(oldest), key="k", body={"content": "x"}, session=str(oldest)
    )
    store.queues.finish(_claimed(store, put), "failed", reason="x")

    async def walk(client: httpx2.AsyncClient, address: str) -> list[str]:
        found: list[str] = []
        for _page in range(count):
            text = (await client.get(address)).text
            read(text, of=address)
            found += re.findall(r'<tr id="s-main/(\w+)"', text)
            link = re.search(r'<a href="([^"]+)" rel="next"', text)
            if link is None:
                return found
            address = unescape(link[1])
        raise AssertionError("the pages do not end")

    async def scenario() -> None:
        async with serving(store) as client:
            assert await walk(client, "/sessions?state=failed") == ["s000"]
            assert len(await walk(client, "/sessions?state=idle&limit=40")) == count
            assert sorted(await walk(client, "/sessions")) == sorted(
                await walk(client, "/sessions?sort=records")
            )
            by_records = await walk(client, "/sessions?sort=records&limit=17")
            assert len(set(by_records)) == len(by_records) == count
            sizes = [int(name[1:]) % 7 for name in by_records]
            assert sizes == sorted(sizes, reverse=True)

    run(scenario)


def _claimed(store: SessionStore, message: NewMessage) -> QueuedMessage:
    store.queues.put(message)
    (claimed,) = store.queues.claim("inbox", "test", 60)
    return claimed


def test_changes_between_two_calls(store: SessionStore) -> None:
    """A call that adds keeps the cache; after a compaction the page says where it broke."""
    key = SessionKey("main", "calls")
    store.create(key)
    records: list[Record] = [ModelChange(id="m", model="claude-sonnet-4-5", window=24_000)]
    for number in range(4):
        records.append(User(id=f"u{number}", content=f"question number {number}"))
        records.append(Assistant(id=f"a{number}", content=f"answer {number}", usage=USAGE))
    store.append(key, records, expect=ANY_HEAD)

    async def scenario() -> None:
        async with serving(store) as client:
            base = f"/s/main/{key.session}/context/changes"
            assert "no call before it" in (await client.get(f"{base}?record=a0")).text
            grown = (await client.get(f"{base}?record=a2")).text
            assert "It only grew" in grown
            assert "question number 2" in grown
            assert "question number 1" not in grown
            assert (await client.get(f"{base}?record=u1")).status_code == 404
            assert (await client.get(f"{base}?record=nothing")).status_code == 404
            cut = Compaction(id="x", summary="so far", first_kept="u3", covers=("u0", "a2"))
            store.append(key, [cut], expect=ANY_HEAD)
            changed = (await client.get(base)).text
            assert "It changed from its beginning on" in changed
            removed = changed[changed.index("Removed") : changed.index("Added")]
            assert "question number 0" in removed
            time = (await client.get(f"/s/main/{key.session}/context/time")).text
            assert "context/changes?record=a2" in time

    run(scenario)


def test_warnings_speak_of_the_page(store: SessionStore) -> None:
    """No page names an option of the command line as the reason of a number."""
    key = fill_long(store, 20)
    store.append(
        key, [ModelChange(id="m", model="claude-sonnet-4-5", window=24_000)], expect=ANY_HEAD
    )

    async def scenario() -> None:
        async with serving(store) as client:
            for rest, words in (("", "is small"), ("/what-if?window=20000", "What if")):
                text = (await client.get(f"/s/main/{key.session}/context{rest}")).text
                assert words in text
                assert "(--window)" not in text

    run(scenario)


async def post(client: httpx2.AsyncClient, address: str, **fields: str) -> httpx2.Response:
    """Send a form of the console."""
    headers = {**FORM, "origin": BASE}
    return await client.post(address, content=urlencode(fields), headers=headers)


def talk(store: SessionStore, name: str, turns: int) -> SessionKey:
    """Make a session of some turns, ten minutes from each other."""
    key = SessionKey("main", name)
    store.create(key)
    records: list[Record] = [ModelChange(id="m", model="claude-sonnet-4-5", window=24_000)]
    for number in range(turns):
        ts = 1_767_600_000.0 + 600 * number
        question = f"question {number}: use port {8_000 + number} for the heron. " * 20
        records.append(User(id=f"u{number}", ts=ts, content=question))
        records.append(
            Assistant(
                id=f"a{number}",
                ts=ts,
                content=f"answer {number}: the heron stands in the water and waits. " * 40,
                model="claude-sonnet-4-5",
                provider="anthropic",
                usage=USAGE,
            )
        )
    store.append(key, records, expect=ANY_HEAD)
    return key


def test_a_compaction_is_made_again_and_compared(store: SessionStore) -> None:
    """With a focus, in place of the one before; both can be compared line by line."""
    key = talk(store, "cuts", 12)

    async def scenario() -> None:
        async with serving(store) as client:
            here = f"/s/main/{key.session}/compaction"
            made = await post(client, f"{here}/run", focus="ports")
            assert made.status_code == 303, made.text
            (first,) = cuts(store, key)
            again = await post(client, f"{here}/run", record=first, focus="the heron")
            assert again.status_code == 303, again.text
            _first, second = cuts(store, key)
            undone = [record.target for record in store.read(key) if isinstance(record, Undo)]
            assert undone == [first]
            page = (await client.get(f"{here}?record={first}")).text
            assert f"record={second}&amp;other={first}" in page
            compared = (await client.get(f"{here}?record={second}&other={first}")).text
            read(compared, of=here)
            assert "Two compactions" in compared
            assert compared.index(first) < compared.index(second), "the older one is on the left"
            assert (await post(client, f"{here}/run", record="nothing")).status_code == 404
            small = talk(store, "small", 1)
            none = await post(client, f"/s/main/{small.session}/compaction/run")
            assert none.status_code == 409
            assert "nothing was compacted" in none.text

    run(scenario)


def cuts(store: SessionStore, key: SessionKey) -> list[str]:
    return [record.id for record in store.read(key) if isinstance(record, Compaction)]


def test_notes_are_edited_as_files(store: SessionStore) -> None:
    """A file is written if it is what the reader saw; secrets neither leave nor enter by it."""
    value = "correct-horse-battery-77"
    notes = store.notes("main", NO_OWNER)
    notes.append(["the heron likes <b>shallow</b> water"])
    notes.put("secret.md", None, f"- the password is {value}\n".encode())
    path = next(file.path for file in notes.files() if file.path != "secret.md")
    before = notes.data(path).decode()

    async def scenario() -> None:
        async with serving(store, secrets={"PASSWORD": value}) as client:
            page = (await client.get(f"/memory?citation={path}")).text
            read(page, of=path)
            assert f'name="version" value="{version_of(before.encode())}"' in page
            hidden = (await client.get("/memory?citation=secret.md")).text
            assert "textarea" not in hidden.partition("Files of notes")[0]
            after = before.replace("shallow", "deep")
            asked = {"path": path, "version": version_of(before.encode())}
            saved = await post(client, "/memory/files", **asked, text=after.replace("\n", "\r\n"))
            assert saved.status_code == 303, saved.text
            assert notes.data(path).decode() == after
            assert (await post(client, "/memory/files", **asked, text="x")).status_code == 409
            asked["version"] = version_of(after.encode())
            assert (await post(client, "/memory/files", **asked, text=value)).status_code == 400
            others = {"secret.md": 409, "../x": 400, "nothing.md": 404, "/etc/passwd": 400}
            for other, status in others.items():
                asked = {"path": other, "version": version_of(b""), "text": "x"}
                assert (await post(client, "/memory/files", **asked)).status_code == status, other
            assert notes.data(path).decode() == after
            forged = after + "- x <!-- hf: 2026-11-16T03:20:00+01:00 main/other r1 -->\n"
            asked = {"path": path, "version": version_of(after.encode()), "text": forged}
            assert (await post(client, "/memory/files", **asked)).status_code == 400
            page = (await client.get(f"/memory?citation={path}")).text
            shown = re.search(r'name="version" value="(\w+)"', page)
            assert shown is not None
            gone = {"path": path, "version": shown[1]}
            assert (await post(client, "/memory/files/delete", **gone, x="y")).status_code == 400
            late = {"path": path, "version": "0" * 64}
            assert (await post(client, "/memory/files/delete", **late)).status_code == 409
            assert (await post(client, "/memory/files/delete", **gone)).status_code == 303
            assert [file.path for file in notes.files()] == ["secret.md"]

    run(scenario)


def test_a_hit_leads_to_where_it_was_said(store: SessionStore) -> None:
    """Each passage names its speaker and its time in words, and links to its record."""
    key = talk(store, "heron", 2)
    said = next(record for record in store.read(key) if isinstance(record, User))

    async def scenario() -> None:
        async with serving(store) as client:
            asked = {"q": text_of(said.content), "scope": "sessions"}
            page = (await client.get("/memory", params=asked)).text
            hits = page.partition('class="hits"')[2]
            assert f'href="/s/{key}/records/{said.id}"' in hits
            assert "<time" in hits
            assert not re.search(r"\bts \d", hits)
            for link in re.findall(r'href="(/s/[^"]+)"', hits):
                assert (await client.get(unescape(link))).status_code == 200

    run(scenario)


def test_a_branch_is_switched_to(store: SessionStore) -> None:
    """What a rewind left is listed, and a button goes on from it."""
    key = talk(store, "tree", 3)
    store.append(key, [Rewind(id="back", to="a0")], expect=ANY_HEAD)
    store.append(key, [User(id="other", content="another way")], expect=ANY_HEAD)

    async def scenario() -> None:
        async with serving(store) as client:
            here = f"/s/main/{key.session}"
            page = (await client.get(f"{here}/branches")).text
            assert "another way" in page
            assert "question 2" in page
            assert 'value="a2"' in page
            assert "another way" in (await client.get(here)).text
            assert (await post(client, f"{here}/branches/switch", to="a2")).status_code == 303
            now = (await client.get(here)).text
            assert "question 2" in now
            assert "another way" not in now
            assert (await post(client, f"{here}/branches/switch", to="no")).status_code == 404

    run(scenario)


def test_time_has_costs_gaps_and_windows(store: SessionStore) -> None:
    """Each is a mark in the picture, words on its column, and a number in the table."""
    key = talk(store, "time", 3)
    store.append(
        key,
        [
            ModelChange(id="n", model="claude-sonnet-4-5", window=20_000),
            InjectedContext(id="c", text="the heron is grey", source="memory"),
            Assistant(id="z", ts=1_767_700_000.0, content="x", usage=USAGE),
        ],
        expect=ANY_HEAD,
    )

    async def scenario() -> None:
        async with serving(store) as client:
            text = (await client.get(f"/s/main/{key.session}/context/time")).text
            read(text, of="time")
            assert text.count("idle for 10 min") == 2 * 2 + 2, "in the title, the label, the table"
            assert text.count('class="idle"') == 3
            assert text.count('class="turned"') == 2
            assert "these calls: $" in text
            assert "74% of their input came from the prompt cache" in text
            now = (await client.get(f"/s/main/{key.session}/context")).text
            assert "the heron is grey" in now.partition("Recalled and added to turns")[2]

    run(scenario)


@pytest.mark.parametrize("since", [10, 100, 500, 1_900])
def test_list_and_pages_find_one_window(store: SessionStore, since: int) -> None:
    """However long ago it was recorded, as far as any of them looks: the list, the top of a page,
    the time line, the status and the next request name one window."""
    key, model = SessionKey("main", "far"), "claude-sonnet-4-5"
    store.create(key)
    said: list[Record] = [ModelChange(model=model, provider="anthropic", window=54_321)]
    for number in range(since // 2):
        said.append(User(content=f"question {number}"))
        said.append(Assistant(content="yes", model=model, provider="anthropic", usage=USAGE))
    store.append(key, said, expect=ANY_HEAD)

    async def scenario() -> None:
        async with serving(store) as client:
            for address in ("/sessions", "/s/main/far", "/s/main/far/context/time"):
                text = (await client.get(address)).text.replace(",", "")
                assert "54321" in text, address
                assert "200000 tok" not in text, address
            for address in ("status", "context"):
                found = (await client.get(f"/v1/sessions/main/far/{address}")).json()
                assert found["window"]["tokens"] == 54_321, address

    run(scenario)


def test_a_list_reads_a_session_once_until_it_changes(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list shows what was appended, and reads no records of a session that is as it was."""
    for name in ("a", "b", "c"):
        talk(store, name, 2)

    async def scenario() -> list[int]:
        counts = []
        async with serving(store) as client:
            with counted(store, monkeypatch) as counter:
                for more in ([], [], [ModelChange(model="another-model", window=9_000)]):
                    if more:
                        store.append(SessionKey("main", "b"), more, expect=ANY_HEAD)
                    for address in (
                        "/sessions",
                        "/sessions?sort=window",
                        "/sessions?sort=records&state=idle",
                    ):
                        counter.records = 0
                        text = (await client.get(address)).text
                        assert ("another-model" in text) == bool(more)
                        counts.append(counter.records)
        return counts

    counts: list[int] = []

    async def both() -> None:
        counts.extend(await scenario())

    run(both)
    assert counts[0] > 0
    assert counts[1:6] == [0] * 5
    assert 0 < counts[6] < counts[0]
    assert counts[7:] == [0, 0]


def append_before(
    store: SessionStore, key: SessionKey, call: int, patch: pytest.MonkeyPatch
) -> Callable[[], bool]:
    """Append a message right before the store is asked the n-th time, whatever it is asked. Return
    a function that says whether it came to that."""
    append, asked = store.append, [0]

    def before(ask: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any, **options: Any) -> Any:
            asked[0] += 1
            if asked[0] == call:
                append(key, [User(content="meanwhile")], expect=ANY_HEAD)
            return ask(*args, **options)

        return count

    for name in dir(store):
        ask = getattr(store, name)
        if callable(ask) and not name.startswith("_") and name not in ("append", "close"):
            patch.setattr(store, name, before(ask))
    return lambda: asked[0] >= call


def test_a_record_that_comes_while_a_page_is_drawn_is_seen(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the page or with the first look for more, once: at whatever moment it comes."""
    key = fill(store, "", "a few words", "drawn")
    tried: list[str] = []

    async def scenario() -> None:
        async with serving(store) as client:
            has_come = True
            while has_come:
                with monkeypatch.context() as patch:
                    came = append_before(store, key, len(tried) + 1, patch)
                    page = (await client.get(f"/s/main/{key.session}")).text
                    has_come = came()
                [last] = re.findall(r'data-last="([^"]*)"', page)
                more = (await client.get(f"/s/main/{key.session}/tail?after={last}")).text
                ids = re.findall(r'<li[^>]* id="r-([^"]*)"', page + more)
                stored = [record.id for record in store.read(key)][1:]
                assert ids == stored, len(tried)
                tried.append(last)

    run(scenario)
    assert len(tried) > 10
