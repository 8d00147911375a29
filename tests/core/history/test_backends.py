"""Resume a backend's session, or start another one: for every log, and never a wrong one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.history.backends import (
    BACKEND,
    FIRST,
    BackendIdentity,
    Resume,
    before_newest,
    choose_session,
    state_of,
)
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    InjectedContext,
    Label,
    Rewind,
    ToolResult,
    User,
    to_json,
)

if TYPE_CHECKING:
    from holdfast.core.log.records import Record

PARTS = st.sampled_from(["", "a", "b"])
IDENTITIES = st.builds(
    BackendIdentity, command=PARTS, account=PARTS, model=PARTS, system=PARTS, folder=PARTS
)
STATES = st.builds(
    state_of, st.sampled_from(["", "s1", "s2"]), st.sampled_from(["x", "y"]), IDENTITIES, PARTS
)
GARBAGE: st.SearchStrategy[object] = st.sampled_from(
    [None, 7, "s1", [], {}, {"session": 7, "log": "x"}]
)
RECORDS = st.one_of(
    st.builds(lambda state: Assistant(content="a", extra={BACKEND: state}), STATES | GARBAGE),
    st.just(Assistant(content="of another model")),
    st.just(User(content="u")),
    st.just(Label(label="l")),
    st.just(Rewind(to="r1")),
)


@given(st.lists(RECORDS, max_size=6), IDENTITIES)
@examples(200)
def test_only_the_newest_reply_of_the_same_backend_is_resumed(
    path: list[Record], identity: BackendIdentity
) -> None:
    """A session is resumed if, and only if, the newest reply names it for the same identity and
    log, and nothing was taken back since."""
    found = choose_session(reversed(path), "x", identity)
    last = next((rec for rec in reversed(path) if isinstance(rec, Assistant | Rewind)), None)
    state = last.extra.get(BACKEND) if isinstance(last, Assistant) else None
    is_same = isinstance(state, dict) and all(
        state.get(name, "") == getattr(identity, name) for name in identity.__struct_fields__
    )
    if isinstance(state, dict) and is_same and state.get("log") == "x" and state.get("session"):
        assert found == Resume(state["session"])
    else:
        assert not isinstance(found, Resume)
        assert found.reason
        assert (found.reason == FIRST) == (last is None)


def test_a_state_survives_the_log() -> None:
    identity = BackendIdentity(command="claude", system="5f")
    stored = to_json(Assistant(content="a", extra={BACKEND: state_of("s", "x", identity, "why")}))
    read = msgspec.convert(stored[BACKEND], dict[str, str])
    assert read == {
        "session": "s",
        "log": "x",
        "started": "why",
        "command": "claude",
        "system": "5f",
    }


def test_what_the_backend_gets_anyway_is_not_retold() -> None:
    """The messages since the last reply, also those that a compaction repeats."""
    new = User(id="4", content="new")
    records: list[Record] = [
        User(id="1", content="old"),
        Assistant(id="2", content="a"),
        ToolResult(id="3", tool_use_id="t"),
        new,
        Compaction(id="5", summary="s", turn=[to_json(new), {"type": "user", "id": "1"}]),
        InjectedContext(id="6", text="more"),
    ]
    left = before_newest(records)
    assert [record.id for record in left] == ["1", "2", "3", "5"]
    assert isinstance(left[-1], Compaction)
    assert left[-1].turn == [{"type": "user", "id": "1"}]
