"""Homes of other tools, adopted whole, again, and with what is wrong in them."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine import homes

from holdfast import SessionKey, ToolResult, User
from holdfast.core.checkpoint.render import render_checkpoint
from holdfast.core.log.records import text_of
from holdfast.engine.adoption import AdoptionReport, HomeAdopter
from holdfast.engine.outputs import Outputs
from holdfast.engine.session import checkpoints
from holdfast.importers.homes import scan
from holdfast.stores import ANY_HEAD, MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

SCOUT = SessionKey("scout", "openclaw-1")


def adopt(store: MemoryStore, folder: Path, **more: Any) -> AdoptionReport:
    before = homes.state_of(folder)
    report = HomeAdopter(store, agent="main", **more).adopt(scan(str(folder)))
    assert homes.state_of(folder) == before, "the source was written to"
    return report


def states(report: AdoptionReport) -> list[tuple[str, str, int]]:
    return [(str(each.session.key), each.session.state, each.session.added)
            for each in report.sessions]  # fmt: skip


@pytest.mark.parametrize("has_database", [False, True], ids=["files", "SQLite"])
def test_openclaw_comes_with_keys_and_labels_and_grows(tmp_path: Path, has_database: bool) -> None:
    """As files and as a database, twice the same, and then longer."""
    write = homes.openclaw_database if has_database else homes.openclaw_files
    store = MemoryStore()
    write(tmp_path, 2)

    first, again = adopt(store, tmp_path), adopt(store, tmp_path)
    write(tmp_path, 3)
    grown = adopt(store, tmp_path)

    assert states(first) == [("scout/openclaw-1", "new", 8)]
    assert states(again) == [("scout/openclaw-1", "same", 0)]
    assert states(grown) == [("scout/openclaw-1", "grown", 4)]
    assert store.info(SCOUT).label == "Ann's chat"
    records = list(store.read(SCOUT))
    assert records[1].extra["imported"]["key"] == homes.KEY
    asked = [text_of(each.content) for each in records if isinstance(each, User)]
    assert asked == ["Question 0", "Question 1", "Question 2"]
    assert store.info(SCOUT).last_active < 1_800_000_000


def test_a_database_and_the_files_before_it_are_one_session(tmp_path: Path) -> None:
    """OpenClaw moved its transcripts; whoever adopted the files goes on from there."""
    store = MemoryStore()
    homes.openclaw_files(tmp_path / "old", 2)
    homes.openclaw_database(tmp_path / "new", 3)
    adopt(store, tmp_path / "old")
    assert states(adopt(store, tmp_path / "new")) == [("scout/openclaw-1", "grown", 4)]


def test_a_database_in_use_is_read_with_its_log(tmp_path: Path) -> None:
    """What is in the write-ahead log alone counts, and the source keeps every byte."""
    path = homes.openclaw_database(tmp_path, 2, has_wal=True)
    writer = sqlite3.connect(path)
    event = json.dumps({**homes.entries(3)[-4], "parentId": "e8"})
    writer.execute("INSERT INTO transcript_events VALUES ('openclaw-1', 99, ?, NULL)", (event,))
    writer.commit()
    try:
        assert path.with_name(f"{path.name}-wal").stat().st_size > 0
        assert states(adopt(MemoryStore(), tmp_path)) == [("scout/openclaw-1", "new", 9)]
    finally:
        writer.close()


def test_outputs_and_notes_come_along(tmp_path: Path) -> None:
    """An output by its call, notes by their names; credentials and strange outputs stay."""
    store = MemoryStore()
    homes.openclaw_files(tmp_path)

    report = adopt(store, tmp_path)

    assert [(each.agent, each.name, each.state) for each in report.notes] == [
        ("main", "MEMORY.md", "new"),
        ("main", "2026-01-05.md", "new"),
    ]
    assert store.notes("main").data("2026-01-05.md") == b"- Ann likes tea.\n"
    (found,) = [each for each in store.read(SCOUT)
                if isinstance(each, ToolResult) and each.output_ref]  # fmt: skip
    assert "".join(Outputs(store, store.blobs).text(SCOUT, found.id)) == homes.OUTPUT
    left = {each.path.rpartition("/")[2]: each for each in report.left}
    assert "never read" in left["telegram.json"].why
    assert "no record names" in left["1770000000000-exec-gone.json"].why
    assert report.is_complete
    for file in tmp_path.glob("**/tool-output/*"):
        file.unlink()
    assert states(adopt(store, tmp_path)) == [("scout/openclaw-1", "same", 0)]


def test_notes_that_changed_here_keep_their_own_version(tmp_path: Path) -> None:
    """A source that only grew replaces its note; anything else stands beside it, once."""
    store = MemoryStore()
    homes.openclaw_files(tmp_path)
    adopt(store, tmp_path)
    note = tmp_path / ".openclaw" / "workspace" / "memory" / "2026-01-05.md"
    note.write_text("- Ann likes tea.\n- And cake.\n")
    assert {each.state for each in adopt(store, tmp_path).notes} == {"same", "grown"}
    store.notes("main").put("MEMORY.md", b"- Releases go out on Tuesdays.\n", b"- mine\n")
    renamed = adopt(store, tmp_path)
    assert next((each.name, each.state) for each in renamed.notes) == (
        "MEMORY-adopted.md",
        "renamed",
    )
    assert {each.state for each in adopt(store, tmp_path).notes} == {"same"}
    assert store.notes("main").data("MEMORY.md") == b"- mine\n"


def test_opencode_in_its_database(tmp_path: Path) -> None:
    """Session, message and part are tables now."""
    store = MemoryStore()
    homes.opencode_database(tmp_path)
    assert states(adopt(store, tmp_path)) == [("main/ses_1", "new", 2)]
    assert store.info(SessionKey("main", "ses_1")).label == "Tea"


def test_claw0_comes_with_its_labels(tmp_path: Path) -> None:
    """The index is beside the folder of the transcripts; second copies of calls stay out."""
    store = MemoryStore()
    homes.claw0(tmp_path)
    report = adopt(store, tmp_path)
    assert states(report) == [("claw0/0123456789ab", "new", 3)]
    assert store.info(report.sessions[0].session.key).label == "first"


def test_universal_agent_is_found_by_its_checkpoints(tmp_path: Path) -> None:
    """As JSON and as Markdown alone; a copy is no second one; failed approaches appear once."""
    store = MemoryStore()
    homes.universal_agent(tmp_path)
    report = adopt(store, tmp_path)
    assert states(report) == [("main/tg_7", "new", 1), ("main/tg_8", "new", 1)]
    assert {state for _key, state, _added in states(adopt(store, tmp_path))} == {"same"}
    for name, failed, asked in (
        ("tg_7", "by hand", "Write a report"),
        ("tg_8", "by plane", "trip"),
    ):
        state = checkpoints.load(store, SessionKey("main", name)).state
        assert state is not None
        assert render_checkpoint(state).count(failed) == 1
        assert asked in render_checkpoint(state)
    newer = tmp_path / "AGENT_RUN_WORKSPACES" / "tg_8" / "run_checkpoint.json"
    newer.write_text(json.dumps({"session_id": "tg_8", "original_request": "Another trip"}))
    assert ("main/tg_8", "grown", 1) in states(adopt(store, tmp_path))


def test_what_is_wrong_is_told_and_stays_behind(tmp_path: Path) -> None:
    """Links, damaged lines, rows and indexes, and a database that is none of theirs."""
    store = MemoryStore()
    homes.openclaw_files(tmp_path / "a")
    path = homes.openclaw_database(tmp_path / "b")
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(homes.lines(homes.entries(1, "secret")))
    inside = tmp_path / "a" / ".openclaw"
    (inside / "link.jsonl").symlink_to(outside)
    (inside / "folder").symlink_to(tmp_path)
    sessions = inside / "agents" / "scout" / "sessions"
    index = json.loads((sessions / "sessions.json").read_text())
    index["agent:main:gone"] = {"sessionId": "gone"}
    (sessions / "sessions.json").write_text(json.dumps(index))
    with (sessions / "openclaw-1.jsonl").open("ab") as file:
        file.write(b'{"type": "mess')
    (inside / "broken.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 5_000)

    report = adopt(store, tmp_path / "a")

    assert not report.is_complete
    troubles = "\n".join(f"{each.path}: {each.why}" for each in report.left if each.is_trouble)
    for word in (
        "link.jsonl",
        "folder",
        "session gone is in the index",
        "damaged",
        "broken.sqlite",
    ):
        assert word in troubles
    assert [key.session for key in tuple(store.keys())] == ["openclaw-1"]
    with sqlite3.connect(path) as database:
        database.execute("UPDATE transcript_events SET event_zstd = x'00' WHERE seq = 7")
    database.close()
    report = adopt(MemoryStore(), tmp_path / "b")
    assert any("1 damaged rows" in each.why for each in report.left)
    assert not report.is_complete


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    """It says what the run will say."""
    store = MemoryStore()
    homes.openclaw_files(tmp_path)
    homes.universal_agent(tmp_path)
    said = adopt(store, tmp_path, is_dry_run=True)
    assert not list(store.keys())
    assert not store.notes("main").files()
    assert not list(store.blobs)
    done = adopt(store, tmp_path)
    assert states(said) == states(done)
    assert said.notes == done.notes
    assert said.left == done.left


def test_a_source_and_a_session_that_both_went_on_are_two(tmp_path: Path) -> None:
    """The session stays, and a fork has what the source has."""
    store = MemoryStore()
    homes.openclaw_files(tmp_path, 1)
    adopt(store, tmp_path)
    store.append(SCOUT, [User(content="mine")], expect=ANY_HEAD)
    homes.openclaw_files(tmp_path, 2)
    assert states(adopt(store, tmp_path)) == [("scout/openclaw-1-fork", "forked", 4)]
    assert states(adopt(store, tmp_path)) == [("scout/openclaw-1-fork", "same", 0)]
