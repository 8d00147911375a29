"""A plugin for the tests of Strands: our storage in the place of its memory and its files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from suite_report import Report  # type: ignore[import-not-found, unused-ignore]

from holdfast.integrations.strands import HoldfastStorage

if TYPE_CHECKING:
    import pytest

report = Report({})


class InMemoryStorage(HoldfastStorage):
    """Takes the arguments of `InMemoryStorage`; each is a store in memory."""

    def __init__(self, **options: Any) -> None:
        report.count()
        super().__init__(root="memory:", **options)


class LocalFileStorage(HoldfastStorage):
    """Takes the arguments of `LocalFileStorage`; each is a folder."""

    def __init__(self, base_dir: str = "strands", **options: Any) -> None:
        report.count()
        super().__init__(root=str(base_dir), **options)


for module in ("strands.storage", "strands.storage.in_memory_storage"):
    theirs: Any = import_module(module)
    theirs.InMemoryStorage = InMemoryStorage
for module in ("strands.storage", "strands.storage.local_file_storage"):
    theirs = import_module(module)
    theirs.LocalFileStorage = LocalFileStorage


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(report)
