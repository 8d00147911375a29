"""Opening a session costs the same, however long its log is, compacted or not."""

from __future__ import annotations

import os
import tracemalloc
from typing import TYPE_CHECKING, Any

from tests.support.runs import RUN

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Mode, ModelChange, Record, User
from holdfast.engine.session.session import Session
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.scripted import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

KEY = SessionKey("main", "s")
SHORT = 20_000 if RUN == "nightly" else 2_500
TIMES = 20
"""A log of `SHORT` records, and one that is this many times as long."""
MORE_BYTES_MAX = 50 * 1024 * 1024
_APPEND = 500


def _talk(records: int) -> Sequence[Record]:
    half = [(User(content=f"question {n}"), Assistant(content=f"answer {n}")) for n in range(2_500)]
    return [record for pair in half for record in pair][:records]


def _never_compacted(store: Any, first: list[Record], records: int) -> None:
    store.create(KEY)
    if first:
        store.append(KEY, first, expect=ANY_HEAD)
    for start in range(0, records, _APPEND):  # the newest append is always read whole
        store.append(KEY, _talk(min(_APPEND, records - start)), expect=ANY_HEAD)


class ReadMeter:
    """Counts the bytes that are read from files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        self._pread = os.pread
        monkeypatch.setattr(os, "pread", self._count)

    def _count(self, fd: int, length: int, offset: int) -> bytes:
        data = self._pread(fd, length, offset)
        self.bytes += len(data)
        return data


def test_opening_a_log_that_was_never_compacted_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty times the records: at most 1.5 times the bytes read, and 50 MB more in memory."""
    costs = []
    for records in (SHORT, TIMES * SHORT):
        root = tmp_path / str(records)
        with JsonlStore(root) as store:
            _never_compacted(store, [], records)
        meter = ReadMeter(monkeypatch)
        tracemalloc.start()
        with Session.open("s", model=ScriptedModel([]), store=str(root), create=False) as session:
            costs.append((meter.bytes, tracemalloc.get_traced_memory()[1]))
            assert session.key.session == "s"
        tracemalloc.stop()
        monkeypatch.undo()
    (read, memory), (read_more, memory_more) = costs
    assert read_more <= 1.5 * read
    assert memory_more <= memory + MORE_BYTES_MAX


def test_what_stands_far_back_counts_all_the_same() -> None:
    """A mode, and a window that a provider stated, hold although opening does not read so far."""
    store = MemoryStore()
    model = ScriptedModel(["hello", "hello"], window=200_000)
    learned = ModelChange(model=model.target.model, window=60_000)
    _never_compacted(store, [learned, Mode(mode="fresh")], 3_000)
    session = Session.open("s", model=model, store=store)
    assert session.status().mode == "fresh"
    assert session.window.tokens == 60_000
    fresh = Session.open("s", model=model, store=store)
    fresh.say("hi")
    assert fresh.key != KEY  # each message after a reply starts a session of its own


def test_an_owner_with_half_a_character_opens_its_sessions_again() -> None:
    """A name that cannot be stored as it is means the same session each time, for its owner."""
    store = MemoryStore()
    for name in ("a", None, "a b"):
        opened = [
            Session.open(name, store=store, model="offline", owner="ann \ud83d").key
            for _again in range(2)
        ]
        assert opened[0] == opened[1]
        assert store.header(opened[0]).owner == "ann \ufffd"
    store.close()
