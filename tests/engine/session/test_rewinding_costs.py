"""Rewinds, undos, notes and first turns read from the end, and do what reading all would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores.reads import bytes_read
from tests.support.runs import examples

from holdfast import Session
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Flush,
    Label,
    Rewind,
    ToolResult,
    Undo,
    User,
)
from holdfast.core.memory.running_summary import Sidecar, advance, render
from holdfast.engine.memory import notes
from holdfast.engine.session import rewinding
from holdfast.errors import UsageError
from holdfast.ports import ANY_HEAD
from holdfast.stores import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.core.log.records import Record

KEY = SessionKey("main", "s")
KINDS = st.sampled_from(["user", "assistant", "result", "label", "rewind", "cut", "undo", "flush"])


def stored(kinds: list[str]) -> MemoryStore:
    store = MemoryStore()
    ids = [store.create(KEY)]
    cuts: list[str] = []
    for number, kind in enumerate(kinds):
        made: dict[str, Record] = {
            "user": User(content=f"u{number}"),
            "assistant": Assistant(content=f"a{number}"),
            "result": ToolResult(tool_use_id=f"c{number}", content="r"),
            "label": Label(label=str(number)),
            "rewind": Rewind(to=ids[len(ids) // 2]),
            "cut": Compaction(summary="s", covers=(ids[0], ids[-1])),
            "undo": Undo(target=cuts[-1] if cuts else ids[0]),
            "flush": Flush(notes=[f"n{number}", f"m{number}"]),
        }
        ids.append(store.append(KEY, [made[kind]], expect=ANY_HEAD).head)
        if kind == "cut":
            cuts.append(ids[-1])
    return store


def turn_starts(path: list[Record]) -> list[int]:
    """The indexes of the messages that begin a turn, by reading everything forward."""
    starts: list[int] = []
    is_user_turn = False
    for place, record in enumerate(path):
        if isinstance(record, User) and not is_user_turn:
            starts.append(place)
        if isinstance(record, User | Assistant):
            is_user_turn = isinstance(record, User)
    return starts


@examples(200)
@given(kinds=st.lists(KINDS, max_size=20), turns=st.integers(1, 5))
def test_a_rewind_goes_where_reading_everything_says(kinds: list[str], turns: int) -> None:
    store = stored(kinds)
    path = list(store.read(KEY))
    starts = turn_starts(path)
    session = Session(store, KEY, ScriptedModel(()))
    try:
        session.rewind(turns=turns)
    except UsageError:
        assert len(starts) < turns
        return
    moved = list(store.read(KEY))[-1]
    assert isinstance(moved, Rewind)
    assert moved.to == path[starts[-turns] - 1].id


@examples(200)
@given(kinds=st.lists(KINDS, max_size=20), first=st.integers(1, 4))
def test_an_undo_takes_back_what_reading_everything_says(kinds: list[str], first: int) -> None:
    store = stored(kinds)
    written = [entry.record for entry in store.read_all(KEY)]
    undone = {record.target for record in written if isinstance(record, Undo)}
    expected: object = None
    for place in range(len(written) - 1, 0, -1):
        newest = written[place]
        if isinstance(newest, Rewind):
            expected = rewinding.Rewound(written[place - 1].id)
            break
        is_cut = isinstance(newest, Compaction) and newest.covers and newest.id not in undone
        if is_cut or isinstance(newest, User | Assistant | ToolResult):
            expected = newest
            break
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewinding, "_WRITTEN_RECORDS", first)
        assert rewinding._newest_act(store, KEY) == expected


@examples(50)
@given(kinds=st.lists(KINDS, max_size=20), last=st.integers(0, 6))
def test_the_newest_notes_are_the_end_of_all_notes(kinds: list[str], last: int) -> None:
    session = Session(stored(kinds), KEY, ScriptedModel(()))
    every = session.notes()
    path = session.store.read(KEY)
    assert every == [note for rec in path if isinstance(rec, Flush) for note in rec.notes]
    assert session.notes(last) == (every[-last:] if last else [])


@examples(100)
@given(kinds=st.lists(KINDS, min_size=1, max_size=25), bound=st.integers(1, 25))
def test_a_summary_is_made_from_the_newest_records(kinds: list[str], bound: int) -> None:
    """Within the bound it is that of the whole path; beyond, it says that there is more."""
    store = stored(kinds)
    path = list(store.read(KEY))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notes, "_RECORDS_MAX", bound)
        found = notes.refresh(store, KEY)
    if len(path) < bound:
        assert found == advance(Sidecar(), path)
    else:
        assert found.items == advance(Sidecar(), path[-bound:]).items
        assert not render(found) or "more earlier not listed" in render(found)


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Compacted sessions of two lengths, without a stored running summary."""
    made = {}
    for count in (4_000, 40_000):
        made[count] = tmp_path_factory.mktemp(str(count))
        turn: list[Record] = [User(content="a question " * 9), Assistant(content="an answer")]
        with JsonlStore(made[count]) as store:
            store.create(KEY)
            for _ in range(count // 2_000):
                store.append_each(KEY, turn * 1_000, durability="buffered")
            newest = list(store.last(KEY, 20))
            cut = Compaction(summary="so far", first_kept=newest[0].id, covers=("a", "b"))
            store.append(KEY, [cut, Flush(notes=["kept"])], expect=ANY_HEAD)
            store.append(KEY, turn, expect=ANY_HEAD)
            store.totals(KEY)  # the index has seen it
    return made


ACTS: dict[str, Callable[[Session], object]] = {
    "first turn": lambda session: session.say("and now?"),
    "rewind": lambda session: session.rewind(turns=1),
    "undo": lambda session: session.undo(),
    "rewind to a record": lambda session: session.rewind(session.store.last(session.key, 2)[0].id),
    "notes": lambda session: session.notes(1),
    "status": lambda session: session.status(),
    "label": lambda session: session.rename("other"),
}


@pytest.mark.files_only("it counts what is read from files")
@pytest.mark.parametrize("act", ACTS)
def test_an_act_costs_the_same_in_a_long_session(act: str, roots: dict[int, Path]) -> None:
    """In a session ten times as long, nothing reads 1.5 times the bytes."""
    read = {}
    for count, root in roots.items():
        with JsonlStore(root) as store, bytes_read() as counted:
            ACTS[act](Session(store, KEY, ScriptedModel((), otherwise="fine", window=32_000)))
        read[count] = counted.total
    assert read[40_000] <= 1.5 * read[4_000] + 4_096, read
