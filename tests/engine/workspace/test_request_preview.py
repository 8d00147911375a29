"""The window that a session recorded: whoever reads the log finds the same one."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples
from tests.surfaces.http.servers import serving, token_for

from holdfast.core.dialects.registry import target
from holdfast.core.history.access import OPERATOR
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Compaction, ModelChange, User
from holdfast.core.models.window import likely_window
from holdfast.core.owners import NamedOwner
from holdfast.core.proxy.branches import TERMS_FIELD, Branches
from holdfast.core.turn.options import Limits
from holdfast.core.window import Window
from holdfast.engine.operations.context import ReadStatus
from holdfast.engine.session.session import Session
from holdfast.engine.workspace.facts import last_call
from holdfast.engine.workspace.request_preview import RequestTerms, read_request
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.gateway_agents import GatewayAgents
from holdfast.surfaces.serve_settings import AgentSettings
from holdfast.testing.scripted import ScriptedModel

if TYPE_CHECKING:
    import httpx2

    from holdfast.core.log.records import Record

_MODEL = "claude-sonnet-4-5"
_CHANGES = st.builds(
    ModelChange,
    model=st.sampled_from([_MODEL, "another"]),
    window=st.sampled_from([None, 9_000, 20_000, 90_000]),
    extra=st.sampled_from([{}, {TERMS_FIELD: {"system": "a"}}]),
)
_LEARNED = ModelChange(model=_MODEL, window=20_000)
_SAID = st.just(User(content="go on"))


@examples(50)
@given(st.lists(_CHANGES | _SAID, max_size=6))
@example([_LEARNED, ModelChange(model=_MODEL)])
@example([_LEARNED, ModelChange(model=_MODEL, extra={TERMS_FIELD: {"system": "a"}})])
@example([_LEARNED, ModelChange(model="another")])
def test_every_reader_of_a_log_finds_the_same_window(changes: list[ModelChange | User]) -> None:
    """The session that goes on, the next request, its status, the console and the proxy."""
    key, store = SessionKey("main", "s"), MemoryStore()
    store.create(key)
    reply = Assistant(content="done", model=_MODEL, provider="anthropic")
    store.append(key, [User(content="hi"), *changes, reply], expect=ANY_HEAD)

    branches, before = Branches(), ""
    for entry in store.read_all(key):
        branches.add(entry.record, before)
        before = entry.record.id
    model = ScriptedModel(["yes"], target=target("anthropic", model=_MODEL))
    with Session.open(
        "s", store=store, model=model, window=100_000, limits=Limits(floor=2_000)
    ) as session:
        window = session.window
    planned = read_request(store, key, RequestTerms()).plan.window

    found = {
        "session": window.tokens if window.confidence == "learned" else None,
        "next request": planned.tokens if planned.confidence == "learned" else None,
        "status": status_window(store, key),
        "console": (seen := last_call(store, key).window) and seen.tokens,
        "proxy": branches.windows.get(_MODEL),
    }
    assert len(set(found.values())) == 1, found


@pytest.mark.parametrize("stated", [9_000, 30_000, 300_000])
def test_after_a_cut_a_reader_shows_the_window_that_the_program_states(stated: int) -> None:
    """It is in no record, but the cut was made for it: what is shown is what was sent."""
    key, store = SessionKey("main", "s"), MemoryStore()
    model = ScriptedModel(["I looked at it. " * 99] * 20, target=target("anthropic", model=_MODEL))
    with Session.open(
        "s", store=store, model=model, window=stated, limits=Limits(floor=2_000)
    ) as session:
        for number in range(12):
            session.say(f"Look at part {number}.")
        assert session.compact().outcome == "applied"
        session.say("and now?")
    sent = model.requests[-1]["messages"]
    shown = read_request(store, key, RequestTerms())
    assert shown.plan.window == last_call(store, key).window
    assert shown.plan.window.tokens == stated
    assert status_window(store, key) == stated
    assert _texts(shown.prepared.request["messages"])[: len(sent)] == _texts(sent)


def test_a_cut_that_is_shown_tells_what_the_one_that_is_made_will() -> None:
    """Also what the user said before another tool's compaction, which no carry-over of ours has."""
    key, store = SessionKey("main", "s"), MemoryStore()
    store.create(key)
    rule = "Never touch the herons."
    said: list[Record] = [User(content=rule), Assistant(content="Noted.", model=_MODEL)]
    said += [Compaction(summary="1. Pending:\n- all of it", method="model")]
    for part in range(40):
        said += [User(content=f"Look at part {part}.")]
        said += [Assistant(content="I looked at it. " * 90, model=_MODEL)]
    store.append(key, said, expect=ANY_HEAD)
    shown = read_request(store, key, RequestTerms(window=Window(9_000), floor=2_000))
    assert shown.plan.decisions
    told = _texts(shown.prepared.request["messages"])
    assert rule in told[0]
    model = ScriptedModel(["yes"], target=target("anthropic", model=_MODEL))
    with Session.open(
        "s", store=store, model=model, window=9_000, limits=Limits(floor=2_000), summary="extract"
    ) as session:
        session.say("and now?")
    assert rule in _texts(model.requests[-1]["messages"])[0]


