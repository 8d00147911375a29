"""Planted losses are found, each with the cut that took it, and the default policy has none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.planted import PLANTED, planted_session

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Compaction, Record, User
from holdfast.core.projection.policy import Policy
from holdfast.engine.simulation.evaluate import EvaluationSource, evaluate_sessions
from holdfast.engine.simulation.policies import (
    ClearResults,
    Compact,
    DoNothing,
    KeepTurns,
    Plays,
    TrimTokens,
)
from holdfast.engine.simulation.sessions import RecordedCuts
from holdfast.errors import UsageError
from holdfast.ports import ANY_HEAD
from holdfast.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from holdfast.core.evaluation.report import Evaluation

FORGETFUL = Policy(keep=0.025, allow=("nothing",))
"""A cut with this policy has room for the user's own words alone, and no prune comes before."""
CARRIED = ("instruction",)
CUTTING = Policy(allow=("nothing",))
"""As by default, without prunes."""


def run(records: Sequence[Record], policy: Policy | Plays | None = None, **more: Any) -> Evaluation:
    source = EvaluationSource("work", records)
    return evaluate_sessions(source, policy=policy, window=32_000, static=2_000, **more)


def test_a_policy_that_keeps_little_loses_what_it_does_not_carry_over() -> None:
    """Each is named with its record, and with the cut that took it."""
    report = run(planted_session(), FORGETFUL)
    lost = {kind: text for kind, text in PLANTED.items() if kind not in CARRIED}
    assert {loss.kind: loss.text for loss in report.losses} == lost
    records = {"task": "r00001", "file": "r00004", "value": "r00006"}
    assert {loss.kind: loss.seen.record for loss in report.losses} == records
    assert {(loss.cut.number, loss.cut.action) for loss in report.losses} == {(1, "compaction")}
    assert all("of the budget" in loss.cut.reason for loss in report.losses)
    assert all(loss.cut.call <= loss.needed_call for loss in report.losses)


def test_the_default_policy_loses_none_of_them() -> None:
    """Neither where it shortens results, nor where it cuts."""
    pruned = run(planted_session())
    assert (pruned.figures.cuts, pruned.losses) == (0, ())
    assert pruned.figures.prunes > 0
    report = run(planted_session(), CUTTING)
    assert report.figures.cuts == 2
    assert report.losses == ()
    assert all(report.need_counts[kind] for kind in PLANTED)  # type: ignore[index]


def test_a_useless_summary_in_the_log_is_named() -> None:
    """The cuts that a transcript has are judged as they are."""
    records = planted_session(cut_at=10)
    (made,) = [record for record in records if isinstance(record, Compaction)]
    report = run(records, RecordedCuts())
    assert {loss.kind: loss.text for loss in report.losses} == PLANTED
    assert {loss.cut.record for loss in report.losses} == {made.id}


def test_a_summary_in_other_words_keeps_a_sentence() -> None:
    """It is the request that counts: a summary that says it is no loss."""
    said = "- The user: never push to the main branch without asking first.\n"
    records = [
        Compaction(id=record.id, ts=record.ts, summary=said)
        if isinstance(record, Compaction)
        else record
        for record in planted_session(cut_at=10)
    ]
    lost = {loss.kind for loss in run(records, RecordedCuts()).losses}
    assert lost == PLANTED.keys() - {"instruction"}


def test_a_summary_prompt_is_tested_like_code() -> None:
    """`summarise` gets what a cut takes, and its text is in the requests after it."""
    asked: list[Sequence[Record]] = []

    def summarise(covered: Sequence[Record], previous: str) -> str:
        assert bool(previous) == bool(asked)
        asked.append(covered)
        return "\n".join(PLANTED.values())

    assert run(planted_session(), CUTTING, summarise=summarise).losses == ()
    assert asked[0][0].id == "r00000"


@pytest.mark.parametrize(
    "policy",
    [DoNothing(), KeepTurns(2), TrimTokens(), ClearResults(), Compact()],
    ids=lambda policy: policy.name,
)
def test_every_policy_can_be_evaluated(policy: Plays) -> None:
    """Sending everything overflows and loses nothing; a cleared result keeps its names."""
    report = run(planted_session(), policy)
    assert bool(report.losses) != isinstance(policy, DoNothing | ClearResults)
    assert bool(report.figures.overflows) == isinstance(policy, DoNothing)


def test_sources_are_files_folders_and_sessions(tmp_path: Path) -> None:
    """The same conversation has the same fingerprint, wherever it is read from."""
    records = planted_session(steps=2)
    store = MemoryStore()
    store.create(SessionKey("main", "work"), label="rollout")
    store.append(SessionKey("main", "work"), records, expect=ANY_HEAD)
    file = tmp_path / "work.jsonl"
    file.write_bytes(b"".join(store.export(SessionKey("main", "work"))))
    (tmp_path / "notes.txt").write_text("no transcript")
    found = [
        evaluate_sessions(EvaluationSource("a", records)),
        evaluate_sessions(file),
        evaluate_sessions(str(tmp_path)),
        evaluate_sessions("rollout", store=store),
    ]
    assert len({report.sessions[0].fingerprint for report in found}) == 1


def test_what_cannot_be_evaluated_says_why(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file or folder"):
        evaluate_sessions(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="no transcript in"):
        evaluate_sessions(tmp_path)
    for wrong in (["a.jsonl"], None, 3, b"a.jsonl"):
        with pytest.raises(UsageError, match=f"of type `{type(wrong).__name__}`"):
            evaluate_sessions(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no replies"):
        evaluate_sessions(EvaluationSource("a", [User(id="u", content="hello")]))


def count_steps(steps: int) -> int:
    """Return how many functions an evaluation calls: the same on every machine."""
    records = planted_session(steps=steps, lines=40)
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run(records)
    finally:
        sys.setprofile(before)
    return count


def test_work_is_linear_in_the_length_of_a_session() -> None:
    """Once a session is cut regularly, twice the calls are twice the work."""
    count_steps(5)  # what is compiled once is not counted
    assert count_steps(200) < 2.5 * count_steps(100)
