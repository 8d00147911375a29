"""`holdfast reseed`: the text itself, within the cap, for whoever may have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast import Assistant, JsonlStore, Record, SessionKey, User
from holdfast.core.owners import NamedOwner
from holdfast.stores import ANY_HEAD

if TYPE_CHECKING:
    from tests.surfaces.conftest import Cli

WHOLE = "User: Which train?\n\nAssistant: The 9:12."


@pytest.fixture(autouse=True)
def trip(cli: Cli) -> None:
    """A session that belongs to Ann."""
    with JsonlStore(cli.root) as store:
        key = SessionKey("main", "trip")
        store.create(key, owner=NamedOwner("ann"))
        records: list[Record] = [User(content="Which train?"), Assistant(content="The 9:12.")]
        store.append(key, records, expect=ANY_HEAD)


def test_the_text_is_printed_and_nothing_after_it(cli: Cli) -> None:
    """Not even a newline: the cap counts every character."""
    done = cli("reseed", "trip")

    assert (done.status, done.out, done.err) == (0, WHOLE, "")


@pytest.mark.parametrize("cap", [0, 1, 5, 10, 20, 38, 39, 1_000])
def test_max_chars_is_kept_exactly(cli: Cli, cap: int) -> None:
    done = cli("reseed", "trip", "--max-chars", str(cap))

    assert done.status == 0
    assert len(done.out) <= cap
    assert done.out.endswith(WHOLE[-min(cap, 5) :] if cap else "")


def test_json_tells_what_is_missing(cli: Cli) -> None:
    told = cli("reseed", "trip", "--max-chars", "25", "--json").json

    assert told["text"] == "[…]\n\nAssistant: The 9:12."
    assert told["chars"] == len(told["text"])
    assert (told["messages"], told["omitted"], told["cap"]) == (1, 1, 25)
    assert (told["unit"], told["is_whole"], told["session"]) == ("characters", False, "trip")


def test_a_cap_in_tokens_or_by_the_window(cli: Cli) -> None:
    assert cli("reseed", "trip", "--max-tokens", "500", "--json").json["unit"] == "tokens"
    assert cli("reseed", "trip", "--window", "200000", "--json").json["cap"] == 64_000


def test_two_sizes_at_once_are_refused(cli: Cli) -> None:
    assert cli("reseed", "trip", "--max-chars", "5", "--window", "9").status == 2


def test_it_is_refused_for_another_owner(cli: Cli) -> None:
    """Nothing of it is printed; the refusal says why, and is recorded."""
    assert cli("reseed", "trip", "--for", "ann").out == WHOLE

    refused = cli("reseed", "trip", "--for", "bob")

    assert (refused.status, refused.out) == (1, "")
    assert "cannot be reseeded for `bob`" in refused.err
    with JsonlStore(cli.root) as store:
        noted = store.audit.entries().accesses
    assert [(one.owner, one.is_allowed) for one in noted] == [("ann", True), ("bob", False)]


def test_registered_secrets_are_masked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values in the variables that are named as secrets do not leave."""
    monkeypatch.setenv("STATION_PASS", "9:12.")
    monkeypatch.setenv("HOLDFAST_SECRETS", "STATION_PASS")

    assert (
        cli("reseed", "trip").out == "User: Which train?\n\nAssistant: The [masked: STATION_PASS]"
    )
