"""A number that two surfaces show comes from one reader: all of them are compared on the same log.

The sessions are real ones (compacted, adopted, branched, imported), and a few of our own, so that
the comparison never is empty.
"""

from __future__ import annotations

import asyncio
import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from tests.shared_data import DATA
from tests.support.answers import answer_of
from tests.support.cli import run_in_process
from tests.support.runs import RUN, is_whole
from tests.surfaces.http.servers import serving

from holdfast.core.history.access import OPERATOR
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Flush,
    Prune,
    PruneDecision,
    Rewind,
    ToolResult,
    User,
)
from holdfast.engine.adoption import SessionAdopter
from holdfast.engine.operations.context import ReadStatus
from holdfast.engine.session.options import SessionOptions
from holdfast.engine.session.session import Session
from holdfast.engine.workspace.facts import read_facts
from holdfast.engine.workspace.request_preview import RequestTerms, read_request, terms_of_session
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.importers import detect_format, read_transcript
from holdfast.ports import ANY_HEAD
from holdfast.providers.callables import from_callable
from holdfast.stores.opening import open_store
from holdfast.surfaces.chat_context import ChatContext
from holdfast.surfaces.console.plans import cost_text
from holdfast.surfaces.formatting import count, money
from holdfast.surfaces.slash_commands import run_command as run_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx2

    from holdfast.core.log.records import Record
    from holdfast.ports import SessionStore

MODEL, OTHER = "claude-sonnet-4-5", "gpt-5"
TIME = 1_767_600_000.0
REAL_SESSIONS = {"quick": 3, "test": 8, "nightly": 50}
"""Real sessions that are compared in each run."""
LISTED = ("kept", "trimmed", "cleared", "summarised", "dropped", "injected")

pytestmark = pytest.mark.files_only("the commands read a folder")


def own_sessions(store: SessionStore) -> Iterator[SessionKey]:
    """A short one, one that is due to be cut, one that was compacted and pruned, one with branches,
    one that was adopted."""

    def usage(size: int) -> dict[str, int]:
        return {"input_tokens": size, "cache_read_input_tokens": 3 * size, "output_tokens": 40}

    def turns(count: int, start: int = 0) -> list[Record]:
        found: list[Record] = []
        for at in range(start, start + count):
            call = {"type": "tool_use", "id": f"c{at}", "name": "read", "input": {"path": f"f{at}"}}
            model, seller = ((MODEL, "anthropic"), (OTHER, "openai"))[at % 5 == 4]
            found += [
                User(content=f"question {at} " * 9, ts=TIME + 90 * at, id=f"u{at}"),
                User(content="a reminder " * 20, ts=TIME + 90 * at, extra={"meta": True}),
                Assistant(
                    content=[{"type": "text", "text": f"I look at {at}."}, call],
                    id=f"a{at}",
                    ts=TIME + 90 * at + 5,
                    model=model,
                    provider=seller,
                    usage=usage(900 + 60 * at),
                ),
                ToolResult(
                    tool_use_id=f"c{at}", content="line of a file\n" * 60, id=f"r{at}", name="read"
                ),
                Assistant(content="Done.", ts=TIME + 90 * at + 9, model=model, provider=seller),
            ]
        return found

    def make(name: str, *batches: list[Record]) -> SessionKey:
        key = SessionKey("main", name)
        store.create(key)
        for batch in batches:
            store.append(key, batch, expect=ANY_HEAD)
        return key

    cut = Compaction(
        id="cut",
        summary="What was said.",
        covers=("u0", "r19"),
        first_kept="u20",
        window=60_000,
        tokens_before=40_000,
        tokens_after=9_000,
        model=MODEL,
        usage=usage(5_000),
        cost=0.25,
    )
    prune = Prune(decisions=[PruneDecision(record="r21", action="clear")], window=60_000)
    flush = Flush(notes=["a note"], usage=usage(700))
    yield make("short", turns(2))
    said: list[Record] = [User(content="some words " * 3_000, ts=TIME + at) for at in range(40)]
    yield make("overfull", turns(1), said)
    yield make("compacted", turns(24), [prune, cut, flush], turns(6, 24))
    yield make(
        "branched", turns(8), [Rewind(to="r3")], turns(3, 50), [Rewind(to="r1")], turns(2, 70)
    )
    theirs = Compaction(id="theirs", summary="Before.", method="model")  # covers nothing by name
    SessionAdopter(store).adopt(
        SessionKey("main", "adopted"),
        [*turns(130), theirs, *turns(4, 130), Compaction(summary="Again."), *turns(2, 140)],
        {"file": "x"},
    )
    yield SessionKey("main", "adopted")


