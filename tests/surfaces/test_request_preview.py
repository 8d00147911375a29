"""The window that a session recorded: whoever reads the log finds the same one."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, ModelChange, User
from holdfast.core.models.dialects import target
from holdfast.core.proxy.branches import TERMS_FIELD, Branches
from holdfast.engine.session.session import Session
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
    """The session that goes on, the next request, the console and the proxy."""
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
        "console": last_call(store, key).window,
        "proxy": branches.windows.get(_MODEL),
    }
    assert len(set(found.values())) == 1, found
