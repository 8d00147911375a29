"""Rules of approvals in a file, in a session and in a gateway's settings."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import CallKey, Session, tool
from holdfast.core.log.ids import SessionKey
from holdfast.core.models.messages import Tool
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.core.turn.options import Limits
from holdfast.engine.approval_files import approvals_from
from holdfast.engine.tools import Toolbox
from holdfast.errors import AccessDenied, BadSetting
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.gateway_agents import GatewayAgents
from holdfast.surfaces.serve_settings import AgentSettings, load_settings
from holdfast.testing import ScriptedModel
from holdfast.testing.scripted import calls

if TYPE_CHECKING:
    from pathlib import Path

RULES = """
[[approvals]]
tools = ["ref*"]
when.amount.above = 50
approvers = ["ann", "bob"]
expires = 3600

[[approvals]]
tools = ["refund"]
owners = ["guest-*"]
"""


def refund(amount: int, key: CallKey, currency: str = "eur") -> str:
    """Give money back."""
    assert key
    return f"refunded {amount} {currency}"


def ask(
    amount: Any, store: MemoryStore, approvals: Any, *, tools: Any = (refund,), owner: str = "eve"
) -> Session:
    """Return a session whose model asked for a refund."""
    model = ScriptedModel([calls(("c", "refund", {"amount": amount})), "done"])
    session = Session.open(
        owner or "nobody",
        model=model,
        tools=tools,
        limits=Limits(approvals=approvals),
        store=store,
        owner=owner,
    )
    session.say("please")
    return session


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "approvals.toml"
    made.write_text(RULES, "utf-8")
    return made


@pytest.mark.parametrize(
    ("amount", "owner", "waits"),
    [(80, "eve", True), (50, "eve", False), (5, "guest-1", True), (5, "", False)],
)
def test_a_file_says_which_calls_wait(file: Path, amount: int, owner: str, waits: bool) -> None:
    """By the value that the tool gets, and by the owner of the session."""
    with closing(MemoryStore()) as store:
        session = ask(amount, store, file, owner=owner)
        assert bool(session.calls.waiting()) is waits
        session.close()


def test_a_parked_call_names_its_rule_and_approvers(file: Path) -> None:
    """One of them decides, and the call runs."""
    with closing(MemoryStore()) as store:
        session = ask(80, store, str(file))
        (call,) = session.calls.waiting()
        assert "rule 1" in call.reason
        assert "`amount` above 50" in call.reason
        assert "ann, bob" in call.reason
        assert call.approvers == ("ann", "bob")
        assert call.until == pytest.approx(call.since + 3600, abs=5)
        with pytest.raises(AccessDenied):
            session.calls.approve(call.key, by="eve")
        session.calls.approve(call.key, by="bob")
        reply = session.resume()
        assert reply is not None
        assert reply.text == "done"
        session.close()


ABOVE = [{"tools": ["refund"], "when": {"amount": {"above": 50}}, "approvers": ["ann"]}]


@pytest.mark.parametrize(("amount", "approvers"), [(80, ("ann",)), (5, ("ann", "bob")), (0, None)])
def test_a_rule_adds_to_what_the_tool_says(amount: int, approvers: tuple[str, ...] | None) -> None:
    """Where both ask, those decide whom both name; where one asks, it does."""

    @tool(approval=lambda amount, currency: amount > 0, approvers=["ann", "bob"])
    def refund(amount: int, currency: str = "eur") -> str:
        """Give money back."""
        return f"refunded {amount} {currency}"

    with closing(MemoryStore()) as store:
        session = ask(amount, store, ABOVE, tools=[refund])
        found = [call.approvers for call in session.calls.waiting()]
        assert found == ([] if approvers is None else [approvers])
        session.close()


def test_always_holds_for_the_rule_that_asked() -> None:
    """Another rule asks again."""
    rules = [
        {"tools": ["refund"], "when": {"amount": {"above": 100}}, "reason": "money"},
        {"tools": ["refund"], "when": {"amount": {"above": 10}}, "reason": "money"},
    ]
    replies: list[Any] = [calls((str(n), "refund", {"amount": n})) for n in (20, 30, 200)]
    with closing(MemoryStore()) as store:
        session = Session.open(
            model=ScriptedModel([*replies, "done"]),
            tools=[refund],
            limits=Limits(approvals=rules),
            store=store,
        )
        session.say("please")
        (first,) = session.calls.waiting()
        session.calls.approve(first.key, always=True)
        session.resume()
        (waiting,) = session.calls.waiting()
        assert (waiting.arguments, waiting.key != first.key) == ({"amount": 200}, True)
        session.close()


def test_the_default_of_an_argument_counts() -> None:
    """An argument that the model leaves out has the value that the tool gets."""
    with closing(MemoryStore()) as store:
        for currency, waits in (("eur", True), ("usd", False)):
            rules = [{"tools": ["*"], "when": {"currency": {"one_of": [currency]}}}]
            session = ask(5, store, rules, owner=currency)
            assert bool(session.calls.waiting()) is waits
            session.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot read"),
        ("[[approvals", "not TOML"),
        ("", "no table `approvals`"),
        (RULES + "\n[other]\nx = 1", "a key `other`"),
        ("approvals = 5", "list of rules"),
        (RULES + "\n[[approvals]]\ntool = ['x']", "rule 3.*tool"),
        (RULES + "\n[[approvals]]\ntools = ['x']\nwhen.y.over = 1", "rule 3, `when.y`.*over"),
        (RULES + "\n[[approvals]]\ntools = ['reefund']", "rule 3.*`reefund`"),
        (RULES + "\n[[approvals]]\ntools = ['refund']\nwhen.a.above = 1", "rule 3.*`a`"),
    ],
)
def test_a_wrong_file_is_refused_as_a_whole(tmp_path: Path, text: str | None, words: str) -> None:
    """Before a session is made for it."""
    file = tmp_path / "approvals.toml"
    if text is not None:
        file.write_text(text, "utf-8")
    with closing(MemoryStore()) as store:
        with pytest.raises(BadSetting, match=words) as refused:
            Session.open(
                "s", model="offline", tools=[refund], limits=Limits(approvals=file), store=store
            )
        assert str(file) in f"{refused.value}"
        assert not list(store.sessions(owner=ANY_OWNER))


def test_a_tool_that_the_caller_runs_cannot_be_asked_about() -> None:
    declared = Tool("refund", "Give money back.", {"type": "object", "properties": {}})
    with pytest.raises(BadSetting, match="which the caller runs"):
        Toolbox([declared], approvals=approvals_from([{"tools": ["refund"]}]))


SETTINGS = """
[agents.main]
model = "offline"
timers = true
[[agents.main.limits.approvals]]
tools = ["timer_set"]
when.text.one_of = ["tea"]
approvers = ["ann"]
"""


def test_an_agent_of_a_gateway_has_rules(tmp_path: Path) -> None:
    """Also about the tools that the gateway itself gives a model."""
    file = tmp_path / "holdfast.toml"
    file.write_text(SETTINGS, "utf-8")
    key = SessionKey("main", "s")

    async def talk(agents: GatewayAgents) -> list[tuple[Any, Any]]:
        async with await agents.open(key) as session:
            await session.say('timer_set(when="30m", text="soup")')
            await session.say('timer_set(when="30m", text="tea")')
            found = await session.calls.waiting()
            return [(call.approvers, call.arguments["text"]) for call in found]

    with closing(MemoryStore()) as store:
        store.create(key, owner=NamedOwner("eve"))
        agents = GatewayAgents(store, load_settings(str(file)).agents, model="offline")
        assert asyncio.run(talk(agents)) == [(("ann",), "tea")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            SETTINGS.replace("one_of", "oneof"),
            "holdfast.toml.*agents.main.limits.approvals: rule 1.*oneof",
        ),
        (SETTINGS.replace("approvers", "approver"), "holdfast.toml.*rule 1.*approver"),
        (SETTINGS.replace('["timer_set"]', '"timer_set"'), "holdfast.toml.*rule 1.*tools"),
        (SETTINGS.replace("[[", "[").replace("]]", "]"), "holdfast.toml.*approvals"),
    ],
)
def test_wrong_rules_of_an_agent_are_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(BadSetting, match=words):
        load_settings(str(file))


def test_a_gateway_with_a_rule_about_no_tool_does_not_start() -> None:
    wrong = AgentSettings(timers=True, limits=Limits(approvals=({"tools": ["timer_stop"]},)))
    with (
        closing(MemoryStore()) as store,
        pytest.raises(BadSetting, match=r"agents.main.limits.approvals: rule 1.*`timer_stop`"),
    ):
        GatewayAgents(store, {"main": wrong}, model="offline")
