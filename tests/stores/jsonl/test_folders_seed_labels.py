"""Labels in the seed's index file, beside its logs: shown until the log says one, never written."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Label, User
from holdfast.core.owners import ANY_OWNER
from holdfast.ports import ANY_HEAD
from holdfast.stores.jsonl import index
from holdfast.stores.jsonl.store import JsonlStore

SAYS = ("nothing", "header", "label", "no label")
"""How a log says its label."""


def seed_folder(root: Path, rows: Any, *logs: str, agent: str = "claw0") -> Path:
    """A folder as the seed leaves it; returns its index file."""
    folder = root / "agents" / agent / "sessions"
    folder.mkdir(parents=True)
    for session in logs:
        line = json.dumps({"type": "user", "content": "Hi", "ts": 1_770_000_000.0})
        (folder / f"{session}.jsonl").write_text(f"{line}\n", "utf-8")
    path = folder.parent / "sessions.json"
    path.write_text(json.dumps(rows, indent=2, ensure_ascii=False), "utf-8")
    return path


def row(label: Any) -> dict[str, Any]:
    """A row as the seed writes it."""
    time = "2026-02-01T10:00:00.000000+00:00"
    return {"label": label, "created_at": time, "last_active": time, "message_count": 1}


@pytest.fixture(params=("every file", "by page"))
def listing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by page":
        monkeypatch.setattr(index, "_SMALL_ROOT", -1)


@pytest.mark.usefixtures("listing")
@examples(50)
@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.tuples(st.sampled_from(SAYS), st.sampled_from(("", "mine", "my  project", "世界"))),
        min_size=1,
    ),
)
def test_the_log_wins_and_the_seed_names_the_others(found: dict[str, tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root, expected = Path(folder), {}
        rows = {session: row(label) for session, (_says, label) in found.items()}
        silent = [session for session, (says, _label) in found.items() if says != "header"]
        path = seed_folder(root, rows, *silent)
        before = path.read_bytes()
        with JsonlStore(root) as store:
            for session, (says, label) in found.items():
                key = SessionKey("claw0", session)
                if says == "header":
                    store.create(key, label="ours")
                elif says != "nothing":
                    said = "ours" if says == "label" else ""
                    store.append(key, [Label(label=said), User(content="x")], expect=ANY_HEAD)
                expected[key] = {"nothing": " ".join(label.split()), "no label": ""}.get(
                    says, "ours"
                )
            for _again in range(2):  # from the logs, and from the rows
                assert {
                    info.key: info.label for info in store.sessions(owner=ANY_OWNER)
                } == expected
                assert {
                    info.key: info.label for info in store.sessions(limit=9, owner=ANY_OWNER)
                } == expected
                assert {key: store.info(key).label for key in expected} == expected
                for label in ("", "ours", "mine", "my project", "世界"):
                    named = {info.key for info in store.sessions(label=label, owner=ANY_OWNER)}
                    assert named == {key for key, has in expected.items() if has == label}
        assert path.read_bytes() == before


@pytest.mark.usefixtures("listing")
def test_a_label_that_the_seed_gives_later_is_seen(tmp_path: Path) -> None:
    path = seed_folder(tmp_path, {}, "a")
    with JsonlStore(tmp_path) as store:
        assert [info.label for info in store.sessions(owner=ANY_OWNER)] == [""]
        path.write_text(json.dumps({"a": row("new")}), "utf-8")
        assert [info.label for info in store.sessions(limit=5, owner=ANY_OWNER)] == ["new"]
        os.unlink(path)
        assert [info.label for info in store.sessions(owner=ANY_OWNER)] == [""]


DAMAGED = st.one_of(
    st.binary(max_size=40),
    st.integers(0, 120).map(lambda end: json.dumps({"a": row("x")}).encode()[:end]),
    st.sampled_from((b"[" * 100_000, b"[]", b"null", b'{"a": 1, "b": [], "c": {"label": 7}}')),
)


@examples(100)
@given(DAMAGED)
def test_damage_costs_labels_and_nothing_else(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = seed_folder(Path(folder), {}, "a", "b")
        path.write_bytes(data)
        with JsonlStore(folder) as store:
            assert {info.key.session: info.label for info in store.sessions(owner=ANY_OWNER)} == {
                "a": "",
                "b": "",
            }
            assert store.info(SessionKey("claw0", "a")).messages == 1
        assert path.read_bytes() == data


@pytest.mark.parametrize("what", ["folder", "link", "pipe"])
def test_what_is_no_file_is_not_read(tmp_path: Path, what: str) -> None:
    path = seed_folder(tmp_path, {"a": row("x")}, "a")
    kept = path.rename(tmp_path / "elsewhere.json")
    if what == "folder":
        path.mkdir()
    elif what == "link":
        path.symlink_to(kept)
    else:
        os.mkfifo(path)
    with JsonlStore(tmp_path) as store:
        assert [info.label for info in store.sessions(owner=ANY_OWNER)] == [""]


def test_a_bad_row_leaves_the_others(tmp_path: Path) -> None:
    rows = {"a": row(7), "b": "text", "c": row("two\nlines"), "d": row("x" * 900), "../e": row("y")}
    seed_folder(tmp_path, rows, "a", "b", "c", "d")
    with JsonlStore(tmp_path) as store:
        labels = {info.key.session: info.label for info in store.sessions(owner=ANY_OWNER)}
    assert {name: labels[name] for name in "abc"} == {"a": "", "b": "", "c": "two lines"}
    assert len(labels["d"]) == 200
