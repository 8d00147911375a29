"""The frameworks' own tests, unmodified, with our classes in the place of theirs.

They come from the source archive of the installed release. A plugin puts our class where the
reference class is named, and lists each test that it leaves out with its reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support import peers

if TYPE_CHECKING:
    from pathlib import Path


def test_openai_agents_session_tests_pass(tmp_path: Path) -> None:
    """`HoldfastSession` in the place of `SQLiteSession`."""
    folder = peers.archive("openai-agents")
    paths = ("tests/memory/test_session.py", "tests/memory/test_session_limit.py")

    tests = peers.run_suite(folder, "holdfast_openai_agents", *paths, report=tmp_path / "report")

    bad = {name: test["why"] for name, test in tests.items() if test["outcome"] == "failed"}
    assert bad == {}
    passed = [test for test in tests.values() if test["outcome"] == "passed"]
    left_out = [test for test in tests.values() if test["outcome"] == "left out"]
    assert len(passed) + len(left_out) == len(tests)
    assert sum(test["made"] > 0 for test in passed) >= 49  # those that made a session of ours
    assert len(left_out) <= 17
