"""The recorder: real tools, what they really return, and nothing of the machine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from holdfast.core.log.records import (
    Assistant,
    Checkpoint,
    Record,
    ToolResult,
    User,
    text_of,
    tool_calls,
)
from holdfast.errors import UsageError
from holdfast.surfaces.cli.demo import recording
from holdfast.testing import recorder

SCRIPT = """
title = "A look around"
system = "Be careful."

[[facts]]
what = "the ticket"
text = "HF-1"

[[turns]]
user = "The ticket is HF-1. What is here?"
answer = "A README, and a note that I wrote."

[[turns.steps]]
say = "I look."
calls = [{ tool = "list_directory", path = "." }, { tool = "read_file", path = "README.md" }]

[[turns.steps]]
calls = [{ tool = "read_file", path = "../outside.txt" }]

[[turns.steps]]
calls = [{ tool = "write_file", path = "/scratch/note.py", text = "print(6 * 7)\\n" }]

[[turns.steps]]
interrupt = true
calls = [{ tool = "append_line", path = "/scratch/note.py", line = "raise SystemExit(3)" }]

[[turns.steps]]
calls = [{ tool = "run_command", command = "python /scratch/note.py" }]

[[turns.steps]]
calls = [{ tool = "search", pattern = "w.rld", path = "." }]

[[turns.steps]]
calls = [{ tool = "run_command", command = "pwd" }]

[[turns]]
after_minutes = 30
user = "Thank you."
answer = "You are welcome."
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README.md").write_text("# Hello\n\nworld\n")
    (tmp_path / "outside.txt").write_text("not yours")
    (tmp_path / "scratch").mkdir()
    (tmp_path / "script.toml").write_text(SCRIPT)
    return folder


def recorded(project: Path) -> list[Record]:
    script = recorder.load_script(project.parent / "script.toml")
    return recorder.record(script, project, project.parent / "scratch")


def outputs(records: list[Record]) -> dict[str, ToolResult]:
    return {one.tool_use_id: one for one in records if isinstance(one, ToolResult)}


def test_outputs_are_what_the_tools_returned(project: Path) -> None:
    """Files are read and written, commands run; refusals and failures are results like others."""
    found = outputs(recorded(project))

    assert found["call_001"].content == "README.md"
    assert "world" in text_of(found["call_002"].content)
    assert "outside the project" in text_of(found["call_003"].content)
    assert found["call_003"].is_error
    assert text_of(found["call_006"].content) == "42\n[exit status 3]"
    assert found["call_006"].is_error
    assert found["call_007"].content == "README.md:3: world"
    written = (project.parent / "scratch" / "note.py").read_text()
    assert written == "print(6 * 7)\nraise SystemExit(3)\n"


def test_nothing_of_the_machine_is_recorded(project: Path) -> None:
    """The project goes by another name, and no record has an id, a time or a usage."""
    records = recorded(project)
    text = "\n".join(str(record) for record in records)

    assert outputs(records)["call_008"].content == "/project"
    assert str(project.parent) not in text
    assert {(record.id, record.ts) for record in records} == {("", 0.0)}
    assert all(one.usage is None for one in records if isinstance(one, Assistant))


def test_recording_can_be_replayed(project: Path, tmp_path: Path) -> None:
    """What the recorder writes is what the demo reads: words, calls, facts, and where to kill."""
    records = recorded(project)
    recorder.write(records, tmp_path / "one.jsonl.gz")
    recorder.write(records, tmp_path / "two.jsonl.gz")
    found = recording.load(str(tmp_path / "one.jsonl.gz"))

    assert (tmp_path / "one.jsonl.gz").read_bytes() == (tmp_path / "two.jsonl.gz").read_bytes()
    assert isinstance(records[0], Checkpoint)
    assert found.title == "A look around"
    assert found.users == tuple(text_of(one.content) for one in records if isinstance(one, User))
    assert found.away_seconds == (0.0, 1_800.0)
    assert [fact.text for fact in found.facts] == ["HF-1"]
    assert found.interrupt == "call_005"
    assert found.calls == [
        call["id"]
        for one in records
        if isinstance(one, Assistant)
        for call in tool_calls(one.content)
    ]
    assert {tool.name for tool in found.tools} >= {"read_file", "run_command", "write_file"}
    assert list(found.whole) == sorted(found.whole)


def test_names_of_the_machine_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host and the home folder are seen in a text, as words; other words are not."""
    monkeypatch.setattr(socket, "gethostname", lambda: "build-7")
    home = str(Path("~").expanduser())

    assert recorder.machine_names(f"on build-7 in {home}/work") == sorted(["build-7", f"{home}/"])
    assert recorder.machine_names("rebuild-7 and build-77") == []


def test_recording_that_gives_the_machine_away_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a tool printed and no rule evens out stops the recording, with the name."""
    monkeypatch.setattr(socket, "gethostname", lambda: "world")

    with pytest.raises(UsageError, match="`world`"):
        recorded(project)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title = ", "cannot be read as a script"),
        ('title = "x"', "system"),
        (SCRIPT + '\n[[turns]]\nuser = "x"\nanswer = "y"\nsays = "z"\n', "says"),
    ],
)
def test_bad_scripts_are_refused_with_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    """A script that is no TOML, lacks something or has something unknown."""
    (tmp_path / "script.toml").write_text(text)

    with pytest.raises(UsageError, match=said):
        recorder.load_script(tmp_path / "script.toml")


def test_shipped_script_is_sound() -> None:
    """The script behind the demo can be read, and knows where the agent is killed."""
    script = recorder.load_script(recorder.SCRIPT)

    assert sum(step.interrupt for turn in script.turns for step in turn.steps) == 1
    asked = script.turns[-1].user
    assert not any(fact.text in asked for fact in script.facts)
