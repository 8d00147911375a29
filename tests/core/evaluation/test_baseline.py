"""A baseline is compared with the same sessions, and holds none of their words."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.evaluation.baseline import compare, read_baseline, write_baseline
from holdfast.core.evaluation.losses import LastSeen, Loss, ViewCut
from holdfast.core.evaluation.needs import NEED_KINDS, NeedKind
from holdfast.core.evaluation.report import Evaluation, Figures, SessionEvaluation
from holdfast.errors import UsageError


def a_loss(kind: NeedKind = "name", text: str = "alpha_beta") -> Loss:
    return Loss(kind, text, "r2", 2, 1, LastSeen("r1", "user", 1), ViewCut(1, 2), ())


def an_evaluation(*losses: Loss, fingerprint: str = "f", **figures: float) -> Evaluation:
    known = {"calls": 10, "cost": 1.0, "tokens_sent": 1_000, "tokens_read": 900, **figures}
    session = SessionEvaluation(
        "s", fingerprint, msgspec.convert(known, Figures), dict.fromkeys(NEED_KINDS, 5), losses
    )
    return Evaluation("holdfast", 64_000, (session,))


BEFORE = an_evaluation(a_loss(), a_loss("instruction", "Never push."), overflows=1)


def worse(after: Evaluation) -> tuple[str, ...]:
    return compare(after, read_baseline(write_baseline(BEFORE), "b.json")).worse


def test_the_same_and_less_are_no_worse() -> None:
    assert worse(BEFORE) == ()
    assert worse(an_evaluation()) == ()


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (an_evaluation(a_loss(), a_loss("name", "other_name")), "name: 2 lost, 1 before"),
        (an_evaluation(a_loss("instruction", "Ask first.")), "instruction: 1 lost that were not"),
        (an_evaluation(overflows=2), "overflows: 2, 1 before"),
        (an_evaluation(invalid=1), "invalid: 1, 0 before"),
        (an_evaluation(cost=1.06), "cost: $1.06, $1.00 before"),
        (an_evaluation(tokens_read=800), "cache reads: 80.0% of the input, 90.0% before"),
    ],
)
def test_each_way_to_get_worse_is_seen(after: Evaluation, words: str) -> None:
    (found,) = worse(after)
    assert found.startswith(words)


def test_a_little_dearer_and_another_name_are_no_worse() -> None:
    assert worse(an_evaluation(a_loss("name", "other_name"), cost=1.04, tokens_read=860)) == ()


def test_no_word_of_a_session_is_in_a_baseline() -> None:
    data = write_baseline(an_evaluation(a_loss("instruction", "hunter2 is the password")))
    assert b"hunter2" not in data


def test_other_records_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="none of these 1 sessions as they are now"):
        worse(an_evaluation(fingerprint="other"))


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"policy": 1}', b"\xff"])
def test_what_is_no_baseline_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"`b\.json` is not a baseline"):
        read_baseline(data, "b.json")