def status_window(store: MemoryStore, key: SessionKey) -> int | None:
    """The window in the status that tools and HTTP give, where the log tells it."""
    window = ReadStatus(session_key=str(key)).call(CallerWorkspace(store, OPERATOR)).window
    return window.tokens if window.confidence == "learned" else None


def _texts(messages: list[Any]) -> list[str]:
    """Without the marks of the cache, which move on."""
    contents = [message["content"] for message in messages]
    return [
        said if isinstance(said, str) else "".join(block["text"] for block in said)
        for said in contents
    ]


def test_a_larger_request_since_shows_that_the_window_is_another() -> None:
    cut = Compaction(summary="s", covers=("a", "b"), window=9_000, id="c")
    answered = Assistant(content="x", model=_MODEL, usage={"input_tokens": 20_000})
    small = Assistant(content="x", model=_MODEL, usage={"input_tokens": 2_000})
    assert likely_window([cut, small], _MODEL) == Window(
        9_000, "for which the view was cut last", "learned"
    )
    assert likely_window([cut, answered], _MODEL) is None
    assert likely_window([cut, ModelChange(model="another"), small], _MODEL) is None
    assert likely_window([cut, ModelChange(model=_MODEL)], _MODEL) is None


_TOOL = "tests.engine.workspace.test_request_preview:look_up"
_AGENTS = {
    "main": AgentSettings(window=50_000),
    "small": AgentSettings(
        window=9_000,
        limits=Limits(floor=2_000, output_tokens=700),
        policy={"keep": 0.2, "compact": 0.5},
    ),
    "large": AgentSettings(window=300_000, system="Be brief. " * 40, tools=(_TOOL,)),
    "own": AgentSettings(model="offline", limits=Limits(output_tokens=3_000)),
}
_OWN_CHANGES = st.builds(
    ModelChange,
    model=st.sampled_from(["offline", "another"]),
    window=st.sampled_from([None, 1_000, 5_000, 20_000, 90_000]),
)


def look_up(city: str) -> str:
    """Look up the weather.

    Args:
        city: the name of the city
    """
    return city


@examples(40)
@given(st.sampled_from(sorted(_AGENTS)), st.lists(_OWN_CHANGES | _SAID, max_size=4))
@example("main", [])
@example("small", [ModelChange(model="offline", window=5_000)])
@example("large", [ModelChange(model="offline", window=20_000)])
@example("large", [ModelChange(model="another", window=20_000)])
@example("own", [User(content="go on " * 30_000)])
@example("unnamed", [])
@example("unnamed", [ModelChange(model="offline", window=20_000), *[User(content="on")] * 150])
@example("large", [ModelChange(model="offline", window=20_000), *[User(content="on")] * 150])
def test_what_serve_shows_of_a_session_is_what_its_turn_works_with(
    agent: str, changes: list[ModelChange | User]
) -> None:
    """Over HTTP, in the console and over MCP, also before the first cut: the window, the floor,
    the reserve, the policy, the system prompt and the tools are those of the settings file."""
    key = SessionKey(agent, "s")
    with MemoryStore() as store:
        store.create(key)
        store.append(key, [User(content="hi"), *changes, User(content="and?")], expect=ANY_HEAD)
        asyncio.run(_compare_readers(store, key))


