"""A plugin for the tests of anthropic: our memory tool in the place of the local file one."""

from __future__ import annotations

import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio import Path as AsyncPath
from suite_report import Report  # type: ignore[import-not-found, unused-ignore]

from holdfast.integrations.anthropic_memory import HoldfastAsyncMemoryTool, HoldfastMemoryTool

if TYPE_CHECKING:
    import pytest

_LARGE = "writes 5 MB into one file; a note has at most 256,000 characters, and `create` says so"
_INSIDES = "calls private methods of the local file tool"
_OPENS = "checks which path the local file tool opens first"
_LINKS = "puts symbolic links into the folder; a link is no note, wherever it leads"
LEFT_OUT = {
    "test_view_error_for_files_with_too_many_lines": _LARGE,
    "test_validate_path_returns_resolved_path_not_symlink_target": _INSIDES,
    "test_read_rejects_symlink_created_after_validation": _INSIDES,
    "test_view_rejects_directory_symlink_created_after_validation": _INSIDES,
    "test_read_rejects_file_replaced_with_symlink_before_open": _OPENS,
    "test_view_lists_symlinks_only_when_they_stay_inside_memories": _LINKS,
    "TestBetaAsyncLocalFilesystemMemoryTool::"
    "test_mkdir_parents_not_world_writable_under_permissive_umask": _INSIDES,
}
"""Tests that cannot be about another class, by name, each with the reason."""

report = Report(LEFT_OUT)


class _Local:
    """Takes the arguments of the SDK's class, and has the folders that its tests look at."""

    notes: Any
    make_root: Any

    def __init__(self, base_path: str = "", **about: Any) -> None:
        report.count()
        super().__init__(root=base_path, **about)  # type: ignore[call-arg]
        self.notes.put("first", None, b"")
        self.notes.discard("first")
        self.memory_root = self.make_root(self.notes.location)

    @property
    def base_path(self) -> str:
        """A folder with a copy of the notes below `memories`."""
        folder = tempfile.mkdtemp()
        for file in self.notes.files():
            path = os.path.join(folder, "memories", file.path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as written:
                written.write(self.notes.data(file.path))
        return folder


class LocalTool(_Local, HoldfastMemoryTool):
    """In the place of the blocking tool."""

    make_root = Path


class AsyncLocalTool(_Local, HoldfastAsyncMemoryTool):
    """In the place of the asynchronous one."""

    make_root = AsyncPath


theirs: Any = import_module("anthropic.lib.tools._beta_builtin_memory_tool")
theirs.BetaLocalFilesystemMemoryTool = LocalTool
theirs.BetaAsyncLocalFilesystemMemoryTool = AsyncLocalTool


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(report)
