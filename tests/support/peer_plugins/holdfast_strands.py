"""A plugin for the tests of Strands: our repository in the place of the mocked one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from suite_report import Report  # type: ignore[import-not-found, unused-ignore]

from holdfast.integrations.strands import HoldfastSessionRepository

if TYPE_CHECKING:
    import pytest

report = Report({})


class Repository(HoldfastSessionRepository):
    """Takes no arguments, as the mocked one; each is a store in memory."""

    def __init__(self) -> None:
        report.count()
        super().__init__(root="memory:")


theirs: Any = import_module("tests.fixtures.mock_session_repository")
theirs.MockedSessionRepository = Repository


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(report)
