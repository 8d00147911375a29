"""The list of changed sessions misses nothing that was marked, whoever looks, cuts or closes."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.log.ids import SessionKey
from holdfast.stores.changes import Changes

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ACTS = st.lists(
    st.tuples(st.sampled_from(["mark", "mark", "look", "cut", "close"]), st.integers(0, 2)),
    max_size=40,
)


@examples(100)
@given(acts=ACTS)
def test_every_mark_is_between_the_looks_around_it(
    acts: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A session that was marked after a look is found by the next one, or every file is due."""
    root = str(tmp_path_factory.mktemp("root"))
    lists = [Changes(root) for _ in range(3)]
    known = [b""] * 3
    before = lists[0].look()
    marked: set[SessionKey] = set()
    for act, place in acts:
        key = SessionKey("main", f"s{place}")
        if act == "mark":
            known[place] = lists[place].mark(key, known[place])
            marked.add(key)
        elif act == "cut":
            lists[place].cut()
        elif act == "close":
            lists[place].close()
        else:
            now = lists[place].look()
            assert before is not None
            assert now is not None
            found = lists[place].between(before, now)
            assert found is None or found >= marked
            before, marked = now, set()
    for changes in lists:
        changes.close()


def test_threads_mark_while_others_close(tmp_path: Path) -> None:
    """No mark goes to another file, and none is lost, when the list is closed meanwhile."""
    changes, stop = Changes(str(tmp_path)), threading.Event()
    lost: list[int] = []

    def mark(place: int) -> None:
        known, key = b"", SessionKey("main", f"s{place}")
        while not stop.is_set():
            before = changes.look()
            known = changes.mark(key, known)
            now = changes.look()
            assert before is not None
            assert now is not None
            found = changes.between(before, now)
            if found is not None and key not in found:
                lost.append(place)

    def close() -> None:
        for _ in range(300):
            changes.close()
        stop.set()

    threads = [threading.Thread(target=mark, args=(place,)) for place in range(2)]
    threads.append(threading.Thread(target=close))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    changes.close()
    assert lost == []
    assert set((tmp_path / "index.changes").read_bytes()[16:].split(b"\n")) <= {
        b"",
        b"main/s0",
        b"main/s1",
    }


def test_the_list_is_private(tmp_path: Path) -> None:
    changes = Changes(str(tmp_path))
    changes.mark(SessionKey("main", "s"))
    changes.close()
    assert os.stat(tmp_path / "index.changes").st_mode & 0o077 == 0
