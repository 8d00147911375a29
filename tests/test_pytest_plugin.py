"""The pytest plugin evaluates sessions, and fails a test where they got worse."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.support.planted import planted_session

from holdfast.core.log.ids import SessionKey
from holdfast.ports import ANY_HEAD
from holdfast.stores import MemoryStore

pytest_plugins = ["pytester"]

PLUGIN = "holdfast.pytest_plugin"
TEST = """
def test_memory(holdfast_evaluation):
    report = holdfast_evaluation("work.jsonl", static=2_000)
    assert not report.losses_of("instruction", "task"), report.describe()
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # only what the test names
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    key, store = SessionKey("main", "work"), MemoryStore()
    store.create(key)
    store.append(key, planted_session(), expect=ANY_HEAD)
    Path(pytester.path, "work.jsonl").write_bytes(b"".join(store.export(key)))
    Path(pytester.path, "forgetful.toml").write_text('keep = 0.01\nallow = ["nothing"]\n')
    pytester.makepyfile(TEST)
    return pytester


def settings(project: pytest.Pytester, *lines: str) -> None:
    text = "\n".join(("[pytest]", "holdfast_window = 32_000", *lines))
    Path(project.path, "pytest.ini").write_text(text + "\n")


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", PLUGIN, "-p", "no:cacheprovider", *options)


def test_the_settings_choose_window_and_policy(project: pytest.Pytester) -> None:
    settings(project)
    run(project).assert_outcomes(passed=1)
    settings(project, "holdfast_policy = forgetful.toml")
    failed = run(project)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["*task `Rotate the staging*taken by cut 1 before call *"])


def test_a_baseline_is_written_and_then_held(project: pytest.Pytester) -> None:
    project.makepyfile(TEST.replace("    assert", "    return\n    assert"))
    settings(project, "holdfast_baseline = memory.json")
    run(project).stdout.fnmatch_lines(["*no baseline*"])
    run(project, "--holdfast-save-baseline").assert_outcomes(passed=1)
    run(project).assert_outcomes(passed=1)
    settings(project, "holdfast_baseline = memory.json", "holdfast_policy = forgetful.toml")
    failed = run(project)
    failed.assert_outcomes(failed=1)
    failed.stdout.fnmatch_lines(["worse than the baseline:", "task: 1 lost, 0 before"])


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    file = Path(__file__).parent.parent / "pyproject.toml"
    assert tomllib.loads(file.read_text())["project"]["entry-points"]["pytest11"] == {
        "holdfast": PLUGIN
    }


def test_loading_the_plugin_loads_nothing_of_holdfast() -> None:
    """It is imported in every test run of everybody who has Holdfast installed."""
    script = f"import sys, {PLUGIN}; print(*(name for name in sys.modules if 'holdfast' in name))"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert set(loaded) == {"holdfast", "holdfast._public", PLUGIN}
