"""Tests of your own agent, with the real SDK and a provider on this machine.

    pytest examples/test_own_agent.py

`Loopback` answers as its script says, keeps the provider's rules, and fails on demand. It needs no
key and no network.
"""

from pathlib import Path

import pytest

from holdfast import Session, model
from holdfast.errors import ModelError
from holdfast.models import Model
from holdfast.testing import Answer, Call, Fault, Loopback


def look_up(key: str) -> str:
    """Look up a value."""
    return {"port": "8443"}[key]


def run_agent(question: str, model: Model, root: Path) -> str:
    """The agent under test."""
    with Session.open("agent", model=model, tools=[look_up], store=str(root)) as session:
        return session.say(question).text


def client_for(loopback: Loopback) -> Model:
    return model("anthropic:claude-sonnet-5", base_url=loopback.url, api_key="any")


def test_agent_calls_its_tool_and_answers(tmp_path: Path) -> None:
    script: list[Answer | str] = [
        Answer("", (Call("look_up", {"key": "port"}),)),
        "The port is 8443.",
    ]
    with Loopback(script) as loopback:
        assert run_agent("Which port?", client_for(loopback), tmp_path) == "The port is 8443."
        assert "8443" in str(loopback.requests[1].body["messages"][-1])


def test_agent_survives_an_overloaded_provider(tmp_path: Path) -> None:
    with Loopback(["The port is 8443."]) as loopback:
        loopback.fail_next(Fault.overloaded())
        assert "8443" in run_agent("Which port?", client_for(loopback), tmp_path)
        assert [request.fault for request in loopback.requests] == ["overloaded", ""]


def test_agent_reports_a_wrong_key(tmp_path: Path) -> None:
    with Loopback(api_key="secret") as loopback, pytest.raises(ModelError, match="key"):
        run_agent("Which port?", client_for(loopback), tmp_path)
