"""Every example runs without a key, and prints what it is about."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
EXPECTED = {
    "agent_with_tools.py": "Releases go out on Tuesdays.",
    "own_loop_anthropic.py": "It is sunny in Rome.",
    "own_loop_gemini.py": "It is sunny in Rome.",
    "own_loop_openai.py": "It is sunny in Rome.",
    "refund.py": "80 euros",
    "web_service.py": "4 requests, 2 answers, 3 messages stored",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_example_runs(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As its docstring says, in an empty folder and without keys."""
    for variable in ("HOLDFAST_MODEL", "HOLDFAST_ROOT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert EXPECTED[name] in capsys.readouterr().out


def test_every_example_is_run_and_listed() -> None:
    """None is forgotten here or in the list; each says how to run it and is short."""
    files = {path.name for path in EXAMPLES.glob("*.py")}
    assert files - {"test_own_agent.py"} == set(EXPECTED)  # pytest collects that one itself
    listing = (EXAMPLES / "README.md").read_text()
    for name in files:
        source = (EXAMPLES / name).read_text()
        assert f"[`{name}`]({name})" in listing
        assert f"examples/{name}\n" in source
        assert len(source.splitlines()) <= 70, name