def real_sessions(store: SessionStore) -> Iterator[SessionKey]:
    """Adopt transcripts of agents: the smaller ones in an ordinary run."""
    lines = (DATA / "MANIFEST.jsonl").read_text("utf-8").splitlines()
    entries = [entry for line in lines if "agents/" in (entry := json.loads(line))["file"]]
    most = 4_000_000 if is_whole() else 500_000
    adopter = SessionAdopter(store)
    for number, entry in enumerate(entries):
        if entry.get("raw_bytes", entry["bytes"]) > most or not entry.get("messages"):
            continue
        data = (DATA / entry["file"]).read_bytes()
        found = read_transcript(data, entry["file"]) if detect_format(data, entry["file"]) else []
        if not found or not found[0].records:
            continue
        key = SessionKey("main", f"real-{number}")
        adopter.adopt(key, found[0].records, {"file": entry["file"]})
        if number % 3 == 0:  # every third is branched as well
            records = [rec.id for rec in store.read(key) if isinstance(rec, User)]
            back = Rewind(to=records[len(records) // 2])
            reply = Assistant(
                content="x", model=MODEL, usage={"input_tokens": 9, "output_tokens": 1}
            )
            store.append(key, [back, User(content="Another way."), reply], expect=ANY_HEAD)
        yield key


def test_every_surface_of_our_own_sessions(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    compare_all(tmp_path, capfd, own_sessions, 5)


def test_every_surface_of_real_sessions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As many as the level of the run allows."""
    if not DATA.is_dir():
        pytest.skip(f"NO TRANSCRIPTS: {DATA} is not there; point HOLDFAST_DATA at the folder")
    compare_all(tmp_path, capfd, real_sessions, REAL_SESSIONS[RUN])


def compare_all(tmp_path: Path, capfd: Any, make: Any, wanted: int) -> None:
    root = tmp_path / "store"
    with open_store(str(root)) as store:
        keys = list(islice(make(store), wanted))
        assert len(keys) == wanted
        printed: dict[SessionKey, Any] = {}
        sessions = run_in_process(["sessions", "--json", "--root", str(root)], capfd).json
        rows = {row["session"]: row for row in sessions}
        for key in keys:
            commands = (
                ["context", str(key), "--json"],
                ["inspect", str(key), "--json"],
                ["context", str(key), "--explain"],
                ["log", str(key), "--all", "--json"],
            )
            done = [run_in_process([*each, "--root", str(root)], capfd) for each in commands]
            assert not any(each.status for each in done), (key, [each.err for each in done])
            printed[key] = done

        async def scenario() -> None:
            async with serving(store) as client:
                for key in keys:
                    context, inspected, explained, log = printed[key]
                    await compare(client, store, key, context.json, inspected.json, explained)
                    await compare_lists(client, store, key, rows[key.session], log.out)

        asyncio.run(scenario())


async def compare(
    client: httpx2.AsyncClient,
    store: SessionStore,
    key: SessionKey,
    context: dict[str, Any],
    inspected: dict[str, Any],
    explained: Any,
) -> None:
    """Compare every surface with the facts of one session."""
    facts = read_facts(store, key)
    request = read_request(store, key, terms_of_session(store, key))
    api = f"/v1/sessions/{key.agent}/{key.session}"
    got = (await client.get(f"{api}/context")).json()
    status = (await client.get(f"{api}/status")).json()
    mcp = answer_of(ReadStatus(session_key=str(key)).call, CallerWorkspace(store, OPERATOR))
    pages = {
        name: (await client.get(f"/s/{key.agent}/{key.session}{name}")).text
        for name in ("/context", "/context/fate", "/context/time", "/context/changes", "/inspect")
    }
    listing = (await client.get("/sessions", params={"limit": 100})).text

    # The next request: the API, the command, the page and the status.
    plan = request.plan
    for shown in (got, context):
        assert shown["tokens"]["total"] == plan.tokens.total, key
        assert shown["view"]["messages"] == status["messagesTokens"] == mcp["messagesTokens"], key
        assert shown["view"]["compact_at"] == status["compactAt"] == mcp["compactAt"], key
        assert shown["view"]["warn_at"] == status["warnAt"], key
        assert shown["window"]["tokens"] == status["window"]["tokens"] == mcp["window"]["tokens"]
        assert shown["budget"]["tokens"] == status["budget"], key
        assert shown["warnings"] == status["warnings"] == list(plan.warnings), key
    assert got["ledger"] == context["ledger"], key
    assert got["unlisted"] == context["unlisted"], key
    names = {rec.id for rec in store.read(key) if rec.kind != "session"}
    assert {line["record"] for line in got["ledger"]} >= names, "every record of the path"
    assert got["unlisted"] == facts.info.records - 1 - len(names)
    assert numbers_at(pages["/context"], "total") == [plan.tokens.total]
    fates: dict[str, int] = {}
    for line in got["ledger"]:
        fates[line["action"]] = fates.get(line["action"], 0) + 1
    for action, number in fates.items():
        row = re.search(rf">{action}</a></td>(.*?)</tr>", pages["/context"], re.DOTALL)
        assert row is not None, (key, action)
        assert digits(row[1])[0] == number, (key, action)
        if action in LISTED:
            assert re.search(rf"{number:,} records? {action}:", explained.err + explained.out), (
                action
            )
    assert f"of {len(got['ledger'])}" in plain(pages["/context/fate"]), key

    # What changed: the parts of a request add up to the request.
    if "Contents of this request" in pages["/context/changes"]:
        changes = pages["/context/changes"]
        parts = [fact_of(changes, name) for name in ("the same beginning", "added", "the same end")]
        assert sum(parts) == plan.tokens.total, key

    # The whole session: header, tabs, list, status and `inspect`.
    totals, spent = facts.totals, facts.spent
    for shown in (status, mcp):
        assert (shown["turns"], shown["calls"], shown["tools"]) == (
            *(totals.turns, spent.calls, totals.tools),
        )
        assert (shown["compactions"], shown["prunes"]) == (totals.compactions, totals.prunes)
        assert shown["cost"] == pytest.approx(spent.cost or 0.0), key
        assert (shown["promptTokens"], shown["outputTokens"]) == (spent.prompt, spent.output)
        assert shown["unpriced"] == spent.gaps
    assert (inspected["turns"], inspected["compactions"]) == (totals.turns, totals.compactions)
    billed = inspected["spent"]
    assert billed["cost"] == (None if spent.cost is None else pytest.approx(spent.cost)), key
    assert (billed["calls"], billed["unknown"], billed["unpriced"]) == (
        *(spent.calls, spent.unknown, spent.unpriced),
    )
    assert (billed["prompt"], billed["output"]) == (spent.prompt, spent.output)
    assert numbers_at(pages["/inspect"], "compactions") == [totals.compactions]
    assert numbers_at(pages["/inspect"], "calls") == [spent.calls]
    cuts = f"{count(totals.compactions, 'cut')}, {count(totals.prunes, 'prune')}".replace(",", "")
    row = re.search(rf'id="s-{re.escape(str(key))}".*?</tr>', listing, re.DOTALL)
    assert row is not None
    for page in (*pages.values(), row[0]):
        assert cost_text(spent).replace(",", "") in plain(page), key
    for page in pages.values():
        assert cuts in plain(page), key
    compactions = sum(isinstance(entry.record, Compaction) for entry in store.read_all(key))
    assert compactions == totals.compactions


async def compare_lists(
    client: httpx2.AsyncClient, store: SessionStore, key: SessionKey, row: dict[str, Any], log: str
) -> None:
    """Compare the lists of sessions and of records with the facts, and the slash commands with the
    next request."""
    facts = read_facts(store, key)
    info = facts.info
    listed = (await client.get("/v1/sessions", params={"limit": 200})).json()
    listed = listed["sessions"]
    (ours,) = [one for one in listed if f"{one['agent']}/{one['id']}" == str(key)]
    for name, value in (
        *(("records", info.records), ("messages", info.messages), ("head", info.head)),
        *(("bytes", info.bytes), ("title", ours["title"]), ("label", info.label)),
    ):
        assert row[name] == value, (key, name)
        assert ours.get(name, value) == value, (key, name)
    records = [json.loads(line) for line in log.splitlines()]
    assert len(records) == info.records, key
    kinds = [record["type"] for record in records]
    totals = facts.totals
    assert (kinds.count("compaction"), kinds.count("prune")) == (totals.compactions, totals.prunes)

    plan = read_request(store, key, RequestTerms()).plan
    model = from_callable(lambda _request: None, plan.target, plan.window)
    chat = ChatContext(store, key.agent, model, SessionOptions(), audience="operator")
    with chat.open(key) as session:
        status = session.status()
        names = ("status", "context", "list all")
        asked = {name: run_command(f"/{name}", chat).text for name in names}
        ledger = run_command("/context list all", chat).text
        own = session.plan(is_held=True)
    assert f"{status.messages_tokens:,} tokens" in asked["status"], key
    counts = (count(facts.spent.calls, "call"), count(totals.compactions, "compaction"))
    for said in (*counts, count(totals.turns, "turn"), count(totals.prunes, "trim")):
        assert said in asked["status"], (key, said)
    if facts.spent.cost is not None:
        assert money(facts.spent.cost) in asked["status"], key
    # A status shows the view as it is, the next request what a cut that is due makes of it.
    assert own.tokens_before == status.messages_tokens == plan.tokens_before, key
    if own.decisions:
        for shown in (asked["context"], ledger):
            assert f"the view takes {status.messages_tokens:,} tokens of messages" in shown, key
    else:
        assert (own.tokens.messages, own.tokens.total) == (own.tokens_before, status.tokens), key
    assert plan.decisions or status.tokens == plan.tokens.total, key
    assert own.limits == plan.limits, key
    assert f"~{own.tokens.total:,} / {plan.window.tokens:,} tokens" in asked["context"], key
    for entry in own.ledger:
        assert entry.action == "silent" or entry.record in ledger, (key, entry)
    assert f"{own.tokens.messages:,} tokens of messages" in ledger, key
    assert key.session in asked["list all"], key


def plain(page: str) -> str:
    return re.sub(r"<[^>]+>", "", page).replace(",", "")


def digits(text: str) -> list[int]:
    bare = re.sub(r"<[^>]+>", " ", text).replace(",", "")
    return [int(found) for found in re.findall(r"\d+", bare)]


def numbers_at(page: str, name: str) -> list[int]:
    found = re.search(rf'id="{name}"[^>]*>(.*?)</(?:b|span)>', page, re.DOTALL)
    assert found is not None, name
    return digits(found[1])


def fact_of(page: str, name: str) -> int:
    found = re.search(rf"<dt>{name}</dt><dd>(.*?)</dd>", page, re.DOTALL)
    assert found is not None, name
    return digits(found[1])[0]


def test_a_session_says_what_its_readers_say(tmp_path: Path) -> None:
    """The status of an open session has the numbers of those who only look at it."""
    with open_store(str(tmp_path)) as store:
        for key in own_sessions(store):
            terms = terms_of_session(store, key)
            plan = read_request(store, key, RequestTerms()).plan
            model = from_callable(lambda _request: None, plan.target, plan.window)
            with Session(store, key, model) as session:
                status = session.status()
            assert terms.model == status.model
            assert status.messages_tokens == plan.tokens_before
            assert (status.compact_at, status.warn_at) == (
                *(plan.limits.compact_at, plan.limits.warn_at),
            )
            facts = read_facts(store, key)
            assert status.cost == pytest.approx(facts.spent.cost or 0.0)
            assert status.compactions == facts.totals.compactions
