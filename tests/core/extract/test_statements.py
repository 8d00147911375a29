"""Sentences that say why, and announced steps, which do not."""

from __future__ import annotations

import pytest

from holdfast.core.extract.statements import find_reasons
from holdfast.core.log.records import Assistant
from holdfast.core.narrative.carryover import carry_over
from holdfast.core.tokens.counting import Estimator


@pytest.mark.parametrize(
    "sentence",
    [
        "I kept SQLite because the tests need no server.",
        "The issue was that `save` ran before the lock was taken.",
        "It now uses a prefix match instead of comparing whole hashes.",
        "Ich habe die alte Funktion behalten, weil zwei Tests sie brauchen.",
        "J'ai gardé SQLite parce que les tests n'ont pas de serveur.",
    ],
)
def test_a_reason_is_found(sentence: str) -> None:
    assert find_reasons(f"Done. {sentence} Next I run the tests.") == [sentence]


@pytest.mark.parametrize(
    "text",
    [
        "Let me check the parser, because the test fails there.",
        "Now let me delete the helper since it is no longer needed by anyone:",
        "All tests pass and the branch is pushed to the remote.",
        "```\n# because of the lock we wait here for a while\n```",
    ],
)
def test_an_announced_step_or_code_is_none(text: str) -> None:
    assert find_reasons(text) == []


def test_reasons_are_carried_over_once_and_over_cuts() -> None:
    reason = "I kept SQLite because the tests need no server."
    said = [Assistant(content=[{"type": "text", "text": reason}], id=f"a{n}") for n in range(3)]
    first = carry_over(said, cap_tokens=800, counter=Estimator())
    second = carry_over([], cap_tokens=800, counter=Estimator(), previous=first.text)
    assert first.text.count(reason) == second.text.count(reason) == 1
