"""The frameworks' own tests, unmodified, with our classes in the place of theirs.

They come from the source archive of the installed release. A plugin puts our class where the
reference class is named, and lists each test that it leaves out with its reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support import peers

if TYPE_CHECKING:
    from pathlib import Path


def test_openai_agents_session_tests_pass(tmp_path: Path) -> None:
    """`HoldfastSession` in the place of `SQLiteSession`."""
    folder = peers.archive("openai-agents")
    paths = ("tests/memory/test_session.py", "tests/memory/test_session_limit.py")

    tests = peers.run_suite(folder, "holdfast_openai_agents", *paths, report=tmp_path / "report")

    check(tests, used=49, left_out=17)


def test_anthropic_memory_tool_tests_pass(tmp_path: Path) -> None:
    """`HoldfastMemoryTool` in the place of the local file tool, blocking and asynchronous."""
    peers.needs("http-snapshot")  # for their conftest; the SDK itself is in every environment
    folder = peers.archive("anthropic")
    path = "tests/lib/tools/memory_tools/test_filesystem.py"

    tests = peers.run_suite(folder, "holdfast_anthropic_memory", path, report=tmp_path / "report")

    check(tests, used=79, left_out=20)


def test_langgraph_saver_tests_pass(tmp_path: Path) -> None:
    """`HoldfastSaver` in the place of `InMemorySaver`, `SqliteSaver` and `AsyncSqliteSaver`."""
    suites = {
        "langgraph-checkpoint": ("tests/test_memory.py",),
        "langgraph-checkpoint-sqlite": (
            "tests/test_sqlite.py",
            "tests/test_get_delta_channel_history.py",
            "tests/test_delta_parent_walk.py",
            "tests/test_conformance_delta.py",
        ),
    }
    for package, paths in suites.items():
        folder = peers.archive(package)
        tests = peers.run_suite(folder, "holdfast_langgraph", *paths, report=tmp_path / package)
        used, left_out = (7, 9) if package == "langgraph-checkpoint" else (19, 7)
        check(tests, used=used, left_out=left_out)


def test_strands_session_manager_tests_pass(tmp_path: Path) -> None:
    """`HoldfastSessionRepository` in the place of the mocked repository."""
    folder = peers.archive("strands-agents")
    path = "tests/strands/session/test_repository_session_manager.py"

    tests = peers.run_suite(folder, "holdfast_strands", path, report=tmp_path / "report")

    check(tests, used=45, left_out=0)


def test_strands_storage_tests_pass(tmp_path: Path) -> None:
    """`HoldfastStorage` in the place of `InMemoryStorage` and `LocalFileStorage`."""
    folder = peers.archive("strands-agents")
    paths = (
        "tests/strands/storage/test_in_memory_storage.py",
        "tests/strands/storage/test_storage.py",
        "tests/strands/session/test_snapshot_session_manager.py",
    )

    tests = peers.run_suite(folder, "holdfast_strands_storage", *paths, report=tmp_path / "report")

    check(tests, used=142, left_out=0)


def check(tests: dict[str, dict[str, Any]], *, used: int, left_out: int) -> None:
    """Nothing failed; so many tests made an object of ours, and no more than that are left out.

    `used` is the number in the oldest release; newer ones have more tests.
    """
    bad = {name: test["why"] for name, test in tests.items() if test["outcome"] == "failed"}
    assert bad == {}
    passed = [test for test in tests.values() if test["outcome"] == "passed"]
    left = [test for test in tests.values() if test["outcome"] == "left out"]
    assert len(passed) + len(left) == len(tests)
    assert sum(test["made"] > 0 for test in passed) >= used
    assert len(left) <= left_out
