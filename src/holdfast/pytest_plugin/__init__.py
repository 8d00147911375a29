"""A pytest plugin: test the memory of your agent on your own sessions.

    def test_nothing_is_forgotten(holdfast_evaluation):
        report = holdfast_evaluation("transcripts/")
        assert not report.losses_of("instruction", "task"), report.describe()

Settings of `pytest.ini` or `pyproject.toml`: `holdfast_window`, `holdfast_policy` (a TOML or JSON
file), `holdfast_baseline`. Nothing of Holdfast is imported before a test asks for the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.evaluation.report import Evaluation


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings, and the option that writes a baseline."""
    parser.addini("holdfast_window", "the context window in tokens to replay sessions with")
    parser.addini("holdfast_policy", "a TOML or JSON file with the thresholds of a policy")
    parser.addini("holdfast_baseline", "the baseline that evaluations are compared with")
    parser.getgroup("holdfast").addoption(
        "--holdfast-save-baseline",
        action="store_true",
        help="write the baseline of `holdfast_baseline` instead of comparing with it",
    )


@pytest.fixture
def holdfast_evaluation(pytestconfig: pytest.Config) -> Callable[..., Evaluation]:
    """Return a function that evaluates sessions; it fails the test where they got worse.

    It takes what `holdfast.evaluation.evaluate_sessions` takes; the settings are its defaults.
    """
    from holdfast.engine.simulation.evaluate import EvaluationSettings

    def setting(name: str) -> str:
        return str(pytestconfig.getini(f"holdfast_{name}") or "").strip()

    settings = EvaluationSettings(
        root=str(pytestconfig.rootpath),
        window=setting("window"),
        policy=setting("policy"),
        baseline=setting("baseline"),
        saves=bool(pytestconfig.getoption("--holdfast-save-baseline")),
    )

    def evaluate(*sources: Any, **options: Any) -> Evaluation:
        __tracebackhide__ = True
        report, worse = settings.evaluate(*sources, **options)
        if worse:
            pytest.fail(worse, pytrace=False)
        return report

    return evaluate
