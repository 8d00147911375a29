"""What an outside suite did with a class of ours, test by test, as a JSON file."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest


class Report:
    """A pytest plugin: leaves tests out by name, and writes what became of each."""

    def __init__(self, left_out: Mapping[str, str]) -> None:
        self._left_out = left_out
        self._made = 0
        self.tests: dict[str, dict[str, Any]] = {}

    def count(self) -> None:
        """Count an object of ours that the running test made."""
        self._made += 1

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        kept = []
        for item in items:
            name = f"{item.cls.__name__}::{item.originalname}" if item.cls else item.originalname
            reason = self._left_out.get(item.originalname) or self._left_out.get(name)
            if reason is None:
                kept.append(item)
            else:
                self.tests[item.nodeid] = {"outcome": "left out", "why": reason}
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        del item
        self._made = 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or not report.passed:
            text = str(report.longrepr)[-2000:] if report.failed else ""
            self.tests[report.nodeid] = {
                "outcome": report.outcome,
                "made": self._made,
                "why": text,
            }

    def pytest_sessionfinish(self) -> None:
        with open(os.environ["HOLDFAST_SUITE_REPORT"], "w") as file:
            json.dump(self.tests, file)
