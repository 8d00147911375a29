"""An evaluation with the settings of a test run: sizes and files as text, and one baseline."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.evaluation.baseline import compare, read_baseline, write_baseline
from holdfast.core.projection.policy import POLICIES
from holdfast.core.window import Window
from holdfast.engine.simulation.evaluate import evaluate_sessions
from holdfast.engine.simulation.policy_files import read_policy
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.core.evaluation.report import Evaluation
    from holdfast.core.projection.policy import Policy


class EvaluationSettings(msgspec.Struct, frozen=True):
    """The settings of a test run; empty texts are not set."""

    root: str
    """The folder that relative paths of the settings start from."""
    window: str = ""
    policy: str = ""
    baseline: str = ""
    saves: bool = False
    """Write the baseline instead of comparing with it."""

    def evaluate(self, *sources: Any, **options: Any) -> tuple[Evaluation, str]:
        """Return the report, and in words what is worse than the baseline."""
        baseline = options.pop("baseline", None) or self.baseline
        if self.window:
            options.setdefault("window", _window(self.window))
        if self.policy:
            options.setdefault("policy", self._policy())
        report = evaluate_sessions(*sources, **options)
        if not baseline:
            return report, ""
        path = Path(self.root, baseline)
        if self.saves:
            path.write_bytes(write_baseline(report))
            return report, ""
        if not path.exists():
            raise UsageError(
                f"there is no baseline `{path}`",
                hint="write it with `pytest --holdfast-save-baseline`",
            )
        compared = compare(report, read_baseline(path.read_bytes(), str(path)))
        if not compared.worse:
            return report, ""
        lines = ["worse than the baseline:", *compared.worse]
        if compared.new_losses:
            lines += ["new losses:", report.describe(compared.new_losses)]
        return report, "\n".join(lines)

    def _policy(self) -> Policy:
        path = os.path.join(self.root, self.policy)
        is_name = self.policy in POLICIES and not os.path.exists(path)
        return POLICIES[self.policy] if is_name else read_policy(path)


def _window(text: str) -> Window:
    try:
        return Window(int(text.replace("_", "").replace(",", "")), "simulated")
    except ValueError as error:
        raise UsageError(
            f"`holdfast_window = {text}` is no number", hint="write the tokens: 64000"
        ) from error
