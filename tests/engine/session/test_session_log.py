"""A log that is held and one that is opened anew tell a model the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.projection.test_draft_past import KEY, read_plan
from tests.support.runs import examples

from holdfast.core.dialects.registry import target
from holdfast.core.log.records import Assistant, Compaction, Epoch, Record, Undo, User, to_json
from holdfast.core.projection.policy import Policy
from holdfast.core.projection.project import project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.refusals import REFUSED
from holdfast.core.window import Window
from holdfast.engine.session.session_log import SessionLog
from holdfast.errors import LogConflict
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.projection.project import Plan

TARGET = target("anthropic")
WINDOW = Window(16_000, "simulated")
FORBIDDEN = "forbidden"
TALK = "It went on as before and nothing new was found. "

Step = tuple[str, int, int]
"""What happens, which of the two holders does it, and a number that it may use."""

_STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("say", "say", "say", "refuse", "own", "cut", "lost", "foreign", "undo", "read")
        ),
        st.integers(0, 1),
        st.integers(0, 60),
    ),
    min_size=2,
    max_size=24,
)


class Holders:
    """Two holders of one session, who write in turn."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.store.create(KEY)
        self.logs = [SessionLog(self.store, KEY), SessionLog(self.store, KEY)]
        self.refused: list[str] = []
        self._said = 0

    def do(self, what: str, log: SessionLog, number: int) -> None:
        path = [rec for rec in self.store.read(KEY) if isinstance(rec, User | Assistant)]
        if what == "read":
            log.read(WINDOW)
        elif what == "say":
            self._append(log, *self._turn(number))
        elif what == "refuse" and path:
            record = path[number % len(path)]
            if isinstance(record, User):
                self.refused.append(str(record.content))
                self._append(log, Epoch(cause=REFUSED, left_out={record.id: ""}))
        elif what == "own":
            self._append(log, *plan_of(log.read(WINDOW)).decisions)
        elif what in ("cut", "lost") and len(path) > 1:
            kept = path[1 + number % (len(path) - 1)]
            before = path[path.index(kept) - 1].id
            first = kept.id if what == "cut" else "no-such-record"
            cut = Compaction(summary="So far.", first_kept=first, covers=(path[0].id, before))
            self._append(log, cut)
        elif what == "foreign" and path:
            self._append(log, Compaction(summary="Another tool's words."))
        elif what == "undo":
            made = [rec for rec in self.store.read(KEY) if isinstance(rec, Compaction)]
            if made:
                self._append(log, Undo(target=made[number % len(made)].id))

    def _turn(self, number: int) -> tuple[Record, Record]:
        self._said += 1
        words = f"Rule {self._said}, {FORBIDDEN if number % 3 == 0 else 'fine'}."
        return User(content=words), Assistant(content=f"Noted {self._said}. {TALK * number}")

    def _append(self, log: SessionLog, *records: Record) -> None:
        if not records:
            return
        try:
            log.append(records)
        except LogConflict:  # the other holder left the branch: the next call starts from there
            log.append(records)


def plan_of(records: Sequence[Record]) -> Plan:
    """A cut of these records."""
    request = ProjectionRequest(records, WINDOW, TARGET, policy=Policy(), floor=0, pressure="cut")
    return project(request)


def told(records: Sequence[Record]) -> str:
    """What a model reads after a cut of these records."""
    return read_plan(plan_of(records))


@examples(150)
@given(_STEPS)
def test_a_log_that_was_held_reads_as_one_opened_anew(steps: list[Step]) -> None:
    """Whoever wrote, cut, undid or was refused, and however the cut was made."""
    holders = Holders()
    holders.do("say", holders.logs[0], 1)
    for what, who, number in steps:
        holders.do(what, holders.logs[who], number)
    for number in range(40, 48):
        holders.do("say", holders.logs[number % 2], number)
    fresh = SessionLog(holders.store, KEY).read(WINDOW)
    expected = told(fresh)
    assert "Noted" in expected
    for log in holders.logs:
        assert told(log.read(WINDOW)) == expected
    for words in holders.refused:
        assert words not in expected


@pytest.mark.parametrize("holder", [0, 1])
def test_words_refused_before_another_tools_compaction_stay_away(holder: int) -> None:
    """The repair may be written before that compaction, or after it."""
    holders = Holders()
    log = holders.logs[holder]
    for what, number in (("say", 0), ("say", 1), ("refuse", 0), ("foreign", 0)):
        holders.do(what, log, number)
    for number in range(50, 60):
        holders.do("say", log, number)
    shown = told(log.read(WINDOW))
    assert holders.refused
    assert "Rule 2, fine." in shown
    assert all(words not in shown for words in holders.refused)


def test_words_beside_a_summary_that_were_refused_since_are_not_carried_over() -> None:
    """They stand in the record of the cut, and a repair names them later."""
    words = "Rule 1, forbidden."
    beside = [to_json(User(id="u1", content=words))]
    records: list[Record] = [
        Compaction(id="c", summary="So far.", covers=("u1", "u1"), first_kept="a0", turn=beside),
    ]
    records += [Assistant(id=f"a{n}", content=TALK * 60) for n in range(2)]
    for n in range(2, 8):
        records += [User(id=f"u{n}", content="Go on."), Assistant(id=f"a{n}", content=TALK * 60)]
    records.insert(0, records.pop(1))
    assert words in told(records)
    refused = Epoch(id="e", cause=REFUSED, left_out={"u1": ""})
    assert words not in told([*records, refused])
