"""Every command and every slash command does the same on every store.

Commands are found by introspection, and `tests/surfaces/test_leaks.py` has arguments for each. They
run on a store in files and on one in memory with the same content; what they print and what they
leave in the store must be the same.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.surfaces.chats import Seat
from tests.surfaces.test_leaks import plant, plant_file, shown, ways_to_call

from holdfast.engine.session import opening
from holdfast.stores import JsonlStore, MemoryStore
from holdfast.stores import opening as stores_opening
from holdfast.stores.notes.table import MemoryNoteTable
from holdfast.surfaces import cli, slash_commands

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.stores import SessionStore

NOW = 1_763_294_400.0
STORES = ("files", "memory")
NAMES = sorted(name for commands in cli.COMMANDS.values() for name in commands)


@contextmanager
def planted_store(kind: str, folder: Path) -> Iterator[SessionStore]:
    """Make a store with the same content, ids and times in each of its kinds."""
    same: dict[str, Any] = {"clock": lambda: NOW, "entropy": lambda _bits: 0}
    made = JsonlStore(folder, **same) if kind == "files" else MemoryStore(**same)
    with made as store:
        plant(store)
        yield store


def state_of(store: SessionStore) -> object:
    """Return everything that a store holds."""
    agents = sorted(store.agents())
    return {
        "logs": {str(key): b"".join(store.export(key)) for key in sorted(store.keys())},
        "trash": sorted(trashed.key for trashed in store.trash()),
        "blobs": sorted(store.blobs),
        "notes": {name: [note.text for note in store.notes(name).notes()] for name in agents},
        "audit": [
            msgspec.structs.replace(access, ts=0.0) for access in store.audit.entries().accesses
        ],
        "summaries": {str(key): store.summaries.load(key) for key in sorted(store.keys())},
        "index": sorted(
            (source.kind, source.name, source.passages) for source in store.search_index.sources()
        ),
    }


def run_on(kind: str, argv: list[str], folder: Path, patch: pytest.MonkeyPatch) -> object:
    """Return what a command prints, and what the store holds afterwards."""
    with planted_store(kind, folder) as store, patch.context() as here:
        here.setattr(stores_opening, "open_store", lambda _address, **_options: store)
        here.setattr(store, "close", lambda: None)  # what is in memory is looked at below
        here.setattr(MemoryStore, "caveat", "")  # said on every call; tests/stores has a test of it
        text = shown([*argv, "--root", "anywhere"], patch, is_terminal=False)
        text = text.replace(store.notes("main").location, "NOTES")
        text = text.replace(f"`{store.describe()}`", "STORE")
        return without_chance(text), without_chance(repr(state_of(store)))


def without_chance(text: str) -> str:
    """Return a text without what differs between two runs on the same store: time and chance."""
    text = re.sub(r"20\d\d-\d\d-\d\d[T ][\d:.+Z-]+", "TIME", text)
    text = re.sub(r"ckpt_\d+_(\w+)_[0-9a-f]{8}", r"ckpt_\1", text)
    text = re.sub(r'"name":"main\.[^"]*"', '"name":"IN TRASH"', text)
    text = re.sub(r"\b1[7-9]\d{8}\.\d+", "SECONDS", text)
    return re.sub(r"\b[0-9a-f]{12}\b", "ID", text)


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("name", NAMES)
def test_a_command_does_the_same_on_every_store(
    name: str, more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It prints the same and leaves the same behind, whatever keeps the sessions."""
    with planted_store("memory", tmp_path) as store:
        ways = ways_to_call(store, tmp_path)[name]
    plant_file(tmp_path)
    for number, way in enumerate(ways):
        found = {}
        for kind in STORES:
            folder = tmp_path / f"{number}-{kind}"
            found[kind] = run_on(kind, [name, *way, *more], folder, monkeypatch)
            (tmp_path / "page.html").unlink(missing_ok=True)
        assert found["memory"] == found["files"], way


def test_slash_commands_do_the_same_on_every_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every slash command, without and with an argument, after a turn."""
    found: dict[str, list[str]] = {}
    for kind in STORES:
        numbers = count(1)  # sessions of the same time are listed by their ids
        monkeypatch.setattr(opening, "new_session_id", lambda _bits, n=numbers: f"{next(n):012x}")
        with planted_store(kind, tmp_path / kind) as store:
            seat = Seat(store, clock=lambda: NOW)
            seat.say("always answer in French")
            found[kind] = [
                without_chance(f"{said}: {seat(said).text}")
                for command in slash_commands.COMMANDS
                for said in (f"/{command.name}", f"/{command.name} work")
                if command.name not in ("quit", "exit")
            ]
            seat.chat.close()
    assert found["memory"] == found["files"]


def test_the_walk_notices_a_store_that_keeps_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that drops its notes, as those without folders once did, is found."""
    argv = ["memory", "add", "Releases go out on Tuesdays."]
    kept = run_on("memory", argv, tmp_path, monkeypatch)
    keep = MemoryNoteTable.save

    def drop(table: MemoryNoteTable, path: str, data: bytes | None) -> None:
        keep(table, path, None if data and b"Tuesdays" in data else data)

    monkeypatch.setattr(MemoryNoteTable, "save", drop)
    assert run_on("memory", argv, tmp_path, monkeypatch) != kept
