"""The window that a session recorded: whoever reads the log finds the same one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.history.access import OPERATOR
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Compaction, ModelChange, User
from holdfast.core.models.dialects import target
from holdfast.core.models.window import likely_window
from holdfast.core.proxy.branches import TERMS_FIELD, Branches
from holdfast.engine.session.session import Session
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.console.plans import last_call
from holdfast.surfaces.http.context import prepare_next
from holdfast.surfaces.request_preview import RequestTerms
from holdfast.testing.scripted import ScriptedModel

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
    with Session.open("s", store=store, model=model, window=100_000, floor=2_000) as session:
        window = session.window
    planned = prepare_next(store, key, RequestTerms()).plan.window

    found = {
        "session": window.tokens if window.confidence == "learned" else None,
        "next request": planned.tokens if planned.confidence == "learned" else None,
        "status": status_window(store, key),
        "console": last_call(store, key).window,
        "proxy": branches.windows.get(_MODEL),
    }
    assert len(set(found.values())) == 1, found


@pytest.mark.parametrize("stated", [9_000, 30_000, 300_000])
def test_after_a_cut_a_reader_shows_the_window_that_the_program_states(stated: int) -> None:
    """It is in no record, but the cut was made for it: what is shown is what was sent."""
    key, store = SessionKey("main", "s"), MemoryStore()
    model = ScriptedModel(["I looked at it. " * 99] * 20, target=target("anthropic", model=_MODEL))
    with Session.open("s", store=store, model=model, window=stated, floor=2_000) as session:
        for number in range(12):
            session.say(f"Look at part {number}.")
        assert session.compact().outcome == "applied"
        session.say("and now?")
    sent = model.requests[-1]["messages"]
    shown = prepare_next(store, key, RequestTerms())
    assert shown.plan.window.tokens == last_call(store, key).window == stated
    assert status_window(store, key) == stated
    assert _texts(shown.request["messages"])[: len(sent)] == _texts(sent)


def status_window(store: MemoryStore, key: SessionKey) -> int | None:
    """The window in the status that tools and HTTP give, where the log tells it."""
    status = json.loads(CallerWorkspace(store, OPERATOR).context.status(str(key)))
    assert status.get("window"), status
    return status["window"]["tokens"] if status["window"]["confidence"] == "learned" else None


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
    assert likely_window([cut, small], _MODEL) == (9_000, "for which the view was cut last")
    assert likely_window([cut, answered], _MODEL) is None
    assert likely_window([cut, ModelChange(model="another"), small], _MODEL) is None
    assert likely_window([cut, ModelChange(model=_MODEL)], _MODEL) is None
