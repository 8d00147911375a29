"""`holdfast approvals`: calls that wait for a person, across sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.approvals import pay, paying

from holdfast import Session, ToolResult

if TYPE_CHECKING:
    from tests.surfaces.conftest import Cli


def park(cli: Cli, name: str, owner: str = "", **rules: Any) -> str:
    """Park a call in a session of the command line's store; returns its key."""
    tools, model = [paying(**rules)], pay(5)
    with Session.open(name, model=model, store=cli.root, owner=owner, tools=tools) as session:
        assert session.say("pay").stop == "approval"
        return str(session.calls.waiting()[0].key)


def test_what_waits_is_listed_and_decided(cli: Cli) -> None:
    one, two = park(cli, "one"), park(cli, "two")
    listed = cli("approvals", "list", "--json").json["calls"]
    assert [(call["session"], call["arguments"]) for call in listed] == [
        ("main/two", {"amount": 5}),
        ("main/one", {"amount": 5}),
    ]
    shown = cli("approvals", "list")
    assert f'{two}\n  pay {{"amount": 5}}\n{one}' in shown.out
    assert "each call of this tool needs approval" in shown.err
    changed = cli("approvals", "approve", one, "--arguments", '{"amount": 2}', "--by", "ann")
    assert changed.out == "pay: approved by ann\n"
    assert cli("approvals", "deny", two, "not today").out == "pay: denied by operator\n"
    assert cli("approvals", "deny", one, "too late", "--json").json["state"] == "approved"
    assert cli("approvals", "list", "--json").json["calls"] == []
    with Session.open("one", model=pay(0), store=cli.root, tools=[paying()]) as session:
        session.resume()
        [found] = [rec.content for rec in session.messages(9) if isinstance(rec, ToolResult)]
        assert "paid 2" in str(found)


def test_what_cannot_be_decided_says_why(cli: Cli) -> None:
    key = park(cli, "one", approvers=["ann"])
    for words, said in (
        (("approve", key), "it waits for `ann`"),
        (("approve", key, "--by", "bob"), "may not decide"),
        (("approve", "0-0-0"), "waits here"),
        (("approve", key, "--by", "ann", "--arguments", "40"), "JSON object"),
    ):
        done = cli("approvals", *words)
        assert done.status != 0, words
        assert said in done.err, words
    assert cli("approvals", "list", "--json").json["calls"][0]["state"] == "parked"


def test_an_owner_has_their_own(cli: Cli) -> None:
    keys = {name: park(cli, name, name) for name in ("ann", "bob")}
    [row] = cli("approvals", "list", "--owner", "ann", "--json").json["calls"]
    assert (row["owner"], row["key"]) == ("ann", keys["ann"])
    assert cli("approvals", "approve", keys["bob"], "--owner", "ann").status != 0
    done = cli("approvals", "approve", keys["bob"], "--owner", "bob")
    assert done.out == "pay: approved by bob\n"
    assert len(cli("approvals", "list", "--session", "ann", "--json").json["calls"]) == 1
