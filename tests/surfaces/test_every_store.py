"""Every command and every slash command does the same on every store.

Commands are found by introspection, and `tests/surfaces/test_leaks.py` has arguments for each. They
run on stores in files, in memory and in a database, with the same content; what they print and what
they leave in the store must be the same.
"""

from __future__ import annotations

import re
import shutil
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.support.runs import sample
from tests.surfaces.chats import Seat
from tests.surfaces.test_leaks import plant, plant_file, shown, ways_to_call

from holdfast.engine.session import opening
from holdfast.stores import MemoryStore
from holdfast.stores import opening as stores_opening
from holdfast.stores.notes.table import MemoryNoteTable
from holdfast.surfaces import slash_commands
from holdfast.surfaces.cli.help import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.stores import SessionStore

NOW = 1_763_294_400.0
ANYWHERE = "anywhere"
"""The address of the store that a command is to use; others are what they say."""
MODES: list[list[str]] = [[], ["--json"]]
NAMES = sorted(COMMANDS)


@contextmanager
def planted_store(address: str) -> Iterator[SessionStore]:
    """Make a store with the same content, ids and times wherever it is."""
    with stores_opening.open_store(address, clock=lambda: NOW, entropy=lambda _bits: 0) as store:
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


def run_on(address: str, argv: list[str], patch: pytest.MonkeyPatch) -> object:
    """Return what a command prints, and what the store holds afterwards."""
    with planted_store(address) as store, patch.context() as here:
        real = stores_opening.open_store
        here.setattr(
            stores_opening,
            "open_store",
            lambda name, **more: store if name == ANYWHERE else real(name, **more),
        )
        here.setattr(store, "close", lambda: None)  # what is in memory is looked at below
        here.setattr(MemoryStore, "caveat", "")  # said on every call; tests/stores has a test of it
        text = shown([*argv, "--root", ANYWHERE], patch, is_terminal=False)
        # `memory:` is also the end of a path, before a colon.
        text = re.sub(rf"(?<![\w/])(`?){re.escape(store.describe())}\1(?![\w/])", "STORE", text)
        text = text.replace(store.notes("main").location, "NOTES")
        return without_chance(text), without_chance(repr(state_of(store)))


def without_chance(text: str) -> str:
    """Return a text without what differs between two runs on the same store: time and chance."""
    text = re.sub(r"20\d\d-\d\d-\d\d[T ][\d:.+Z-]+", "TIME", text)
    text = re.sub(r"ckpt_\d+_(\w+)_[0-9a-f]{8}", r"ckpt_\1", text)
    text = re.sub(r'"name":"main\.[^"]*"', '"name":"IN TRASH"', text)
    text = re.sub(r"\bholdfast_[\w-]{43}", "TOKEN", text)
    text = re.sub(r"\b1[7-9]\d{8}\.\d+", "SECONDS", text)
    text = re.sub(r"\b127\.0\.0\.1:\d+", "A FREE PORT", text)
    return re.sub(r"\b[0-9a-f]{12}\b", "ID", text)


def check_command(
    name: str, more: list[str], addresses: tuple[str, str], folder: Path, patch: pytest.MonkeyPatch
) -> None:
    """Compare a command at two addresses; `{}` stands for a number, of a new store each time."""
    plant_file(folder)
    with planted_store("memory:") as store:
        ways = ways_to_call(store, folder)[name]
    for number, way in enumerate(ways):
        found = []
        for address in addresses:
            found.append(run_on(address.format(number), [name, *way, *more], patch))
            (folder / "page.html").unlink(missing_ok=True)
            shutil.rmtree(folder / "copied", ignore_errors=True)
        assert found[0] == found[1], way


@pytest.mark.files_only("it opens a store of each kind itself")
@pytest.mark.sampled(1 / 2, "more")
@pytest.mark.parametrize("more", MODES, ids=repr)
@pytest.mark.parametrize("name", NAMES)
def test_a_command_does_the_same_in_files_and_in_memory(
    name: str, more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It prints the same and leaves the same behind."""
    check_command(name, more, ("memory:", f"{tmp_path}/{{}}"), tmp_path, monkeypatch)


@pytest.mark.files_only("it opens a store of each kind itself")
@pytest.mark.parametrize(
    ("name", "more"),
    sample([(name, more) for name in NAMES for more in MODES], share=1 / 8),
    ids=repr,
)
def test_a_command_does_the_same_in_a_database(
    name: str,
    more: list[str],
    postgres_address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It prints the same and leaves the same behind."""
    addresses = ("memory:", f"{postgres_address}_{{}}")
    check_command(name, more, addresses, tmp_path, monkeypatch)


def slash_answers(address: str, patch: pytest.MonkeyPatch) -> list[str]:
    """Return what every slash command answers after a turn, without and with an argument."""
    numbers = count(1)  # sessions of the same time are listed by their ids
    patch.setattr(opening, "new_session_id", lambda _bits: f"{next(numbers):012x}")
    with planted_store(address) as store:
        seat = Seat(store, clock=lambda: NOW)
        seat.say("always answer in French")
        answers = [
            without_chance(f"{said}: {seat(said).text}")
            for command in slash_commands.COMMANDS
            for said in (f"/{command.name}", f"/{command.name} work")
            if command.name not in ("quit", "exit")
        ]
        seat.chat.close()
    return answers


@pytest.mark.files_only("it opens a store of each kind itself")
def test_slash_commands_do_the_same_on_every_store(
    tmp_path: Path, postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every slash command answers the same."""
    wanted = slash_answers("memory:", monkeypatch)
    assert slash_answers(str(tmp_path / "root"), monkeypatch) == wanted
    assert slash_answers(postgres_address, monkeypatch) == wanted


@pytest.mark.files_only("it breaks the store in memory")
def test_the_walk_notices_a_store_that_keeps_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that drops its notes, as those without folders once did, is found."""
    argv = ["memory", "add", "Releases go out on Tuesdays."]
    kept = run_on("memory:", argv, monkeypatch)
    keep = MemoryNoteTable.save

    def drop(table: MemoryNoteTable, path: str, data: bytes | None) -> None:
        keep(table, path, None if data and b"Tuesdays" in data else data)

    monkeypatch.setattr(MemoryNoteTable, "save", drop)
    assert run_on("memory:", argv, monkeypatch) != kept
