"""`holdfast checkpoint`: what a session is doing, for people and for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from holdfast import Assistant, JsonlStore, Record, SessionKey, User
from holdfast.core.log.records import Checkpoint
from holdfast.stores import ANY_HEAD

if TYPE_CHECKING:
    from pathlib import Path

    from tests.surfaces.conftest import Cli

KEY = SessionKey("main", "trip")


@pytest.fixture(autouse=True)
def trip(cli: Cli) -> None:
    with JsonlStore(cli.root) as store:
        store.create(KEY)
        records: list[Record] = [
            User(content="Book a train to Turin.\n- [ ] find a train\n- [ ] buy a ticket"),
            Assistant(content="- [x] find a train\n\nThe 9:12 is the best one."),
        ]
        store.append(KEY, records, expect=ANY_HEAD)


def test_the_state_is_shown_and_nothing_is_written(cli: Cli) -> None:
    done = cli("checkpoint", "trip")
    assert done.status == 0
    assert "## Remaining tasks\n- buy a ticket" in done.out
    assert "## Completed tasks\n- find a train" in done.out
    assert cli("checkpoint", "trip", "--list", "--json").json == []


@pytest.mark.parametrize("cap", [256, 300, 500])
def test_max_chars_is_kept_exactly(cli: Cli, cap: int) -> None:
    done = cli("checkpoint", "trip", "--max-chars", str(cap))
    assert len(done.out) <= cap
    assert "buy a ticket" in done.out


def test_a_negative_cap_is_refused(cli: Cli) -> None:
    assert cli("checkpoint", "trip", "--max-chars", "-1").status == 2


def test_saved_ones_are_listed_newest_first(cli: Cli) -> None:
    first = cli("checkpoint", "trip", "--save", "--json").json["record"]
    second = cli("checkpoint", "trip", "--save", "--json").json["record"]
    listed = cli("checkpoint", "trip", "--list", "--json").json
    assert [one["record"] for one in listed] == [second, first]
    assert listed[0]["pending"] == 1
    assert "Book a train" in cli("checkpoint", "trip", "--list").out


def test_json_has_the_whole_state(cli: Cli) -> None:
    told = cli("checkpoint", "trip", "--json", "--max-chars", "256").json
    assert told["chars"] == len(told["text"]) <= 256
    assert told["state"]["pending_tasks"] == ["buy a ticket"]
    assert told["state"]["requests"][0]["text"].startswith("Book a train")
    assert (told["session"], told["record"]) == ("trip", None)


def test_secrets_are_masked_unless_asked(cli: Cli) -> None:
    key = "ghp_" + "a1B2c3D4e5F6" * 3
    with JsonlStore(cli.root) as store:
        store.append(KEY, [User(content=f"Use {key} please.")], expect=ANY_HEAD)
    for more in ((), ("--json",)):
        assert key not in cli("checkpoint", "trip", *more).out
        assert key in cli("checkpoint", "trip", "--raw", *more).out


def test_the_running_summary_is_shown_and_kept(cli: Cli) -> None:
    done = cli("checkpoint", "trip", "--summary", "--max-chars", "600")
    assert "User: Book a train to Turin." in done.out
    assert len(done.out) <= 600
    with JsonlStore(cli.root) as store:
        assert store.summaries.load(SessionKey("main", "trip")) is not None
    told = cli("checkpoint", "trip", "--summary", "--json").json
    assert [item["kind"] for item in told["summary"]["items"]] == ["user", "text"]


def test_a_model_that_adds_nothing_changes_nothing(cli: Cli) -> None:
    plain = cli("checkpoint", "trip", "--json").json["state"]
    asked = cli("checkpoint", "trip", "--model", "offline", "--json").json["state"]
    assert asked["pending_tasks"] == plain["pending_tasks"]


def test_one_that_cannot_be_used_is_named(cli: Cli) -> None:
    with JsonlStore(cli.root) as store:
        [bad] = store.append(KEY, [Checkpoint(state={"carry": "x"})], expect=ANY_HEAD).ids
    done = cli("checkpoint", "trip")
    assert (done.status, "buy a ticket" in done.out) == (0, True)
    assert bad in done.err


def test_another_tools_checkpoint_begins_an_empty_session(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "run_checkpoint.json"
    file.write_text(json.dumps({"original_request": "Write it", "pending_tasks": ["draft"]}))
    cli("new", "--id", "empty")
    assert "- draft" in cli("checkpoint", "empty", "--import", str(tmp_path)).out
    assert "- draft" in cli("checkpoint", "empty").out


def test_a_checkpoint_of_the_same_id_is_shown(cli: Cli, tmp_path: Path) -> None:
    """A session that was moved keeps its id, and so does its checkpoint."""
    file = tmp_path / "run_checkpoint.json"
    file.write_text(json.dumps({"session_id": "moved", "original_request": "Write it"}))
    cli("new", "--id", "moved")
    assert "- Write it" in cli("checkpoint", "moved", "--import", str(file)).out
    assert "Write it" in cli("checkpoint", "moved").out


def test_a_session_with_messages_gets_a_checkpoint_as_context(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "run_checkpoint.json"
    file.write_text(json.dumps({"session_id": "old", "original_request": "Write it"}))
    assert "Write it" in cli("checkpoint", "trip", "--import", str(file)).out
    assert "from checkpoint of session old: " in cli("log", "trip", "-n", "1").out
