"""`history` and `audit`: the reply itself for programs, a transcript for people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from holdfast import Assistant, JsonlStore, SessionKey, ToolResult, User
from holdfast.core.owners import NamedOwner
from holdfast.stores import ANY_HEAD

if TYPE_CHECKING:
    from tests.surfaces.conftest import Cli

CALL = {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "src"}}


@pytest.fixture(autouse=True)
def trip(cli: Cli) -> list[str]:
    """A session with a step in it, and a child that it started."""
    with JsonlStore(cli.root) as store:
        key = SessionKey("main", "trip")
        store.create(key, label="The trip", owner=NamedOwner("ann"))
        done = store.append(
            key,
            [
                User(content="Which train? \x1b[31mred"),
                Assistant(content=[{"type": "thinking", "thinking": "let me look"}, CALL]),
                ToolResult(tool_use_id="c1", name="ls", content="x" * 9_000),
                Assistant(content="The 9:12."),
            ],
            expect=ANY_HEAD,
        )
        child = SessionKey("main", "child")
        store.create(child, parent_session=str(key), reason="spawn", owner=NamedOwner("ann"))
        store.append(child, [User(content="the child's words")], expect=ANY_HEAD)
    return list(done.ids)


def test_json_is_the_reply_and_nothing_around_it(cli: Cli) -> None:
    done = cli("history", "trip", "--json")

    assert done.status == 0
    assert done.err == ""
    assert not done.out.endswith("\n")
    assert done.json["bytes"] == len(done.out.encode())
    assert [one["role"] for one in done.json["messages"]] == ["user", "assistant", "assistant"]


@pytest.mark.parametrize("cap", [0, 1, 2, 3, 50, 93, 120, 200, 500, 2_000])
def test_the_cap_is_on_every_byte(cli: Cli, cap: int) -> None:
    done = cli("history", "trip", "--json", "--max-bytes", str(cap))

    assert done.status == 0
    assert len(done.out.encode()) <= cap
    assert done.out == "" if cap < 2 else isinstance(done.json, dict)


def test_people_get_a_transcript_and_the_way_to_more(cli: Cli) -> None:
    done = cli("history", "The trip", "--limit", "2", "--include-tools")

    assert done.status == 0
    assert "→ ls" in done.out
    assert "toolResult ls" in done.out
    assert "The 9:12." in done.out
    assert "left out; ref" in done.out
    assert "3 messages" in done.err
    assert "long texts are truncated" in done.err
    assert "Which train?" not in done.out


def test_the_command_for_older_messages_works(cli: Cli) -> None:
    first = cli("history", "trip", "--limit", "1")
    command = first.err.split("older: holdfast ")[1].split()

    older = cli(*command)

    assert "let me look" in older.out
    assert "9:12" not in older.out


def test_what_a_log_holds_cannot_steer_the_terminal(cli: Cli) -> None:
    assert "\x1b" not in cli("history", "trip").out


def test_search_and_around(cli: Cli, trip: list[str]) -> None:
    found = cli("history", "trip", "--query", "TRAIN", "--json").json
    around = cli("history", "trip", "--around", trip[2], "--limit", "1", "--json").json

    assert found["matches"] == 1
    assert [one["id"] for one in found["messages"]] == [trip[0]]
    assert [one["id"] for one in around["messages"]] == [trip[1]]


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (("absent",), 1),
        (("trip", "--limit", "0"), 2),
        (("trip", "--cursor", "forged"), 2),
        (("trip", "--around", "nothing"), 1),
        (("trip", "--limit", "many"), 2),
        (("trip", "--visibility", "self"), 2),
        (("trip", "--max-bytes", "-1"), 2),
    ],
)
def test_refusals_have_a_status_of_their_own(cli: Cli, args: tuple[str, ...], status: int) -> None:
    done = cli("history", *args)

    assert done.status == status
    assert done.out == ""
    assert done.err


def test_a_refusal_as_json_is_the_reply(cli: Cli) -> None:
    done = cli("history", "absent", "--json")

    assert done.status == 1
    assert done.json["status"] == "not_found"
    assert not done.out.endswith("\n")


def test_an_operator_sees_what_an_agent_would_see(cli: Cli) -> None:
    """The parent may read its child, and the child not its parent."""
    down = cli("history", "child", "--as", "main/trip", "--json")
    up = cli("history", "trip", "--as", "main/child", "--json")
    wide = cli("history", "trip", "--as", "main/child", "--visibility", "agent", "--json")

    assert down.json["scope"] == "tree of main/trip"
    assert up.status == 1
    assert up.json["status"] == "forbidden"
    assert wide.status == 0


def test_the_audit_log_says_who_read_what(cli: Cli) -> None:
    cli("history", "trip")
    cli("history", "trip", "--as", "main/child")

    table = cli("audit")
    [first, second] = cli("audit", "--json").json

    assert first["target"] == "trip"
    assert (first["is_allowed"], second["is_allowed"]) == (True, False)
    assert second["session"] == "child"
    assert "operator" in table.out
    assert "main/child" in table.out
    assert "refused" in table.out
    assert len(cli("audit", "--last", "1", "--json").json) == 1
    assert cli("audit", "--last", "-1").status == 2
    assert "9:12" not in json.dumps([first, second])