async def _compare_readers(store: MemoryStore, key: SessionKey) -> None:
    async with await GatewayAgents(store, _AGENTS, model="offline").open(key) as session:
        own, plan = await session.status(), await session.plan()
    async with serving(store, agents=_AGENTS) as client:
        status = (await client.get(f"/v1/sessions/{key}/status")).json()
        tool = await _call_tool(client, "context", {"action": "status", "sessionKey": str(key)})
        for found in (status, tool):
            assert found["window"]["tokens"] == own.window.tokens
            assert found["tokens"] == own.tokens
            assert found["budget"] == own.budget
            assert found["compactAt"] == own.compact_at
            assert found["model"] == own.model
        shown = (await client.get(f"/v1/sessions/{key}/context")).json()
        assert shown["window"]["tokens"] == own.window.tokens
        assert shown["budget"]["tokens"] == own.budget
        assert shown["budget"]["output_reserve"] == plan.budget.output_reserve
        assert shown["tokens"]["system"] == plan.tokens.system
        assert shown["tokens"]["tools"] == plan.tokens.tools
        of_window = f"of {own.window.tokens:,} tok"
        # A list looks at the newest records alone.
        rows = [] if shown["ledger"][50:] else ["/sessions"]
        for page in (*rows, f"/s/{key}", f"/s/{key}/context"):
            assert of_window in (await client.get(page)).text, page
        what_if = (await client.get(f"/s/{key}/context/what-if")).text
        assert f'placeholder="{own.window.tokens}"' in what_if
        assert f"{own.budget:,}" in what_if


async def _call_tool(client: httpx2.AsyncClient, name: str, arguments: dict[str, Any]) -> Any:
    """Call a tool over HTTP, without a session of the protocol."""
    answer = await client.post(
        "/mcp",
        json={
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": name, "arguments": arguments},
        },
        headers={
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
        },
    )
    text = answer.text
    if "data: " in text:
        text = next(line[6:] for line in text.splitlines() if line.startswith("data: {"))
    return json.loads(json.loads(text)["result"]["content"][0]["text"])


def test_only_the_operator_sees_the_system_prompt_and_the_tools_of_an_agent() -> None:
    """Others get their sizes: a request over HTTP and in the console has neither."""
    key, store = SessionKey("large", "s"), MemoryStore()
    store.create(key, owner=NamedOwner("ann"))
    store.append(key, [User(content="hi"), Assistant(content="yes")], expect=ANY_HEAD)
    operator, ann = token_for("*"), token_for("ann")

    async def scenario() -> None:
        async with serving(store, operator[1], ann[1], agents=_AGENTS) as client:
            for token, sees in ((operator[0], True), (ann[0], False)):
                headers = {"Authorization": f"Bearer {token}"}
                for address in (
                    f"/v1/sessions/{key}/context?request=true",
                    f"/s/{key}/context/request",
                    f"/s/{key}/context/changes",
                    f"/s/{key}/context/fate",
                    f"/s/{key}/context",
                ):
                    answer = await client.get(address, headers=headers)
                    assert answer.status_code == 200
                    for word in ("Be brief.", "look_up"):
                        has_request = "request" in address
                        assert (word in answer.text) == (sees and has_request), address
                    if "/v1/" in address:
                        sizes = answer.json()["tokens"]
                        assert sizes["system"] > 100
                        assert sizes["tools"] > 20

    with store:
        asyncio.run(scenario())
