"""Calls that wait for a person by a framework's own interrupt: in the log, and once.

Each framework parks the call; another object over the same store, as after a restart, goes on.
While it waits the log has the call and no result. The outcome comes once, as one record.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import peers

from holdfast.core.log.records import Assistant, ToolResult, User, text_of
from holdfast.core.models.messages import INTERRUPTED, ToolCall, read_blocks
from holdfast.core.owners import ANY_OWNER
from holdfast.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.ports import SessionStore

pytestmark = [
    pytest.mark.files_only("it opens its store again, as another process does"),
    pytest.mark.filterwarnings("default"),  # of the frameworks, about themselves
]
DECISIONS = pytest.mark.parametrize("approves", [True, False], ids=["approved", "denied"])


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store") as opened:
        yield opened


def calls_and_results(store: SessionStore) -> tuple[list[str], list[str]]:
    """The calls of `charge` and the results in the only session, as its log has them."""
    (info,) = store.sessions(owner=ANY_OWNER)
    calls, results = [], []
    for record in store.read(info.key):
        if isinstance(record, Assistant):
            blocks = read_blocks(record.content)
            calls += [
                one.id for one in blocks if isinstance(one, ToolCall) and one.name == "charge"
            ]
        if isinstance(record, ToolResult) and record.name in (None, "", "charge"):
            results.append(text_of(record.content))
    return calls, results


@DECISIONS
def test_langgraph_interrupts_wait_in_the_log(store: SessionStore, approves: bool) -> None:
    """`interrupt` in a node, and `Command(resume=…)` from another saver and graph."""
    peers.needs("langgraph")
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.graph import MessagesState, StateGraph
    from langgraph.types import Command, interrupt

    from holdfast.integrations.langgraph import HoldfastSaver

    charged: list[int] = []
    config: Any = {"configurable": {"thread_id": "thread-1"}}

    def ask(state: Any) -> Any:
        if isinstance(state["messages"][-1], ToolMessage):
            return {"messages": [AIMessage(f"so: {state['messages'][-1].content}")]}
        call = {"name": "charge", "args": {"amount": 5}, "id": "c1", "type": "tool_call"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    def act(state: Any) -> Any:
        (call,) = state["messages"][-1].tool_calls
        if interrupt(call["args"]):
            charged.append(call["args"]["amount"])
            return {"messages": [ToolMessage("charged", tool_call_id="c1", name="charge")]}
        return {"messages": [ToolMessage("denied", tool_call_id="c1", name="charge")]}

    def graph() -> Any:
        builder = StateGraph(MessagesState).add_node("ask", ask).add_node("act", act)
        builder.set_entry_point("ask")
        builder.add_conditional_edges(
            "ask", lambda state: "act" if state["messages"][-1].tool_calls else "__end__"
        )
        builder.add_edge("act", "ask")
        return builder.compile(checkpointer=HoldfastSaver(store=store))

    state = graph().invoke({"messages": [("user", "charge 5")]}, config)
    assert [one.value for one in state["__interrupt__"]] == [{"amount": 5}]
    assert calls_and_results(store) == (["c1"], [])
    assert graph().get_state(config).next == ("act",)  # it waits, also for a new process
    final = graph().invoke(Command(resume=approves), config)
    outcome = "charged" if approves else "denied"
    assert final["messages"][-1].content == f"so: {outcome}"
    assert (charged, calls_and_results(store)) == ([5] * approves, (["c1"], [outcome]))


@DECISIONS
def test_openai_agents_interruptions_wait_in_the_log(store: SessionStore, approves: bool) -> None:
    """`needs_approval`, and a `RunState` that another process reads."""
    peers.needs("openai-agents")
    from agents import Agent, Runner, RunState, function_tool
    from agents.testing import ScriptedModel, assistant_message, function_call

    from holdfast.integrations.openai_agents import HoldfastSession

    charged: list[int] = []

    def charge(amount: int) -> str:
        charged.append(amount)
        return "charged"

    model = ScriptedModel(
        [[function_call("charge", '{"amount": 5}', call_id="c1")], [assistant_message("done")]]
    )

    def agent() -> Any:
        tools: list[Any] = [function_tool(charge, needs_approval=True)]
        return Agent(name="helper", model=model, tools=tools)

    async def begin() -> str:
        session = HoldfastSession("thread-1", store=store)
        result = await Runner.run(agent(), "charge 5", session=session)
        assert [one.name for one in result.interruptions] == ["charge"]
        return str(result.to_state().to_string())

    async def go_on(kept: str) -> None:
        other = agent()
        state: Any = await RunState.from_string(other, kept)
        (waiting,) = state.get_interruptions()
        state.approve(waiting) if approves else state.reject(waiting)
        session = HoldfastSession("thread-1", store=store)
        result = await Runner.run(other, state, session=session)
        assert result.final_output == "done"

    kept = asyncio.run(begin())
    assert calls_and_results(store) == (["c1"], [])
    assert charged == []
    asyncio.run(go_on(kept))
    calls, results = calls_and_results(store)
    assert (charged, calls, len(results)) == ([5] * approves, ["c1"], 1)
    assert (results == ["charged"]) == approves
    outputs = [one for one in model.calls[-1].input if one.get("type") == "function_call_output"]
    assert len(outputs) == 1


@DECISIONS
def test_google_adk_confirmations_wait_in_the_log(store: SessionStore, approves: bool) -> None:
    """`require_confirmation`, and the answer to it in another runner and service."""
    peers.needs("google-adk")
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import Runner
    from google.adk.tools import FunctionTool
    from google.genai import types

    from holdfast.integrations.google_adk import HoldfastSessionService

    charged: list[int] = []
    requests: list[Any] = []

    def charge(amount: int) -> dict[str, Any]:
        """Charge an amount."""
        charged.append(amount)
        return {"result": "charged"}

    class Scripted(BaseLlm):  # type: ignore[misc]
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            requests.append(llm_request)
            part = types.Part(
                function_call=types.FunctionCall(id="c1", name="charge", args={"amount": 5})
            )
            if len(requests) > 1:
                part = types.Part(text="done")
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    def runner() -> Any:
        tools: list[Any] = [FunctionTool(charge, require_confirmation=True)]
        agent = LlmAgent(name="helper", model=Scripted(model="scripted"), tools=tools)
        service = HoldfastSessionService(store=store)
        return Runner(app_name="helper", agent=agent, session_service=service)

    async def send(run: Any, part: Any) -> list[Any]:
        content = types.Content(role="user", parts=[part])
        who = {"user_id": "ann", "session_id": "s1"}
        return [event async for event in run.run_async(**who, new_message=content)]

    async def begin() -> str:
        run = runner()
        await run.session_service.create_session(app_name="helper", user_id="ann", session_id="s1")
        events = await send(run, types.Part(text="charge 5"))
        asked = [call for event in events for call in event.get_function_calls()]
        return next(str(call.id) for call in asked if call.name == "adk_request_confirmation")

    asked = asyncio.run(begin())
    assert charged == []
    calls, results = calls_and_results(store)
    assert calls == ["c1"]
    assert not any("charged" in text for text in results)
    answer = types.FunctionResponse(
        id=asked, name="adk_request_confirmation", response={"confirmed": approves}
    )
    asyncio.run(send(runner(), types.Part(function_response=answer)))
    assert charged == [5] * approves
    (info,) = store.sessions(owner=ANY_OWNER)
    path = list(store.read(info.key))
    calls, results = calls_and_results(store)
    assert calls == ["c1"]
    assert sum("charged" in text for text in results) == approves
    assert isinstance(path[-1], Assistant)
    assert sum(isinstance(record, User) for record in path) >= 1


def test_a_bounded_request_says_of_a_parked_call_that_nothing_is_known() -> None:
    """Where only the context is bounded, the call stays, and is neither done nor denied."""
    from holdfast.integrations.openai_agents import BoundedInput

    call = {"type": "function_call", "call_id": "c1", "name": "charge", "arguments": "{}"}
    items: list[Any] = [
        {"role": "user", "content": "word " * 30_000},
        {"id": "m0", "role": "assistant", "type": "message", "content": "ok"},
        {"role": "user", "content": "charge 5"},
        call,
        {"role": "user", "content": "how is it?"},
    ]
    sent = BoundedInput(window=32_000).fit(items)
    assert len(str(sent)) < len(str(items))
    place = sent.index(call)
    assert sent[place + 1]["type"] == "function_call_output"
    assert INTERRUPTED in sent[place + 1]["output"]
    assert sent[-1] == items[-1]
