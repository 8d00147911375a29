"""The state of a session is the sum of its changes, however it is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.integrations.common.home import PeerHome
from holdfast.integrations.google_adk.events import records_from_event
from holdfast.integrations.google_adk.session_service import (
    NO_STATE,
    SharedState,
    merge_scopes,
    split_scopes,
)
from holdfast.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers()), max_size=300))
@examples(20)
def test_a_state_is_written_whole_now_and_then(deltas: list[dict[str, int]]) -> None:
    """From any whole one on, the changes give the same state as from the beginning."""
    state, log = NO_STATE, []
    expected: dict[str, int] = {}
    for number, delta in enumerate(deltas):
        event = {"id": str(number), "timestamp": 1.0 + number, "actions": {"state_delta": delta}}
        records = records_from_event(event, json.dumps(event))
        expected |= delta
        state = state.advance(records)
        whole = state.snapshot(0)
        state = state.advance(whole)
        log += [*records, *whole]
        assert state.state == expected
        assert state.updated == 1.0 + number
        assert state.since <= 64
    places = [place for place, record in enumerate(log) if record.kind == "peer_state"]
    assert len(places) == len(deltas) // 64
    for place in places:
        assert NO_STATE.advance(log[place:]).state == expected


def test_scopes_are_split_and_merged() -> None:
    given_ = {"a": 1, "app:a": 2, "user:a": 3, "temp:a": 4, "other:a": 5}
    scopes = split_scopes(given_)
    assert scopes == {"app": {"a": 2}, "user": {"a": 3}, "session": {"a": 1, "other:a": 5}}
    merged = merge_scopes(scopes["session"], scopes["app"], scopes["user"])
    assert merged == {key: value for key, value in given_.items() if key != "temp:a"}


def test_a_shared_state_of_many_changes_is_read_from_a_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path / "store") as store:
        home = PeerHome("test", root=None, store=store, agent="helper")
        shared = SharedState(home, ("google-adk", "app state", "", ""), "state of the app")
        assert shared.read() == {}
        for number in range(200):
            shared.update({f"key {number % 7}": number, "n": number})
        shared.update({})
        read: list[Any] = []
        back = store.back

        def count(*args: Any, **about: Any) -> Any:
            for record in back(*args, **about):
                read.append(record)
                yield record

        monkeypatch.setattr(store, "back", count)
        assert shared.read()["n"] == 199
        assert len(shared.read()) == 8
        assert len(read) <= 2 * 70
