"""Saving notes: once for each record, early or before a cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.conversations import said
from tests.core.turn.hand import SETTINGS, Hand

from holdfast.core.flow.events import FlushFinished, FlushStarted
from holdfast.core.log.records import Assistant, Compaction, Flush, User
from holdfast.core.models.replies import Reply
from holdfast.core.turn.flush import NoteFlush
from holdfast.core.turn.options import RunOptions
from holdfast.core.turn.summarise import Summariser

if TYPE_CHECKING:
    from holdfast.core.log.records import Record
    from holdfast.core.projection.project import Plan

PLAIN: list[Record] = [User(content="hello"), Assistant(content="hi")]
RULE: list[Record] = [User(content="Always put glass on the top shelf."), Assistant(content="ok")]


ASKING = msgspec.structs.replace(SETTINGS, options=RunOptions(notes="model"))


def a_hand(records: list[Record]) -> Hand:
    """Its model finds another note each time."""
    texts = (f"- Glass goes on shelf {number}." for number in range(9))
    answers = [Reply(content=[{"type": "text", "text": text}]) for text in texts]
    return Hand(records, answers, ASKING)


def flush_of(hand: Hand, records: list[Record]) -> NoteFlush:
    def hold(_reserve: int) -> Plan:
        return hand.state.plan(records, 0.0, pressure="hold")

    return NoteFlush(hand.state, records, Summariser(hand.state, records, 0.0, "", hold))


@pytest.mark.parametrize("first", [PLAIN, RULE])
def test_what_was_read_early_is_not_read_again_before_a_cut(first: list[Record]) -> None:
    """Whether there was something to note in it or not; what came after it is read."""
    hand = a_hand([*first, *PLAIN, *RULE, *PLAIN])
    early, records = hand.records[:4], list(hand.records)
    hand.run(flush_of(hand, early).save_early())
    assert hand.of(FlushStarted) == [FlushStarted((early[0].id, early[-1].id), "threshold")]
    hand.run(flush_of(hand, records).save_before_cut(early))
    assert len(hand.of(FlushStarted)) == 1
    hand.run(flush_of(hand, records).save_before_cut(records[:6]))
    assert hand.of(FlushStarted)[1:] == [FlushStarted((records[4].id, records[5].id))]
    assert hand.of(FlushFinished)[-1].outcome == "saved"


def test_notes_are_in_the_log_before_they_are_announced() -> None:
    hand = a_hand(RULE)
    hand.run(flush_of(hand, list(hand.records)).save_before_cut(hand.records[:2]))
    (stored,) = (record for record in hand.records if isinstance(record, Flush))
    assert stored.notes == ["Glass goes on shelf 0."]
    (finished,) = hand.of(FlushFinished)
    assert (finished.outcome, finished.record, finished.notes) == (
        *("saved", stored.id, tuple(stored.notes)),
    )
    assert hand.effects[-2:] == ["+flush", "Emit"]


def test_a_listener_can_deny_it_and_the_records_are_read_later() -> None:
    hand = a_hand(RULE)
    hand.denied = (FlushStarted,)
    records = list(hand.records)
    hand.run(flush_of(hand, records).save_early())
    assert hand.of(FlushFinished) == [
        FlushFinished("skipped", detail="denied: no", trigger="threshold")
    ]
    hand.denied = ()
    hand.run(flush_of(hand, records).save_before_cut(records))
    assert hand.of(FlushFinished)[-1].outcome == "saved"


def history(pairs: int) -> list[Record]:
    return [
        record
        for number in range(pairs)
        for record in (User(content=f"{number} " + "word " * 200), Assistant(content="ok " * 200))
    ]


def test_early_notes_are_due_once_between_two_cuts() -> None:
    """From the threshold on; by the log in another run, and by memory where nothing was stored."""
    hand = a_hand([])
    small, full = said(history(4)), said(history(70))
    plans = [hand.state.plan(records, 0.0, pressure="hold") for records in (small, full)]
    assert [flush_of(hand, full).is_due(plan) for plan in plans] == [False, True]
    stored: list[Record] = [*full, Flush(notes=["x"], trigger="threshold", id="f")]
    assert not flush_of(hand, stored).is_due(plans[1])
    by_cut: list[Record] = [*full, Flush(notes=["x"], trigger="compaction", id="f")]
    assert flush_of(hand, by_cut).is_due(plans[1])
    hand.run(flush_of(hand, full).save_early())
    assert not flush_of(hand, full).is_due(plans[1])
    cut: list[Record] = [*stored, Compaction(summary="s", id="c"), *full]
    assert flush_of(hand, cut).is_due(plans[1])
    hand.run(flush_of(hand, cut).save_early())
    assert not flush_of(hand, cut).is_due(plans[1])


def test_without_being_asked_for_no_notes_are_taken() -> None:
    hand = Hand(history(70))
    plan = hand.state.plan(hand.records, 0.0, pressure="hold")
    assert not flush_of(hand, hand.records).is_due(plan)
    hand.run(flush_of(hand, hand.records).save_before_cut(hand.records))
    assert hand.effects == []
